"""Rows of token ids of unequal length in one rectangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from clearhead.text.symbols import PAD

__all__ = ["Padded"]


@dataclass(frozen=True)
class Padded:
    """Token ids, right-padded, with the true length of each row.

    The mask follows from the lengths and never from the ids, so what stands in the padding cannot be seen.

    Shapes: `ids` int64 [R, T]; `lengths` int64 [R], 0 ≤ length ≤ T.
    """

    ids: Tensor
    lengths: Tensor

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]], device: torch.device | str | None = None) -> Padded:
        """Pad `rows` on the right to the longest of them.

        >>> Padded.from_lists([[5, 6], [7]]).ids.tolist()
        [[5, 6], [7, 0]]
        """
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        width = int(lengths.max()) if rows else 0
        ids = torch.full((len(rows), width), PAD, dtype=torch.int64)
        ids[torch.arange(width) < lengths[:, None]] = torch.tensor(list(chain.from_iterable(rows)), dtype=torch.int64)
        return cls(ids.to(device), lengths.to(device))

    @classmethod
    def full(cls, ids: Tensor) -> Padded:
        """Rows that are all as long as the rectangle (one decoding step, say)."""
        return cls(ids, torch.full((ids.shape[0],), ids.shape[1], dtype=torch.int64, device=ids.device))

    @property
    def mask(self) -> Tensor:
        """True where a real token stands: bool [R, T]."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]

    def mean(self, x: Tensor) -> Tensor:
        """The mean of `x` [R, T, D] over the real positions of each row: [R, D]; zeros for an empty row."""
        total = x.masked_fill(~self.mask[:, :, None], 0.0).sum(1)
        return total / self.lengths.clamp(min=1)[:, None]

    def rows(self, index: Tensor) -> Padded:
        """The rows that `index` [N] names, in its order."""
        return Padded(self.ids.index_select(0, index), self.lengths.index_select(0, index))

    def __len__(self) -> int:
        return self.ids.shape[0]
