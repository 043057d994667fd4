"""How long the vectors are that attention adds up: a weight times a short vector is little, however large the weight.

An attention's output at row t is Σ_s Σ_h α_h[t, s]·f_h(x_s), with f_h(x) = (x·W_V + b_V)·W_O, a head's value carried
over its own columns of the output projection (Kobayashi et al. 2020, §2.2); its bias belongs to no token.
What a norm after it does is not counted. A core without projections of its own (RNNsearch, Luong, ConvS2S) has one head
and f(x) is the value itself: the decoder takes the context in at several places, each by a map of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.inspection.records import TokenScores, Unit
from clearhead.inspection.replay import replay
from clearhead.inspection.sites import Site, attention_sites
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.attention import Attention
from clearhead.nn.cores import spread

__all__ = ["head_norms", "value_norms", "vector_lengths"]


@dataclass(frozen=True)
class _Read:
    """What one layer read, float64: `weights` α [H, T, S], and f(x) of every key as `vectors` [H, S, D]."""

    site: Site
    weights: Float[Tensor, "H T S"]
    vectors: Float[Tensor, "H S D"]


def value_norms(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> list[TokenScores]:
    """Method "value-norms", one a layer that reads the source or the target so far: ‖Σ_h α_h[t, s]·f_h(x_s)‖.

    The vectors of the heads are added before they are measured, for they may cancel. Ids
    without BOS and EOS; `source` [T, S] for "cross", `prefix` [T, T] for "decoder", not signed, in the units of the
    residual stream. Empty for a model without attention. Raises InputError for an ensemble.
    """
    found = []
    for read in _reads(model, source, target):
        if read.site.stack == "encoder":
            continue
        # ‖Σ_h α_h·f_h‖² = Σ_hk α_h·(f_h·f_k)·α_k, which needs no [T, S, D].
        products = torch.einsum("hsd,ksd->shk", read.vectors, read.vectors)
        squares = torch.einsum("hts,shk,kts->ts", read.weights, products, read.weights)
        norms = squares.clamp(min=0).sqrt().float().cpu()
        source_side, prefix_side = (norms, None) if read.site.stack == "cross" else (None, norms)
        unit = Unit(read.site.stack, read.site.layer)
        found.append(TokenScores("value-norms", source_side, prefix_side, signed=False, unit=unit))
    return found


def head_norms(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> dict[Unit, Float[Tensor, "T S"]]:
    """‖α_h[t, s]·f_h(x_s)‖ of every head of all stacks, float64 on the CPU; rows and columns are those of its map."""
    return {
        Unit(read.site.stack, read.site.layer, head + 1): (read.weights[head] * read.vectors[head].norm(dim=-1)).cpu()
        for read in _reads(model, source, target)
        for head in range(read.site.heads)
    }


def vector_lengths(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> dict[Unit, Float[Tensor, " S"]]:
    """‖f_h(x_s)‖ of every head of all stacks, one a key, float64 on the CPU: what `head_roles` asks for of a sink."""
    return {
        Unit(read.site.stack, read.site.layer, head + 1): read.vectors[head].norm(dim=-1).cpu()
        for read in _reads(model, source, target)
        for head in range(read.site.heads)
    }


def _reads(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> list[_Read]:
    sites = attention_sites(model)
    attention = replay(model, source, target).recording.attention
    modules = dict(model.named_modules())
    found = []
    for site in sites:
        record = attention[site.path]
        vectors = spread(record.value, site.heads)[0].detach().double()
        if site.attention is not None:
            owner = modules[site.attention]
            assert isinstance(owner, Attention)
            columns = owner.output.weight.detach().double()  # [D, H·E], a head's columns side by side
            per_head = columns.view(len(columns), site.heads, owner.head_dim)
            vectors = torch.einsum("hse,dhe->hsd", vectors, per_head)
        found.append(_Read(site, record.weights[0].detach().double(), vectors))
    return found
