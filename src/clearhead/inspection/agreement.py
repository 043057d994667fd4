"""Do a head's weights rank the tokens as other methods do?

Jain and Wallace 2019, §4.1, ask it by Kendall's τ between attention and measures by gradients or by leaving words out.
Here each row of a head, over the keys that the query could read, is compared with the row of a token method for the
same prediction: over the source for cross-attention, over the prefix for the decoder's self-attention. The encoder's
rows belong to no prediction and are not compared. Two methods may agree and both be wrong; a low value says that the
weights alone do not tell what the other method measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.records import AttentionLayer, AttentionRecord, Finding, TokenScores, Unit
from clearhead.inspection.sites import Stack

__all__ = ["agreement", "kendall", "spearman"]

_MOST_PAIRS = 2**22
"""Of columns in a block of rows: 16 MB for each method."""
_FEWEST_KEYS = 3
"""Two keys are ranked alike or the other way round, which says nothing of one row."""


def agreement(record: AttentionRecord, scores: Sequence[TokenScores]) -> list[Finding]:
    """For each head of the cross and decoder stacks: `<method>_tau` and `<method>_rho`, the means over predictions.

    τ is Kendall's τ-b, ρ Spearman's; both from −1 to 1. Signed scores enter by their absolute value. A prediction
    counts if at least 3 keys could be read and neither row has all its numbers equal; `<method>_predictions` is how
    many did. If none did the method is left out for that head. Of methods that read attention those are compared that
    read this very head or its whole layer, "attention" itself excepted; those that read another unit are not.

    Raises InputError for scores over another pair than the record's.
    """
    findings = []
    stacks: tuple[Stack, ...] = ("decoder", "cross")
    for stack in stacks:
        layers = [layer for layer in record.layers if layer.stack == stack]
        found: dict[tuple[Unit, int], list[tuple[Tensor, Tensor]]] = {}
        for rows in _blocks(layers[0].visible) if layers else ():
            known: dict[int, _Orders] = {}
            for layer, head in [(each, head) for each in layers for head in range(len(each.weights))]:
                unit, whole = Unit(stack, layer.layer, head + 1), Unit(stack, layer.layer)
                mine = _Orders.of(layer.weights[head, rows], layer.visible[rows])
                for place, each in enumerate(scores):
                    theirs = each.source if stack == "cross" else each.prefix
                    if each.method == "attention" or each.unit not in (None, unit, whole) or theirs is None:
                        continue
                    if place not in known:  # all layers of a stack hide the same keys
                        known[place] = _orders_of(each, theirs, layer, rows)
                    both = mine.kendall(known[place]), mine.spearman(known[place])
                    found.setdefault((unit, place), []).append(both)
        values: dict[Unit, dict[str, float]] = {}
        for (unit, place), parts in found.items():
            tau, rho = (torch.cat(each) for each in zip(*parts, strict=True))
            told = _told(scores[place].method, tau, rho, layers[0].visible)
            values[unit] = values.get(unit, {}) | told
        settings = {"fewest_keys": float(_FEWEST_KEYS)}
        findings += [Finding("agreement", unit, each, settings=settings) for unit, each in values.items() if each]
    return findings


def _blocks(visible: Bool[Tensor, "T S"]) -> list[slice]:
    """Few rows at a time: all pairs of columns of 1000 rows of 1000 would be 4 GB for every method."""
    rows = max(1, _MOST_PAIRS // visible.size(1) ** 2)
    return [slice(start, start + rows) for start in range(0, len(visible), rows)]


def _orders_of(scores: TokenScores, theirs: Tensor, layer: AttentionLayer, rows: slice) -> _Orders:
    if theirs.shape != layer.visible.shape:
        raise InputError(
            f"the scores of {scores.method} are {tuple(theirs.shape)}, the weights {tuple(layer.visible.shape)}: "
            "compare what was measured over one pair"
        )
    theirs = theirs[rows].to(layer.weights.device)
    return _Orders.of(theirs.abs() if scores.signed else theirs, layer.visible[rows])


def _told(method: str, tau: Tensor, rho: Tensor, visible: Bool[Tensor, "T S"]) -> dict[str, float]:
    enough = visible.sum(-1) >= _FEWEST_KEYS
    tau, rho = tau[enough], rho[enough]
    counted = ~tau.isnan()
    if not bool(counted.any()):
        return {}
    return {
        f"{method}_tau": float(tau[counted].mean()),
        f"{method}_rho": float(rho[counted].mean()),
        f"{method}_predictions": float(counted.sum()),
    }


@dataclass(frozen=True)
class _Orders:
    """How the columns of each row are ordered, worked out once for all comparisons.

    `signs` [T, S, S] is sign(x_i − x_j) of all pairs of columns, 0 where one does not count, in float32, in which their
    sums are exact; `unequal` [T] how many pairs are not tied; `ranks` [T, S] twice each rank less the mean rank.
    """

    signs: Tensor
    unequal: Tensor
    ranks: Tensor

    @classmethod
    def of(cls, x: Float[Tensor, "T S"], valid: Bool[Tensor, "T S"] | None) -> _Orders:
        # A rank less the mean rank is half of how many are smaller less how many are larger.
        signs = (x[:, :, None] - x[:, None, :]).sign().float()
        if valid is not None:
            signs = signs * (valid[:, :, None] & valid[:, None, :])
        return cls(signs, signs.abs().sum((1, 2)).double(), signs.sum(2).double())

    def kendall(self, other: _Orders) -> Float[Tensor, " T"]:
        together = (self.signs.flatten(1)[:, None] @ other.signs.flatten(1)[:, :, None]).flatten()
        return together.double() / (self.unequal * other.unequal).sqrt()

    def spearman(self, other: _Orders) -> Float[Tensor, " T"]:
        mine, theirs = self.ranks, other.ranks
        return (mine * theirs).sum(1) / (mine.square().sum(1) * theirs.square().sum(1)).sqrt()


def kendall(
    a: Float[Tensor, "T S"], b: Float[Tensor, "T S"], valid: Bool[Tensor, "T S"] | None = None
) -> Float[Tensor, " T"]:
    """Kendall's τ-b of each row (Kendall 1945): (C − D)/√((P − ties in a)(P − ties in b)) over all P pairs of columns.

    NaN where all numbers of a row are equal. `valid` marks the columns that count.

    >>> a, b = Tensor([[1.0, 2.0, 3.0]]), Tensor([[1.0, 3.0, 2.0]])
    >>> round(float(kendall(a, b)), 4)
    0.3333
    """
    return _Orders.of(a, valid).kendall(_Orders.of(b, valid))


def spearman(
    a: Float[Tensor, "T S"], b: Float[Tensor, "T S"], valid: Bool[Tensor, "T S"] | None = None
) -> Float[Tensor, " T"]:
    """Spearman's ρ of each row, with the mean rank for equal numbers: Pearson's correlation of the ranks.

    NaN where all numbers of a row are equal. `valid` marks the columns that count.
    """
    return _Orders.of(a, valid).spearman(_Orders.of(b, valid))
