"""Chapter 4: scaled dot-product attention, one head."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.nn.attention import Attention
from clearhead.nn.cores import ScaledDotProduct
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import EVERYTHING, KEYS, QUERIES, VALUES, X, distance, matrix, one_head, vector

__all__ = ["head_weights", "scaled_scores_of"]


def head_weights(query: Tensor, key: Tensor) -> Tensor:
    """The weights of one head for queries [T, E] and keys [S, E], nothing hidden."""
    return ScaledDotProduct().weights(query[None, None], key[None, None], EVERYTHING)[0, 0]


@facts("attn", "score_0_2 raw score_shape", by=[Attention])
def raw_scores() -> tuple[Tensor, Tensor, list[int]]:
    """Dot products of the layer's own queries and keys."""
    layer = one_head()
    scores = layer.query(X) @ layer.remember(X[None], X[None]).keys[0, 0].T
    return scores[0, 2], scores, list(scores.shape)


def scaled_scores_of(query: Tensor, key: Tensor) -> Tensor:
    """What the core puts into its softmax, [T, S], read back from its weights.

    The weights determine a row of scores but for a constant, so a key of zeros, whose score is 0, is read beside them.
    """
    weights = head_weights(query, torch.cat([key, key.new_zeros(1, key.shape[1])]))
    return (weights / weights[:, -1:]).log()[:, :-1]


@facts("attn", "scores", by=[ScaledDotProduct])
def scaled_scores() -> Tensor:
    """The dot products over √d_k."""
    return scaled_scores_of(QUERIES, KEYS)


@facts("attn", "weights row_sums column_sums", by=[ScaledDotProduct])
def weights() -> tuple[Tensor, Tensor, Tensor]:
    """Row i says how much query i reads of each key."""
    read = head_weights(QUERIES, KEYS)
    return read, read.sum(-1), read.sum(0)


@facts("attn", "output", by=[Attention, ScaledDotProduct])
def output() -> Tensor:
    """The whole layer, from the input to what each position has read."""
    layer = one_head()
    read: Tensor = layer(X[None], layer.remember(X[None], X[None]), EVERYTHING)
    return read[0]


@facts("attn", "output_0_0_rounded output_0_1_rounded", by=[ScaledDotProduct])
def output_by_hand() -> tuple[float, float]:
    """Row 0 of the output as a reader works it out, from weights of six decimals."""
    first, second, third = (round(weight, 6) for weight in head_weights(QUERIES, KEYS)[0].tolist())
    return first * 2 + third * 2, second + third


@facts("attn", "same_values_output same_values_change", by=[ScaledDotProduct])
def same_values() -> tuple[Tensor, float]:
    """Where all values agree, it does not matter how they are weighed."""
    values = matrix([[2, 1]] * 3)
    core = ScaledDotProduct().eval()
    read = core(QUERIES[None, None], KEYS[None, None], values[None, None], EVERYTHING)[0, 0]
    evenly = core(torch.zeros_like(QUERIES)[None, None], KEYS[None, None], values[None, None], EVERYTHING)[0, 0]
    return read, distance(read, evenly)


@facts("attn", "unscaled_weights", by=[Attention])
def unscaled() -> Tensor:
    """What would come without the division by √d_k."""
    layer = one_head()
    scores: Tensor = layer.query(X) @ layer.key(X).T
    return scores.softmax(-1)


@facts("attn", "exercise_query exercise_weights exercise_output", by=[ScaledDotProduct], given="exercise_query")
def exercise() -> tuple[Tensor, ...]:
    """A query [2, 0] on the same keys and values."""
    query = vector(2, 0)
    read = head_weights(query[None], KEYS)[0]
    return query, read, read @ VALUES
