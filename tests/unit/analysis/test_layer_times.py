"""What is counted, against PyTorch's counter and by perturbation; what is timed is only asked whether it is there."""

import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from clearhead.analysis.layer_times import (
    WINDOW,
    Crossover,
    Layer,
    LayerTime,
    crossovers,
    layer_flops,
    make_layer,
    measure_layers,
)
from clearhead.base.errors import InputError
from clearhead.nn.visibility import Visibility

LAYERS: tuple[Layer, ...] = (
    "elman",
    "gru-before",
    "gru-after",
    "lstm",
    "convolution",
    "dilated",
    "restricted-attention",
    "self-attention",
)


def made(layer: Layer, width: int, length: int) -> torch.nn.Module:
    """In float64, and recurrent layers step by step: fused kernels escape the counter."""
    module = make_layer(layer, width, length).double().eval()
    if hasattr(module, "stack"):
        module.stack.path = "loop"
    return module


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("length", [1, 7, 28])
def test_operations_are_those_that_pytorch_counts(layer: Layer, length: int) -> None:
    module, x = made(layer, 16, length), torch.randn(1, length, 16, dtype=torch.float64)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        assert module(x).shape == x.shape
    assert counter.get_total_flops() == layer_flops(layer, length, 16)


@pytest.mark.parametrize("length", [9, 10, 27])
def test_a_dilated_stack_just_joins_the_ends_and_sees_no_future(length: int) -> None:
    module = made("dilated", 8, length)
    x = torch.randn(1, length, 8, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(module(x)[0, -1].sum(), x)
    assert grad[0, 0].abs().max() > 0
    module.layers = module.layers[:-1]
    (grad,) = torch.autograd.grad(module(x)[0, -1].sum(), x)
    assert grad[0, 0].abs().max() == 0  # a layer fewer does not
    (grad,) = torch.autograd.grad(module(x)[0, 2].sum(), x)
    assert grad[0, 3:].abs().max() == 0


@pytest.mark.parametrize("length", [1, 5, WINDOW, 70])
def test_restricted_attention_is_attention_under_a_band(length: int) -> None:
    module = made("restricted-attention", 16, length)
    x = torch.randn(1, length, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    places = torch.arange(length)
    band = (places[:, None] - places).abs() <= (WINDOW - 1) // 2
    attention = module.attention
    expected = attention(x, attention.remember(x, x), Visibility(band[None, None]))
    torch.testing.assert_close(module(x), expected, rtol=1e-10, atol=1e-12)
    if length > WINDOW:
        everything = attention(x, attention.remember(x, x), Visibility(torch.ones_like(band)[None, None]))
        assert (everything - expected).abs().max() > 1e-3


@pytest.mark.parametrize("training", [False, True])
def test_a_measurement_has_a_row_for_every_layer_and_length(training: bool) -> None:
    said: list[str] = []
    times = measure_layers(8, (2, 12), LAYERS, repeats=2, training=training, progress=said.append)
    assert [(one.length, one.layer) for one in times] == [(n, layer) for n in (2, 12) for layer in LAYERS]
    assert all(0 < one.low <= one.seconds <= one.high and one.threads >= 1 for one in times)
    assert said == ["n = 2", "n = 12"]
    by = {one.layer: one for one in times if one.length == 12}
    assert {layer: (one.sequential, one.path) for layer, one in by.items()} == {
        **dict.fromkeys(("elman", "gru-before", "gru-after", "lstm"), (12, 11)),
        "convolution": (1, 6),  # two positions a layer: ⌈11 / 2⌉
        "dilated": (3, 3),  # 9 < 12 ≤ 27
        "restricted-attention": (1, 1),  # 16 to either side
        "self-attention": (1, 1),
    }
    assert {layer: one.operations for layer, one in by.items()} == {
        **dict.fromkeys(("elman", "gru-before", "gru-after", "lstm"), 12 * 64),
        **dict.fromkeys(("convolution", "dilated"), 3 * 12 * 64),
        **dict.fromkeys(("restricted-attention", "self-attention"), 12 * 12 * 8),
    }
    assert all(one.flops == layer_flops(one.layer, 12, 8) * (3 if training else 1) for one in by.values())
    one = times[0]
    assert LayerTime.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_one_repetition_has_no_spread() -> None:
    (one,) = measure_layers(8, (3,), ("elman",), repeats=1)
    assert one.low == one.seconds == one.high


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(InputError, match="one length of at least 1"):
        measure_layers(8, ())
    with pytest.raises(InputError, match="needs a multiple of 8"):
        make_layer("self-attention", 12, 4)
    with pytest.raises(InputError, match="no time of a layer"):
        LayerTime.from_json({"layer": "lstm"})
    with pytest.raises(InputError, match="no crossover"):
        Crossover.from_json({"other": "lstm"})


def timed(layer: Layer, *seconds: float, width: int = 64) -> list[LayerTime]:
    return [
        LayerTime(layer, 16 * 2**k, width, 1, 1, 1, 1, False, each, each, each, 1) for k, each in enumerate(seconds)
    ]


def test_crossings_are_counted_exactly_and_measured_between_the_lengths() -> None:
    times = [
        *timed("self-attention", 1.0, 1.0, 4.0, 16.0),
        *timed("lstm", 8.0, 4.0, 4.0 / 4, 8.0),  # crosses halfway, on logarithmic scales, between 32 and 64
        *timed("gru-after", 2.0, 4.0, 8.0, 17.0),
        *timed("elman", 0.5, 2.0, 0.5, 0.5),  # there and back: noise, or at any rate not for good
        *timed("convolution", 0.5, 2.0, 2.0, 32.0),
    ]
    found = {one.other: one for one in crossovers(times)}
    assert list(found) == ["lstm", "gru-after", "elman", "convolution"]
    # n²·d against n·d² and k·n·d²; 8·n·d² + 4·n²·d against 16, 12, 4 and 6 times n·d².
    assert [(one.table, one.counted) for one in found.values()] == [(64, 128), (64, 64), (64, None), (192, None)]
    assert found["lstm"].measured == pytest.approx(32 * 2**0.5)
    assert (found["lstm"].faster_short, found["lstm"].faster_long) == ("self-attention", "lstm")
    assert found["gru-after"].measured is None and found["gru-after"].faster_long == "self-attention"
    assert found["elman"].measured is None and found["elman"].faster_short == "elman"
    assert 64 < (found["convolution"].measured or 0) < 128  # of three crossings the last
    one = found["lstm"]
    assert Crossover.from_json(json.loads(json.dumps(one.to_json()))) == one


@pytest.mark.parametrize(("other", "width"), [("dilated", 16), ("dilated", 64), ("restricted-attention", 16)])
def test_counted_crossings_are_the_last_change_of_the_counts(other: Layer, width: int) -> None:
    (one,) = crossovers([*timed("self-attention", 1.0, width=width), *timed(other, 1.0, width=width)])
    at = one.counted
    assert at is not None
    costs = [(layer_flops("self-attention", n, width), layer_flops(other, n, width)) for n in range(1, 40 * width)]
    assert costs[at - 2][0] < costs[at - 2][1]
    assert all(own >= theirs for own, theirs in costs[at - 1 :])


def test_without_self_attention_nothing_crosses() -> None:
    assert crossovers(timed("lstm", 1.0)) == [] and crossovers([]) == []
