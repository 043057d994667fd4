"""Every method that says how much each token counted for each prediction, run over one pair."""

from __future__ import annotations

from clearhead.inspection.attribution import gradient_scores
from clearhead.inspection.integrated import integrated_gradients, most_points
from clearhead.inspection.occlusion import occlusion
from clearhead.inspection.records import AttentionRecord, TokenScores
from clearhead.inspection.rollout import rollout
from clearhead.inspection.token_readings import attention_scores
from clearhead.inspection.value_norms import value_norms
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.windows import LocalPredictiveCore
from clearhead.recipes.inspect.pair import InspectedPair
from clearhead.recipes.inspect.stages import Stage, Stages

__all__ = ["token_scores"]

_FIRST_STEPS, _MOST_STEPS = 32, 1024
_MOST_STEPS_WITH_JUMPS = 128
"""For a model whose score jumps along the path, as with Luong's local-p window (2015, §3.2), which words enter and
leave: no number of steps closes the sum, so all predictions would go on to the last. Four times the first steps show
that it does not close, and the result is marked so."""


def token_scores(
    model: Seq2Seq, pair: InspectedPair, record: AttentionRecord, *, gradients: bool, stage: Stage | None = None
) -> list[TokenScores]:
    """Readings of attention, where there is any; with `gradients` also the methods that ask the model itself."""
    source, target, stages = pair.source, pair.target, Stages(stage)
    scores = attention_scores(record) if record.layers else []
    scores += value_norms(model, source, target)
    rolled = rollout(record)
    scores += [] if rolled is None else [rolled]
    if gradients:
        stages.begin("gradients")
        scores += gradient_scores(model, source, target)
        scores.append(_integrated(model, pair, stages))
        stages.begin("occlusion")
        scores.append(occlusion(model, source, target))
    return scores


def _integrated(model: Seq2Seq, pair: InspectedPair, stages: Stages) -> TokenScores:
    jumps = any(isinstance(module, LocalPredictiveCore) for module in model.modules())
    most = _MOST_STEPS_WITH_JUMPS if jumps else _MOST_STEPS
    count = len(pair.target) + 1
    progress = stages.begin(
        f"integrated gradients: {_FIRST_STEPS} to {most_points(_FIRST_STEPS, most)} gradients for each of {count} "
        "predictions",
        count,
    )
    return integrated_gradients(
        model, pair.source, pair.target, first_steps=_FIRST_STEPS, most_steps=most, progress=progress
    )
