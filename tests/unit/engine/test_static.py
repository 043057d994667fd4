"""Steps of unchanging shape equal the others, on a CPU as they stand, on a GPU recorded and replayed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.search import search
from clearhead.engine.fused import FusedModel
from clearhead.engine.static import StaticStep, static_model
from clearhead.engine.weights import fuse
from clearhead.models import Seq2Seq
from clearhead.nn.padding import Padded
from tests.laws.model_laws import SOURCES, same, transformer


def steps_are_equal(ours: Seq2Seq, theirs: Seq2Seq, count: int = 40, device: str = "cpu") -> None:
    """Three hypotheses a sentence, reordered between steps; some steps find a hypothesis at its end."""
    generator = torch.Generator().manual_seed(2)
    source = Padded.from_lists(SOURCES, device)
    states = [each.decoder.start(each.encoder(source)) for each in (ours, theirs)]
    first = torch.arange(4, device=device)[:, None].expand(-1, 3)
    states = [each.rows(first) for each in states]
    for step in range(count):
        index = (torch.randint(0, 3, (4, 3), generator=generator) + 3 * torch.arange(4)[:, None]).to(device)
        tokens = torch.randint(4, 13, (12, 1), generator=generator).to(device)
        read = torch.ones(12, dtype=torch.int64, device=device)
        read[step % 12] = step % 2
        hidden: list[Tensor] = []
        for place, each in enumerate((ours, theirs)):
            one, states[place] = each.decoder.advance(Padded(tokens, read), states[place].rows(index))
            hidden.append(each.decoder.project(one[read > 0]))
        same(*hidden)
    assert torch.equal(states[0].positions, states[1].positions)


@pytest.mark.parametrize(
    "overrides", [{}, {"norm": "pre", "activation": "swiglu", "attention": {"heads": 4, "kv_heads": 2, "head_dim": 6}}]
)
def test_static_steps_are_the_others(overrides: dict[str, object]) -> None:
    model = transformer(**overrides)
    ours = static_model(fuse(model, "fp32"))
    steps_are_equal(ours, FusedModel(fuse(model, "fp32")))


def test_shapes_and_addresses_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a recording relies on: of one pool every step has the same inputs at the same addresses."""
    seen: dict[int, set[tuple[object, ...]]] = {}
    right = StaticStep.run

    def run(self: StaticStep) -> Tensor:
        inputs = (self.tokens, self.positions, self.seen, self.columns, *self.pool.layers)
        seen.setdefault(id(self), set()).add(tuple((each.data_ptr(), each.shape) for each in inputs))
        return right(self)

    monkeypatch.setattr(StaticStep, "run", run)
    model = transformer()
    search(static_model(fuse(model, "fp32")), Padded.from_lists(SOURCES), DecodingConfig(min_length=9, max_length=9))
    assert len(seen) >= 1
    assert all(len(each) == 1 for each in seen.values())


def wrong_column(self: StaticStep) -> Tensor:
    self.columns.sub_(1).clamp_(min=0)
    return RIGHT(self)


def nothing_hidden(self: StaticStep) -> Tensor:
    self.seen.fill_(True)
    return RIGHT(self)


def first_position(self: StaticStep) -> Tensor:
    self.positions.zero_()
    return RIGHT(self)


RIGHT = StaticStep.run


@pytest.mark.parametrize("fault", [wrong_column, nothing_hidden, first_position])
def test_faults_are_caught(fault: Callable[[StaticStep], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer()
    monkeypatch.setattr(StaticStep, "run", fault)
    with pytest.raises(AssertionError):
        steps_are_equal(static_model(fuse(model, "fp32")), FusedModel(fuse(model, "fp32")), 10)


def test_positions_beyond_the_learnt_ones_are_refused() -> None:
    model = static_model(fuse(transformer(positions={"kind": "learned", "max_positions": 8}), "fp32"))
    state = model.decoder.start(model.encoder(Padded.from_lists(SOURCES)))
    token = Padded.full(torch.full((4, 1), 5))
    for _ in range(8):
        _, state = model.decoder.advance(token, state)
    with pytest.raises(InputError, match="position 8 asked of a model that learnt 8"):
        model.decoder.advance(token, state)


@pytest.mark.gpu
def test_recorded_steps_are_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    replays: list[int] = []
    replay = torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda self: (replays.append(1), replay(self))[1])
    model = transformer().cuda()
    ours = static_model(fuse(model, "fp32"))
    steps_are_equal(ours, FusedModel(fuse(model, "fp32")), 40, "cuda")
    assert len(replays) > 20


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_searches_on_a_gpu_find_what_a_cpu_finds(precision: str) -> None:
    model = transformer().float()
    config = DecodingConfig(max_length_extra=6)
    there = search(
        static_model(fuse(transformer().float().cuda(), precision)), Padded.from_lists(SOURCES, "cuda"), config
    )
    here = search(FusedModel(fuse(model, precision, native=False)), Padded.from_lists(SOURCES), config)
    assert [[h.tokens for h in each] for each in there] == [[h.tokens for h in each] for each in here]
