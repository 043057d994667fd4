"""Parallel sentences as numbers, for models of words: vocabularies, the pairs of words that meet, batches of one shape.

Word 0 of either side is the null word, which is thought to stand before every sentence (Brown et al. 1993, section 4):
what has no counterpart is linked to it. A model keeps one number for each two words that meet in some pair, and no
more; a *cell* is where in that list the two words at some positions of a pair stand.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clearhead.data.columns import Shelf, Stored

__all__ = ["Batch", "Bitext"]

CELLS = 1 << 19
"""Cells in a batch, if the pair is not larger by itself: 4 MiB of numbers."""

PENDING = 1 << 22
"""Pairs of words collected before they are merged into the list, at least."""

CELL_ROOM = 256 << 20
"""Bytes of cells kept in memory; the others are put into a temporary file (`data/columns.py`)."""


@dataclass(frozen=True)
class Batch:
    """Pairs with sources of one length S and targets of one length T.

    Attributes:
        pairs: their numbers, from 0: [B].
        cells: [B, 1 + S, 1 + T], the null word first on both sides.
    """

    pairs: NDArray[np.int64]
    cells: NDArray[np.int32]


class Bitext:
    """A parallel corpus, encoded.

    Attributes:
        words: those of the source and of the target, by number; the first is the null word, spelt "".
        lengths: words of the source and target of every pair, without the null word; 0 for a pair left out: [pairs, 2].
        source_of, target_of: the two words of each cell: [cells] each.
        blank, long: how many pairs were left out because a side has no words, or more than `longest`.
        sequences: words of each side, in pairs that are not left out.
    """

    def __init__(self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]], *, longest: int) -> None:
        """Read pairs of word lists, once."""
        self.blank = self.long = 0
        vocabularies: tuple[dict[str, int], dict[str, int]] = ({"": 0}, {"": 0})
        texts = (array("i"), array("i"))
        lengths = array("i")
        for pair in pairs:
            counts = [len(words) for words in pair]
            if not min(counts):
                self.blank += 1
            elif max(counts) > longest:
                self.long += 1
            if not min(counts) or max(counts) > longest:
                lengths.extend((0, 0))
                continue
            lengths.extend(counts)
            for words, ids, text in zip(pair, vocabularies, texts, strict=True):
                text.extend([ids.setdefault(word, len(ids)) for word in words])
        self.words = [*vocabularies[0]], [*vocabularies[1]]
        self.lengths: NDArray[np.int32] = np.frombuffer(lengths, dtype=np.int32).reshape(-1, 2)
        self.sequences = len(texts[0]), len(texts[1])
        self._texts = [np.frombuffer(text, dtype=np.int32) for text in texts]
        self._starts = np.cumsum(self.lengths, axis=0, dtype=np.int64) - self.lengths
        self._groups = list(self._grouped())
        keys = self._meeting()
        self.source_of, self.target_of = (side.astype(np.int32) for side in np.divmod(keys, len(self.words[1])))
        shelf = Shelf(CELL_ROOM)
        self._cells: list[Stored] = [
            shelf.put(np.searchsorted(keys, self._keys(group).ravel()).astype(np.int32)) for group in self._groups
        ]

    @property
    def aligned(self) -> int:
        """The number of pairs that are not left out."""
        return len(self.lengths) - self.blank - self.long

    def batches(self) -> Iterator[Batch]:
        """Every pair that is not left out, in batches, always the same ones in the same order."""
        for group, cells in zip(self._groups, self._cells, strict=True):
            source, target = self.lengths[group[0]]
            yield Batch(group, cells[: len(cells)].reshape(len(group), source + 1, target + 1))

    def _grouped(self) -> Iterator[NDArray[np.int64]]:
        """The numbers of the pairs of each batch: [B]."""
        order = np.lexsort((self.lengths[:, 1], self.lengths[:, 0]))
        order = order[self.lengths[order, 0] > 0]
        shapes = self.lengths[order]
        turns = np.flatnonzero((shapes[1:] != shapes[:-1]).any(axis=1)) + 1
        for group in np.split(order, turns) if len(order) else ():
            # A square, since aligners also compare each position of one side with each other position of that side.
            size = max(1, CELLS // (int(self.lengths[group[0]].max()) + 1) ** 2)
            for start in range(0, len(group), size):
                yield group[start : start + size]

    def _keys(self, group: NDArray[np.int64]) -> NDArray[np.int64]:
        """s · V + t for the words s and t of each pair, V the size of the target's vocabulary: as `Batch.cells`."""
        sides = []
        for side in (0, 1):
            places = self._starts[group, side, None] + np.arange(self.lengths[group[0], side])
            words = self._texts[side][places].astype(np.int64)
            sides.append(np.pad(words, ((0, 0), (1, 0))))  # the null word
        keys: NDArray[np.int64] = sides[0][:, :, None] * len(self.words[1]) + sides[1][:, None, :]
        return keys

    def _meeting(self) -> NDArray[np.int64]:
        """The keys of all words that meet in some pair, rising: [cells]."""
        found = np.zeros(0, dtype=np.int64)
        pending: list[NDArray[np.int64]] = []
        for group in self._groups:
            pending.append(np.unique(self._keys(group)))
            # As much as is there already, so that each key is sorted a few times only.
            if sum(map(len, pending)) > max(PENDING, len(found)):
                found, pending = np.unique(np.concatenate([found, *pending])), []
        return np.unique(np.concatenate([found, *pending]))
