"""Quantiles of numbers that are read in blocks: exact, without sorting or keeping them."""

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ranks"]


class Ranks:
    """Numbers by their rank. `blocks` is called once for their `count`, and again for each `at`, and gives the same.

    An IEEE float read as an integer rises with its value, once those below zero are turned round; so the first reading
    counts the upper halves of the 32 bits, the second the lower halves below those upper halves that are in question.
    """

    def __init__(self, blocks: Callable[[], Iterable[NDArray[np.float32]]]) -> None:
        self._blocks = blocks
        upper = np.zeros(1 << 16, dtype=np.int64)
        for block in blocks():
            upper += np.bincount(_rising(block) >> 16, minlength=1 << 16)
        self._below = np.concatenate(([0], np.cumsum(upper)))  # how many are in lower halves than each: [65,537]
        self.count = int(self._below[-1])

    def at(self, ranks: Iterable[int]) -> dict[int, np.float32]:
        """The numbers of some ranks from 0 to `count` - 1 in rising order. Raises IndexError for another rank."""
        wanted: dict[int, list[int]] = {}
        for rank in ranks:
            if not 0 <= rank < self.count:
                raise IndexError(f"there is no rank {rank} among {self.count} numbers")
            wanted.setdefault(int(np.searchsorted(self._below, rank, side="right")) - 1, []).append(rank)
        lower = {upper: np.zeros(1 << 16, dtype=np.int64) for upper in wanted}
        for block in self._blocks():
            rising = _rising(block)
            uppers = rising >> 16
            for upper in lower:
                lower[upper] += np.bincount(rising[uppers == upper] & 0xFFFF, minlength=1 << 16)
        found = {}
        for upper, those in wanted.items():
            below = self._below[upper] + np.cumsum(lower[upper])
            for rank in those:
                found[rank] = _number(upper << 16 | int(np.searchsorted(below, rank, side="right")))
        return found

    def quantiles(self, points: Iterable[float]) -> list[np.float32]:
        """Quantiles, interpolated between neighbours as `numpy.quantile` does: those of `points`, in their order.

        Raises IndexError if there are no numbers.
        """
        places = [point * (self.count - 1) for point in points]
        between = [(math.floor(place), min(math.floor(place) + 1, self.count - 1)) for place in places]
        values = self.at({rank for ranks in between for rank in ranks})
        found = []
        for place, (low, high) in zip(places, between, strict=True):
            share = np.float32(place - low)
            found.append(np.float32(values[low] + (values[high] - values[low]) * share))
        return found

    def median(self) -> np.float32:
        """The middle number, or the mean of both. Raises IndexError if there are no numbers."""
        ranks = (self.count - 1) // 2, self.count // 2
        values = self.at(ranks)
        return np.float32((values[ranks[0]] + values[ranks[1]]) / 2)


def _rising(numbers: NDArray[np.float32]) -> NDArray[np.int64]:
    """Integers below 2 ** 32 in the order of the numbers."""
    bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32)
    turned: NDArray[np.uint32] = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return turned.astype(np.int64)


def _number(rising: int) -> np.float32:
    """The number for one of these integers."""
    bits = rising - (1 << 31) if rising >> 31 else rising ^ 0xFFFFFFFF
    number: np.float32 = np.array([bits], dtype=np.uint32).view(np.float32)[0]
    return number
