"""Who may read whom: the one place where masks are made and given a meaning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["HIDDEN", "Visibility"]

HIDDEN = 1 << 62
"""The position of a key that nobody may see: later than any query."""


@dataclass(frozen=True)
class Visibility:
    """Which keys each query may read, broadcastable to [R, H, T, S]; True = may read.

    One value serves all layers of a stack, so what follows from the mask is worked out once. A query that may read
    nothing has weights of exactly zero and a context of zero, with finite gradients, in every precision.
    """

    mask: Tensor
    query_positions: Tensor | None = None

    @classmethod
    def of_keys(cls, mask: Tensor) -> Visibility:
        """Every query may read the keys that `mask` [R, S] marks (padding hidden)."""
        return cls(mask[:, None, None, :])

    @classmethod
    def causal(cls, query_positions: Tensor, key_positions: Tensor) -> Visibility:
        """A query may read the keys at or before its own position: [R, T], [R, S] → [R, 1, T, S].

        Positions are those in the sequence, so the rule holds for a cached past of any length
        (Vaswani et al. 2017, §3.2.3). Padding keys stand at `HIDDEN`.
        """
        mask = key_positions[:, None, :] <= query_positions[:, :, None]
        return cls(mask[:, None], query_positions)

    def bias(self, dtype: torch.dtype) -> Tensor:
        """The mask as numbers to add to scores: 0 where visible, so low elsewhere that the weight is exactly 0.

        Finite rather than −∞: −∞ − (−∞) in a fully hidden row would be NaN before it could be set to zero.
        """
        low = -3e4 if dtype is torch.float16 else -1e30
        return torch.zeros(self.mask.shape, dtype=dtype, device=self.mask.device).masked_fill_(~self.mask, low)

    @cached_property
    def float32_bias(self) -> Tensor:
        """`bias` in float32, kept, since every layer adds it."""
        return self.bias(torch.float32)

    @cached_property
    def blank(self) -> Tensor | None:
        """Queries that may read nothing, [R, 1, T, 1]; None when there are none."""
        blank = ~self.mask.any(-1, keepdim=True)
        return blank if bool(blank.any()) else None
