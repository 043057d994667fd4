"""Ids as the tokens that a record shows: what each says, of which kind it is, and to which word it belongs."""

from __future__ import annotations

from collections.abc import Sequence

from clearhead.inspection.records import Token
from clearhead.recipes.walk import unknown_pieces
from clearhead.text.config import SPACE_MARK
from clearhead.text.glossary import UNSPACED_SCRIPTS
from clearhead.text.spans import Span, source_spans, spelt, word_at
from clearhead.text.symbols import BOS, EOS, PAD, UNK
from clearhead.text.tokenizer import Tokenizer

__all__ = ["tokens_of"]

_SPECIAL = frozenset({PAD, BOS, EOS})


def tokens_of(
    tokenizer: Tokenizer, ids: Sequence[int], text: str | None = None, *, script: str = "Latn", lead: int = 0
) -> tuple[Token, ...]:
    """The tokens of `ids`, which may have PAD, BOS and EOS around those of the text.

    `text` is what the ids were encoded from; None if a model wrote them. It is needed to say what stands where the
    vocabulary has no piece; without it that is shown as `<unk>`. The first `lead` ids after BOS are no part of the text
    (the tag of a corpus) and are shown as specials.

    Words are what white space separates, from 0. In a `script` (ISO 15924) that puts no space between words each token
    is a word of its own, but for those that share a character, for a space, which belongs to what follows, and for
    Latin letters and digits that stand together.
    """
    places = [place for place, each in enumerate(ids) if each not in _SPECIAL]
    places = places[lead:]
    said = [ids[place] for place in places]
    written, spans = (text, source_spans(tokenizer, said, text)) if text is not None else spelt(tokenizer, said)
    words = word_at(written, spans)
    if script in UNSPACED_SCRIPTS:
        words = _unspaced(written, spans, words)
    unknown = iter(_unknown(tokenizer, said, text, spans))
    inside = dict(zip(places, words, strict=True))
    bytes_from, bytes_to = _byte_pieces(tokenizer)
    tokens = []
    for place, (each, piece) in enumerate(zip(ids, tokenizer.pieces(ids), strict=True)):
        if place not in inside:
            tokens.append(Token(piece, int(each), "special"))
        elif each == UNK:
            tokens.append(Token(next(unknown) or piece, int(each), "unknown", inside[place]))
        else:
            kind = "byte" if bytes_from <= each < bytes_to else "piece"
            tokens.append(Token(piece, int(each), kind, inside[place]))  # type: ignore[arg-type]
    return tuple(tokens)


def _unknown(tokenizer: Tokenizer, ids: Sequence[int], text: str | None, spans: Sequence[Span]) -> list[str]:
    """What is written at each UNK, a space as ▁; "" where nobody knows."""
    count = list(ids).count(UNK)
    if text is None or not count:
        return [""] * count
    if tokenizer.config.kind == "word":
        return [SPACE_MARK + text[start:end] for each, (start, end) in zip(ids, spans, strict=True) if each == UNK]
    return [each.replace(" ", SPACE_MARK) for each in unknown_pieces(tokenizer, text, ids)]


def _byte_pieces(tokenizer: Tokenizer) -> tuple[int, int]:
    """The ids of the byte pieces: the first, and the one behind the last.

    A text can hold `<0x41>`, but only as several pieces, unless it was learnt; so the place in the vocabulary decides.
    """
    if not tokenizer.config.byte_fallback:
        return 0, 0
    first = len((PAD, UNK, BOS, EOS)) + len(tokenizer.config.symbols)
    return first, first + 256


def _unspaced(text: str, spans: Sequence[Span], spaced: Sequence[int | None]) -> list[int | None]:
    """The words of tokens that no space need separate; `spaced` are those that white space makes."""
    words: list[int | None] = []
    number = -1
    for place, ((start, end), word) in enumerate(zip(spans, spaced, strict=True)):
        if word is None:
            words.append(None)
            continue
        if not (words and words[-1] is not None and _together(text, spans[place - 1], (start, end))):
            number += 1
        words.append(number)
    return words


def _together(text: str, before: Span, here: Span) -> bool:
    if here[0] < before[1] or not text[before[0] : before[1]].strip():
        return True  # bytes of one character; a space and what follows
    last, first = text[before[1] - 1 : before[1]], text[here[0] : here[0] + 1]
    return all(each.isascii() and each.isalnum() for each in (last, first))
