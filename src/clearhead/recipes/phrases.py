"""What the translation of a text must hold: the terms of a glossary, and placeholders that would be lost."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.base.errors import DataError
from clearhead.text.glossary import Glossary, missing_terms, phrase_tokens
from clearhead.text.placeholders import find_placeholders
from clearhead.text.tokenizer import Tokenizer

__all__ = ["FORCED_BEAM", "Phrases"]

FORCED_BEAM = 10
"""Hypotheses for a text with phrases, at least: a search that shares a smaller beam among its banks writes the phrases
first and the sentence around them badly (measured in docs/design/0005-search.md)."""


@dataclass(frozen=True)
class Phrases:
    """What is forced into translations.

    Attributes:
        glossary: its terms that stand in the source; None for no terms.
        placeholders: whether the placeholders and tags of the source are forced, too.
    """

    glossary: Glossary | None = None
    placeholders: bool = False

    def of(self, text: str) -> list[str]:
        """The phrases for a text, each as often as it must stand in the translation."""
        return [*self._terms(text), *(find_placeholders(text) if self.placeholders else [])]

    def tokens(self, text: str, tokenizer: Tokenizer, script: str) -> tuple[tuple[int, ...], ...]:
        """The same in tokens, without those that the tokenizer cannot spell: they are found missing afterwards."""
        found = []
        for phrase in self.of(text):
            try:
                found.append(tuple(phrase_tokens(tokenizer, phrase, script)))
            except DataError:
                continue
        return tuple(tokens for tokens in found if tokens)

    def flags(self, text: str, translation: str) -> tuple[str, ...]:
        """("glossary",) if a term of the glossary does not stand in the translation as often as in the text."""
        return ("glossary",) if missing_terms(translation, self._terms(text)) else ()

    def _terms(self, text: str) -> list[str]:
        return [] if self.glossary is None else [target for _, target in self.glossary.matches(text)]
