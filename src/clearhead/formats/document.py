"""What every bilingual format is made of: bytes that stay as they are, and slots that hold a text and its translation.

A format's `read_…` gives a file as a stream of `bytes` and `Slot`, in order. Two laws hold for every format:

- the bytes, with each slot's `raw` in its place, are the file;
- the bytes, with some slots' `fill(…)` in their place, are the file with those translations filled in and marked as
  needing review, and with nothing else changed.

So one parser a format serves whoever wants pairs, counts or a pre-translated file, and nothing that it does not
understand can be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Piece", "Slot", "State", "pairs", "slots"]

State = Literal["empty", "review", "translated", "closed"]
"""How a slot stands: without a translation; with one that somebody is to look at (fuzzy, needs-review); with one that
stands; or not to be translated at all (a PO header, an obsolete entry, translate="no")."""


@dataclass(frozen=True)
class Slot:
    """One entry of a bilingual file.

    Attributes:
        where: how messages name it, file excluded: "line 12", "entry 'greeting' (line 40)".
        source: the texts to be translated, as many as the entry needs translations; one, but for the plural forms of
            gettext, where the n-th is what the n-th form is translated from. Inline elements of XML stand in them as
            tags of their own (`<g1>`, `</g1>`, `<x2/>`), everything else as a reader would see it.
        target: the translations that are there, one for each of `source`; "" for what is empty.
        state: see `State`.
        raw: the bytes of the entry as they are in the file.
        fill: bytes for the entry with these texts as its translations, one for each of `source`, marked as needing
            review. Raises DataError naming `where` for texts that the format cannot hold: other inline tags than the
            source has, or characters that XML forbids.
    """

    where: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    state: State
    raw: bytes
    fill: Callable[[Sequence[str]], bytes]


Piece = bytes | Slot


def slots(pieces: Iterable[Piece]) -> Iterator[Slot]:
    """The slots alone."""
    return (piece for piece in pieces if isinstance(piece, Slot))


def pairs(pieces: Iterable[Piece]) -> Iterator[tuple[str, str]]:
    """Each source with its translation, of the slots that have one that stands ("translated")."""
    for slot in slots(pieces):
        if slot.state == "translated":
            yield from ((source, target) for source, target in zip(slot.source, slot.target, strict=True) if target)
