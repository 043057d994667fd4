"""Labels that need no annotator: what a token, or its word, or its sentence looks like.

They are what probes are trained to read off the states of a model (`probes`). Each says something that can be checked
by eye, so a probe that finds it has found something plain; none of them is syntax or meaning.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from clearhead.base.errors import InputError
from clearhead.inspection.records import Token
from clearhead.text.config import SPACE_MARK
from clearhead.text.placeholders import PLACEHOLDER

__all__ = ["Labels", "token_labels", "word_shape"]

_POSITIONS = (1, 2, 4, 8, 16, 32)
"""The last position of each bin, counted from 1; one more bin takes the rest."""

_SHAPES = ("lower", "capitalised", "upper", "digit", "punctuation", "other")


@dataclass(frozen=True)
class Labels:
    """One label for the tokens of many sentences: `values[sentence][token]` is a number of `classes`, or None.

    None leaves the token out.
    """

    name: str
    classes: tuple[str, ...]
    values: tuple[tuple[int | None, ...], ...]


def token_labels(sentences: Sequence[Sequence[Token]], *, most_words: int = 20) -> list[Labels]:
    """Every label that these sentences, their tokens without BOS and EOS, have at least two classes of.

    - `position`: 1, 2, 3–4, 5–8, 9–16, 17–32 or later.
    - `word-shape`: of the word that the token belongs to (see `word_shape`); punctuation if the token itself is.
    - `sentence-length`: which quarter of these sentences by their number of tokens, the same for all its tokens.
    - `placeholder`: whether the token is a part of one, such as `{name}` or `%s` (see `text.placeholders`).
    - `word`: which of the `most_words` commonest words it belongs to, without punctuation around; others are left out.
    """
    found = [_positions(sentences), _shapes(sentences), _lengths(sentences), _placeholders(sentences)]
    found.append(_identities(sentences, most_words))
    return [each for each in found if len({value for line in each.values for value in line} - {None}) >= 2]


def word_shape(word: str) -> str:
    """lower, capitalised, upper (two letters or more), digit, punctuation or other, as its letters say.

    >>> [word_shape(word) for word in ("eat,", "Paris", "I", "USA", "3.5", "--", "iPod", "猫")]
    ['lower', 'capitalised', 'capitalised', 'upper', 'digit', 'punctuation', 'other', 'other']
    """
    letters = "".join(filter(str.isalpha, word))
    if not letters:
        return "digit" if any(map(str.isdigit, word)) else "punctuation"
    if letters.islower():
        return "lower"
    if letters.isupper() and len(letters) > 1:
        return "upper"
    if letters[0].isupper() and (len(letters) == 1 or letters[1:].islower()):
        return "capitalised"
    return "other"


def _positions(sentences: Sequence[Sequence[Token]]) -> Labels:
    begins = (0, *_POSITIONS)
    names = [f"{low + 1}" if low + 1 == high else f"{low + 1}-{high}" for low, high in pairwise(begins)]
    values = tuple(tuple(bisect_left(_POSITIONS, place + 1) for place in range(len(line))) for line in sentences)
    return Labels("position", (*names, f"{_POSITIONS[-1] + 1}-"), values)


def _shapes(sentences: Sequence[Sequence[Token]]) -> Labels:
    def shape(token: Token, word: str | None) -> str | None:
        own = word_shape(_text(token))
        return own if own == "punctuation" else word and word_shape(word)

    return _by_word("word-shape", _SHAPES, sentences, shape)


def _lengths(sentences: Sequence[Sequence[Token]]) -> Labels:
    lengths = sorted(map(len, sentences))
    edges = sorted({lengths[len(lengths) * quarter // 4] for quarter in (1, 2, 3)}) if lengths else []
    names = [f"under {edge}" for edge in edges] + [f"{edges[-1]}-" if edges else "any"]
    values = tuple((sum(len(line) >= edge for edge in edges),) * len(line) for line in sentences)
    return Labels("sentence-length", tuple(names), values)


def _placeholders(sentences: Sequence[Sequence[Token]]) -> Labels:
    values = []
    for line in sentences:
        texts = [_text(token, space=" ") for token in line]
        spans = [match.span() for match in PLACEHOLDER.finditer("".join(texts))]
        marks, place = [], 0
        for text in texts:
            begin, place = place + len(text) - len(text.lstrip(" ")), place + len(text)
            marks.append(int(any(begin < end and start < place for start, end in spans)))
        values.append(tuple(marks))
    return Labels("placeholder", ("no", "yes"), tuple(values))


def _identities(sentences: Sequence[Sequence[Token]], most: int) -> Labels:
    if most < 2:
        raise InputError(f"{most} words are no choice: a probe for the word needs at least 2")
    counts: Counter[str] = Counter()
    for line in sentences:
        counts.update(_bare(word) for word in _words(line).values())
    counts.pop("", None)
    common = tuple(word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])

    def identity(token: Token, word: str | None) -> str | None:
        return word and (_bare(word) if _bare(_text(token)) else None)

    return _by_word("word", common, sentences, identity)


def _by_word(
    name: str,
    classes: tuple[str, ...],
    sentences: Sequence[Sequence[Token]],
    label: Callable[[Token, str | None], str | None],
) -> Labels:
    """A label that is a function of a token and the word that it belongs to; what is no class is left out."""
    numbers = {each: number for number, each in enumerate(classes)}
    values = []
    for line in sentences:
        words = _words(line)
        found = [label(token, None if token.word is None else words[token.word]) for token in line]
        values.append(tuple(None if each is None else numbers.get(each) for each in found))
    return Labels(name, classes, tuple(values))


def _words(line: Sequence[Token]) -> dict[int, str]:
    """The text of each word, by its number, as its tokens spell it."""
    words: dict[int, str] = {}
    for token in line:
        if token.word is not None:
            words[token.word] = words.get(token.word, "") + _text(token)
    return words


def _text(token: Token, space: str = "") -> str:
    """What a token spells; U+FFFD for a byte of a character."""
    return "\ufffd" if token.kind == "byte" else token.text.replace(SPACE_MARK, space)


def _bare(word: str) -> str:
    """Without what is no letter and no digit around it."""
    inside = [place for place, character in enumerate(word) if character.isalnum()]
    return word[inside[0] : inside[-1] + 1] if inside else ""
