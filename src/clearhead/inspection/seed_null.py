"""How far apart are the attention maps of models that differ in their seed alone?

That is the null against which an adversary's distance has to be read (Wiegreffe and Pinter 2019, §3.3): if two honest
trainings differ by as much, a distance of that size says little. The models must have the same shape and read the same
pair. Head 3 of one seed has nothing to do with head 3 of another, so heads are compared in three ways, all of them by
the Jensen–Shannon divergence (JSD) of row to row, in nats, averaged over the rows with two keys or more:

- `matched`: each head with another of the other model, the assignment with the least sum. It picks the best pairs, so
  it errs on the small side.
- `any_heads`: the mean over all pairs of heads. It errs on the large side.
- `mean_maps`: the two layers' maps, each averaged over its heads.

Layers are compared by their number, which is a choice as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.divergences import jsd
from clearhead.inspection.records import AttentionLayer, AttentionRecord, Finding, Unit

__all__ = ["matching", "seed_null"]


def seed_null(records: Sequence[AttentionRecord]) -> list[Finding]:
    """A finding for each layer: `matched`, `any_heads` and `mean_maps`, each the mean over all pairs of `records`.

    `records` are of two or more models of the same shape, trained from different seeds, over one pair of the same
    tokens. Raises InputError for fewer than two, or where tokens, layers or heads differ.
    """
    if len(records) < 2:
        raise InputError(f"{len(records)} attention record: a null between seeds needs those of two models or more")
    first = records[0]
    for other in records[1:]:
        _check(first, other)
    findings = []
    for place, layer in enumerate(first.layers):
        compared = [_compared(a.layers[place], b.layers[place]) for a, b in combinations(records, 2)]
        names = ("matched", "any_heads", "mean_maps")
        values = {name: math.fsum(each[name] for each in compared) / len(compared) for name in names}
        unit = Unit(layer.stack, layer.layer)
        findings.append(Finding("seed-null", unit, values, settings={"models": float(len(records))}))
    return findings


def matching(costs: Float[Tensor, "N N"]) -> list[int]:
    """The column of each row in the one-to-one assignment of the least total cost (Kuhn 1955, Munkres 1957).

    Rows are admitted one by one; each takes the cheapest way to a free column, along which earlier rows move over.
    Prices of rows and columns keep every remaining cost at 0 or above, so the way can be found as Dijkstra does.

    >>> matching(torch.tensor([[1.0, 0.0], [0.0, 5.0]]))
    [1, 0]
    """
    cost = costs.tolist()
    size = len(cost)
    row_price, column_price = [0.0] * size, [0.0] * size
    owner: list[int | None] = [None] * size  # of each column
    for row in range(size):
        distance, before = [math.inf] * size, [-1] * size
        reached: list[int] = []
        here, column, travelled = row, -1, 0.0
        while True:
            for to in range(size):
                way = travelled + cost[here][to] - row_price[here] - column_price[to]
                if to not in reached and way < distance[to]:
                    distance[to], before[to] = way, column
            column = min((to for to in range(size) if to not in reached), key=distance.__getitem__)
            travelled = distance[column]
            held_by = owner[column]
            if held_by is None:
                break
            reached.append(column)
            here = held_by
        row_price[row] += travelled
        for to in reached:
            holder = owner[to]
            assert holder is not None
            row_price[holder] += travelled - distance[to]
            column_price[to] -= travelled - distance[to]
        while before[column] >= 0:  # everybody on the way moves over
            owner[column] = owner[before[column]]
            column = before[column]
        owner[column] = row
    found = [0] * size
    for column, holder in enumerate(owner):
        assert holder is not None
        found[holder] = column
    return found


def _check(first: AttentionRecord, other: AttentionRecord) -> None:
    for side in ("source", "prefix"):
        if [token.id for token in getattr(first, side)] != [token.id for token in getattr(other, side)]:
            raise InputError(
                f"the records are of different tokens ({side}): read one pair with the same tokenizer and target"
            )
    ours, theirs = (
        [(each.stack, each.layer, len(each.weights)) for each in record.layers] for record in (first, other)
    )
    if ours != theirs:
        raise InputError(
            f"the models have different shapes: layers of {len(ours)} and {len(theirs)} attentions, or other heads"
        )


def _compared(a: AttentionLayer, b: AttentionLayer) -> dict[str, float]:
    rows = (a.visible & b.visible).sum(-1) >= 2
    mine, theirs = _shares(a.weights[:, rows]), _shares(b.weights[:, rows])
    if not mine.shape[1]:
        return dict.fromkeys(("matched", "any_heads", "mean_maps"), 0.0)
    apart = torch.stack([jsd(head, theirs).mean(-1) for head in mine])  # [H, H]
    matched = apart[torch.arange(len(apart)), torch.tensor(matching(apart))]
    return {
        "matched": float(matched.mean()),
        "any_heads": float(apart.mean()),
        "mean_maps": float(jsd(mine.mean(0), theirs.mean(0)).mean()),
    }


def _shares(weights: Tensor) -> Tensor:
    """float64, each row brought to the sum 1; a row that is all 0 (local-p far from every word) stays so."""
    wide = weights.double()
    total = wide.sum(-1, keepdim=True)
    return wide / torch.where(total > 0, total, 1.0)
