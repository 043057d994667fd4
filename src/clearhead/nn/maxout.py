"""Maxout, and the readout of RNNsearch that is made of it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.nn.linear import Linear

__all__ = ["MaxoutReadout", "maxout"]


def maxout(x: Float[Tensor, "... pairs"]) -> Float[Tensor, "... half"]:
    """The greater of each two neighbours, t_j = max(t̃_{2j−1}, t̃_{2j}): half as wide.

    Goodfellow et al. 2013, §2, with two pieces; Bahdanau et al. 2015, A.2.2.

    >>> maxout(torch.tensor([1.0, 4.0, 3.0, -2.0])).tolist()
    [4.0, 3.0]
    """
    return torch.maximum(x[..., 0::2], x[..., 1::2])


class MaxoutReadout(nn.Module):
    """t = maxout(U_o·s + V_o·E·y + C_o·c): what the vocabulary is read off (Bahdanau et al. 2015, A.2.2).

    U_o is `state`, V_o `embedding`, C_o `context`; `width` is l, the width of t, and each matrix has 2l rows. The sum
    has one bias, that of `state`; the paper leaves biases out of its formulas. No step waits for the readout of
    another, so a whole target is read out at once, after the loop.

    Which state is read is the decoder's choice: A.2.2 prints s_{i−1}, but §3.1, equation 4, g(y_{i−1}, s_i, c_i).
    """

    def __init__(self, state_width: int, embedding_width: int, context_width: int, width: int) -> None:
        super().__init__()
        self.state = Linear(state_width, 2 * width)
        self.embedding = Linear(embedding_width, 2 * width, bias=False)
        self.context = Linear(context_width, 2 * width, bias=False)

    def forward(
        self, state: Float[Tensor, "... Q"], embedded: Float[Tensor, "... D"], context: Float[Tensor, "... C"]
    ) -> Float[Tensor, "... width"]:
        """t for every position."""
        return maxout(self.state(state) + self.embedding(embedded) + self.context(context))
