"""The few bytes of each pair that stay in memory while a corpus is read: what repetitions and lengths are told by."""

import math
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.data.overlap import hash_text
from clearhead.data.rules import RATIO_FACTOR
from clearhead.data.split import normal_key

__all__ = ["Traces"]

RATIO_CHARACTERS = 20


class Traces:
    """Hashes of pair, source and source key, and the length ratio: 28 bytes a pair, or 4 without `hashes`."""

    def __init__(self, *, hashes: bool = True, factor: float = RATIO_FACTOR) -> None:
        self._hashes = hashes
        self._factor = factor
        self.source, self.pair, self.key = array("Q"), array("Q"), array("Q")
        self.ratio = array("f")

    def __len__(self) -> int:
        return len(self.ratio)

    def add(self, source: str, target: str) -> None:
        """One more pair."""
        if self._hashes:
            key = normal_key(source)
            self.source.append(hash_text(source))
            self.key.append(hash_text(key) if key else 0)
            self.pair.append(hash_text(f"{len(source)} {source}{target}"))
        # Short sides say little ("Ja" for "Yes, please"), so that they are not looked at.
        told = max(len(source), len(target)) >= RATIO_CHARACTERS and source.strip() and target.strip()
        self.ratio.append(math.log(len(target) / len(source)) if told else math.nan)

    def places(self) -> dict[str, NDArray[np.int64]]:
        """For each rule on lengths and repetitions where in the corpus it is broken, the first pair being 0; rising."""
        ratio = self._view(self.ratio)
        with np.errstate(invalid="ignore"):
            middle = np.nanmedian(ratio) if np.isfinite(ratio).any() else 0.0
            outliers = np.abs(ratio - middle) > math.log(self._factor)
        found = {"length ratio": np.flatnonzero(outliers)}
        if self._hashes:
            source, pair, key = self._view(self.source), self._view(self.pair), self._view(self.key)
            found["duplicate pair"] = _duplicates(pair)
            found["other translation"] = _repeats(source, pair)
            found["near-duplicate source"] = _repeats(key, source)
        return found

    def ratios(self) -> dict[str, float]:
        """Quantiles of target characters / source characters."""
        ratio = self._view(self.ratio)
        known = ratio[np.isfinite(ratio)]
        if not len(known):
            return {}
        points = {"lowest": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "highest": 1.0}
        return {name: round(float(np.exp(np.quantile(known, q))), 3) for name, q in points.items()}

    def distinct_sources(self) -> int:
        """How many different sources there are."""
        return len(np.unique(self._view(self.source)))

    @staticmethod
    def _view(column: "array[Any]") -> NDArray[Any]:
        return np.frombuffer(column, dtype=np.float32 if column.typecode == "f" else np.uint64)


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
