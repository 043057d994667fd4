"""Every law on every encoder × decoder pair; then each law against faults of the parts that it must catch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.inspection.recorders import recording_twin
from clearhead.models import attentive_decoders, convolutional_decoders, recurrent
from clearhead.models.attentive_decoders import AttentiveState, BahdanauDecoder, LuongDecoder
from clearhead.models.convolutional import ConvolutionalEncoder, PlacedInput
from clearhead.models.convolutional_decoders import AskingBlock, ConvS2SDecoder
from clearhead.models.recurrent import RecurrentState
from clearhead.models.transformer import TransformerDecoder, TransformerEncoder
from clearhead.nn import attentive_sweep
from clearhead.nn.convolution import Convolution, DilatedBlock, GatedBlock
from clearhead.nn.cores import Core
from clearhead.nn.padding import Padded
from clearhead.nn.visibility import Visibility
from clearhead.nn.windows import GlobalCore, LocalPredictiveCore
from tests.laws.model_laws import LAWS, PAIRS, PREFIXES, SOURCES

Patch = pytest.MonkeyPatch
every_pair = pytest.mark.parametrize("make", PAIRS.values(), ids=PAIRS.keys())


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@every_pair
def test_law(make: Callable[[], Any], law: Callable[[Any], None]) -> None:
    law(make())


@every_pair
def test_who_attends_has_a_core(make: Callable[[], Any]) -> None:
    """The law of the cores says nothing of a model without one, so none may lose its own."""
    model = make()
    attentive = (BahdanauDecoder, LuongDecoder, AskingBlock, ConvS2SDecoder, TransformerDecoder, TransformerEncoder)
    with_core = [path for path, module in model.named_modules() if isinstance(module, attentive)]
    assert all(any(isinstance(part, Core) for part in model.get_submodule(path).modules()) for path in with_core)


@every_pair
def test_the_twin_agrees_to_the_last_bit(make: Callable[[], Any]) -> None:
    """A core that is called once a step gives one record, whose weights are those that mixed the values."""
    model = make()
    copied, recording = recording_twin(model)
    pair = Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES)
    with torch.no_grad():
        assert torch.equal(copied(*pair), model(*pair))
    assert recording.attention.keys() == {path for path, part in model.named_modules() if isinstance(part, Core)}
    for record in recording.attention.values():
        torch.testing.assert_close(record.weights @ record.value, record.mixed, rtol=1e-10, atol=1e-10)
        assert record.weights.shape[-2] in {max(map(len, lines)) for lines in (SOURCES, PREFIXES)}


# ------------------------------------------------------------------------------------------------------------- faults


def h_tilde_stays_where_it_was(patch: Patch) -> None:
    """A beam that reorders the LSTM's state and not what input feeding feeds."""
    right = RecurrentState.rows

    def rows(self: RecurrentState, index: Tensor) -> RecurrentState:
        after = right(self, index)
        places = torch.arange(len(after.positions)) % len(self.positions)
        return dataclasses.replace(after, fed=self.fed.index_select(0, places))

    patch.setattr(RecurrentState, "rows", rows)


def c_stays_where_it_was(patch: Patch) -> None:
    right = RecurrentState.rows

    def rows(self: RecurrentState, index: Tensor) -> RecurrentState:
        after = right(self, index)
        places = torch.arange(len(after.positions)) % len(self.positions)
        layers = tuple((new[0], old[1].index_select(0, places)) for new, old in zip(after.layers, self.layers))
        return dataclasses.replace(after, layers=layers)

    patch.setattr(RecurrentState, "rows", rows)


def a_moved_sentence_leaves_its_source(patch: Patch) -> None:
    right = AttentiveState.rows

    def rows(self: AttentiveState, index: Tensor) -> AttentiveState:
        after = right(self, index)
        places = torch.arange(len(after.source_mask))
        return dataclasses.replace(after, source=self.source.rows(places), source_mask=self.source_mask[places])

    patch.setattr(AttentiveState, "rows", rows)


def the_state_is_that_after_the_padding(patch: Patch) -> None:
    patch.setattr(attentive_decoders, "after_each_row", lambda steps, lengths: steps[-1])


def the_source_padding_is_read(patch: Patch) -> None:
    right = AttentiveState.visibility
    patch.setattr(
        AttentiveState,
        "visibility",
        lambda self, steps: dataclasses.replace(
            right(self, steps), mask=torch.ones_like(self.source_mask)[:, None, None]
        ),
    )


def the_padded_row_is_reversed(patch: Patch) -> None:
    patch.setattr(recurrent, "reverse_within", lambda x, lengths: x.flip(1))


def windows_start_again_with_every_call(patch: Patch) -> None:
    right = AttentiveState.visibility

    def visibility(self: AttentiveState, steps: int) -> Visibility:
        found = right(self, steps)
        assert found.query_positions is not None
        return dataclasses.replace(found, query_positions=found.query_positions - self.positions.min())

    patch.setattr(AttentiveState, "visibility", visibility)


def beams_folded_the_wrong_way(patch: Patch) -> None:
    def ask(self: AttentiveState, core: Core, query: Tensor, visibility: Visibility) -> Tensor:
        sentences = self.source_mask.shape[0]
        folded = query.reshape(-1, sentences, *query.shape[1:]).transpose(0, 1)  # as if row k·B + b were b's
        found = core(
            folded.reshape(sentences, 1, -1, query.shape[-1]), self.source.keys, self.source.values, visibility
        )
        return found.reshape(*query.shape[:2], -1)

    patch.setattr(AttentiveState, "ask", ask)


def join_swaps_the_sources(patch: Patch) -> None:
    right = AttentiveState.join

    def join(self: AttentiveState, other: AttentiveState) -> AttentiveState:
        return dataclasses.replace(right(self, other), source=other.source.join(self.source))

    patch.setattr(AttentiveState, "join", join)


def the_loop_runs_backwards(patch: Patch) -> None:
    """What a decoder reads of the target is turned round, as only a source may be."""
    right = LuongDecoder.advance

    def advance(self: LuongDecoder, tokens: Padded, state: AttentiveState) -> Any:
        return right(self, Padded(tokens.ids.flip(1), tokens.lengths), state)

    patch.setattr(LuongDecoder, "advance", advance)


def a_blank_query_reads_everything(patch: Patch) -> None:
    patch.setattr(Visibility, "blank", None)


class MinusInfinity(Visibility):
    """Hides by −∞ and forgets the queries that may read nothing."""

    blank = None

    def bias(self, dtype: torch.dtype) -> Tensor:
        return torch.zeros(self.mask.shape, dtype=dtype).masked_fill(~self.mask, -torch.inf)


def a_mean_over_nothing(patch: Patch) -> None:
    """Weights divided by their sum once more, as the chapter has it: 0/0 where nothing may be read."""
    right = GlobalCore.weights

    def weights(self: GlobalCore, query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        found = right(self, query, key, visibility)
        return found / found.sum(-1, keepdim=True)

    patch.setattr(GlobalCore, "weights", weights)
    patch.setattr(attentive_sweep, "Visibility", MinusInfinity)  # 0/0 of the pass that works without the core


def local_p_is_mixed_without_its_gaussian(patch: Patch) -> None:
    def forward(self: LocalPredictiveCore, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        return GlobalCore.weights(self, query, key, visibility) @ value

    patch.setattr(LocalPredictiveCore, "forward", forward)


# What is told of a convolution's past stands in `RecurrentState.layers`, where a recurrent layer keeps h.


def the_past_stays_where_it_was(patch: Patch) -> None:
    """A beam that reorders the words and not what the convolutions look back at."""
    right = RecurrentState.rows

    def rows(self: RecurrentState, index: Tensor) -> RecurrentState:
        after = right(self, index)
        places = torch.arange(len(after.positions)) % len(self.positions)
        layers = tuple(tuple(part.index_select(0, places) for part in layer) for layer in self.layers)
        return dataclasses.replace(after, layers=layers)

    patch.setattr(RecurrentState, "rows", rows)


def the_past_is_what_stands_last(patch: Patch) -> None:
    """The last inputs of the rectangle, where the row's own end further left."""
    right = Convolution.advance

    def advance(self: Convolution, x: Tensor, lengths: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        return right(self, x, torch.full_like(lengths, x.shape[1]), past)

    patch.setattr(Convolution, "advance", advance)


def the_past_is_forgotten(patch: Patch) -> None:
    right = Convolution.advance

    def advance(self: Convolution, x: Tensor, lengths: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        return right(self, x, lengths, torch.zeros_like(past))

    patch.setattr(Convolution, "advance", advance)


def a_kernel_reads_the_padding(patch: Patch) -> None:
    for block in (GatedBlock, DilatedBlock):
        right = block.forward

        def forward(self: Any, x: Tensor, mask: Tensor, right: Callable[..., Tensor] = right) -> Tensor:
            return right(self, x, torch.ones_like(mask))

        patch.setattr(block, "forward", forward)


def a_kernel_looks_one_ahead(patch: Patch) -> None:
    right = Convolution.advance

    def advance(self: Convolution, x: Tensor, lengths: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        _, after = right(self, x, lengths, past)
        seen = torch.cat([past, x, torch.zeros_like(x[:, :1])], 1)
        return self._over(seen[:, 1:]), after

    patch.setattr(Convolution, "advance", advance)


def places_start_again_with_every_call(patch: Patch) -> None:
    right = PlacedInput.forward

    def forward(self: PlacedInput, ids: Tensor, positions: Tensor) -> Tensor:
        return right(self, ids, torch.arange(ids.shape[1]).expand_as(ids))

    patch.setattr(PlacedInput, "forward", forward)


def every_source_counts_as_the_longest(patch: Patch) -> None:
    """√m of the rectangle's width, padding counted."""
    right = AskingBlock.forward

    def forward(self: AskingBlock, *inputs: Any) -> Any:
        *rest, state, visibility = inputs
        whole = dataclasses.replace(state, source_mask=torch.ones_like(state.source_mask))
        return right(self, *rest, whole, visibility)

    patch.setattr(AskingBlock, "forward", forward)


def the_summary_counts_the_padding(patch: Patch) -> None:
    right = ConvolutionalEncoder.forward

    def forward(self: ConvolutionalEncoder, source: Padded) -> Any:
        memory = right(self, source)
        return dataclasses.replace(memory, summary=memory.keys.mean(1))

    patch.setattr(ConvolutionalEncoder, "forward", forward)


def the_neighbours_columns_are_read(patch: Patch) -> None:
    """As if row k·B + b were sentence b's."""
    right = convolutional_decoders._columns

    def columns(state: AttentiveState, length: int) -> Tensor:
        rows, sentences = state.positions.shape[0], state.source_mask.shape[0]
        places = torch.arange(rows).view(sentences, -1).T.flatten()
        turned = dataclasses.replace(state, own=dataclasses.replace(state.own, positions=state.positions[places]))
        return right(turned, length)[places.argsort()].roll(rows // sentences, 0)

    patch.setattr(convolutional_decoders, "_columns", columns)


def columns_start_again_with_every_call(patch: Patch) -> None:
    right = convolutional_decoders._columns

    def columns(state: AttentiveState, length: int) -> Tensor:
        own = dataclasses.replace(state.own, positions=torch.zeros_like(state.positions))
        return right(dataclasses.replace(state, own=own), length)

    patch.setattr(convolutional_decoders, "_columns", columns)


def columns_of_padding_are_read(patch: Patch) -> None:
    right = convolutional_decoders._columns

    def columns(state: AttentiveState, length: int) -> Tensor:
        return right(dataclasses.replace(state, source_mask=torch.ones_like(state.source_mask)), length)

    patch.setattr(convolutional_decoders, "_columns", columns)


def the_keys_are_mixed(patch: Patch) -> None:
    """A core whose method mixes the keys, while its meaning weighs the values."""
    right = GlobalCore.forward

    def forward(self: GlobalCore, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        return right(self, query, key, key, visibility)

    patch.setattr(GlobalCore, "forward", forward)


CONVS2S, BYTENET = "convolutional-convs2s", "dilated-bytenet"
LOCAL_P, LOCAL_M = "reversed-lstm-luong-local-p", "reversed-lstm-luong-concat-local-m"
CAUGHT: list[tuple[str, str, Callable[[Patch], None]]] = [
    ("a_batch_is_its_rows", "two-way-gru-bahdanau", the_source_padding_is_read),
    ("a_batch_is_its_rows", "reversed-lstm-seq2seq", the_padded_row_is_reversed),
    ("stepping_is_teacher_forcing", LOCAL_M, windows_start_again_with_every_call),
    ("ragged_chunks_are_one_pass", LOCAL_P, the_state_is_that_after_the_padding),
    ("ragged_chunks_are_one_pass", "reversed-lstm-luong-local-m-unfed", windows_start_again_with_every_call),
    ("rows_commutes_with_advance", LOCAL_P, h_tilde_stays_where_it_was),
    ("rows_commutes_with_advance", "reversed-lstm-encdec", h_tilde_stays_where_it_was),
    ("rows_commutes_with_advance", "reversed-lstm-seq2seq", c_stays_where_it_was),
    ("rows_commutes_with_advance", "two-way-gru-bahdanau", a_moved_sentence_leaves_its_source),
    ("rows_commutes_with_advance", LOCAL_P, beams_folded_the_wrong_way),
    ("join_keeps_every_row", "two-way-gru-bahdanau", join_swaps_the_sources),
    ("fan_out_is_copying", "reversed-lstm-luong-dot-unfed", beams_folded_the_wrong_way),
    ("padding_cannot_be_seen", "two-way-gru-bahdanau", the_source_padding_is_read),
    ("padding_cannot_be_seen", "reversed-lstm-seq2seq", the_padded_row_is_reversed),
    ("the_future_cannot_be_seen", LOCAL_P, the_loop_runs_backwards),
    ("an_empty_row_harms_nobody", "two-way-gru-bahdanau", a_mean_over_nothing),
    ("an_empty_row_harms_nobody", "two-way-gru-bahdanau-lstm", a_mean_over_nothing),
    ("a_core_mixes_by_its_weights", "two-way-gru-bahdanau", a_blank_query_reads_everything),
    ("a_core_mixes_by_its_weights", LOCAL_P, local_p_is_mixed_without_its_gaussian),
    ("a_batch_is_its_rows", CONVS2S, a_kernel_reads_the_padding),
    ("a_batch_is_its_rows", CONVS2S, every_source_counts_as_the_longest),
    ("a_batch_is_its_rows", BYTENET, a_kernel_reads_the_padding),
    ("ragged_chunks_are_one_pass", BYTENET, columns_of_padding_are_read),
    ("a_batch_is_its_rows", "convolutional-encdec", the_summary_counts_the_padding),
    ("stepping_is_teacher_forcing", CONVS2S, the_past_is_forgotten),
    ("stepping_is_teacher_forcing", CONVS2S, places_start_again_with_every_call),
    ("stepping_is_teacher_forcing", BYTENET, the_past_is_forgotten),
    ("stepping_is_teacher_forcing", BYTENET, columns_start_again_with_every_call),
    ("ragged_chunks_are_one_pass", CONVS2S, the_past_is_what_stands_last),
    ("ragged_chunks_are_one_pass", BYTENET, the_past_is_what_stands_last),
    ("rows_commutes_with_advance", CONVS2S, the_past_stays_where_it_was),
    ("rows_commutes_with_advance", BYTENET, the_past_stays_where_it_was),
    ("rows_commutes_with_advance", BYTENET, a_moved_sentence_leaves_its_source),
    ("rows_commutes_with_advance", CONVS2S, beams_folded_the_wrong_way),
    ("join_keeps_every_row", CONVS2S, join_swaps_the_sources),
    ("join_keeps_every_row", BYTENET, join_swaps_the_sources),
    ("fan_out_is_copying", CONVS2S, beams_folded_the_wrong_way),
    ("fan_out_is_copying", BYTENET, the_neighbours_columns_are_read),
    ("padding_cannot_be_seen", CONVS2S, a_kernel_reads_the_padding),
    ("rows_commutes_with_advance", BYTENET, columns_of_padding_are_read),
    ("padding_cannot_be_seen", BYTENET, a_kernel_reads_the_padding),
    ("the_future_cannot_be_seen", CONVS2S, a_kernel_looks_one_ahead),
    ("the_future_cannot_be_seen", BYTENET, a_kernel_looks_one_ahead),
    ("a_core_mixes_by_its_weights", CONVS2S, a_blank_query_reads_everything),
    ("a_core_mixes_by_its_weights", CONVS2S, the_keys_are_mixed),
]


@pytest.mark.parametrize(
    ("law", "pair", "fault"), CAUGHT, ids=[f"{law}-{pair}-{fault.__name__}" for law, pair, fault in CAUGHT]
)
def test_the_law_catches_the_fault(law: str, pair: str, fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    model = PAIRS[pair]()
    LAWS[law](model)
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        LAWS[law](model)


def test_every_law_has_a_recurrent_fault_or_none_of_its_own_parts() -> None:
    """The one that is left out concerns the projection, which all architectures share (test_model.py)."""
    assert {law for law, _, _ in CAUGHT} == set(LAWS) - {"a_chosen_vocabulary_is_a_part"}
