"""Which terms of a glossary stand in a text, and in which tokens their translations are written.

A term matches whole words. Where words are not parted by spaces (Chinese, Japanese, Thai and their like), every
character is a word of its own here. Of two terms that begin at the same place the longer matches, and matches do not
overlap; nothing matches in a placeholder. Time grows with the length of the text, however many terms there are.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from clearhead.base.errors import DataError
from clearhead.text.config import SPACE_MARK
from clearhead.text.placeholders import PLACEHOLDER, find_placeholders
from clearhead.text.symbols import UNK
from clearhead.text.tokenizer import Tokenizer

__all__ = ["LONGEST_TERM", "UNSPACED_SCRIPTS", "Glossary", "Term", "missing_terms", "phrase_tokens"]

LONGEST_TERM = 200
"""Characters of a term. It bounds the time that a text of nothing but beginnings of terms can take."""

UNSPACED_SCRIPTS = frozenset({"Hans", "Hant", "Jpan", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"})
"""Scripts that put no space between words."""

# Thai, Lao, Tibetan · Myanmar · Khmer · kana, bopomofo, Han and what is written among them
_UNSPACED_RANGES = (
    (0x0E00, 0x0FFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x19E0, 0x19FF),
    (0x3005, 0x3007),
    (0x3040, 0x312F),
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAA7F),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)


@dataclass(frozen=True)
class Term:
    """A term of the source language and what it is to be in the target language.

    Attributes:
        source: as it is written in a text.
        target: what the translation must hold.
        any_case: whether `source` is matched whatever the case of its letters.
    """

    source: str
    target: str
    any_case: bool = False

    def problem(self) -> str | None:
        """Why this cannot be a term, in words; None if it can."""
        for side, text in (("source", self.source), ("target", self.target)):
            if not text.strip():
                return f"the {side} side is empty (to keep a term as it is, write it on both sides)"
            if len(text) > LONGEST_TERM:
                return f"the {side} side has {len(text)} characters; a term has at most {LONGEST_TERM}"
        if found := find_placeholders(self.source):
            return f"the source side holds the placeholder {found[0]!r}, in which no term is looked for; leave it out"
        return None


@dataclass
class _Node:
    children: dict[str, "_Node"] = field(default_factory=dict)
    target: str | None = None


class Glossary:
    """Terms and their translations, ready to be looked for.

    Where a term is listed both as it is written and for any case, the former goes first.

    >>> glossary = Glossary([Term("server", "Server", any_case=True), Term("mail server", "Mailserver")])
    >>> glossary.matches("Servers? The Server, the mail server, {server}.")
    [('Server', 'Server'), ('mail server', 'Mailserver')]
    """

    def __init__(self, terms: Iterable[Term]) -> None:
        """Raises DataError for what is no term, and for one term with two translations."""
        self._written, self._folded = _Node(), _Node()
        self._count = 0
        for term in terms:
            if (problem := term.problem()) is not None:
                raise DataError(f"glossary: {term.source!r}: {problem}")
            if (other := self._plant(term)) != term.target:
                raise DataError(
                    f"glossary: {term.source!r} has two translations, {other!r} and {term.target!r}: leave out one"
                )

    def __len__(self) -> int:
        """The number of different terms."""
        return self._count

    def matches(self, text: str) -> list[tuple[str, str]]:
        """The terms that stand in `text`, as they are written there, each with its translation, in their order.

        A term that stands there twice is there twice.
        """
        found: list[tuple[str, str]] = []
        start = 0
        for placeholder in [*PLACEHOLDER.finditer(text), None]:
            # A word that touches a placeholder ends there: "%sserver" holds "server", as a reader would see it.
            end = len(text) if placeholder is None else placeholder.start()
            found += self._in_words(list(_words(text[start:end])))
            start = end if placeholder is None else placeholder.end()
        return found

    # ---------------------------------------------------------------------------------------------------- inside

    def _plant(self, term: Term) -> str:
        """Enter a term; the translation that it has now, which is another if it was there before."""
        node = self._folded if term.any_case else self._written
        for word in _words(term.source):
            node = node.children.setdefault(word.casefold() if term.any_case else word, _Node())
        if node.target is None:
            node.target = term.target
            self._count += 1
        return node.target

    def _in_words(self, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        folded = [word.casefold() for word in words]
        place = 0
        while place < len(words):
            end, target = self._longest(words, folded, place)
            if target is not None:
                yield "".join(words[place:end]), target
            place = end

    def _longest(self, words: Sequence[str], folded: Sequence[str], place: int) -> tuple[int, str | None]:
        """Where the longest term that begins at `place` ends, and its translation; the next place if there is none."""
        end, target = place + 1, None
        exact: _Node | None = self._written
        any_case: _Node | None = self._folded
        for at in range(place, len(words)):
            exact = exact and exact.children.get(words[at])
            any_case = any_case and any_case.children.get(folded[at])
            if exact is None and any_case is None:
                break
            for node in (any_case, exact):  # the term that is written so has the last word
                if node is not None and node.target is not None:
                    end, target = at + 1, node.target
        return end, target


def missing_terms(translation: str, targets: Iterable[str]) -> list[str]:
    """Those of `targets` that do not stand in a translation as often as they are listed, each once.

    >>> missing_terms("Der Server und der Mailserver", ["Server", "Mailserver", "Server"])
    ['Server']
    """
    wanted = list(targets)
    return [target for target in dict.fromkeys(wanted) if translation.count(target) < wanted.count(target)]


def phrase_tokens(tokenizer: Tokenizer, term: str, script: str) -> list[int]:
    """The tokens of a term inside a sentence of a language that is written in `script` (ISO 15924).

    Words that are parted by spaces begin with the piece that carries the space, which at the beginning of a sentence
    is the same one. In a script without such spaces a term begins without one; one at the beginning would part it from
    what stands before it.

    Raises DataError where the tokenizer cannot spell the term (it has no byte pieces).
    """
    if script in UNSPACED_SCRIPTS:
        # The tokenizer puts a space before all that it encodes, and cuts at U+2581: what stands after it is encoded
        # by itself, without a space.
        ids = tokenizer.encode(SPACE_MARK + term)[len(tokenizer.encode(SPACE_MARK)) :]
    else:
        ids = tokenizer.encode(term)
    if UNK in ids:
        raise DataError(
            f"the term {term!r} has characters that the model's vocabulary cannot spell: leave it out of the glossary, "
            "or use a model whose tokenizer has byte_fallback"
        )
    return ids


def _words(text: str) -> Iterator[str]:
    """The text cut at every place where a term may begin or end; joined they are the text again."""
    start = 0
    kind = "other"
    for place, character in enumerate(text):
        before, kind = kind, _kind(character)
        if kind == "mark":  # belongs to the character before it, and the word goes on as before
            kind = before
        elif place and not (kind == before == "word"):
            yield text[start:place]
            start = place
    if text:
        yield text[start:]


@lru_cache(maxsize=1 << 14)
def _kind(character: str) -> str:
    """`word` for what forms words with its like, `mark` for what belongs to the character before it, else `other`."""
    category = unicodedata.category(character)
    if category.startswith("M") or character == "\u200d":
        return "mark"
    code = ord(character)
    if any(first <= code <= last for first, last in _UNSPACED_RANGES):
        return "other"
    return "word" if category[0] in "LN" or character == "_" else "other"
