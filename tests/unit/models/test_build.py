"""Sharing, initialisation and the reproducibility of `build`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from clearhead.models import Seq2Seq, build, count_parameters, presets
from clearhead.models import build as build_function
from clearhead.models.build import initialise
from clearhead.nn.embedding import Embedding, Projection
from clearhead.nn.linear import Linear
from clearhead.nn.padding import Padded

TINY = presets.tiny(50, norm="post", d_model=16, d_ff=32, encoder_layers=1, decoder_layers=2)
SOURCE, PREFIX = Padded.from_lists([[5, 6, 3], [7, 3]]), Padded.from_lists([[2, 8], [2, 9, 10]])


def three(model: Seq2Seq) -> list[nn.Parameter]:
    return [model.encoder.input.embedding.weight, model.decoder.input.embedding.weight, model.decoder.output.weight]


# ------------------------------------------------------------------------------------------------------------ sharing


def test_tied_is_one_parameter_under_three_names() -> None:
    model = build(TINY, seed=0)
    source, target, output = three(model)
    assert source is target is output
    assert sum(parameter is output for parameter in model.parameters()) == 1
    names = [name for name, tensor in model.state_dict().items() if tensor.data_ptr() == output.data_ptr()]
    assert names == ["encoder.input.embedding.weight", "decoder.input.embedding.weight", "decoder.output.weight"]


@pytest.mark.parametrize(("embeddings", "distinct"), [("tied", 1), ("output", 2), ("separate", 3)])
def test_ways_to_share(embeddings: str, distinct: int) -> None:
    sizes = {} if embeddings == "tied" else {"source_vocab_size": 70}
    model = build(presets.tiny(50, d_model=16, embeddings=embeddings, **sizes), seed=0)
    assert len({id(weight) for weight in three(model)}) == distinct
    assert model(Padded.from_lists([[49 if embeddings == "tied" else 69, 3]]), Padded.from_lists([[2]])).shape == (
        1,
        50,
    )


def test_the_gradient_is_the_sum_of_three_uses() -> None:
    tied = build(TINY, seed=0).double().eval()
    free = build(TINY.model_copy(update={"embeddings": "separate"}), seed=1).double().eval()
    free.load_state_dict(tied.state_dict())
    for model in (tied, free):
        model(SOURCE, PREFIX).pow(2).sum().backward()
    parts = [weight.grad for weight in three(free)]
    assert all(part is not None and bool(part.any()) for part in parts)
    torch.testing.assert_close(three(tied)[0].grad, sum(parts), rtol=1e-12, atol=1e-12)  # type: ignore[arg-type]


def test_layers_share_nothing() -> None:
    model = build(TINY, seed=0)
    first, second = (layer.state_dict() for layer in model.decoder.layers)
    assert not torch.equal(first["feedforward.inner.weight"], second["feedforward.inner.weight"])


def test_a_copy_is_tied_in_itself_and_shares_nothing() -> None:
    model = build(TINY, seed=0).eval()
    before = model(SOURCE, PREFIX)
    twin = copy.deepcopy(model)
    assert {p.data_ptr() for p in twin.parameters()}.isdisjoint(p.data_ptr() for p in model.parameters())
    assert len({id(weight) for weight in three(twin)}) == 1
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1.0)
    assert torch.equal(model(SOURCE, PREFIX), before)


# ----------------------------------------------------------------------------------------------------- initialisation


def check_first_loss(model: Seq2Seq) -> None:
    """An untrained model knows nothing: its loss is that of the uniform distribution, ln V, within one nat."""
    vocabulary = 37000
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, vocabulary, (4, 10), generator=generator)
    with torch.no_grad():
        logits = model.eval()(Padded.full(ids), Padded.full(ids.flip(0)))
    gold = torch.randint(4, vocabulary, (40,), generator=generator)
    assert abs(float(F.cross_entropy(logits, gold)) - math.log(vocabulary)) < 1


@pytest.mark.parametrize("overrides", [{"norm": "post"}, {"norm": "pre"}, {"embeddings": "separate"}], ids=str)
def test_the_first_loss_is_that_of_ignorance(overrides: dict[str, str]) -> None:
    check_first_loss(build(presets.tiny(37000, **overrides), seed=3))


def test_pytorchs_wide_embeddings_are_caught() -> None:
    model = build(presets.tiny(37000), seed=3)
    nn.init.normal_(three(model)[0], generator=torch.Generator().manual_seed(0))
    with pytest.raises(AssertionError):
        check_first_loss(model)


def test_each_projection_is_drawn_by_its_own_fans() -> None:
    """√(6 / (in + out)) for a map of its own; one fused D × 3D map would give a range √2 times smaller."""
    model = build(presets.base(1000, encoder_layers=1, decoder_layers=1), seed=0)
    maps = [(name, module) for name, module in model.named_modules() if isinstance(module, Linear)]
    assert len(maps) == 4 + 2 + 8 + 2
    for name, module in maps:
        bound = math.sqrt(6 / sum(module.weight.shape))
        assert 0.99 * bound < float(module.weight.detach().abs().max()) <= bound * (1 + 1e-6), name
        assert module.bias is None or not bool(module.bias.any()), name


def test_embeddings_have_variance_one_over_the_width() -> None:
    model = build(presets.tiny(5000, embeddings="separate", positions={"kind": "learned"}), seed=0)
    for module in model.modules():
        if isinstance(module, Embedding | Projection):
            assert float(module.weight.detach().std()) * math.sqrt(128) == pytest.approx(1, abs=0.01)


def test_no_parameter_is_forgotten() -> None:
    """Whatever is left as it was in memory would make the seed a lie."""
    config = presets.tiny(
        50,
        d_model=16,
        embeddings="separate",
        activation="swiglu",
        norm="pre",
        attention={"bias": True},
        positions={"kind": "learned", "max_positions": 7},
    )
    model = build(config, seed=4)
    fresh = build(config, seed=4)
    with torch.no_grad():
        for module in fresh.modules():
            if not isinstance(module, nn.LayerNorm):  # a norm sets itself, when it is made
                for parameter in module.parameters(recurse=False):
                    parameter.fill_(float("nan"))
    initialise(fresh, torch.Generator().manual_seed(4))
    for (name, ours), theirs in zip(model.named_parameters(), fresh.parameters()):
        assert torch.equal(ours, theirs), name


# ---------------------------------------------------------------------------------------------------- reproducibility


def test_a_seed_gives_the_same_model_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first, second, other = build(TINY, seed=1), build(TINY, seed=1), build(TINY, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters()))
    assert not torch.equal(three(first)[0], three(other)[0])


def test_without_a_seed_the_global_generator_decides() -> None:
    torch.manual_seed(7)
    first, second = build(TINY), build(TINY)
    torch.manual_seed(7)
    assert torch.equal(three(build(TINY))[0], three(first)[0])
    assert not torch.equal(three(first)[0], three(second)[0])


def test_a_model_without_memory_takes_weights_that_are_loaded() -> None:
    shape, model = build(TINY, device="meta"), build(TINY, seed=1).eval()
    assert all(parameter.is_meta for parameter in shape.parameters())
    assert count_parameters(shape) == count_parameters(model)
    assert len({id(weight) for weight in three(shape)}) == 1
    shape.load_state_dict(model.state_dict(), assign=True)
    assert torch.equal(shape.eval()(SOURCE, PREFIX), model(SOURCE, PREFIX))


def test_frozen_parameters_are_not_counted() -> None:
    model = build(TINY, seed=0)
    whole = count_parameters(model)
    three(model)[0].requires_grad_(False)
    assert whole - count_parameters(model) == 50 * 16


@pytest.mark.parametrize("make", [build_function])
def test_the_public_door_is_the_function(make: Callable[..., Seq2Seq]) -> None:
    assert make(TINY, seed=0).max_positions is None
    assert make(presets.tiny(50, positions={"kind": "learned", "max_positions": 9}), seed=0).max_positions == 9
