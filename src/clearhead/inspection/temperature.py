"""What if attention were sharper, or flatter: the curve of a model's loss over the temperature of its weights.

With scores e and temperature τ the weights are softmax(e/τ), which is the row of weights^(1/τ) brought back to its sum:
so the scores are not needed, and every kind of attention is heated alike. τ = 1 is the model; towards 0 a row reads its
largest weight alone, and as τ grows it comes to read all its keys equally.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.interventions import Interventions
from clearhead.inspection.losses import BATCH_TOKENS, NO_PAIRS, batches
from clearhead.inspection.records import Curve, Unit
from clearhead.inspection.sites import STACKS, Stack
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.inspection.unit_targets import Target, rewriting, targets_of
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["TEMPERATURES", "heated", "temperature_curve"]

TEMPERATURES = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0)


@torch.no_grad()
def temperature_curve(
    model: Seq2Seq,
    pairs: Pairs,
    *,
    temperatures: Sequence[float] = TEMPERATURES,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Curve]:
    """A curve for each stack that attends, and "all" with all stacks heated at once; none without attention.

    Series: `nll`, the mean over all gold tokens of −ln p, in nats, and `entropy_share`, the mean over the heated rows
    of H/ln n, n the keys that a row may read (rows with one key are left out): 1 where it reads all equally.
    At most `batch_tokens` padded positions (but at least one pair) are read at a time.

    Raises InputError for a temperature that is not above 0, no pairs, or an ensemble.
    """
    if not all(0 < temperature < math.inf for temperature in temperatures):
        raise InputError(f"temperatures must be numbers above 0, not {min(temperatures)}: 1 is the model as it is")
    if not len(pairs):
        raise InputError(NO_PAIRS)
    interventions = Interventions(model)
    present = [stack for stack in STACKS if any(site.stack == stack for site in interventions.sites)]
    curves = []
    groups: list[tuple[str, list[Stack]]] = [(stack, [stack]) for stack in present]
    for name, stacks in [*groups, ("all", present)] if present else []:
        targets = [target for stack in stacks for target in targets_of(model, Unit(stack))]
        points = [_point(interventions, pairs, targets, each, batch_tokens) for each in temperatures]
        series = {"nll": tuple(nll for nll, _ in points), "entropy_share": tuple(share for _, share in points)}
        settings = {"pairs": float(len(pairs)), "tokens": float(pairs.gold.lengths.sum())}
        curves.append(Curve("temperature", name, "temperature", tuple(map(float, temperatures)), series, settings))
    return curves


def heated(
    weights: Float[Tensor, "*rows S"], readable: Bool[Tensor, "*rows S"], temperature: float
) -> Float[Tensor, "*rows S"]:
    """weights^(1/τ), brought back to the sum that each row had; a weight of exactly 0 stays 0.

    >>> row = torch.tensor([0.8, 0.2])
    >>> [round(float(each), 3) for each in heated(row, row > 0, 0.5)]
    [0.941, 0.059]
    """
    if temperature == 1:
        return weights
    logs = weights.to(torch.promote_types(weights.dtype, torch.float32)).log() / temperature
    read = readable & (weights > 0)
    lowest = torch.finfo(logs.dtype).min
    shares = logs.masked_fill(~read, lowest).softmax(-1).masked_fill(~read, 0.0)
    return (shares * weights.sum(-1, keepdim=True)).to(weights.dtype)


def _point(
    interventions: Interventions, pairs: Pairs, targets: Sequence[Target], temperature: float, batch_tokens: int
) -> tuple[float, float]:
    """The loss and the mean share of entropy at one temperature."""
    tokens, loss, shares, rows = int(pairs.gold.lengths.sum()), 0.0, 0.0, 0
    for _, batch in batches(pairs, batch_tokens):
        sums: list[Tensor] = []
        counts: list[Tensor] = []

        def rewrite(
            target: Target,
            own: Tensor,
            readable: Tensor,
            before: int,
            batch: Pairs = batch,
            sums: list[Tensor] = sums,
            counts: list[Tensor] = counts,
        ) -> Tensor:
            new = heated(own, readable, temperature)
            side = batch.source if target.site.stack == "encoder" else batch.prefix
            real = side.mask[:, None, before : before + own.shape[2]]
            share, counted = _entropy_share(new, readable, real)
            sums.append(share)
            counts.append(counted)
            return new

        with interventions.using(rewriting(targets, rewrite)) as twin:
            loss -= float(gold_log_probs(twin, batch).double().sum())
        shares += float(torch.stack(sums).sum())
        rows += int(torch.stack(counts).sum())
    return loss / tokens, shares / rows if rows else 0.0


def _entropy_share(weights: Tensor, readable: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of H/ln n over the rows of real queries with n ≥ 2 keys, and how many rows those are."""
    shares = weights.double() / weights.double().sum(-1, keepdim=True).clamp(min=1e-300)
    entropy = -torch.xlogy(shares, shares).sum(-1)
    keys = readable.sum(-1)
    counted = real & (keys >= 2)
    share = entropy / keys.clamp(min=2).double().log()
    return share.masked_fill(~counted, 0.0).sum(), counted.sum()
