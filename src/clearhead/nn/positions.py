"""Where a token stands, added to what it is.

A position scheme has up to three voices: `embed` speaks into the embedding (the two here), `rotate` into queries and
keys, `bias` into scores. A model asks for the voices that it knows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.base.errors import InputError

__all__ = ["LearnedPositions", "NoPositions", "SinusoidalPositions", "sinusoidal_table"]


def sinusoidal_table(positions: int, d_model: int) -> Float[Tensor, "positions D"]:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(the same), in float64.

    Interleaved as in the paper (Vaswani et al. 2017, §3.5); tensor2tensor puts all sines first, which is a different
    table. An odd D ends on a sine.

    >>> [round(x, 6) for x in sinusoidal_table(2, 4)[1].tolist()]
    [0.841471, 0.540302, 0.01, 0.99995]
    """
    pairs = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] / 10000.0 ** (pairs / d_model)
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # [positions, D or D+1]
    return table[:, :d_model].contiguous()


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids for as many positions as are asked for; no parameters, nothing saved.

    `max_positions` is where a model that comes from elsewhere ends, although its sinusoids would go on.
    """

    def __init__(self, d_model: int, max_positions: int | None = None) -> None:
        super().__init__()
        self.d_model = d_model
        self.max_positions = max_positions
        self._table = torch.empty(0)

    def forward(self, positions: Int[Tensor, "R T"], like: Tensor) -> Float[Tensor, "R T D"]:
        """The rows of the table for `positions`, in the type and on the device of `like`."""
        table = self._table
        needed = int(positions.max()) + 1 if positions.numel() else 0
        if self.max_positions is not None and needed > self.max_positions:
            raise InputError(
                f"position {needed - 1} asked of a model that ends after {self.max_positions} positions "
                "(positions.max_positions); cut the text"
            )
        if table.shape[0] < needed or table.dtype != like.dtype or table.device != like.device or table.dim() != 2:
            # Grown by replacement: a thread that still reads the old table is not disturbed.
            grown = sinusoidal_table(max(256, 1 << needed.bit_length()), self.d_model)
            self._table = table = grown.to(device=like.device, dtype=like.dtype)
        return F.embedding(positions, table)


class NoPositions(nn.Module):
    """Nothing: the model is not told the order of its input.

    An encoder without positions cannot tell one order of its words from another (Vaswani et al. 2017, §3.5); a decoder
    can still, since each of its positions sees one more than the last.
    """

    max_positions: int | None = None

    def forward(self, positions: Int[Tensor, "R T"], like: Tensor) -> Float[Tensor, "R T D"]:
        """Zeros of the shape of `like`."""
        return torch.zeros_like(like)


class LearnedPositions(nn.Module):
    """One learnt vector a position (Gehring et al. 2017, §3.1; Vaswani et al. 2017, Table 3, row E).

    `spread` times 1/√D is the standard deviation that they are drawn with.
    """

    def __init__(self, d_model: int, max_positions: int, spread: float = 1.0) -> None:
        super().__init__()
        self.max_positions: int | None = max_positions
        self.spread = spread
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, positions: Int[Tensor, "R T"], like: Tensor) -> Float[Tensor, "R T D"]:
        """The learnt rows for `positions`; `InputError` past the last of them."""
        limit = self.weight.shape[0]
        if positions.numel() and int(positions.max()) >= limit:
            raise InputError(
                f"position {int(positions.max())} asked of a model that learnt {limit} positions; "
                "cut the text or train with more (max_positions)"
            )
        return F.embedding(positions, self.weight)
