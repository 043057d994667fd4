"""Modules of ours in float64 with weights set by hand, and the small data that the chapters teach with."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.feedforward import FeedForward
from clearhead.nn.linear import Linear
from clearhead.nn.visibility import Visibility

__all__ = [
    "EVERYTHING",
    "IDENTITY",
    "KEYS",
    "QUERIES",
    "VALUES",
    "WV",
    "X",
    "attention_of",
    "causal",
    "distance",
    "feed_forward",
    "linear_map",
    "matrix",
    "one_head",
    "set_map",
    "two_heads",
    "vector",
]


def matrix(rows: Iterable[Iterable[float]]) -> Tensor:
    """A float64 matrix of the given rows."""
    return torch.tensor([list(row) for row in rows], dtype=torch.float64)


def vector(*numbers: float) -> Tensor:
    """A float64 vector."""
    return torch.tensor(numbers, dtype=torch.float64)


IDENTITY = matrix([[1, 0], [0, 1]])
X = matrix([[1, 0], [0, 1], [1, 1]])
"""Three tokens of width two, the input of chapters 2 to 7."""
WV = matrix([[2, 0], [0, 1]])
QUERIES = KEYS = X
VALUES = matrix([[2, 0], [0, 1], [2, 1]])

EVERYTHING = Visibility(torch.tensor(True))
"""Every query may read every key, whatever their number."""


def causal(queries: int, keys: int | None = None) -> Visibility:
    """The last `queries` of `keys` positions, each reading what stands at or before itself."""
    keys = queries if keys is None else keys
    return Visibility.causal(torch.arange(keys - queries, keys)[None], torch.arange(keys)[None])


def linear_map(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """The map x → x·`weight` + `bias`; our `Linear` keeps the transpose [out, in]."""
    layer = Linear(weight.shape[0], weight.shape[1], bias is not None).double()
    set_map(layer, weight, bias)
    return layer


@torch.no_grad()
def set_map(layer: Linear, weight: Tensor, bias: Tensor | None = None) -> None:
    """Give `layer` the map x → x·`weight` + `bias`."""
    if layer.weight.shape != weight.T.shape:
        raise ValueError(f"a weight {list(weight.T.shape)} for a layer {list(layer.weight.shape)}")
    layer.weight.copy_(weight.T)
    if layer.bias is not None:
        layer.bias.copy_(torch.zeros(weight.shape[1]) if bias is None else bias)


def one_head() -> Attention:
    """The attention of chapters 3 to 6: one head of width 2, W_Q = W_K = I, W_V = diag(2, 1), W_O = I."""
    return attention_of(1, IDENTITY, IDENTITY, WV, IDENTITY)


def two_heads() -> Attention:
    """The attention of chapter 7: two heads of width 1, each seeing one column, mixed by W_O."""
    return attention_of(2, IDENTITY, IDENTITY, IDENTITY, matrix([[1, 1], [0, 1]]))


def attention_of(heads: int, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> Attention:
    """An attention layer with the given maps, each x → x·W, without biases."""
    layer = Attention(AttentionConfig(heads=heads), query.shape[0]).double().eval()
    for part, weight in ((layer.query, query), (layer.key, key), (layer.value, value), (layer.output, output)):
        set_map(part, weight)
    return layer


def feed_forward() -> FeedForward:
    """The feed-forward layer of chapter 9: width 2, inner width 3, no biases."""
    layer = FeedForward(2, 3).double()
    set_map(layer.inner, matrix([[1, 0, 1], [0, 1, 1]]))
    set_map(layer.outer, matrix([[1, 0], [0, 1], [1, 1]]))
    return layer


def distance(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference of two tensors of one shape; NaN if a cell is."""
    if one.shape != other.shape:
        return math.nan
    return (one - other).abs().max().item()
