"""A translator that breaks placeholders on purpose: it answers each text as it is told to."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from clearhead.decoding.config import DecodingConfig
from clearhead.recipes.phrases import Phrases
from clearhead.recipes.translation import Translation
from clearhead.recipes.translator import Translator

__all__ = ["Breaking", "Call"]

Call = tuple[list[str], int, bool]
"""Texts that were asked for together, the length of the n-best lists, and whether placeholders were forced."""


class Breaking:
    """`answer(text, forced)` gives an n-best list; None or an empty one is a failure."""

    def __init__(self, answer: Callable[[str, bool], list[str] | None], languages: tuple[str, str] = ("en", "de")):
        self.answer, self.languages = answer, languages
        self.calls: list[Call] = []

    @property
    def translator(self) -> Translator:
        return cast(Translator, self)

    def stream_forced(
        self,
        texts: Iterable[tuple[str, str]],
        config: DecodingConfig,
        *,
        phrases: Phrases | None = None,
        progress: Any = None,
        **_: Any,
    ) -> Iterator[Translation]:
        forced = phrases is not None and phrases.placeholders
        asked = [text for text, _ in texts]
        if asked:
            self.calls.append((asked, config.n_best, forced))
        for number, text in enumerate(asked, 1):
            found = self.answer(text, forced)
            if progress is not None:
                progress(number)
            if not found:
                yield Translation("", 0.0, flags=("failed",))
                continue
            best, *others = (Translation(each, -float(rank)) for rank, each in enumerate(found[: config.n_best]))
            yield Translation(best.text, best.score, alternatives=tuple(others))
