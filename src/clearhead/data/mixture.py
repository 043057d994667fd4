"""Several corpora as one text to train on, each shown as often as its weight says.

An epoch has a fixed number of *slots*. A corpus of n pairs and weight w has, an epoch, floor(w) slots for each pair and
m = round((w − floor(w)) · n) more for the fraction (at least one, if it would have none at all), so every epoch is
equally long. Which pairs take the m slots: the pairs are put in an order drawn from the seed, and the epochs walk
through it, m at a time, round and round. So with weight 0.5 two epochs show each pair exactly once, and no pair is ever
ahead of another by more than one.

What stands in a slot is computed where it is asked, from (seed, epoch, slot): nothing is kept for each pair, and an
epoch can be entered at any place.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.base.errors import InputError
from clearhead.base.seeds import mix
from clearhead.data.batches import Indices, Lengths, shuffled
from clearhead.data.store import Pairs, Store

__all__ = ["Mixture", "Shown", "weighted_pairs"]


@dataclass(frozen=True)
class Shown:
    """What stands in some slots, [slots] each: the corpus, the pair in it, and a number for this showing of the pair.

    No two showings of a pair have the same number, in one epoch or in several.
    """

    corpus: Indices
    pair: Indices
    showing: Indices


@dataclass(frozen=True)
class _Share:
    """One corpus: `whole` slots an epoch for each of its pairs, and `part` for some of them."""

    pairs: int
    whole: int
    part: int

    @property
    def slots(self) -> int:
        return self.whole * self.pairs + self.part

    def shown(self, places: Indices, epoch: int, key: int) -> tuple[Indices, Indices]:
        """Pairs and showings at `places` among the slots of this corpus."""
        copies, pairs = np.divmod(places, self.pairs)
        if self.part and (extra := places >= self.whole * self.pairs).any():
            start = epoch * self.part % self.pairs
            walked = (places[extra] - self.whole * self.pairs + start) % self.pairs
            pairs[extra] = shuffled(walked, self.pairs, key)
        most = self.whole + (self.part > 0)
        return pairs, epoch * most + copies


class Mixture:
    """Stores with weights. `len` is the slots of an epoch; `pairs` the distinct pairs of all stores."""

    def __init__(self, stores: Sequence[Store], weights: Sequence[float], seed: int) -> None:
        """`weights`: one a store, above 0. `seed` chooses the order in which fractions are walked through."""
        if not stores or len(stores) != len(weights):
            raise InputError(
                f"a mixture needs a weight a store; there are {len(stores)} stores, {len(weights)} weights"
            )
        if not all(weight > 0 and math.isfinite(weight) for weight in weights):
            raise InputError(f"weights must be numbers above 0: {list(weights)}; leave out a corpus that is not wanted")
        self.stores = tuple(stores)
        self.weights = tuple(float(weight) for weight in weights)
        self._seed = seed
        self._shares = [_share(len(store), weight) for store, weight in zip(self.stores, self.weights, strict=True)]
        self._starts = np.cumsum([0, *(share.slots for share in self._shares)])
        self._firsts = np.cumsum([0, *(share.pairs for share in self._shares)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def pairs(self) -> int:
        """Distinct pairs, each counted once whatever its weight."""
        return int(self._firsts[-1])

    @property
    def slots(self) -> tuple[int, ...]:
        """Pairs that an epoch shows of each corpus."""
        return tuple(share.slots for share in self._shares)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key of each store: what it holds, by content, its tag included."""
        return tuple(store.key for store in self.stores)

    @property
    def key(self) -> str:
        """SHA-256 of all content and weights; of one store that is shown once an epoch, that store's."""
        if self.weights == (1.0,):
            return self.stores[0].key
        return hashlib.sha256(json.dumps(list(zip(self.keys, self.weights, strict=True))).encode()).hexdigest()

    def epoch(self, epoch: int) -> Lengths:
        """The lengths of what `epoch` shows, by slot: what `BatchPlan` cuts into batches."""
        return _Epoch(self, epoch)

    def shown(self, slots: Indices, epoch: int) -> Shown:
        """What stands in `slots` in `epoch`."""
        corpus = np.searchsorted(self._starts, slots, side="right") - 1
        pair, showing = np.empty_like(slots), np.empty_like(slots)
        for place, share in enumerate(self._shares):
            chosen = corpus == place
            if chosen.any():
                places = slots[chosen] - self._starts[place]
                pair[chosen], showing[chosen] = share.shown(places, epoch, mix(self._seed, place))
        return Shown(corpus.astype(np.int64), pair, showing)

    def batch(self, slots: Indices, epoch: int) -> tuple[list[int], list[tuple[list[int], list[int]]]]:
        """The pairs in `slots`: their numbers, counted through all corpora in their order, and their ids.

        Subword sampling draws each showing anew, those of one epoch too.
        """
        shown = self.shown(slots, epoch)
        where = zip(shown.corpus.tolist(), shown.pair.tolist(), shown.showing.tolist(), strict=True)
        numbers: list[int] = (self._firsts[shown.corpus] + shown.pair).tolist()
        return numbers, [self.stores[corpus].pair(pair, showing) for corpus, pair, showing in where]


class _Epoch:
    """One epoch of a mixture, as a plan of batches wants to see it."""

    def __init__(self, mixture: Mixture, epoch: int) -> None:
        self._mixture = mixture
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._mixture)

    def lengths(self, side: str) -> "_Lengths":
        return _Lengths(self._mixture, self._epoch, side)


class _Lengths:
    """Tokens on one side of what stands in any slots."""

    def __init__(self, mixture: Mixture, epoch: int, side: str) -> None:
        self._mixture = mixture
        self._epoch = epoch
        self._columns = [store.lengths(side) for store in mixture.stores]

    def __getitem__(self, members: Indices, /) -> NDArray[Any]:
        shown = self._mixture.shown(members, self._epoch)
        lengths = np.empty(len(members), np.int32)
        for place, column in enumerate(self._columns):
            chosen = shown.corpus == place
            lengths[chosen] = column[shown.pair[chosen]]
        return lengths


def weighted_pairs(readers: Sequence[Pairs], weights: Sequence[float]) -> Iterator[tuple[str, str]]:
    """The text of several corpora in proportion to their weights, one corpus after the other, as a stream.

    Each pair comes floor(w) times and, for the fraction, once more or not, as a hash of its number says. Corpora of
    equal weight come once.
    """
    if len(set(weights)) == 1:
        weights = [1.0] * len(readers)
    for place, (pairs, weight) in enumerate(zip(readers, weights, strict=True)):
        yield from _repeated(pairs(), weight, place)


def _repeated(pairs: Iterable[tuple[str, str]], weight: float, place: int) -> Iterator[tuple[str, str]]:
    whole, part = int(weight), weight - int(weight)
    for number, pair in enumerate(pairs):
        for _ in range(whole + (part > 0 and mix(place, number) < part * 2**64)):
            yield pair


def _share(pairs: int, weight: float) -> _Share:
    whole = int(weight)
    part = math.floor((weight - whole) * pairs + 0.5)
    return _Share(pairs, whole, part if whole else max(1, part))
