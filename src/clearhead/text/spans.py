"""Where in a text each of its tokens stands, and to which word it belongs.

A word is what white space separates, as `str.split` cuts it and as `clearhead data align` counts. A piece of the
tokenizer may carry the space before it, be a byte of a character, or stand for what the vocabulary cannot spell (UNK).
"""

import codecs
from collections.abc import Iterator, Sequence
from itertools import groupby

from clearhead.text.symbols import UNK
from clearhead.text.tokenizer import Tokenizer

__all__ = ["Span", "source_spans", "spelt", "word_at"]

Span = tuple[int, int]
"""First character, and the one behind the last; never empty, but perhaps behind the end of the text."""


def spelt(tokenizer: Tokenizer, ids: Sequence[int], unknown: Sequence[str] = ()) -> tuple[str, list[Span]]:
    """The text of some ids, as `tokenizer.decode` writes it, and where each of them stands in it.

    `unknown` is what is written in the place of each UNK, in their order; none leaves every one as it is.
    """
    spellings = tokenizer.spellings(ids)
    written = iter(unknown)
    if unknown:
        space = b" " if tokenizer.config.kind == "word" else b""
        spellings = [
            space + next(written).encode() if each == UNK else spelling
            for each, spelling in zip(ids, spellings, strict=True)
        ]
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text, spans = "", []
    for spelling in spellings:
        start = len(text)
        text += decoder.decode(spelling)
        spans.append((start, max(len(text), start + 1)))
    text += decoder.decode(b"", final=True)
    if text.startswith(" "):  # the space that the tokenizer puts before every text
        return text[1:], [(max(0, start - 1), max(1, end - 1)) for start, end in spans]
    return text, spans


def source_spans(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[Span]:
    """Where each of the `ids` that `text` was encoded to stands in it.

    What was UNK is found between its neighbours; several in a row share what stands there, unless each is a word.
    """
    if tokenizer.config.kind == "word":
        return list(_words(text))
    if UNK not in ids:
        return spelt(tokenizer, ids)[1]
    spans: list[Span] = []
    spellings = [each.decode() for each in tokenizer.spellings(ids)]  # without UNK's bytes there is no byte fallback
    whole, place, index = " " + text, 0, 0
    for unknown, group in groupby(ids, key=lambda each: each == UNK):
        count = len(list(group))
        if unknown:
            following = spellings[index + count] if index + count < len(ids) else ""
            found = whole.find(following, place + 1) if following else len(whole)
            end = found if found >= 0 else len(whole)
            spans += [(place, max(end, place + 1))] * count
            place = end
        else:
            for spelling in spellings[index : index + count]:
                spans.append((place, place + max(1, len(spelling))))
                place += len(spelling)
        index += count
    return [(max(0, start - 1), max(1, end - 1)) for start, end in spans]


def _words(text: str) -> Iterator[Span]:
    """The words of a tokenizer of words, which only spaces separate."""
    place = 0
    for word in text.split(" "):
        if word:
            yield place, place + len(word)
        place += len(word) + 1


def word_at(text: str, spans: Sequence[Span]) -> list[int | None]:
    """The word, from 0, to which each of the tokens at these places belongs; None where no word follows.

    Space belongs to the word behind it.

    >>> word_at("to be", [(0, 2), (2, 5)])
    [0, 1]
    """
    words: list[int | None] = [None] * (len(text) + 1)
    number, inside = -1, False
    for place, character in enumerate(text):
        if character.isspace():
            inside = False
            continue
        if not inside:
            number, inside = number + 1, True
        words[place] = number
    following: int | None = None
    for place in range(len(text) - 1, -1, -1):
        following = words[place] if words[place] is not None else following
        words[place] = following
    return [words[min(start, len(text))] for start, _ in spans]
