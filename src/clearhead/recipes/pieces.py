"""Cutting text that is too long for the model into pieces, so that nothing of it is lost."""

from __future__ import annotations

import re

from clearhead.text.tokenizer import Tokenizer

__all__ = ["split_text"]

# After a sentence: final punctuation, closing quotes or brackets, then space; in scripts without spaces, at once.
_SENTENCE_END = re.compile(r"(?:[.!?…]+[\"'’”»)\]]*(?=\s))|(?:[。！？；]+[」』”’）》]*)|(?:[।॥؟۔]+)")
_SPACE = re.compile(r"\s+")


def split_text(text: str, tokenizer: Tokenizer, longest: int) -> list[tuple[str, list[int]]]:
    """`text` in pieces of at most `longest` ≥ 1 tokens, each with its token ids.

    A piece that is too long is cut in two, near its middle: after the end of a sentence if there is one in its middle
    half, else at a space, else between two tokens. Only the spaces at the cuts and
    around a text that is cut are lost.
    """
    ids = tokenizer.encode(text)
    if len(ids) <= longest:
        return [(text, ids)] if ids else []
    if (bare := text.strip()) != text:  # long runs of space around the text would hide its middle
        return split_text(bare, tokenizer, longest)
    cut = _cut(text, tokenizer, ids)
    if cut is None:  # one character that takes more tokens than are allowed: no cut can help
        return [(text, ids)]
    left, right = text[:cut].rstrip(), text[cut:].lstrip()
    return [*split_text(left, tokenizer, longest), *split_text(right, tokenizer, longest)]


def _cut(text: str, tokenizer: Tokenizer, ids: list[int]) -> int | None:
    """Where to cut: a place strictly inside `text` with something else than space on both sides, or None."""
    middle, quarter = len(text) / 2, len(text) / 4
    for pattern in (_SENTENCE_END, _SPACE):
        ends = [found.end() for found in pattern.finditer(text)]
        inner = [end for end in ends if abs(end - middle) <= quarter and text[:end].strip() and text[end:].strip()]
        if inner:
            return min(inner, key=lambda end: (abs(end - middle), end))
    head = tokenizer.decode(ids[: len(ids) // 2])
    cut = len(head) if text.startswith(head) else len(text) // 2
    stripped = text.strip()
    first, last = text.index(stripped) + 1, text.index(stripped) + len(stripped) - 1
    return min(max(cut, first), last) if first <= last else None
