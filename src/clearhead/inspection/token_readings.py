"""What attention weights by themselves say of tokens: the rows of a layer, its heads averaged.

They tell what was read, not what it was worth: see `value_norms` for how long the vectors were that were read, and
`rollout` for weights followed through the layers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.records import AttentionRecord, TokenScores, Unit

__all__ = ["attention_scores"]


def attention_scores(record: AttentionRecord, units: Sequence[Unit] | None = None) -> list[TokenScores]:
    """Method "attention", one a unit: by default every layer that reads the source or the target so far.

    A unit of "cross" has `source` [T, S], one of "decoder" `prefix` [T, T]; a unit without a head is the mean over the
    heads of its layer, one without a layer the mean over all heads of its stack. Not signed. Raises InputError for a
    unit that the record does not have, and for the encoder's: its rows are not predictions.
    """
    if units is None:
        units = [Unit(layer.stack, layer.layer) for layer in record.layers if layer.stack != "encoder"]
    found = []
    for unit in units:
        weights = _mean(record, unit)
        source, prefix = (weights, None) if unit.stack == "cross" else (None, weights)
        found.append(TokenScores("attention", source, prefix, signed=False, unit=unit))
    return found


def _mean(record: AttentionRecord, unit: Unit) -> Float[Tensor, "T S"]:
    if unit.stack == "encoder":
        raise InputError("the encoder's rows are source tokens, not predictions: name a unit of decoder or cross")
    layers = [layer for layer in record.layers if layer.stack == unit.stack and unit.layer in (None, layer.layer)]
    if not layers:
        raise InputError(f"the record has no attention at {unit.stack} {unit.layer or ''}".rstrip())
    weights = torch.cat([layer.weights for layer in layers])
    if unit.head is None:
        return weights.mean(0)
    if unit.layer is None or not 0 < unit.head <= len(weights):
        raise InputError(f"there is no head {unit.head} at {unit.stack} {unit.layer}: heads count from 1")
    return weights[unit.head - 1]
