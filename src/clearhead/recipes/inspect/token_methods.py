"""Every method that says how much each token counted for each prediction, run over one pair."""

from __future__ import annotations

from collections.abc import Callable

from clearhead.inspection.attribution import gradient_scores
from clearhead.inspection.integrated import integrated_gradients
from clearhead.inspection.occlusion import occlusion
from clearhead.inspection.records import AttentionRecord, TokenScores
from clearhead.inspection.rollout import rollout
from clearhead.inspection.token_readings import attention_scores
from clearhead.inspection.value_norms import value_norms
from clearhead.models.seq2seq import Seq2Seq
from clearhead.recipes.inspect.pair import InspectedPair

__all__ = ["Stage", "token_scores"]

Stage = Callable[[str], None]
"""Told the name of what begins now."""


def token_scores(
    model: Seq2Seq, pair: InspectedPair, record: AttentionRecord, *, gradients: bool, stage: Stage
) -> list[TokenScores]:
    """Readings of attention, where there is any; with `gradients` also the methods that ask the model itself."""
    source, target = pair.source, pair.target
    scores = attention_scores(record) if record.layers else []
    scores += value_norms(model, source, target)
    rolled = rollout(record)
    scores += [] if rolled is None else [rolled]
    if gradients:
        stage("gradients")
        scores += gradient_scores(model, source, target)
        stage("integrated gradients")
        scores.append(integrated_gradients(model, source, target))
        stage("occlusion")
        scores.append(occlusion(model, source, target))
    return scores
