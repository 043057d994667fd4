"""Do a head's weights rank the tokens as other methods do?

Jain and Wallace 2019, §4.1, ask it by Kendall's τ between attention and measures by gradients or by leaving words out.
Here each row of a head, over the keys that the query could read, is compared with the row of a token method for the
same prediction: over the source for cross-attention, over the prefix for the decoder's self-attention. The encoder's
rows belong to no prediction and are not compared. Two methods may agree and both be wrong; a low value says that the
weights alone do not tell what the other method measures.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    for layer in record.layers:
        if layer.stack == "encoder":
            continue
        whole = Unit(layer.stack, layer.layer)
        for head in range(len(layer.weights)):
            unit = Unit(layer.stack, layer.layer, head + 1)
            values: dict[str, float] = {}
            for each in scores:
                if each.method != "attention" and each.unit in (None, unit, whole):
                    values |= _compared(layer, head, each)
            if values:
                findings.append(Finding("agreement", unit, values, settings={"fewest_keys": float(_FEWEST_KEYS)}))
    return findings


def _compared(layer: AttentionLayer, head: int, scores: TokenScores) -> dict[str, float]:
    theirs = scores.source if layer.stack == "cross" else scores.prefix
    if theirs is None:
        return {}
    weights = layer.weights[head].double()
    if theirs.shape != weights.shape:
        raise InputError(
            f"the scores of {scores.method} are {tuple(theirs.shape)}, the weights {tuple(weights.shape)}: "
            "compare what was measured over one pair"
        )
    theirs = theirs.double().to(weights.device)
    theirs = theirs.abs() if scores.signed else theirs
    enough = layer.visible.sum(-1) >= _FEWEST_KEYS
    tau = kendall(weights, theirs, layer.visible)[enough]
    rho = spearman(weights, theirs, layer.visible)[enough]
    counted = ~tau.isnan()
    if not bool(counted.any()):
        return {}
    return {
        f"{scores.method}_tau": float(tau[counted].mean()),
        f"{scores.method}_rho": float(rho[counted].mean()),
        f"{scores.method}_predictions": float(counted.sum()),
    }


def kendall(
    a: Float[Tensor, "T S"], b: Float[Tensor, "T S"], valid: Bool[Tensor, "T S"] | None = None
) -> Float[Tensor, " T"]:
    """Kendall's τ-b of each row (Kendall 1945): (C − D)/√((P − ties in a)(P − ties in b)) over all P pairs of columns.

    NaN where all numbers of a row are equal. `valid` marks the columns that count.

    >>> a, b = Tensor([[1.0, 2.0, 3.0]]), Tensor([[1.0, 3.0, 2.0]])
    >>> round(float(kendall(a, b)), 4)
    0.3333
    """
    mine, theirs = _orders(a, valid), _orders(b, valid)
    together = (mine * theirs).sum((1, 2))
    return together / ((mine != 0).sum((1, 2)).double() * (theirs != 0).sum((1, 2))).sqrt()


def spearman(
    a: Float[Tensor, "T S"], b: Float[Tensor, "T S"], valid: Bool[Tensor, "T S"] | None = None
) -> Float[Tensor, " T"]:
    """Spearman's ρ of each row, with the mean rank for equal numbers: Pearson's correlation of the ranks.

    NaN where all numbers of a row are equal. `valid` marks the columns that count.
    """
    # A rank less the mean rank is half of how many are smaller less how many are larger.
    mine, theirs = _orders(a, valid).sum(2), _orders(b, valid).sum(2)
    return (mine * theirs).sum(1) / (mine.square().sum(1) * theirs.square().sum(1)).sqrt()


def _orders(x: Tensor, valid: Tensor | None) -> Float[Tensor, "T S S"]:
    """sign(x_i − x_j) for all pairs of columns of a row; 0 where one does not count."""
    order = (x[:, :, None] - x[:, None, :]).sign().double()
    return order if valid is None else order * (valid[:, :, None] & valid[:, None, :])
