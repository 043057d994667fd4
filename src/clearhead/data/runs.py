"""Which hashes of a corpus are new where they stand, told without sorting all of them at once.

Hashes are put away in sorted blocks (runs). Afterwards the range of hashes is cut into parts, so many that the
different hashes of one come to about `PART`, and each part is gathered from all runs and sorted alone: an external sort
by distribution (Knuth, The Art of Computer Programming, volume 3, section 5.4). That needs hashes that are spread
evenly; for others the results are the same and only the memory is not. A hash that comes again and again costs none.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.data.columns import Shelf, Stored

__all__ = ["Group", "Runs"]

PART = 1 << 17


class Group(NamedTuple):
    """Different hashes, rising; the member of each if that was asked for; and the place where it stands first."""

    hashes: NDArray[np.uint64]
    members: NDArray[np.uint64] | None
    places: NDArray[np.int64]


class _Run(NamedTuple):
    start: int
    hashes: Stored
    places: Stored
    members: Stored | None


class Runs:
    """The hashes of a corpus in sorted blocks, each with its place and, if it is to have one, a member."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._runs: list[_Run] = []
        self._count = 0

    def append(
        self,
        start: int,
        hashes: NDArray[np.uint64],
        members: NDArray[np.uint64] | None = None,
        kept: NDArray[np.bool_] | None = None,
    ) -> None:
        """The next block of at most 65,536 pairs, whose first is pair `start`; only those `kept`, if that is given.

        Raises `Shelf.put`'s errors.
        """
        order = np.argsort(hashes, kind="stable")
        if kept is not None:
            order = order[kept[order]]
        put = self._shelf.put
        beside = None if members is None else put(members[order])
        self._runs.append(_Run(start, put(hashes[order]), put(order.astype(np.uint16)), beside))
        self._count += len(order)

    def __len__(self) -> int:
        return self._count

    def distinct(self, *, members: bool = False) -> Iterator[Group]:
        """The different hashes, part by part and all rising; with `members` the different (hash, member)."""
        cuts = self._cuts()
        for part in range(cuts.shape[1] - 1):
            found: Group | None = None
            for piece in self._pieces(cuts[:, part], cuts[:, part + 1], members):
                found = _firsts(piece if found is None else _joined([found, piece]))
            if found is not None:
                yield found

    def up_to(self, highest: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """For each block its start, and where in the corpus its hashes up to `highest` (-1: none) are, in no order."""
        for run in self._runs:
            hashes = run.hashes[:]
            count = int(np.searchsorted(hashes, np.uint64(highest), side="right")) if highest >= 0 else 0
            yield run.start, run.places[:count].astype(np.int64) + run.start

    def _cuts(self) -> NDArray[np.int32]:
        """Where the parts of each run begin, and where the last ends: [runs, parts + 1]."""
        parts = max(1, -(-self._count // PART))
        edges = np.array([(part << 64) // parts for part in range(1, parts)], dtype=np.uint64)
        cuts = np.zeros((len(self._runs), parts + 1), dtype=np.int32)
        for row, run in zip(cuts, self._runs, strict=True):
            row[1:-1] = np.searchsorted(run.hashes[:], edges)
            row[-1] = len(run.hashes)
        return cuts

    def _pieces(self, begins: NDArray[np.int32], ends: NDArray[np.int32], members: bool) -> Iterator[Group]:
        """One part from all runs, in file order, some twice `PART` hashes at a time."""
        gathered: list[Group] = []
        count = 0
        for run, begin, end in zip(self._runs, begins.tolist(), ends.tolist(), strict=True):
            part = slice(begin, end)
            beside = run.members[part] if members and run.members is not None else None
            gathered.append(Group(run.hashes[part], beside, run.places[part].astype(np.int64) + run.start))
            count += end - begin
            if count >= 2 * PART:
                yield _joined(gathered)
                gathered, count = [], 0
        if count:
            yield _joined(gathered)


def _joined(groups: list[Group]) -> Group:
    """Some groups as one."""

    def all_of(arrays: list[Any]) -> Any:
        return np.concatenate(arrays)

    beside = None if groups[0].members is None else all_of([group.members for group in groups])
    return Group(all_of([group.hashes for group in groups]), beside, all_of([group.places for group in groups]))


def _firsts(group: Group) -> Group:
    """What is different in a group, rising; of equals the one that stands first in it."""
    hashes, members, places = group
    keys = (hashes,) if members is None else (members, hashes)
    order = np.lexsort(keys)  # stable
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = False
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    chosen = order[new]
    return Group(hashes[chosen], None if members is None else members[chosen], places[chosen])
