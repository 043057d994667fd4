"""The engine's PyTorch twin obeys every law that the plain models obey, equals them, and serves every search alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.decoding import constrained
from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.decoding.search import force, search
from clearhead.engine import fused, pool
from clearhead.engine.fused import FusedDecoder, FusedModel
from clearhead.engine.library import library
from clearhead.engine.pool import FusedState, Pool, Sources
from clearhead.engine.static import static_model
from clearhead.engine.weights import fits, fuse
from clearhead.models import Seq2Seq
from clearhead.models.ensemble import ensemble
from clearhead.models.protocols import Memory
from clearhead.nn.padding import Padded
from tests.laws.model_laws import ARCHITECTURES, LAWS, PREFIXES, SOURCES, VOCABULARY, alone, same, transformer

Patch = pytest.MonkeyPatch
TWINS = {name: make for name, make in ARCHITECTURES.items() if name != "ensemble"} | {
    "silu": lambda: transformer(activation="silu", norm="pre", output_bias=True, layer_norm_epsilon=1e-3),
    "grouped-wide": lambda: transformer(attention={"heads": 2, "kv_heads": 1, "head_dim": 20}, embeddings="output"),
}
# Nothing here is a `Core`, so that law could not fail.
LAWS_HERE = {name: law for name, law in LAWS.items() if name != "a_core_mixes_by_its_weights"}


def twin(model: Seq2Seq, native: bool = False) -> FusedModel:
    return FusedModel(fuse(model, "fp32", native=native))


class _Decoder:
    """Logits on which a gradient can be taken, since some laws take one."""

    def __init__(self, decoder: Any, nothing: nn.Parameter) -> None:
        self.inner, self.nothing = decoder, nothing

    def start(self, memory: Memory) -> Any:
        return self.inner.start(memory)

    def advance(self, tokens: Padded, state: Any) -> tuple[Tensor, Any]:
        return self.inner.advance(tokens, state)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        return self.inner.project(hidden, vocabulary) + self.nothing


def with_gradient(model: Seq2Seq) -> Seq2Seq:
    nothing = nn.Parameter(torch.zeros((), dtype=torch.float64))
    whole = Seq2Seq(model.encoder, _Decoder(model.decoder, nothing), model.max_positions)
    whole.nothing = nothing
    return whole


ROADS = {"explicit": list(TWINS), "native": ["grouped-heads", "grouped-wide"], "static": ["transformer", "one-kv-head"]}
ROADS["PyTorch's own"] = ["transformer", "grouped-heads"]


@pytest.mark.parametrize("law", LAWS_HERE.values(), ids=LAWS_HERE.keys())
@pytest.mark.parametrize(("road", "name"), [(road, name) for road, names in ROADS.items() for name in names])
def test_law(name: str, law: Callable[[Any], None], road: str, monkeypatch: Patch) -> None:
    model = TWINS[name]()
    if road == "PyTorch's own":
        monkeypatch.setattr(fused, "EXPLICIT_UP_TO", -1)
    if road == "native" and library() is None:
        pytest.skip("there is no native library")
    ours = static_model(fuse(model, "fp32")) if road == "static" else twin(model, native=road == "native")
    law(with_gradient(ours))


@pytest.mark.parametrize("law", ["rows_commutes_with_advance", "join_keeps_every_row", "ragged_chunks_are_one_pass"])
def test_law_of_an_ensemble_of_twins(law: str) -> None:
    members = [twin(transformer()), twin(transformer(2, d_model=8, norm="pre", embeddings="output"))]
    LAWS[law](with_gradient(ensemble(members).eval()))


# ----------------------------------------------------------------------------------------------- equal to the model


def equals_the_plain_model(ours: Seq2Seq, model: Seq2Seq) -> None:
    """Memory and logits, for sources and prefixes of unequal lengths, one of the sources empty."""
    sources, prefixes = Padded.from_lists([*SOURCES, []]), Padded.from_lists([*PREFIXES, [2, 5]])
    mine, truth = ours.encoder(sources), model.encoder(sources)
    same(mine.keys[mine.mask], truth.keys[truth.mask])
    same(mine.summary, truth.summary)
    same(ours(sources, prefixes), model(sources, prefixes))


@pytest.mark.parametrize("make", TWINS.values(), ids=TWINS.keys())
def test_equals_the_plain_model(make: Callable[[], Any]) -> None:
    model = make()
    equals_the_plain_model(twin(model), model)


def long_histories_are_kept(model: Seq2Seq, ours: Seq2Seq) -> None:
    """Sixty steps with four hypotheses: the pool fills, leaves out what nobody sees, and grows."""
    generator = torch.Generator().manual_seed(3)
    memory = ours.encoder(Padded.from_lists(SOURCES[:3]))
    state = ours.decoder.start(memory).rows(torch.arange(3)[:, None].expand(-1, 4))
    histories: list[list[int]] = [[] for _ in range(12)]
    for step in range(60):
        choice = torch.randint(0, 4, (3, 4), generator=generator) + 4 * torch.arange(3)[:, None]
        if step % 3 == 0:
            choice = torch.arange(12).view(3, 4)  # nothing dies: the columns outgrow the room
        state = state.rows(choice)
        tokens = torch.randint(4, VOCABULARY, (12, 1), generator=generator)
        histories = [
            [*histories[row], int(token)] for row, token in zip(choice.flatten().tolist(), tokens[:, 0], strict=True)
        ]
        hidden, state = ours.decoder.advance(Padded.full(tokens), state)
    logits = ours.decoder.project(hidden[:, 0])
    for row, history in enumerate(histories):
        same(logits[row], alone(model, SOURCES[row // 4], history)[-1])


def test_static_steps_keep_long_histories() -> None:
    model = transformer()
    long_histories_are_kept(model, static_model(fuse(model, "fp32")))


def test_long_histories_are_kept(monkeypatch: Patch) -> None:
    model = transformer()
    made: list[bool] = []
    right = Pool.copy
    monkeypatch.setattr(Pool, "copy", lambda self, *which: (made.append(len(which) > 2), right(self, *which))[1])
    long_histories_are_kept(model, twin(model))
    assert True in made  # columns were left out


def a_fork_is_two_states(model: Seq2Seq) -> None:
    """Two states of one origin, both advanced, know nothing of each other."""
    state = model.decoder.start(model.encoder(Padded.from_lists(SOURCES)))
    _, state = model.decoder.advance(Padded.full(torch.tensor([[2, 5]] * 4)), state)
    forks = [state.rows(torch.arange(4)[:, None]) for _ in range(3)]
    texts = [[6, 7, 8], [9, 10, 11], [12, 4, 5]]
    for step in range(3):
        for index, text in enumerate(texts):
            hidden, forks[index] = model.decoder.advance(Padded.full(torch.full((4, 1), text[step])), forks[index])
            logits = model.decoder.project(hidden[:, 0])
            for row, source in enumerate(SOURCES):
                same(logits[row], alone(model, source, [2, 5, *text[: step + 1]])[-1])


def test_a_fork_is_two_states() -> None:
    a_fork_is_two_states(twin(transformer()))


# ------------------------------------------------------------------------------------------------------- searches


CONFIGS = {
    "beam": DecodingConfig(n_best=3, max_length_extra=9),
    "greedy": DecodingConfig(beam=1, max_length_extra=9),
    "sampling": DecodingConfig(sampling=Sampling(temperature=0.8, top_k=9, top_p=0.95), n_best=2, max_length_extra=9),
    "reproducible": DecodingConfig(beam=5, max_length_extra=9, reproducible=True),
    "penalty": DecodingConfig(beam=6, n_best=6, penalty="length", alpha=1.2, min_length=3, max_length_extra=20),
}


def finds_the_same(ours: Seq2Seq, model: Seq2Seq, config: DecodingConfig) -> bool:
    source = Padded.from_lists([[4 + (3 * row + place) % 9 for place in range(row % 7)] + [3] for row in range(9)])
    prefixes = [[] if row % 3 else [4 + row % 9, 7] for row in range(9)]
    mine, truth = (search(each, source, config, prefixes=prefixes) for each in (ours, model))
    return all(
        [each.tokens for each in a] == [each.tokens for each in b]
        and all(abs(one.score - other.score) < 1e-10 for one, other in zip(a, b))
        for a, b in zip(mine, truth)
    )


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("architecture", ["transformer", "grouped-heads"])
def test_searches_find_the_same(config: DecodingConfig, architecture: str) -> None:
    model = TWINS[architecture]()
    assert finds_the_same(twin(model), model, config)


def test_scoring_and_forced_phrases_find_the_same() -> None:
    model = transformer(3)
    ours, source = twin(model), Padded.from_lists(SOURCES)
    forced = [force(each, source, [[5, 6], [], [7, 8, 9], [4]]) for each in (ours, model)]
    assert [abs(one.log_prob - other.log_prob) < 1e-10 for one, other in zip(*forced)] == [True] * 4
    config, phrases = DecodingConfig(beam=8, max_length_extra=6), [((9, 10),), (), ((5,), (7, 6)), ()]
    found = [constrained.constrained_search(each, source, config, phrases, prefixes=[[]] * 4) for each in (ours, model)]
    assert [[h.tokens for h in line] for line in found[0]] == [[h.tokens for h in line] for line in found[1]]


def test_reproducible_is_so_to_the_bit() -> None:
    ours = FusedModel(fuse(transformer(3).float(), "fp32", native=False))
    config = CONFIGS["reproducible"].model_copy(update={"max_length_extra": 16, "max_length": 16, "min_length": 16})
    sources = [[*[4 + (row + place) % 9 for place in range(1 + 4 * row)], 3] for row in range(5)]
    together = search(ours, Padded.from_lists(sources), config)
    assert together == [search(ours, Padded.from_lists([source]), config)[0] for source in sources]


# --------------------------------------------------------------------------------------------------------- faults


def _state(patch: Patch, **keep: Callable[[FusedState, FusedState], Any]) -> None:
    right = FusedState.rows

    def rows(self: FusedState, index: Tensor) -> FusedState:
        after = right(self, index)
        return dataclasses.replace(after, **{name: choose(self, after) for name, choose in keep.items()})

    patch.setattr(FusedState, "rows", rows)


def ancestry_is_not_reordered(patch: Patch) -> None:
    def keep(before: FusedState, after: FusedState) -> Tensor:
        lines, beams, columns = after.visible.shape
        return before.visible.flatten(0, 1)[torch.arange(lines * beams) % len(before.positions)].view(
            lines, beams, columns
        )

    _state(patch, visible=keep)


def the_pool_stays_when_sentences_move(patch: Patch) -> None:
    _state(
        patch,
        pool=lambda before, after: before.pool.sentences(torch.arange(len(after.visible)), after.visible.shape[2]),
    )


def the_sources_stay_when_sentences_move(patch: Patch) -> None:
    patch.setattr(
        Sources,
        "rows",
        lambda self, index: Sources(tuple(x[:, : len(index)] for x in self.layers), self.mask[: len(index)]),
    )


def positions_are_not_reordered(patch: Patch) -> None:
    _state(patch, positions=lambda before, after: torch.full_like(after.positions, int(before.positions.max())))


def whoever_comes_writes(patch: Patch) -> None:
    def claim(self: Pool, columns: int, more: int) -> bool:
        self.used = columns + more
        return columns + more <= self.capacity

    patch.setattr(Pool, "claim", claim)


def what_is_left_out_is_still_counted(patch: Patch) -> None:
    right = FusedState.claimed

    def claimed(self: FusedState, more: int) -> FusedState:
        after = right(self, more)
        return dataclasses.replace(after, visible=self.visible[:, :, : after.visible.shape[2]])

    patch.setattr(FusedState, "claimed", claimed)


def copies_lose_a_column(patch: Patch) -> None:
    right = Pool.copy

    def copy(self: Pool, *which: Any) -> Pool:
        after = right(self, *which)
        for layer in after.layers:
            layer[:, :, :, 0] = 0.0
        return after

    patch.setattr(Pool, "copy", copy)


def _visible(patch: Patch, change: Callable[[Tensor, Tensor, Padded, FusedState], tuple[Tensor, Tensor]]) -> None:
    right = fused._visible
    patch.setattr(fused, "_visible", lambda tokens, state: change(*right(tokens, state), tokens, state))


def the_next_token_is_seen(patch: Patch) -> None:
    def change(seen: Tensor, after: Tensor, tokens: Padded, state: FusedState) -> tuple[Tensor, Tensor]:
        own = seen[:, :, state.visible.shape[2] :]
        seen[:, :, state.visible.shape[2] :] = own | own.transpose(1, 2)
        return seen, after

    _visible(patch, change)


def neighbours_are_read(patch: Patch) -> None:
    def change(seen: Tensor, after: Tensor, tokens: Padded, state: FusedState) -> tuple[Tensor, Tensor]:
        columns = state.visible.shape[2]
        return torch.cat([seen[:, :, :columns], torch.ones_like(seen[:, :, columns:])], 2), after

    _visible(patch, change)


def padding_is_remembered(patch: Patch) -> None:
    def change(seen: Tensor, after: Tensor, tokens: Padded, state: FusedState) -> tuple[Tensor, Tensor]:
        own = torch.eye(state.visible.shape[1], dtype=torch.bool).repeat_interleave(tokens.ids.shape[1], 1)
        return seen, torch.cat([state.visible, own.expand(len(after), -1, -1)], 2)

    _visible(patch, change)


def hypotheses_see_each_other(patch: Patch) -> None:
    _visible(patch, lambda seen, after, *_: (seen, torch.ones_like(after)))


def join_shows_what_it_padded(patch: Patch) -> None:
    right = FusedState.join

    def join(self: FusedState, other: FusedState) -> FusedState:
        joined = right(self, other)
        return dataclasses.replace(joined, visible=torch.ones_like(joined.visible))

    patch.setattr(FusedState, "join", join)


def join_swaps_the_sources(patch: Patch) -> None:
    right = Sources.join
    patch.setattr(Sources, "join", lambda self, other: right(other, self))


def everything_is_visible(patch: Patch) -> None:
    patch.setattr(fused, "bias_of", lambda visible, dtype: torch.zeros(visible.shape, dtype=dtype))


def minus_infinity_for_hidden(patch: Patch) -> None:
    patch.setattr(pool, "LOW", -torch.inf)
    patch.setattr(Sources, "blank", None)


def an_empty_source_is_read(patch: Patch) -> None:
    patch.setattr(Sources, "blank", None)


def positions_restart_each_call(patch: Patch) -> None:
    right = fused._enter
    patch.setattr(fused, "_enter", lambda layer, ids, p: right(layer, ids, (p - p[:, :1]).clamp(min=0)))


def values_are_read_for_keys(patch: Patch) -> None:
    right = fused.attend
    patch.setattr(fused, "attend", lambda q, kept, bias, scale: right(q, kept.flip(0), bias, scale))


def another_scale(patch: Patch) -> None:
    right = fused.attend
    patch.setattr(fused, "attend", lambda q, kept, bias, scale: right(q, kept, bias, scale * 1.001))


def chosen_words_in_order_of_number(patch: Patch) -> None:
    right = FusedDecoder.project
    patch.setattr(FusedDecoder, "project", lambda self, h, v=None: right(self, h, v if v is None else v.sort().values))


MORE: dict[str, Callable[[Seq2Seq], None]] = {
    "a_fork_is_two_states": a_fork_is_two_states,
    "long_histories_are_kept": lambda model: long_histories_are_kept(transformer(), model),
    "equals_the_plain_model": lambda model: equals_the_plain_model(model, transformer()),
    "searches_find_the_same": lambda model: _assert(finds_the_same(model, transformer(), CONFIGS["beam"])),
}


def _assert(holds: bool) -> None:
    assert holds


CAUGHT: list[tuple[str, Callable[[Patch], None]]] = [
    ("a_batch_is_its_rows", everything_is_visible),
    ("stepping_is_teacher_forcing", positions_restart_each_call),
    ("ragged_chunks_are_one_pass", padding_is_remembered),
    ("rows_commutes_with_advance", ancestry_is_not_reordered),
    ("rows_commutes_with_advance", the_pool_stays_when_sentences_move),
    ("rows_commutes_with_advance", the_sources_stay_when_sentences_move),
    ("rows_commutes_with_advance", positions_are_not_reordered),
    ("join_keeps_every_row", join_shows_what_it_padded),
    ("join_keeps_every_row", join_swaps_the_sources),
    ("fan_out_is_copying", neighbours_are_read),
    ("padding_cannot_be_seen", everything_is_visible),
    ("the_future_cannot_be_seen", the_next_token_is_seen),
    ("an_empty_row_harms_nobody", minus_infinity_for_hidden),
    ("a_chosen_vocabulary_is_a_part", chosen_words_in_order_of_number),
    ("a_fork_is_two_states", whoever_comes_writes),
    ("long_histories_are_kept", what_is_left_out_is_still_counted),
    ("long_histories_are_kept", copies_lose_a_column),
    ("long_histories_are_kept", hypotheses_see_each_other),
    ("equals_the_plain_model", an_empty_source_is_read),
    ("equals_the_plain_model", values_are_read_for_keys),
    ("equals_the_plain_model", another_scale),
    ("searches_find_the_same", ancestry_is_not_reordered),
    ("searches_find_the_same", hypotheses_see_each_other),
]


@pytest.mark.parametrize(("name", "fault"), CAUGHT, ids=[f"{law}-{fault.__name__}" for law, fault in CAUGHT])
def test_the_law_catches_the_fault(name: str, fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    law = (LAWS_HERE | MORE)[name]
    model = with_gradient(twin(transformer()))
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        law(model)


def test_every_law_has_a_fault() -> None:
    assert {law for law, _ in CAUGHT} == set(LAWS_HERE) | set(MORE)


def test_only_whole_transformers_fit() -> None:
    assert all(fits(make()) is None for make in TWINS.values())
    assert fits(ARCHITECTURES["ensemble"]()) is not None
