"""Whether one side of a corpus is shifted against the other, as the lengths of the texts tell.

A long sentence has a long translation (Gale and Church 1993, "A Program for Aligning Sentences in Bilingual Corpora"),
so that over a block of pairs the logarithms of both lengths rise and fall together. Where they do so better some lines
off, a line is missing or too many. In seven corpora (help texts, captions, interface strings, sentences) no block of
1,332 had a correlation one to three lines off that was above 0.5 and by 0.3 above that in its place; with one side
shifted by a line 558 of 559 had. Corpora that are sorted by length say nothing, either way.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lengths", "Shift", "find_shift"]

BLOCK = 256
LEAST_PAIRS = 100
OFFSETS = (-1, 1, -2, 2, -3, 3)
LEAST_CORRELATION = 0.5
LEAST_GAIN = 0.3


class Lengths(Protocol):
    """Characters of each text of a side, 0 for a blank one: an array, or what is read from a file slice by slice."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def __getitem__(self, part: slice, /) -> NDArray[Any]:
        """Those from part.start to part.stop."""
        ...


@dataclass(frozen=True)
class Shift:
    """From about pair `begin` (counted from 0) the translation of a source stands `offset` lines after it, or before
    it if negative."""

    begin: int
    offset: int


def find_shift(sources: Lengths, targets: Lengths) -> Shift | None:
    """The first shift of a corpus, from the lengths of its sources and targets, [pairs] each."""
    pairs = len(sources)
    if pairs < LEAST_PAIRS:
        return None
    block = min(BLOCK, pairs)
    for start in [*range(0, pairs - block, block), pairs - block]:
        if offset := _offset(sources, targets, start, block):
            first = max(0, start - block)
            return Shift(first + _turn(sources, targets, first, start + block - first, offset), offset)
    return None


def _offset(sources: Lengths, targets: Lengths, start: int, count: int) -> int:
    """By how many lines a block is shifted; 0 if it is not."""
    source = _logarithms(sources, start, count)
    here = _correlation(source, _logarithms(targets, start, count))
    if here > 1 - LEAST_GAIN:  # as it nearly always is
        return 0
    others = [_correlation(source, _logarithms(targets, start + offset, count)) for offset in OFFSETS]
    best = int(np.argmax(others))
    return OFFSETS[best] if others[best] > max(LEAST_CORRELATION, here + LEAST_GAIN) else 0


def _turn(sources: Lengths, targets: Lengths, start: int, count: int, offset: int) -> int:
    """After how many of some pairs the shifted translation begins to fit better than the one that stands there."""
    source = _logarithms(sources, start, count)
    ratios = [_logarithms(targets, start + by, count) - source for by in (offset, 0)]
    usual = np.nanmedian(ratios[0])
    shifted, here = (np.nan_to_num(np.abs(ratio - usual)) for ratio in ratios)
    return int(np.argmin(np.concatenate(([0.0], np.cumsum(here - shifted)))))


def _logarithms(lengths: Lengths, start: int, count: int) -> NDArray[np.float64]:
    """The logarithms of some lengths, NaN for blank texts and beyond the ends: [count]."""
    found = np.zeros(count)
    low, high = max(start, 0), min(start + count, len(lengths))
    found[low - start : high - start] = lengths[low:high]
    found[found == 0] = np.nan
    return np.log(found)


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Pearson's coefficient over the places where both are known; 0 where it would mean nothing."""
    known = np.isfinite(first) & np.isfinite(second)
    if known.sum() < LEAST_PAIRS // 2:
        return 0.0
    first, second = first[known] - first[known].mean(), second[known] - second[known].mean()
    spread = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / spread if spread > 1e-9 else 0.0
