"""The residual connection around a sub-layer; it alone knows where the norm stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.nn.dropout import Dropout

__all__ = ["LAYER_NORM_EPSILON", "NormPlacement", "Residual", "narrowed"]

NormPlacement = Literal["post", "pre"]

LAYER_NORM_EPSILON = 1e-6
"""Inside the root, with the biased variance (Ba et al. 2016, equation 4). The paper names none: tensor2tensor's."""


class Residual(nn.Module):
    """post: LayerNorm(x + dropout(f(x))), Vaswani et al. 2017, §3.1 and §5.4; pre: x + dropout(f(LayerNorm(x))).

    A stack of pre-norm layers needs a norm at its end, a stack of post-norm layers must not have one.
    """

    def __init__(
        self, placement: NormPlacement, d_model: int, dropout: float, epsilon: float = LAYER_NORM_EPSILON
    ) -> None:
        super().__init__()
        self.placement = placement
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "R T D"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "R T D"]:
        if self.placement == "pre":
            return x + self.dropout(sublayer(narrowed(self.norm(x))))
        return self.norm(x + self.dropout(sublayer(narrowed(x))))


def narrowed(x: Tensor) -> Tensor:
    """`x` in autocast's own type, once for all the linear maps that read it; `x` itself outside autocast.

    Left to autocast, each of them would make its own copy, and as many again on the way back.
    """
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x
