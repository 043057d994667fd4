"""Every law on every encoder × decoder pair; then each law against faults of the recurrent parts that it must catch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.inspection.recorders import recording_twin
from clearhead.models import attentive_decoders, recurrent
from clearhead.models.attentive_decoders import AttentiveState, BahdanauDecoder, LuongDecoder
from clearhead.models.recurrent import RecurrentState
from clearhead.models.transformer import TransformerDecoder, TransformerEncoder
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
    attentive = (BahdanauDecoder, LuongDecoder, TransformerDecoder, TransformerEncoder)
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


def a_mean_over_nothing(patch: Patch) -> None:
    """Weights divided by their sum once more, as the chapter has it: 0/0 where nothing may be read."""
    right = GlobalCore.weights

    def weights(self: GlobalCore, query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        found = right(self, query, key, visibility)
        return found / found.sum(-1, keepdim=True)

    patch.setattr(GlobalCore, "weights", weights)


def local_p_is_mixed_without_its_gaussian(patch: Patch) -> None:
    def forward(self: LocalPredictiveCore, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        return GlobalCore.weights(self, query, key, visibility) @ value

    patch.setattr(LocalPredictiveCore, "forward", forward)


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
    ("a_core_mixes_by_its_weights", "two-way-gru-bahdanau", a_blank_query_reads_everything),
    ("a_core_mixes_by_its_weights", LOCAL_P, local_p_is_mixed_without_its_gaussian),
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
