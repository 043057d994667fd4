"""Which words a prediction hangs on, asked of the model itself and not of its attention: gradients and occlusion.

Of three kinds: the gradient at the words as they are (here), integrated along a path (`integrated`), and the prediction
without a word (`occlusion`). They answer different questions, and none is the truth about what the model does.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from clearhead.inspection.embeddings import Embedded, GoldScores, Output
from clearhead.inspection.integrated import integrated_gradients
from clearhead.inspection.occlusion import occlusion
from clearhead.inspection.records import TokenScores
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["gradient_scores", "integrated_gradients", "occlusion"]


def gradient_scores(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], *, output: Output = "log_prob"
) -> list[TokenScores]:
    """Gradient × input and the gradient's norm, of every gold token's score with respect to every word read.

    `source` and `target` are ids without BOS and EOS. Gradient × input is the dot product of a word's vector x with
    ∂F/∂x (Denil et al. 2014; Shrikumar et al. 2017, §2.2): signed, the share of F if F were linear. The norm ‖∂F/∂x‖₂
    (Simonyan et al. 2014, §3; of word vectors Li et al. 2016, NAACL) says how fast F moves at all, never below 0;
    it is per unit of the vector as it enters, the factor √D included. F is the natural log of the gold token's
    probability, or its logit. Both are exact; a prefix token that a prediction has not read has exactly 0.

    The first of the two is "gradient-input", the second "gradient-norm". Raises InputError for an unknown `output`, a
    reserved token in the target, or an ensemble.
    """
    gold = GoldScores(model, source, target, output)
    found = list(gold.gradients(gold.words, range(gold.count)))
    gradients = Embedded(torch.cat([each.source for each in found]), torch.cat([each.prefix for each in found]))
    settings = {"output_log_prob": float(output == "log_prob")}
    by_source, by_prefix = (side.float().cpu() for side in gradients.dot(gold.words))
    of_source, of_prefix = (side.norm(dim=-1).float().cpu() for side in (gradients.source, gradients.prefix))
    return [
        TokenScores("gradient-input", by_source, by_prefix, signed=True, settings=settings),
        TokenScores("gradient-norm", of_source, of_prefix, signed=False, settings=dict(settings)),
    ]
