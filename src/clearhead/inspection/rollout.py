"""Attention rollout: weights multiplied through the layers, as if every layer only mixed what lies below it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.inspection.records import AttentionLayer, AttentionRecord, TokenScores
from clearhead.inspection.sites import Stack

__all__ = ["RESIDUAL", "rollout"]

RESIDUAL = 0.5
"""The share of a residual connection that passes by the attention (Abnar and Zuidema 2020, §3)."""


def rollout(record: AttentionRecord) -> TokenScores | None:
    """How much of each embedding reaches each prediction, by weights and residuals alone: method "rollout".

    Ã = ½·A + ½·I with A the mean over the heads, and the product of Ã from the first layer to the last (Abnar and
    Zuidema 2020, §3, for an encoder). The decoder is ours: every position begins as itself; self-attention mixes
    positions by ½·A + ½·I; attention to the source replaces half of what is there by A·R, R the encoder's rollout.

    Shapes: `source` [T, S] and `prefix` [T, T]; each row of both together sums to 1, and the prefix has 2^−L of it for
    L layers **whatever the weights are**: the shares of the two sides say nothing about the model. Neither norms, nor
    values, nor feed-forward layers take part, so this is a heuristic; on tasks with known alignment it can do worse
    than the last layer's weights. None for a record that does not have all three stacks of a Transformer.
    """
    encoder, decoder, cross = (_mean_heads(record, stack) for stack in ("encoder", "decoder", "cross"))
    if not encoder or not decoder or len(decoder) != len(cross):
        return None
    read = _identity(encoder[0])
    for weights in encoder:
        read = _mixed(weights) @ read
    prefix, source = _identity(decoder[0]), torch.zeros_like(cross[0])
    for own, other in zip(decoder, cross, strict=True):
        mixing = _mixed(own)
        prefix = RESIDUAL * (mixing @ prefix)
        source = RESIDUAL * (mixing @ source) + (1 - RESIDUAL) * (other @ read)
    return TokenScores("rollout", source.float(), prefix.float(), signed=False, settings={"residual": RESIDUAL})


def _mean_heads(record: AttentionRecord, stack: Stack) -> list[Float[Tensor, "T S"]]:
    layers: list[AttentionLayer] = [layer for layer in record.layers if layer.stack == stack]
    return [layer.weights.double().mean(0) for layer in sorted(layers, key=lambda layer: layer.layer)]


def _identity(weights: Float[Tensor, "T T"]) -> Float[Tensor, "T T"]:
    return torch.eye(len(weights), dtype=weights.dtype)


def _mixed(weights: Float[Tensor, "T T"]) -> Float[Tensor, "T T"]:
    """A row that may read nothing keeps itself whole: its sum is 1 as well."""
    mixed = (1 - RESIDUAL) * weights + RESIDUAL * _identity(weights)
    return mixed / mixed.sum(-1, keepdim=True)
