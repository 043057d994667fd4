"""Chapter 3: three readings of one input."""

from __future__ import annotations

from torch import Tensor

from clearhead.nn.attention import Attention
from clearhead.nn.linear import Linear
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import IDENTITY, X, linear_map, matrix, one_head, vector

__all__: list[str] = []


@facts("proj", "wq wk wv q k k_transposed v v_row2", by=[Attention, Linear])
def projections() -> tuple[Tensor, ...]:
    """Queries, keys and values as the attention layer makes and keeps them, and what it makes of unit vectors."""
    layer = one_head()
    kept = layer.remember(X[None], X[None])
    keys, values = kept.keys[0, 0], kept.values[0, 0]
    maps = (each(IDENTITY) for each in (layer.query, layer.key, layer.value))
    return *maps, layer.query(X), keys, keys.T, values, layer.value(vector(1, 1))


@facts("proj", "exercise exercise_q", by=[Attention, Linear])
def exercise() -> tuple[Tensor, Tensor]:
    """[2, 3] through W_V and W_Q."""
    layer = one_head()
    return layer.value(vector(2, 3)), layer.query(vector(2, 3))


@facts("proj", "asymmetric_wq asymmetric_scores", by=[Linear])
def asymmetric() -> tuple[Tensor, Tensor]:
    """With W_Q ≠ W_K, i's score of j is not j's score of i."""
    query = linear_map(matrix([[1, 1], [0, 1]]))
    return query(IDENTITY), query(X) @ one_head().key(X).T
