"""The few bytes of each pair that stay in memory while a corpus is read: what repetitions and lengths are told by."""

import math
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.data.alignment import Shift, find_shift
from clearhead.data.overlap import hash_text
from clearhead.data.rules import RATIO_FACTOR
from clearhead.data.split import normal_key

__all__ = ["Traces"]

RATIO_CHARACTERS = 20
LEAST_TOLD = 200
STRANGE = 0.05
UNRELATED = 0.3


class Traces:
    """Hashes of pair, source and source key, and both lengths: 32 bytes a pair, or 8 without `hashes`."""

    def __init__(self, *, hashes: bool = True, factor: float = RATIO_FACTOR) -> None:
        self._hashes = hashes
        self._factor = factor
        self.source, self.pair, self.key = array("Q"), array("Q"), array("Q")
        self._lengths = array("I"), array("I")  # characters of source and target, 0 for a blank text

    def __len__(self) -> int:
        return len(self._lengths[0])

    def add(self, source: str, target: str) -> None:
        """One more pair."""
        if self._hashes:
            key = normal_key(source)
            self.source.append(hash_text(source))
            self.key.append(hash_text(key) if key else 0)
            self.pair.append(hash_text(f"{len(source)} {source}{target}"))
        for lengths, text in zip(self._lengths, (source, target), strict=True):
            lengths.append(0 if not text or text.isspace() else len(text))

    def places(self) -> dict[str, NDArray[np.int64]]:
        """For each rule on lengths and repetitions where in the corpus it is broken, the first pair being 0; rising."""
        found = {"length ratio": self._outliers(self._ratio())}
        if self._hashes:
            source, pair, key = self._view(self.source), self._view(self.pair), self._view(self.key)
            found["duplicate pair"] = _duplicates(pair)
            found["other translation"] = _repeats(source, pair)
            found["near-duplicate source"] = _repeats(key, source)
        return found

    def ratios(self) -> dict[str, float]:
        """Quantiles of target characters / source characters."""
        ratio = self._ratio()
        known = ratio[np.isfinite(ratio)]
        if not len(known):
            return {}
        points = {"lowest": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "highest": 1.0}
        return {name: round(float(np.exp(np.quantile(known, q))), 3) for name, q in points.items()}

    def shift(self) -> Shift | None:
        """Where and by how many lines the sides are shifted against each other, if lengths tell it."""
        return find_shift(*map(self._view, self._lengths))

    def strangeness(self) -> float:
        """The share of pairs with an unusual ratio of lengths, where the sides seem to have nothing in common; else 0.

        They do if the lengths of source and target hardly go together. In seven corpora whose sides belong together
        the share was below 0.3 %; with one side shifted by a line it was 2 to 38 %.
        """
        ratio = self._ratio()
        told = np.isfinite(ratio)
        if told.sum() < LEAST_TOLD:
            return 0.0
        share = len(self._outliers(ratio)) / int(told.sum())
        if share <= STRANGE:
            return 0.0
        logarithms = [np.log(self._view(lengths)[told]) for lengths in self._lengths]
        return share if abs(float(np.corrcoef(*logarithms)[0, 1])) < UNRELATED else 0.0

    def _ratio(self) -> NDArray[np.float32]:
        """The logarithm of target / source characters, NaN where it says nothing: [pairs]."""
        source, target = map(self._view, self._lengths)
        # Short sides say little ("Ja" for "Yes, please"), so that they are not looked at.
        told = (np.maximum(source, target) >= RATIO_CHARACTERS) & (source > 0) & (target > 0)
        ratio = np.full(len(source), np.nan, dtype=np.float32)
        ratio[told] = np.log(target[told] / source[told])
        return ratio

    def _outliers(self, ratio: NDArray[np.float32]) -> NDArray[np.int64]:
        with np.errstate(invalid="ignore"):
            middle = np.nanmedian(ratio) if np.isfinite(ratio).any() else 0.0
            return np.flatnonzero(np.abs(ratio - middle) > math.log(self._factor))

    def distinct_sources(self) -> int:
        """How many different sources there are."""
        return len(np.unique(self._view(self.source)))

    @staticmethod
    def _view(column: "array[Any]") -> NDArray[Any]:
        return np.frombuffer(column, dtype=np.uint32 if column.typecode == "I" else np.uint64)


def _repeats(group: NDArray[Any], member: NDArray[Any]) -> NDArray[np.int64]:
    """Places whose group came before, but not with this member, in rising order; group 0 is no group.

    With three members a, b, b of one group in this order, the place of the first b is the only one.
    """
    order = np.lexsort((member, group))  # stable: places of one (group, member) stay in rising order
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (group[order][1:] != group[order][:-1]) | (member[order][1:] != member[order][:-1])
    firsts = np.sort(order[new])
    firsts = firsts[np.argsort(group[firsts], kind="stable")]
    groups = group[firsts]
    return np.sort(firsts[1:][(groups[1:] == groups[:-1]) & (groups[1:] != 0)])


def _duplicates(values: NDArray[Any]) -> NDArray[np.int64]:
    """Places whose value came before, in rising order."""
    order = np.argsort(values, kind="stable")
    return np.sort(order[1:][values[order][1:] == values[order][:-1]])
