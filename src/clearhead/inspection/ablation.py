"""What a model loses when heads are closed: one head, all heads of a layer, or all heads of a layer but one.

A closed head finds nothing (zero), or what it finds on average (mean). The loss is the mean negative log likelihood of
the gold tokens of a pair, in nats a token, read by teacher forcing; every number here is the loss with heads closed
less the loss of the model as it is, so + means worse. Michel et al. 2019 close heads at test time in the same place,
before the output projection, and report BLEU (§3.2, one head; §3.3, all heads of a layer but one).

Nothing is trained again afterwards: a head without which nothing is lost may still have been needed to learn, and two
heads that stand in for each other each look as if they were not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.losses import BATCH_TOKENS, NO_PAIRS, batches
from clearhead.inspection.recorders import recording_twin
from clearhead.inspection.sites import Head, Site, Stack, attention_sites, heads_of
from clearhead.inspection.sweep import gated_losses
from clearhead.inspection.teaching import Pairs
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["Fill", "best_heads", "head_ablation", "layer_ablation", "mean_contexts", "only_one_head"]

Fill = Literal["zero", "mean"]
"""What stands for a closed head: nothing, or its mean context over the real positions of the given pairs."""


def head_ablation(
    model: Seq2Seq, pairs: Pairs, *, fill: Fill = "zero", batch_tokens: int = BATCH_TOKENS
) -> dict[Head, Float[Tensor, " R"]]:
    """How much worse each pair is predicted with one head closed, for every head: nats a token.

    Empty for a model without attention. Raises InputError for an ensemble, and if there are no pairs.
    """
    sites = attention_sites(model)
    gates = {site: 1 - torch.eye(site.heads) for site in sites}
    return _by_head(sites, _changes(model, pairs, gates, fill, batch_tokens))


def layer_ablation(
    model: Seq2Seq, pairs: Pairs, *, fill: Fill = "zero", batch_tokens: int = BATCH_TOKENS
) -> dict[Site, Float[Tensor, " R"]]:
    """The same with all heads of a layer closed, for every layer of every stack."""
    gates = {site: torch.zeros(1, site.heads) for site in attention_sites(model)}
    return {site: change[:, 0] for site, change in _changes(model, pairs, gates, fill, batch_tokens).items()}


def only_one_head(
    model: Seq2Seq, pairs: Pairs, *, fill: Fill = "zero", batch_tokens: int = BATCH_TOKENS
) -> dict[Head, Float[Tensor, " R"]]:
    """The same with all heads of a layer closed but the one named, for every head (Michel et al. 2019, §3.3).

    They keep the best head of the layer, chosen on other sentences than those it is tried on; `best_heads` chooses.
    """
    sites = attention_sites(model)
    gates = {site: torch.eye(site.heads) for site in sites}
    return _by_head(sites, _changes(model, pairs, gates, fill, batch_tokens))


def best_heads(kept: Mapping[Head, Tensor]) -> dict[tuple[Stack, int], Head]:
    """The head that alone does for its layer best, by stack and layer: of `only_one_head`, the smallest mean change.

    Chosen and judged on the same pairs it looks a little better than it is; give `only_one_head` others to judge it.
    """
    best: dict[tuple[Stack, int], Head] = {}
    for head, change in kept.items():
        place = (head.stack, head.layer)
        if place not in best or change.mean() < kept[best[place]].mean():
            best[place] = head
    return best


@torch.no_grad()
def mean_contexts(
    model: Seq2Seq, pairs: Pairs, *, batch_tokens: int = BATCH_TOKENS
) -> dict[Site, Float[Tensor, "H E"]]:
    """What each head finds on average, over the real positions of all `pairs`: source positions in the encoder,
    positions of the prefix elsewhere.
    """
    sites = attention_sites(model)
    recorder, recording = recording_twin(model, ())
    recorder.eval()
    totals: dict[Site, Tensor] = {}
    for _, batch in batches(pairs, batch_tokens):
        recording.attention.clear()
        recorder.decoder.advance(batch.prefix, recorder.decoder.start(recorder.encoder(batch.source)))
        for site in sites:
            mask = (batch.source if site.stack == "encoder" else batch.prefix).mask
            found = recording.attention[site.path].mixed  # [R, H, T, E]
            wide = torch.promote_types(found.dtype, torch.float32)  # 8 bits lose count of a few hundred positions
            total = found.masked_fill(~mask[:, None, :, None], 0.0).sum((0, 2), dtype=wide)
            totals[site] = totals[site] + total if site in totals else total
    if sites and not totals:
        raise InputError(NO_PAIRS)
    source, prefix = int(pairs.source.lengths.sum()), int(pairs.prefix.lengths.sum())
    return {site: total / (source if site.stack == "encoder" else prefix) for site, total in totals.items()}


def _changes(
    model: Seq2Seq, pairs: Pairs, gates: Mapping[Site, Tensor], fill: Fill, batch_tokens: int
) -> dict[Site, Float[Tensor, "R V"]]:
    if fill not in ("zero", "mean"):
        raise InputError(f"fill is {fill!r}: a closed head gives 'zero' or its 'mean'")
    if not gates:
        return {}
    fills = mean_contexts(model, pairs, batch_tokens=batch_tokens) if fill == "mean" else None
    unchanged, changed = gated_losses(model, pairs, gates, fills, batch_tokens=batch_tokens)
    return {site: losses - unchanged[:, None] for site, losses in changed.items()}


def _by_head(sites: list[Site], changes: Mapping[Site, Tensor]) -> dict[Head, Tensor]:
    return {head: change for site in sites for head, change in zip(heads_of([site]), changes[site].T, strict=True)}
