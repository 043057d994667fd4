"""How the loss would move if a head were turned down a little: the head importance of Michel et al. 2019.

Every head h has a gate ξ_h before the output projection, all at 1. Its importance is

    I_h = E_x |∂L(x)/∂ξ_h| = E_x |Att_hᵀ · ∂L(x)/∂Att_h|        (§4.1, equation 2)

where Att_h is what the head finds, all its positions and numbers summed in the product. The absolute value is taken of
each example and only then the mean: over a batch the gradients of two examples would cancel. Here L(x) is the mean
negative log likelihood a gold token of example x, so a long sentence counts as much as a short one.

It is a slope at the model as it is, not what happens when the head is closed: that is `ablation`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.interventions import Change, Interventions
from clearhead.inspection.losses import BATCH_TOKENS, NO_PAIRS, batches, mean_losses
from clearhead.inspection.sites import Head, Stack, attention_sites, heads_of
from clearhead.inspection.teaching import Pairs
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["gate_slopes", "head_importance", "normalised_by_layer"]


def head_importance(model: Seq2Seq, pairs: Pairs, *, batch_tokens: int = BATCH_TOKENS) -> dict[Head, float]:
    """I_h of every head over `pairs`, in nats a token; empty for a model without attention.

    Across stacks the numbers compare as slopes of one loss; `normalised_by_layer` is for a comparison within a layer.
    Raises InputError for an ensemble, and if there are no pairs.
    """
    return {head: float(slopes.abs().mean()) for head, slopes in gate_slopes(model, pairs, batch_tokens).items()}


def gate_slopes(model: Seq2Seq, pairs: Pairs, batch_tokens: int = BATCH_TOKENS) -> dict[Head, Float[Tensor, " R"]]:
    """∂L(x)/∂ξ_h of every head and every pair, with its sign: negative where a little more of the head would help.

    One pass backwards a batch, since the gates of a row move no other row. No gradient is left on the model.
    """
    if not len(pairs):
        raise InputError(NO_PAIRS)
    sites = attention_sites(model)
    if not sites:
        return {}
    interventions = Interventions(model)
    found: dict[Head, Tensor] = {}
    for rows, batch in batches(pairs, batch_tokens):
        like = next(model.parameters())
        gates = [
            torch.ones(len(batch), site.heads, dtype=like.dtype, device=like.device, requires_grad=True)
            for site in sites
        ]
        changes = {site.path: Change(gates=gate) for site, gate in zip(sites, gates, strict=True)}
        with torch.enable_grad(), interventions.using(changes) as twin:
            hidden, _ = twin.decoder.advance(batch.prefix, twin.decoder.start(twin.encoder(batch.source)))
            loss = mean_losses(twin.decoder, hidden, batch.gold).sum()
            slopes = torch.autograd.grad(loss, gates)
        for site, slope in zip(sites, slopes, strict=True):
            for head, of_head in zip(heads_of([site]), slope.T, strict=True):
                found.setdefault(head, of_head.new_zeros(len(pairs)))[rows] = of_head
    return found


def normalised_by_layer(importance: Mapping[Head, float]) -> dict[Head, float]:
    """Each importance divided by the ℓ2 norm of its layer's (Michel et al. 2019, §4.1, after Molchanov et al. 2017).

    The squares of a layer's heads sum to 1 afterwards, so heads of different layers no longer compare. A layer whose
    heads all have 0 keeps them.

    >>> normalised_by_layer({Head("cross", 1, 1): 3.0, Head("cross", 1, 2): 4.0})[Head("cross", 1, 2)]
    0.8
    """
    squares: dict[tuple[Stack, int], float] = {}
    for head, value in importance.items():
        squares[head.stack, head.layer] = squares.get((head.stack, head.layer), 0.0) + value * value
    norms = {place: math.sqrt(total) or 1.0 for place, total in squares.items()}
    return {head: value / norms[head.stack, head.layer] for head, value in importance.items()}
