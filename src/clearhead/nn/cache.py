"""Keys and values that attention remembers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Kept"]


@dataclass(frozen=True)
class Kept:
    """What one attention layer keeps of the positions it may read: `keys` and `values` [R, G, S, E]."""

    keys: Tensor
    values: Tensor

    def append(self, later: Kept) -> Kept:
        """These positions followed by those of `later`."""
        if self.keys.shape[2] == 0:
            return later
        return Kept(torch.cat([self.keys, later.keys], 2), torch.cat([self.values, later.values], 2))

    def rows(self, index: Tensor) -> Kept:
        """The rows that `index` [N] names."""
        return Kept(self.keys.index_select(0, index), self.values.index_select(0, index))

    def join(self, other: Kept) -> Kept:
        """The rows of both, the shorter padded on the right to the longer's positions."""
        length = max(self.keys.shape[2], other.keys.shape[2])

        def both(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.cat([F.pad(side, (0, 0, 0, length - side.shape[2])) for side in (mine, theirs)])

        return Kept(both(self.keys, other.keys), both(self.values, other.values))
