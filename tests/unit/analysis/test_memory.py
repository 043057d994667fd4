"""Bytes by formula against the bytes of real tensors."""

import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from clearhead.analysis import memory
from clearhead.analysis.sizes import Lengths, check_lengths
from clearhead.base.errors import InputError
from clearhead.data.collate import Batch
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.config import ModelConfig
from clearhead.models.transformer import TransformerState
from clearhead.nn.padding import Padded
from clearhead.objectives.cross_entropy import CrossEntropy
from clearhead.training.config import Adam
from clearhead.training.optim import build_optimizer, optimizer_tensors
from tests.unit.analysis.configurations import CONFIGURATIONS

LENGTHS = Lengths(source=7, target=5, batch=2)
each_configuration = pytest.mark.parametrize("config", CONFIGURATIONS.values(), ids=CONFIGURATIONS)


def text(rows: int, length: int) -> Padded:
    return Padded.full(torch.randint(4, 50, (rows, length)))


def batch(lengths: Lengths) -> Batch:
    target = text(lengths.batch, lengths.target)
    return Batch(text(lengths.batch, lengths.source), target, target)


class Held:
    """A tensor that autograd has put aside; it lives as long as the graph does."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def saved_bytes(config: ModelConfig, lengths: Lengths, dtype: torch.dtype) -> int:
    """Distinct storages that the graph of a training step holds when its loss is known, parameters apart."""
    model = build(config, seed=0).to(dtype).train()
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    alive: weakref.WeakSet[Held] = weakref.WeakSet()

    def pack(tensor: Tensor) -> Held:
        held = Held(tensor)
        alive.add(held)
        return held

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda held: held.tensor):
        loss = CrossEntropy()(model, batch(lengths)).sum
    storages = {held.tensor.untyped_storage().data_ptr(): held.tensor.untyped_storage() for held in alive}
    assert loss.requires_grad  # the graph is alive while it is looked at
    return sum(storage.nbytes() for pointer, storage in storages.items() if pointer not in parameters)


@each_configuration
def test_activations_are_what_autograd_holds(config: ModelConfig) -> None:
    assert memory.activations(config, LENGTHS, 8)["total"] == saved_bytes(config, LENGTHS, torch.float64)


@pytest.mark.parametrize("name", ["post-norm", "pre-norm", "swiglu", "attention dropout"])
def test_activations_in_single_precision(name: str) -> None:
    config = CONFIGURATIONS[name]
    assert memory.activations(config, LENGTHS, 4)["total"] == saved_bytes(config, LENGTHS, torch.float32)


@pytest.mark.parametrize("name", ["post-norm", "one key head", "attention dropout"])
def test_score_matrices_are_what_grows_with_the_square(name: str) -> None:
    config = CONFIGURATIONS[name]
    # The second difference over the length removes everything linear; what is left is the scores alone.
    one, two, three = (saved_bytes(config, Lengths(n, n), torch.float64) for n in (4, 8, 12))
    scores = [memory.activations(config, Lengths(n, n), 8)["score matrices"] for n in (4, 8, 12)]
    assert three - 2 * two + one == scores[2] - 2 * scores[1] + scores[0] > 0


@each_configuration
def test_weights_and_optimizer_state(config: ModelConfig) -> None:
    model = build(config, seed=0)
    assert memory.weights(config, 4) == sum(p.numel() * p.element_size() for p in model.parameters())
    optimizer = build_optimizer(model, Adam())
    CrossEntropy()(model, batch(LENGTHS)).sum.backward()
    optimizer.step()
    state = optimizer_tensors(optimizer, model)
    moments = [tensor for name, tensor in state.items() if not name.startswith("step:")]
    assert memory.optimizer_state(config, 4) == sum(tensor.nbytes for tensor in moments)
    assert len(moments) == 2 * len(list(model.parameters()))


def states(config: ModelConfig) -> Iterator[tuple[int, TransformerState]]:
    model = build(config, seed=0).eval()
    with torch.no_grad():
        state = model.decoder.start(model.encoder(text(2, 7)))
        for written in range(4):
            assert isinstance(state, TransformerState)
            yield written, state
            _, state = model.decoder.advance(text(2, 1), state)


@each_configuration
def test_the_cache_is_what_a_state_keeps(config: ModelConfig) -> None:
    for written, state in states(config):
        own, source = (
            sum(part.nbytes for kept in layers for part in (kept.keys, kept.values))
            for layers in (state.layers, state.sources)
        )
        if written:
            assert memory.kv_cache(config, Lengths(7, written, 2), 4) == {"self": own, "cross": source}


@pytest.mark.parametrize("name", ["post-norm", "one key head"])
def test_each_hypothesis_of_a_beam_has_a_cache_and_the_source_one_a_sentence(name: str) -> None:
    config, beam = CONFIGURATIONS[name], 3
    model = build(config, seed=0).eval()
    with torch.no_grad():
        state = model.decoder.start(model.encoder(text(2, 7))).rows(torch.tensor([[0] * beam, [1] * beam]))
        for _ in range(4):
            _, state = model.decoder.advance(text(2 * beam, 1), state)
    assert isinstance(state, TransformerState)
    own, source = (
        sum(part.nbytes for kept in layers for part in (kept.keys, kept.values))
        for layers in (state.layers, state.sources)
    )
    assert memory.kv_cache(config, Lengths(7, 4, 2), 4, beam) == {"self": own, "cross": source}


def test_a_score_matrix_of_the_handbook() -> None:
    # n = 8,192 in two bytes: 128 MiB a head, 1 GiB for the eight heads of base.
    found = memory.score_matrices(presets.base(vocab_size=37000), Lengths(8192, 8192), memory.DTYPES["float16"])
    assert found["encoder self"] == 2**30
    one_head = presets.base(vocab_size=37000, attention={"heads": 1})
    assert memory.score_matrices(one_head, Lengths(8192, 8192), 2)["encoder self"] == 128 * 2**20


def test_score_matrices_are_those_of_the_core() -> None:
    config = CONFIGURATIONS["two key heads"]
    model, found = build(config, seed=0).eval(), {}

    def keep(name: str) -> None:
        core = model.get_submodule(name).core
        original = core.weights

        def weights(*arguments: object) -> Tensor:
            made = original(*arguments)
            found[name] = made.nbytes
            return made

        core.weights = weights

    names = ["encoder.layers.0.attention", "decoder.layers.0.self_attention", "decoder.layers.0.cross_attention"]
    for name in names:
        keep(name)
    with torch.no_grad():
        model(text(2, 7), text(2, 5))
    assert list(memory.score_matrices(config, LENGTHS, 4).values()) == [found[name] for name in names]


def test_lengths_must_be_there() -> None:
    with pytest.raises(InputError, match=r"target 0: .* at least 1"):
        Lengths(3, 0)
    with pytest.raises(InputError, match=r"length 34: the model learns 33 positions"):
        check_lengths(CONFIGURATIONS["learned positions"], 33, 34)
