"""The few bytes of each pair that are kept while a corpus is read: what repetitions and lengths are told by.

They are put away in blocks (`columns.py`), so that the memory does not grow with the corpus: 54 bytes a pair, or 8
without hashes, of which all beyond the room of a shelf are in a temporary file. In memory stays a bit a pair and rule.
"""

import math
from array import array
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.data.alignment import Shift, find_shift
from clearhead.data.columns import BLOCK, Column, Flags, Shelf
from clearhead.data.overlap import hash_text
from clearhead.data.quantiles import Ranks
from clearhead.data.rules import RATIO_FACTOR
from clearhead.data.runs import Runs
from clearhead.data.split import normal_key

__all__ = ["Traces"]

RATIO_CHARACTERS = 20
LEAST_TOLD = 200
STRANGE = 0.05
UNRELATED = 0.3
POINTS = {"lowest": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "highest": 1.0}


class _Spread(NamedTuple):
    """Of numbers how many there are, the middle one (0 if there are none), and the quantiles of `POINTS`."""

    told: int
    median: np.float32
    quantiles: dict[str, np.float32]


class Traces:
    """Hashes of pair, source and source key, and both lengths, of every pair of a corpus.

    First `add` them all, then ask: no pair can be added to what was asked already. Without `hashes` nothing is known
    of repetitions. Adding and asking raise `Shelf.put`'s errors.
    """

    def __init__(self, *, hashes: bool = True, factor: float = RATIO_FACTOR) -> None:
        self._hashes = hashes
        self._factor = factor
        # Of the block that is being filled.
        self._source, self._pair, self._key = array("Q"), array("Q"), array("Q")
        self._lengths = array("I"), array("I")  # characters of source and target, 0 for a blank text
        shelf = Shelf()
        self._columns = Column(shelf), Column(shelf)
        self._pair_runs, self._source_runs, self._key_runs = Runs(shelf), Runs(shelf), Runs(shelf)

    def __len__(self) -> int:
        return len(self._columns[0]) + len(self._lengths[0])

    def add(self, source: str, target: str) -> None:
        """One more pair."""
        if self._hashes:
            key = normal_key(source)
            self._source.append(hash_text(source))
            self._key.append(hash_text(key) if key else 0)
            self._pair.append(hash_text(f"{len(source)} {source}{target}"))
        for lengths, text in zip(self._lengths, (source, target), strict=True):
            lengths.append(0 if not text or text.isspace() else len(text))
        if len(self._lengths[0]) == BLOCK:
            self._put_away()

    def broken(self) -> dict[str, Flags]:
        """For each rule on lengths and repetitions which pairs break it.

        A duplicate pair came before as it is. Another translation is the first pair of its source and target, but not
        of its source; a near-duplicate source is the first of its text, but not of its key, and has a key. (Of three
        targets a, b, b of one source in this order, the first b is the only other translation.)
        """
        found = {"length ratio": self._outliers}
        if self._hashes:
            self._put_away()
            size = len(self)
            found["duplicate pair"] = _firsts(self._pair_runs, size).inverse()
            found["other translation"] = _firsts_with_member(self._pair_runs, size).without(self._first_sources)
            keys = _firsts(self._key_runs, size)
            found["near-duplicate source"] = _firsts_with_member(self._source_runs, size).without(keys)
        return found

    def ratios(self) -> dict[str, float]:
        """Quantiles of target characters / source characters."""
        return {name: round(float(np.exp(value)), 3) for name, value in self._spread.quantiles.items()}

    def shift(self) -> Shift | None:
        """Where and by how many lines the sides are shifted against each other, if lengths tell it."""
        self._put_away()
        return find_shift(*self._columns)

    def strangeness(self) -> float:
        """The share of pairs with an unusual ratio of lengths, where the sides seem to have nothing in common; else 0.

        They do if the lengths of source and target hardly go together. In seven corpora whose sides belong together
        the share was below 0.3 %; with one side shifted by a line it was 2 to 38 %.
        """
        if self._spread.told < LEAST_TOLD:
            return 0.0
        share = self._outliers.count / self._spread.told
        if share <= STRANGE:
            return 0.0
        return share if abs(self._correlation()) < UNRELATED else 0.0

    def distinct_sources(self) -> int:
        """How many different sources there are."""
        return self._first_sources.count

    def _put_away(self) -> None:
        """What was gathered goes to the shelf, as the next block."""
        start, count = len(self._columns[0]), len(self._lengths[0])
        if not count:
            return
        if self._hashes:
            source, pair, key = map(_view, (self._source, self._pair, self._key))
            # 0 stands for no key.
            self._pair_runs.append(start, pair, source)
            self._source_runs.append(start, source, key)
            self._key_runs.append(start, key, kept=key != 0)
            self._source, self._pair, self._key = array("Q"), array("Q"), array("Q")
        for column, lengths in zip(self._columns, self._lengths, strict=True):
            column.append(_view(lengths))
        self._lengths = array("I"), array("I")

    @cached_property
    def _first_sources(self) -> Flags:
        self._put_away()
        return _firsts(self._source_runs, len(self))

    @cached_property
    def _spread(self) -> _Spread:
        """Of the logarithms of target / source characters where they say something."""
        self._put_away()
        ranks = Ranks(lambda: (ratio[told] for _, _, told, ratio in self._ratios()))
        if not ranks.count:
            return _Spread(0, np.float32(0), {})
        return _Spread(ranks.count, ranks.median(), dict(zip(POINTS, ranks.quantiles(POINTS.values()), strict=True)))

    @cached_property
    def _outliers(self) -> Flags:
        """The pairs whose ratio of lengths is unusual."""
        middle = self._spread.median
        flags = Flags(len(self))
        start = 0
        for _, _, told, ratio in self._ratios():
            flags.set(start + np.flatnonzero(told & (np.abs(ratio - middle) > math.log(self._factor))))
            start += len(told)
        return flags

    def _ratios(self) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.float32]]]:
        """For each block characters of source and target, whether they say something, and the logarithm of target /
        source, 0 where they do not: [pairs] each."""
        for source, target in zip(*(column.blocks() for column in self._columns), strict=True):
            # Short sides say little ("Ja" for "Yes, please"), so that they are not looked at.
            told = (np.maximum(source, target) >= RATIO_CHARACTERS) & (source > 0) & (target > 0)
            ratio = np.zeros(len(source), dtype=np.float32)
            ratio[told] = np.log(target[told] / source[told])
            yield source, target, told, ratio

    def _correlation(self) -> float:
        """Pearson's coefficient of the logarithms of both lengths, 0 where one of them never changes."""
        pivot: NDArray[np.float64] | None = None
        sums, products = np.zeros(2), np.zeros((2, 2))
        for source, target, told, _ in self._ratios():
            both = np.log([source[told], target[told]])
            if pivot is None and told.any():
                pivot = both[:, :1].copy()  # so that what never changes is exactly 0
            both -= 0 if pivot is None else pivot
            sums += both.sum(axis=1)
            products += both @ both.T
        covariance = products - np.outer(sums, sums) / self._spread.told
        spread = math.sqrt(max(0.0, covariance[0, 0] * covariance[1, 1]))
        return float(covariance[0, 1]) / spread if spread else 0.0


def _view(column: "array[int]") -> NDArray[Any]:
    return np.frombuffer(column, dtype=np.uint32 if column.typecode == "I" else np.uint64)


def _firsts(runs: Runs, size: int) -> Flags:
    """The places whose hash did not come before."""
    flags = Flags(size)
    for group in runs.distinct():
        flags.set(group.places)
    return flags


def _firsts_with_member(runs: Runs, size: int) -> Flags:
    """The places whose hash did not come before with this member, and whose member is not 0."""
    flags = Flags(size)
    for group in runs.distinct(members=True):
        flags.set(group.places if group.members is None else group.places[group.members != 0])
    return flags
