"""How well each role fits the heads of a layer: a score over its rows, beside the baseline of a head that reads alike.

`head_roles` says what the candidates mean and makes roles of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.inspection.head_statistics import entropy_shares, row_centres
from clearhead.inspection.records import AttentionLayer, Token

__all__ = ["RIVALS", "Candidate", "candidates_of", "relative_length"]

_FURTHEST = 3  # offsets from −3 to 3 are tried as fixed ones
RIVALS = ("chance", "line", *(f"offset_{offset}" for offset in range(-_FURTHEST, _FURTHEST + 1)))
"""The simple rules that "aligned" has to beat: any visible key, the straight line (`row_centres`), a fixed offset."""

_LEAST_ROWS = 3  # fewer say nothing of a habit
_TIE = 1e-6  # weights that differ by less, relatively, are equally large


@dataclass(frozen=True)
class Candidate:
    """How all heads of a layer did: shares [H], over `rows` rows.

    `rivals`, where there are any, are what simple rules score over the same rows; the best of them is the baseline.
    """

    score: Float[Tensor, " H"]
    baseline: Float[Tensor, " H"]
    rows: int
    rivals: Mapping[str, float] = field(default_factory=dict)


def candidates_of(
    layer: AttentionLayer,
    keys: Sequence[Token],
    frequencies: Mapping[int, float] | None,
    links: Bool[Tensor, "T S"] | None,
) -> tuple[dict[str, Candidate], list[int]]:
    """Every candidate that can be asked, and the best fixed offset of each head (none if there is none)."""
    visible = layer.visible
    weights = layer.weights.double()
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)  # local-p: no sum of 1
    heads, rows, count = weights.shape
    away = torch.arange(count) - row_centres(layer.stack, rows, count)[:, None]
    special = torch.tensor([token.kind == "special" for token in keys])
    largest = _largest(weights, visible)
    asked: dict[str, Candidate | None] = {}
    if layer.stack == "cross":
        asked["diagonal"] = _share(weights, visible, away.abs() <= 1 + 1e-9)
        asked["aligned"] = None if links is None else _aligned(largest, visible, links)
    else:
        asked |= {
            name: _share(weights, visible, away == place)
            for name, place in (("previous", -1), ("next", 1), ("diagonal", 0))
        }
    asked["sink"] = _share(weights, visible, special.expand(rows, count))
    asked["position"], offsets = _position(largest, visible)
    if frequencies is not None:
        known = torch.tensor([float(frequencies.get(token.id, 0.0)) for token in keys], dtype=torch.float64)
        candidates = known.expand(rows, count).masked_fill(~visible | special, torch.inf)
        asked["rare-token"] = _share(
            largest, visible, (candidates == candidates.amin(-1, keepdim=True)) & candidates.isfinite()
        )
    asked["stripe"] = _stripe(weights, visible, special)
    if bool((choosing := visible.sum(-1) > 1).any()):
        shares = entropy_shares(weights, visible)[1][:, choosing].mean(-1)
        asked["broad"] = Candidate(shares, torch.zeros(heads, dtype=torch.float64), int(choosing.sum()))
    return {name: each for name, each in asked.items() if each is not None}, offsets


def _share(
    weights: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"], wanted: Bool[Tensor, "T S"]
) -> Candidate | None:
    """Weight on what is wanted, over the rows that may see some of it and something else besides; None without any."""
    wanted = wanted & visible
    asked = wanted.any(-1) & (visible & ~wanted).any(-1)
    if not bool(asked.any()):
        return None
    score = (weights * wanted).sum(-1)[:, asked].mean(-1)
    chance = (wanted.sum(-1) / visible.sum(-1).clamp(min=1)).double()[asked].mean()
    return Candidate(score, chance.expand(weights.shape[0]), int(asked.sum()))


def _largest(weights: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"]) -> Float[Tensor, "H T S"]:
    """1 at the largest weight of each row, shared by those that are equally large; 0 in a row that reads nothing."""
    top = weights.amax(-1, keepdim=True)
    chosen = ((weights >= top * (1 - _TIE)) & visible & (top > 0)).double()
    return chosen / chosen.sum(-1, keepdim=True).clamp(min=1)


def _position(largest: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"]) -> tuple[Candidate | None, list[int]]:
    """The fixed offset from the row's number that most of the largest weights have, for every head."""
    places = torch.arange(visible.shape[1]) - torch.arange(visible.shape[0])[:, None]
    least = max(_LEAST_ROWS, int((visible.sum(-1) > 1).sum()) / 2)
    tried = {offset: _share(largest, visible, places == offset) for offset in range(-_FURTHEST, _FURTHEST + 1)}
    fit = {offset: each for offset, each in tried.items() if each is not None and each.rows >= least}
    if not fit:
        return None, []
    order = sorted(fit, key=abs)
    heads = torch.arange(largest.shape[0])
    scores = torch.stack([fit[offset].score for offset in order])
    best = (scores >= scores.amax(0) - _TIE).double().argmax(0)  # of equally good ones the nearest
    score = scores[best, heads]
    baseline = torch.stack([fit[offset].baseline for offset in order])[best, heads]
    return Candidate(score, baseline, min(each.rows for each in fit.values())), [order[index] for index in best]


def _aligned(
    largest: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"], links: Bool[Tensor, "T S"]
) -> Candidate | None:
    """The largest weight is on a linked source; its rivals are chance, the straight line and fixed offsets."""
    found = _share(largest, visible, links)
    if found is None:
        return None
    rows, count = links.shape
    asked = (links & visible).any(-1) & (visible & ~links).any(-1)
    places = torch.arange(rows)
    rules = {"line": row_centres("cross", rows, count).round().long()}
    rules |= {f"offset_{offset}": places + offset for offset in range(-_FURTHEST, _FURTHEST + 1)}
    rivals = {"chance": float(found.baseline[0])}
    for name, rule in rules.items():
        there = (rule >= 0) & (rule < count)
        rivals[name] = float((links[places, rule.clamp(0, count - 1)] & there)[asked].double().mean())
    return Candidate(found.score, torch.full_like(found.score, max(rivals.values())), found.rows, rivals)


def _stripe(
    weights: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"], special: Bool[Tensor, " S"]
) -> Candidate | None:
    """The most that a column gets from the rows that may see it, of the columns that at least half of the rows may."""
    choosing = visible.sum(-1) > 1
    seen = visible & choosing[:, None]
    counts = seen.sum(0)
    fit = ~special & (counts >= max(_LEAST_ROWS, int(choosing.sum()) / 2))
    if not bool(fit.any()):
        return None
    per_column = (weights * seen).sum(1)[:, fit] / counts[fit]
    chance = (seen.double() / visible.sum(-1, keepdim=True).clamp(min=1)).sum(0)[fit] / counts[fit]
    score, best = per_column.max(-1)
    return Candidate(score, chance[best], int(choosing.sum()))


def relative_length(layer: AttentionLayer, head: int, keys: Sequence[Token], lengths: Float[Tensor, " S"]) -> float:
    """How long the value vectors of special tokens are, by their weight, over the mean of the other tokens'."""
    lengths = lengths.double().cpu()
    special = torch.tensor([token.kind == "special" for token in keys])
    read = layer.weights[head].double().sum(0)[special]
    of_special = (lengths[special] * read).sum() / read.sum() if float(read.sum()) > 0 else lengths[special].mean()
    return float(of_special / lengths[~special].mean().clamp(min=torch.finfo(torch.float64).tiny))
