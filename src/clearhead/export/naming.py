"""Which parameter of a Transformer is which of Marian's in Hugging Face format, and in what order its numbers stand.

The paper's positions have sines and cosines by turns (Vaswani et al. 2017, §3.5), Marian's all sines, then all cosines.
Whatever is added to them must stand in the same order: so the residual axis of every parameter is rearranged, and
the model computes the same, but that sums over that axis are added up in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Pair", "by_turns", "in_halves", "layer_pairs"]


@dataclass(frozen=True)
class Pair:
    """One parameter under both names; `axis` is the axis that lies along the residual stream, None if none does."""

    ours: str
    theirs: str
    axis: int | None


def in_halves(tensor: Tensor, axis: int | None) -> Tensor:
    """Our order into Marian's: the even places of `axis`, then the odd ones.

    >>> in_halves(torch.arange(6), 0).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    if axis is None:
        return tensor
    places = torch.arange(tensor.shape[axis], device=tensor.device)
    return tensor.index_select(axis, torch.cat([places[0::2], places[1::2]]))


def by_turns(tensor: Tensor, axis: int | None) -> Tensor:
    """Marian's order into ours: what `in_halves` undoes, for an axis of even length.

    >>> by_turns(torch.arange(6), 0).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    if axis is None:
        return tensor
    places = torch.arange(tensor.shape[axis], device=tensor.device)
    return tensor.index_select(axis, places.view(2, -1).t().reshape(-1))


def layer_pairs(encoder_layers: int, decoder_layers: int, bias: bool) -> Iterator[Pair]:
    """Every parameter of the layers; `bias` says whether the projections of attention have biases."""
    for place in range(encoder_layers):
        ours, theirs = f"encoder.layers.{place}.", f"model.encoder.layers.{place}."
        yield from _attention(f"{ours}attention", f"{theirs}self_attn", bias)
        yield from _norm(f"{ours}attention_residual.norm", f"{theirs}self_attn_layer_norm")
        yield from _feedforward(ours, theirs)
    for place in range(decoder_layers):
        ours, theirs = f"decoder.layers.{place}.", f"model.decoder.layers.{place}."
        yield from _attention(f"{ours}self_attention", f"{theirs}self_attn", bias)
        yield from _norm(f"{ours}self_attention_residual.norm", f"{theirs}self_attn_layer_norm")
        yield from _attention(f"{ours}cross_attention", f"{theirs}encoder_attn", bias)
        yield from _norm(f"{ours}cross_attention_residual.norm", f"{theirs}encoder_attn_layer_norm")
        yield from _feedforward(ours, theirs)


def _attention(ours: str, theirs: str, bias: bool) -> Iterator[Pair]:
    for name, other in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")):
        yield Pair(f"{ours}.{name}.weight", f"{theirs}.{other}.weight", 1)
        if bias:
            yield Pair(f"{ours}.{name}.bias", f"{theirs}.{other}.bias", None)
    yield Pair(f"{ours}.output.weight", f"{theirs}.out_proj.weight", 0)
    if bias:
        yield Pair(f"{ours}.output.bias", f"{theirs}.out_proj.bias", 0)


def _norm(ours: str, theirs: str) -> Iterator[Pair]:
    for name in ("weight", "bias"):
        yield Pair(f"{ours}.{name}", f"{theirs}.{name}", 0)


def _feedforward(ours: str, theirs: str) -> Iterator[Pair]:
    yield Pair(f"{ours}feedforward.inner.weight", f"{theirs}fc1.weight", 1)
    yield Pair(f"{ours}feedforward.inner.bias", f"{theirs}fc1.bias", None)
    yield Pair(f"{ours}feedforward.outer.weight", f"{theirs}fc2.weight", 0)
    yield Pair(f"{ours}feedforward.outer.bias", f"{theirs}fc2.bias", 0)
    yield from _norm(f"{ours}feedforward_residual.norm", f"{theirs}final_layer_norm")
