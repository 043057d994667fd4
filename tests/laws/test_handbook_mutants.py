"""`clearhead verify` notices each of the classical mistakes, and names the facts that it moves.

Every mutant replaces a piece of production code by one that is wrong in a way that people have really written. The
facts that stay are named too: a verification that failed everywhere would find nothing.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import collate as collation
from clearhead.decoding import penalties
from clearhead.models import presets, transformer
from clearhead.models.protocols import Memory
from clearhead.models.transformer import InputLayer, TransformerDecoder, TransformerEncoder, TransformerState
from clearhead.nn import cores, positions, scores
from clearhead.nn.attention import Attention
from clearhead.nn.cache import Kept
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.dropout import Dropout
from clearhead.nn.embedding import Embedding, Projection
from clearhead.nn.lstm import LstmCell
from clearhead.nn.padding import Padded
from clearhead.nn.residual import LAYER_NORM_EPSILON, Residual
from clearhead.nn.visibility import Visibility
from clearhead.nn.windows import LocalPredictiveCore
from clearhead.objectives import cross_entropy
from clearhead.objectives.cross_entropy import CrossEntropy
from clearhead.recipes.handbook import constants
from clearhead.recipes.verify import verify
from clearhead.training import schedules
from clearhead.training.config import Adam

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


# ------------------------------------------------------------------------ what one layer, one sentence, one pass hide


def cross_attention_of_the_first_layer(patch: Patch) -> None:
    right = TransformerDecoder.start

    def start(self: TransformerDecoder, memory: Memory) -> TransformerState:
        state = right(self, memory)
        return replace(state, sources=state.sources[:1] * len(state.sources))

    patch.setattr(TransformerDecoder, "start", start)


def layers_in_reverse(patch: Patch) -> None:
    right = TransformerEncoder.forward

    def forward(self: TransformerEncoder, source: Padded) -> Memory:
        layers, self.layers = self.layers, nn.ModuleList(reversed(self.layers))
        memory = right(self, source)
        self.layers = layers
        return memory

    patch.setattr(TransformerEncoder, "forward", forward)


def padding_is_read(patch: Patch) -> None:
    right = Visibility.of_keys
    patch.setattr(Visibility, "of_keys", staticmethod(lambda mask: right(torch.ones_like(mask))))


def every_sentence_has_the_first_ones_mask(patch: Patch) -> None:
    right = Visibility.causal
    patch.setattr(Visibility, "causal", staticmethod(lambda query, key: right(query, key[:1])))


def hypotheses_keep_their_places(patch: Patch) -> None:
    right = Kept.rows
    patch.setattr(Kept, "rows", lambda self, index: right(self, index.sort().values))


def the_cache_forgets_where_it_is(patch: Patch) -> None:
    right = TransformerDecoder.advance

    def advance(self: TransformerDecoder, tokens: Padded, state: TransformerState) -> tuple[Tensor, TransformerState]:
        hidden, after = right(self, tokens, state)
        return hidden, replace(after, positions=state.positions)

    patch.setattr(TransformerDecoder, "advance", advance)


def later_keys_come_first(patch: Patch) -> None:
    right = Kept.append
    patch.setattr(Kept, "append", lambda self, later: right(later, self) if self.keys.shape[2] else later)


def hypotheses_read_each_others_answers(patch: Patch) -> None:
    patch.setattr(Attention, "_unfold", lambda self, context, rows, length: _by_length(context, rows, length))


def _by_length(context: Tensor, rows: int, length: int) -> Tensor:
    sentences, heads, _, width = context.shape
    context = context.view(sentences, heads, length, rows // sentences, width).permute(0, 3, 1, 2, 4)
    return context.reshape(rows, heads, length, width)


def _fused(patch: Patch, **wrong: Any) -> None:
    right = F.scaled_dot_product_attention
    patch.setattr(F, "scaled_dot_product_attention", lambda *inputs, **more: right(*inputs, **{**more, **wrong}))


def fused_kernel_without_its_scale(patch: Patch) -> None:
    _fused(patch, scale=1.0)


def fused_kernel_without_its_mask(patch: Patch) -> None:
    _fused(patch, attn_mask=None)


def groups_that_are_no_neighbours(patch: Patch) -> None:
    patch.setattr(cores, "spread", lambda shared, heads: shared.repeat(1, heads // shared.shape[1], 1, 1))


def pre_norm_without_a_last_norm(patch: Patch) -> None:
    patch.setattr(transformer, "final_norm", lambda config: nn.Identity())


def slower_second_moment(patch: Patch) -> None:
    patch.setattr(constants, "Adam", lambda: Adam(beta2=0.999))  # as if it were the default


def larger_epsilon(patch: Patch) -> None:
    patch.setattr(constants, "Adam", lambda: Adam(epsilon=1e-8))


def dropout_without_its_scale(patch: Patch) -> None:
    patch.setattr(Dropout, "forward", lambda self, x: x * (torch.rand_like(x) >= self.rate) if self.training else x)


def dropout_after_the_norm(patch: Patch) -> None:
    patch.setattr(Residual, "forward", lambda self, x, sublayer: self.dropout(self.norm(x + sublayer(x))))


def dropout_before_and_after_the_norm(patch: Patch) -> None:
    right = Residual.forward
    patch.setattr(Residual, "forward", lambda self, x, sublayer: self.dropout(right(self, x, sublayer)))


def input_without_dropout(patch: Patch) -> None:
    def forward(self: InputLayer, ids: Tensor, places: Tensor) -> Tensor:
        embedded = self.embedding(ids)
        return embedded + self.positions(places, embedded)

    patch.setattr(InputLayer, "forward", forward)


def embeddings_of_deviation_one(patch: Patch) -> None:
    right = nn.init.normal_
    patch.setattr(nn.init, "normal_", lambda tensor, *_, generator=None, **__: right(tensor, generator=generator))


def another_start_of_the_maps(patch: Patch) -> None:
    patch.setattr(nn.init, "xavier_uniform_", nn.init.kaiming_uniform_)


def loss_over_the_padding_too(patch: Patch) -> None:
    right = CrossEntropy.__call__

    def call(self: CrossEntropy, model: Any, batch: Any) -> Any:
        return replace(right(self, model, batch), count=batch.gold.ids.numel())

    patch.setattr(CrossEntropy, "__call__", call)


def gradient_of_the_sum_whatever_comes_back(patch: Patch) -> None:
    right = cross_entropy._SmoothedCrossEntropy.backward

    def backward(context: Any, grad: Tensor, *rest: Any) -> Any:
        return right(context, torch.ones_like(grad), *rest)

    patch.setattr(cross_entropy._SmoothedCrossEntropy, "backward", staticmethod(backward))


def smoothing_of_a_fifth(patch: Patch) -> None:
    patch.setattr(CrossEntropy.__init__, "__defaults__", (0.2,))


def dropout_of_big_as_in_base(patch: Patch) -> None:
    right = presets.big
    patch.setattr(presets, "big", lambda size, **more: right(size, **{"dropout": 0.1, **more}))


def divisor_upside_down(patch: Patch) -> None:
    right = penalties.divisor

    def divisor(kind: Any, alpha: float, length: int) -> float:
        return right(kind, -alpha if kind == "length" else alpha, length)

    patch.setattr(penalties, "divisor", divisor)


def first_rows_for_the_chosen(patch: Patch) -> None:
    right = Projection.forward

    def forward(self: Projection, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        return right(self, hidden) if vocabulary is None else right(self, hidden)[..., : len(vocabulary)]

    patch.setattr(Projection, "forward", forward)


# ------------------------------------------------------------------------------------------------------ the ancestors


def cell_that_forgets_by_the_input_gate(patch: Patch) -> None:
    def recur(self: LstmCell, drive: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        admit, _, candidate, emit = (drive + F.linear(state[0], self.hidden_weight)).chunk(4, -1)
        cell = (1 - admit.sigmoid()) * state[1] + admit.sigmoid() * candidate.tanh()
        return emit.sigmoid() * cell.tanh(), cell

    patch.setattr(LstmCell, "recur", recur)


def energies_without_a_tanh(patch: Patch) -> None:
    patch.setattr(
        scores, "_energy", lambda query, key, reading: reading(query[:, :, :, None] + key[:, :, None])[..., 0]
    )


def gaussian_made_to_sum_to_one(patch: Patch) -> None:
    right = LocalPredictiveCore.weights

    def weights(self: LocalPredictiveCore, query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        return F.normalize(right(self, query, key, visibility), p=1.0, dim=-1)

    patch.setattr(LocalPredictiveCore, "weights", weights)


HIDDEN_MUTANTS: dict[Callable[[Patch], None], tuple[set[str], set[str]]] = {
    cross_attention_of_the_first_layer: ({"model.deep_logits"}, {"model.deep_memory", "model.tiny_logits"}),
    layers_in_reverse: ({"model.deep_memory", "model.deep_logits"}, {"model.tiny_memory"}),
    padding_is_read: ({"model.deep_batch_memory", "model.deep_batch_logits"}, {"model.deep_logits"}),
    every_sentence_has_the_first_ones_mask: ({"model.deep_batch_logits"}, {"model.deep_logits", "causal.mask"}),
    hypotheses_keep_their_places: ({"model.deep_step_logits"}, {"model.deep_batch_logits"}),
    the_cache_forgets_where_it_is: ({"model.deep_step_logits"}, {"model.deep_batch_logits"}),
    later_keys_come_first: ({"model.deep_step_logits"}, {"model.deep_batch_logits"}),
    hypotheses_read_each_others_answers: ({"model.deep_step_logits"}, {"model.deep_batch_logits"}),
    fused_kernel_without_its_scale: ({"attn.long_output", "causal.long_output"}, {"attn.output"}),
    fused_kernel_without_its_mask: ({"causal.long_output"}, {"attn.long_output", "causal.output"}),
    groups_that_are_no_neighbours: ({"heads.grouped_result"}, {"heads.result"}),
    pre_norm_without_a_last_norm: ({"model.pre_logits"}, {"model.deep_logits", "block.pre_norm"}),
    slower_second_moment: ({"train.adam_second", "train.defaults"}, {"train.adam_update"}),
    larger_epsilon: ({"train.adam_second"}, {"train.defaults"}),
    dropout_without_its_scale: (
        {"train.dropout_values", "train.dropout_before_sum", "train.dropout_of_input"},
        {"train.dropout_after_norm"},
    ),
    dropout_after_the_norm: ({"train.dropout_before_sum"}, {"block.norm"}),
    dropout_before_and_after_the_norm: ({"train.dropout_after_norm"}, {"train.dropout_before_sum", "block.norm"}),
    input_without_dropout: ({"train.dropout_of_input"}, {"pos.scaled_sum", "train.dropout_values"}),
    embeddings_of_deviation_one: ({"model.initial_spread"}, {"model.deep_logits"}),
    another_start_of_the_maps: ({"model.initial_spread"}, {"model.deep_logits"}),
    loss_over_the_padding_too: ({"model.deep_nll"}, {"model.tiny_nll"}),
    gradient_of_the_sum_whatever_comes_back: ({"train.halved_gradient"}, {"learn.gradient"}),
    smoothing_of_a_fifth: ({"train.defaults"}, {"train.smoothed_loss"}),
    dropout_of_big_as_in_base: ({"model.dropout"}, {"params.big_total"}),
    divisor_upside_down: ({"search.plain_lengths"}, {"search.length_penalty"}),
    first_rows_for_the_chosen: ({"model.deep_chosen_logits"}, {"model.deep_logits"}),
    cell_that_forgets_by_the_input_gate: (
        {"rnn.gate_path", "rnn.gate", "rnn.half_life"},
        {"rnn.shrinking", "rnn.tanh_factor", "rnn.lstm_parameters"},
    ),
    energies_without_a_tanh: (
        {"bahdanau.energies", "bahdanau.weights", "bahdanau.context"},
        {"bahdanau.sums", "bahdanau.width"},
    ),
    gaussian_made_to_sum_to_one: (
        {"luong.gaussian", "luong.local_weights", "luong.local_sum"},
        {"luong.centre", "luong.window", "luong.local_renormalised"},
    ),
}


@pytest.mark.parametrize("mutant", HIDDEN_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_what_a_lesson_does_not_show_is_noticed_too(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    moved, stands = HIDDEN_MUTANTS[mutant]
    mutant(monkeypatch)
    assert {check.fact for check in verify(sorted(moved | stands)).failures} == moved


def test_without_a_mutant_both_roads_agree() -> None:
    report = verify()
    assert not report.failures
    named = {fact for moved, stands in (*MUTANTS.values(), *HIDDEN_MUTANTS.values()) for fact in moved | stands}
    assert named <= {check.fact for check in report.checks}
