"""Occlusion: what the model says when one word is not there (Zeiler and Fergus 2014, §4.2).

A word's vector gives way to the baseline's, one word at a time, while its position and the length of the text stay; the
score of a word for a prediction is the log-probability that its absence costs the gold token (as Li et al. 2016,
"representation erasure", but a difference in nats, where they divide by the whole). Two words that can stand in for
each other both score low.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.embeddings import Baseline, Embedded, GoldScores
from clearhead.inspection.records import TokenScores
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["occlusion"]


def occlusion(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    *,
    baseline: Baseline = "pad",
    batch_tokens: int = 4096,
) -> TokenScores:
    """log p(gold t | everything) − log p(gold t | everything but one token), for each token of source and prefix.

    `source` and `target` are ids without BOS and EOS; EOS of the source and BOS of the prefix are taken away in turn,
    too. In nats, signed: below 0 the token had spoken against. A prefix token cannot change a prediction that has not
    read it: 0 there. S + T texts are read besides the whole one, at most `batch_tokens` vectors (texts × (S + T)) at
    once. Raises InputError for an unknown baseline, a reserved token in the target, or an ensemble.
    """
    if batch_tokens < 1:
        raise InputError(f"batch_tokens = {batch_tokens} must be at least 1")
    gold = GoldScores(model, source, target, "log_prob")
    lost = _losses(gold, gold.injection.nothing(gold.words, baseline), max(1, batch_tokens // gold.words.tokens))
    length = gold.words.source.shape[1]
    source_scores, prefix_scores = lost[:, :length], lost[:, length:]
    return TokenScores(
        "occlusion",
        source_scores.float().cpu(),
        prefix_scores.tril().float().cpu(),  # elsewhere nothing but the rounding of another place in the batch
        signed=True,
        settings={"baseline_pad": float(baseline == "pad")},
    )


def _losses(gold: GoldScores, nothing: Embedded, rows: int) -> Float[Tensor, "T ST"]:
    """What each prediction (row) loses without each token of the source, then of the prefix (columns)."""
    whole = gold.scores(gold.words)[0]
    missing = torch.arange(gold.words.tokens, device=whole.device)
    length = gold.words.source.shape[1]
    losses = []
    for first in range(0, len(missing), rows):
        part = missing[first : first + rows]
        text = Embedded(
            _without(gold.words.source, nothing.source, part),
            _without(gold.words.prefix, nothing.prefix, part - length),
        )
        losses.append(whole - gold.scores(text))
    return torch.cat(losses).T


def _without(words: Float[Tensor, "1 L D"], nothing: Float[Tensor, "1 L D"], places: Tensor) -> Float[Tensor, "R L D"]:
    """`words` once for each of `places` [R], with that place emptied; places beside the text empty nothing."""
    emptied = torch.arange(words.shape[1], device=words.device) == places[:, None]  # [R, L]
    return torch.where(emptied[:, :, None], nothing, words)
