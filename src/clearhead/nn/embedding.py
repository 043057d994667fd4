"""Tokens to vectors and back."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.nn.linear import linear

__all__ = ["Embedding", "Projection"]


class Embedding(nn.Module):
    """Rows of a table times √D (Vaswani et al. 2017, §3.4), so that N(0, 1/D) rows enter with unit variance.

    `spread` is the standard deviation with which such rows enter, if not 1: a factor, so that the table keeps the size
    that suits an output which shares it.
    """

    def __init__(self, vocab_size: int, d_model: int, spread: float = 1.0) -> None:
        super().__init__()
        self.spread = spread
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))

    def forward(self, ids: Int[Tensor, "R T"]) -> Float[Tensor, "R T D"]:
        return F.embedding(ids, self.weight) * self.factor

    @property
    def factor(self) -> float:
        """What a row is multiplied by on its way in: spread·√D."""
        return self.spread * math.sqrt(self.weight.shape[1])


class Projection(nn.Module):
    """Hidden states to logits: h·Wᵀ, no scaling; `weight` [V, D] may be an embedding's very Parameter.

    The paper has no bias here; `bias` [V] is for models that come from elsewhere.
    """

    def __init__(self, vocab_size: int, d_model: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.bias = nn.Parameter(torch.empty(vocab_size)) if bias else None

    def forward(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """[..., D] → [..., V], or [..., W] for the ids that `vocabulary` [W] lists."""
        if vocabulary is None:
            return linear(hidden, self.weight, self.bias)
        bias = None if self.bias is None else self.bias.index_select(0, vocabulary)
        return linear(hidden, self.weight.index_select(0, vocabulary), bias)
