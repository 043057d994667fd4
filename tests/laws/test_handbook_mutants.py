"""`clearhead verify` notices each of the classical mistakes, and names the facts that it moves.

Every mutant replaces a piece of production code by one that is wrong in a way that people have really written. The
facts that stay are named too: a verification that failed everywhere would find nothing.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import collate as collation
from clearhead.nn import cores, positions
from clearhead.nn.attention import Attention
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.embedding import Embedding
from clearhead.nn.residual import LAYER_NORM_EPSILON, Residual
from clearhead.nn.visibility import Visibility
from clearhead.objectives import cross_entropy
from clearhead.recipes.verify import verify
from clearhead.training import schedules

Patch = pytest.MonkeyPatch

WHOLE_MODEL = {"model.tiny_logits", "model.tiny_nll"}


def _scores(query: Tensor, key: Tensor) -> Tensor:
    return query @ cores.spread(key, query.shape[1]).mT / math.sqrt(query.shape[-1])


def _weigh(patch: Patch, weights: Callable[[Tensor, Tensor, Visibility], Tensor]) -> None:
    patch.setattr(ScaledDotProduct, "weights", lambda self, query, key, visibility: weights(query, key, visibility))


def missing_scale(patch: Patch) -> None:
    def weights(query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        scores = _scores(query, key) * math.sqrt(query.shape[-1])
        return (scores + visibility.bias(scores.dtype)).softmax(-1)

    _weigh(patch, weights)


def softmax_over_the_queries(patch: Patch) -> None:
    _weigh(patch, lambda query, key, visible: (_scores(query, key) + visible.bias(query.dtype)).softmax(-2))


def zeroed_after_the_softmax(patch: Patch) -> None:
    _weigh(patch, lambda query, key, visible: _scores(query, key).softmax(-1) * visible.mask)


def unmasked_decoder(patch: Patch) -> None:
    def causal(query: Tensor, key: Tensor) -> Visibility:
        return Visibility(torch.ones(query.shape[0], 1, query.shape[1], key.shape[1], dtype=torch.bool), query)

    patch.setattr(Visibility, "causal", staticmethod(causal))


def embedding_without_its_scale(patch: Patch) -> None:
    patch.setattr(Embedding, "forward", lambda self, ids: F.embedding(ids, self.weight))


def pre_norm_for_post_norm(patch: Patch) -> None:
    patch.setattr(Residual, "forward", lambda self, x, sublayer: x + sublayer(self.norm(x)))


def unbiased_variance(patch: Patch) -> None:
    def forward(self: nn.LayerNorm, x: Tensor) -> Tensor:
        return (x - x.mean(-1, True)) / (x.var(-1, correction=1, keepdim=True) + self.eps).sqrt()

    patch.setattr(nn.LayerNorm, "forward", forward)


def epsilon_outside_the_root(patch: Patch) -> None:
    def forward(self: nn.LayerNorm, x: Tensor) -> Tensor:
        return (x - x.mean(-1, True)) / (x.std(-1, correction=0, keepdim=True) + LAYER_NORM_EPSILON)

    patch.setattr(nn.LayerNorm, "forward", forward)


def sines_first_cosines_last(patch: Patch) -> None:
    right = positions.sinusoidal_table

    def table(count: int, d_model: int) -> Tensor:
        rows = right(count, d_model)
        return torch.cat([rows[:, 0::2], rows[:, 1::2]], -1)

    patch.setattr(positions, "sinusoidal_table", table)


def heads_split_by_a_reshape(patch: Patch) -> None:
    patch.setattr(Attention, "_split", lambda self, x, heads: x.reshape(x.shape[0], heads, x.shape[1], self.head_dim))


def labels_not_shifted(patch: Patch) -> None:
    right = collation.collate

    def collate(pairs: list[tuple[list[int], list[int]]]) -> collation.Batch:
        batch = right(pairs)
        return collation.Batch(batch.source, batch.prefix, batch.prefix)

    patch.setattr(collation, "collate", collate)


def smoothing_in_the_reported_loss(patch: Patch) -> None:
    right = cross_entropy.smoothed_cross_entropy

    def smoothed(logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        loss, _ = right(logits, gold, smoothing)
        return loss, loss.detach()

    patch.setattr(cross_entropy, "smoothed_cross_entropy", smoothed)


def smoothing_over_the_label_too(patch: Patch) -> None:
    def smoothed(logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        loss = F.cross_entropy(logits, gold, label_smoothing=smoothing, reduction="sum")
        return loss, F.cross_entropy(logits, gold, reduction="sum").detach()

    patch.setattr(cross_entropy, "smoothed_cross_entropy", smoothed)


def embedding_not_shared(patch: Patch) -> None:
    building = importlib.import_module("clearhead.models.build")  # `models.build` itself is the function
    patch.setattr(building, "tie", lambda encoder, decoder, config: None)


def rate_counted_from_zero(patch: Patch) -> None:
    right = schedules.rate
    patch.setattr(schedules, "rate", lambda kind, update, **more: right(kind, update + 1, **more))


MUTANTS: dict[Callable[[Patch], None], tuple[set[str], set[str]]] = {
    missing_scale: (
        {"attn.scores", "attn.weights", "attn.output", "causal.weights", "soft.variance_scaled_4", "cross.weights"}
        | {"learn.query_gradient"}
        | WHOLE_MODEL,
        {"attn.raw", "attn.row_sums", "heads.weights_1", "block.norm"},  # heads of width one have nothing to divide by
    ),
    softmax_over_the_queries: (
        {"attn.weights", "attn.row_sums", "attn.output", "causal.weights", "heads.weights_1"} | WHOLE_MODEL,
        {"attn.raw", "block.norm", "pos.pe"},
    ),
    zeroed_after_the_softmax: (
        {"causal.weights", "causal.output", "causal.exercise_weights"} | WHOLE_MODEL,
        {"attn.weights", "attn.output", "causal.posthoc", "causal.mask", "model.tiny_memory"},
    ),
    unmasked_decoder: (
        {"causal.mask", "causal.weights", "causal.output", "causal.pairs", "model.tiny_causality_change"} | WHOLE_MODEL,
        {"attn.weights", "causal.blank_row", "model.tiny_memory"},
    ),
    embedding_without_its_scale: (
        {"rep.x", "rep.sqrt_d", "rep.scaled_embedding", "pos.scaled_sum", "model.tiny_memory"} | WHOLE_MODEL,
        {"rep.row_of_id_7", "pos.sum", "attn.weights"},
    ),
    pre_norm_for_post_norm: (
        {"block.norm", "block.exercise_norm", "model.tiny_memory"} | WHOLE_MODEL,
        {"block.pre_norm", "block.ffn", "attn.output"},
    ),
    unbiased_variance: (
        {"block.norm", "block.variance", "block.exercise_norm", "block.exercise_variance", "block.pre_norm"}
        | {"model.tiny_memory"}
        | WHOLE_MODEL,
        {"block.residual", "block.mean", "block.unbiased_norm"},
    ),
    epsilon_outside_the_root: (
        {"block.norm", "block.exercise_norm", "block.pre_norm", "model.tiny_memory"} | WHOLE_MODEL,
        {"block.residual", "block.epsilon_outside"},
    ),
    sines_first_cosines_last: (
        {"pos.pe", "pos.sum", "pos.scaled_sum", "pos.half_layout", "pos.exercise", "model.tiny_memory"} | WHOLE_MODEL,
        {"attn.output", "rep.scaled_embedding"},
    ),
    heads_split_by_a_reshape: (
        {"heads.split_right", "heads.weights_1", "heads.result", "model.tiny_memory"} | WHOLE_MODEL,
        {"heads.split_wrong", "attn.output", "cross.output"},
    ),
    labels_not_shifted: ({"train.prefix_and_gold", "model.tiny_nll"}, {"model.tiny_logits", "train.nll"}),
    smoothing_in_the_reported_loss: (
        {"train.nll_reported", "model.tiny_nll"},
        {"train.nll", "train.smoothed_loss", "model.tiny_logits"},
    ),
    smoothing_over_the_label_too: (
        {"train.smoothed_target", "train.smoothed_loss", "train.smoothing_floor", "learn.smoothed_gradient"},
        {"train.nll", "train.nll_reported", "learn.gradient", "train.smoothing_floor_uniform"},
    ),
    embedding_not_shared: (
        {"params.base_total", "params.big_total", "model.tied_parameters", "rep.tied_shape", "rep.tied_output_shape"}
        | WHOLE_MODEL,
        {"model.untied_parameters", "params.base_encoder", "model.tiny_memory"},
    ),
    rate_counted_from_zero: ({"train.rate_1", "train.rate_peak", "train.rates"}, {"train.adam_update"}),
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_noticed_and_what_it_moved_is_named(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    moved, stands = MUTANTS[mutant]
    mutant(monkeypatch)
    failed = {check.fact for check in verify().failures}
    assert failed >= moved, f"unnoticed: {moved - failed}"
    assert not failed & stands


def test_without_a_mutant_both_roads_agree() -> None:
    report = verify()
    assert not report.failures
    named = {fact for moved, stands in MUTANTS.values() for fact in moved | stands}
    assert named <= {check.fact for check in report.checks}
