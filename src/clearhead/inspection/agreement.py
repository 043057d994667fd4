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

from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.records import AttentionLayer, AttentionRecord, Finding, TokenScores, Unit

__all__ = ["agreement", "kendall", "spearman"]

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
    known: dict[tuple[int, str], _Orders] = {}
    for layer in record.layers:
        if layer.stack == "encoder":
            continue
        whole = Unit(layer.stack, layer.layer)
        for head in range(len(layer.weights)):
            unit = Unit(layer.stack, layer.layer, head + 1)
            mine = _Orders.of(layer.weights[head], layer.visible)
            values: dict[str, float] = {}
            for place, each in enumerate(scores):
                theirs = each.source if layer.stack == "cross" else each.prefix
                if each.method == "attention" or each.unit not in (None, unit, whole) or theirs is None:
                    continue
                if (place, layer.stack) not in known:  # all layers of a stack hide the same keys
                    known[place, layer.stack] = _orders_of(each, theirs, layer)
                values |= _compared(each.method, mine, known[place, layer.stack], layer.visible)
            if values:
                findings.append(Finding("agreement", unit, values, settings={"fewest_keys": float(_FEWEST_KEYS)}))
    return findings


def _orders_of(scores: TokenScores, theirs: Tensor, layer: AttentionLayer) -> _Orders:
    if theirs.shape != layer.visible.shape:
        raise InputError(
            f"the scores of {scores.method} are {tuple(theirs.shape)}, the weights {tuple(layer.visible.shape)}: "
            "compare what was measured over one pair"
        )
    theirs = theirs.to(layer.weights.device)
    return _Orders.of(theirs.abs() if scores.signed else theirs, layer.visible)


def _compared(method: str, mine: _Orders, theirs: _Orders, visible: Bool[Tensor, "T S"]) -> dict[str, float]:
    enough = visible.sum(-1) >= _FEWEST_KEYS
    tau = mine.kendall(theirs)[enough]
    rho = mine.spearman(theirs)[enough]
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
