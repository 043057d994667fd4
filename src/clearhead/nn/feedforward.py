"""The position-wise feed-forward layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.nn.linear import Linear

__all__ = ["Activation", "FeedForward"]

Activation = Literal["relu", "gelu", "silu", "swiglu"]

_BENDS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """Widen, bend, narrow; the same map at every position.

    relu: max(0, x·W₁ + b₁)·W₂ + b₂ (Vaswani et al. 2017, §3.3, equation 2); gelu and silu: Hendrycks and Gimpel 2016
    (silu is also called swish); swiglu: (silu(x·W_g) ∘ x·W₁)·W₂ (Shazeer 2020, equation 6), with the biases of `inner`
    and `outer` kept.
    """

    def __init__(self, d_model: int, d_ff: int, activation: Activation = "relu") -> None:
        super().__init__()
        self.activation = activation
        self.inner = Linear(d_model, d_ff)
        self.gate = Linear(d_model, d_ff) if activation == "swiglu" else None
        self.outer = Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "R T D"]) -> Float[Tensor, "R T D"]:
        inner = self.inner(x)
        if self.gate is not None:
            return self.outer(F.silu(self.gate(x)) * inner)
        return self.outer(_BENDS[self.activation](inner))
