"""Gated recurrent units in two forms, which differ in where the reset gate stands.

| | candidate | next state |
|---|---|---|
| `GruBeforeCell`: the papers | tanh(W·x + U·(r∘h₋₁)) | (1 − z)∘h₋₁ + z∘candidate |
| `GruAfterCell`: cuDNN, PyTorch | tanh(W·x + b + r∘(U·h₋₁ + b′)) | (1 − z)∘candidate + z∘h₋₁ |

**Their weights are not interchangeable.** U·(r∘h) and r∘(U·h) are different functions of h unless U is diagonal, so no
rearrangement turns one set of weights into the other. Besides, z means the opposite: *take the new* in the first form,
*keep the old* in the second. (Cho et al. 2014, §2.3, equation 7, too, let z keep the old; with the signs of z's weights
turned round that is the form of Bahdanau et al. 2015, which stands here.)
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.nn.cells import Cell, CellState
from clearhead.nn.linear import linear

__all__ = ["GruAfterCell", "GruBeforeCell"]


class GruBeforeCell(Cell):
    """The GRU of Bahdanau et al. 2015, A.1.1 (Cho et al. 2014, §2.3, equations 5–8): reset before the product.

    r, z = σ of W·x + U·s₋₁ + b;  s̃ = tanh(W·x + U·(r∘s₋₁) + b);  s = (1 − z)∘s₋₁ + z∘s̃.

    In a decoder x is [E·y; c], the embedding beside the context, and W is the papers' [W, C]. The papers leave the
    biases out of their formulas. PyTorch has no kernel for this form; `sweep.py` is ours.
    """

    gates = ("reset", "update", "candidate")

    def recur(self, drive: Float[Tensor, "R gates"], state: CellState) -> CellState:
        """(s,) after one step."""
        (hidden,) = state
        split = 2 * self.width
        outer, inner = self.hidden_weight.split([split, self.width])
        reset, update = (drive[..., :split] + linear(hidden, outer)).sigmoid().chunk(2, -1)
        candidate = (drive[..., split:] + linear(reset * hidden, inner)).tanh()
        return (hidden + update * (candidate - hidden),)  # (1 − z)∘s₋₁ + z∘s̃ with one product less


class GruAfterCell(Cell):
    """The GRU of cuDNN and of `torch.nn.GRU`: reset after the product, whose bias b′ (`hidden_bias`) it also resets.

    r, z = σ of W·x + U·h₋₁ + b;  n = tanh(W·x + b + r∘(U·h₋₁ + b′));  h = (1 − z)∘n + z∘h₋₁.

    All three products with h₋₁ are one, which is why fused kernels have it so. It is no paper's formula: PyTorch's
    manual states it under `torch.nn.GRU`. For r and z a second bias would only add to the first.
    """

    gates = ("reset", "update", "candidate")
    kernel = "gru"

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        self.hidden_bias = nn.Parameter(torch.empty(width))

    def recur(self, drive: Float[Tensor, "R gates"], state: CellState) -> CellState:
        """(h,) after one step."""
        (hidden,) = state
        split = 2 * self.width
        inner = linear(hidden, self.hidden_weight)
        reset, update = (drive[..., :split] + inner[..., :split]).sigmoid().chunk(2, -1)
        candidate = (drive[..., split:] + reset * (inner[..., split:] + self.hidden_bias)).tanh()
        return (candidate + update * (hidden - candidate),)  # (1 − z)∘n + z∘h₋₁ with one product less

    def kernel_weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """See `Cell.kernel_weights`; the second bias is 0 but for the candidate's."""
        zeros = torch.zeros_like(self.bias[: 2 * self.width])
        return self.input_weight, self.hidden_weight, self.bias, torch.cat([zeros, self.hidden_bias])

    @torch.no_grad()
    def initialise(self, generator: torch.Generator | None = None) -> None:
        """As every cell (see `Cell.initialise`), `hidden_bias` zero."""
        super().initialise(generator)
        nn.init.zeros_(self.hidden_bias)
