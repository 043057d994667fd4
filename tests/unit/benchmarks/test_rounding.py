"""The simulation of rounding: its formats beside numbers worked out by hand, and what it does to a whole model."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch

from clearhead.engine.fused import FusedModel
from clearhead.engine.products import PlainProduct
from clearhead.engine.weights import fuse
from tests.laws.model_laws import ARCHITECTURES

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def rounding(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("rounding")


def test_formats_by_hand(rounding: ModuleType) -> None:
    assert doctest.testmod(rounding).failed == 0
    row = torch.tensor([[25.0, -63.5, 8.6, 0.6], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    assert rounding.BYTE(row).tolist() == [[25.0, -63.5, 8.5, 0.5], [0.0, 0.0, 0.0, 0.0]]
    # Halves go to the even neighbour; each pair has a scale of its own: 2.54/127 and 127/127.
    pairs = torch.tensor([[2.54, 0.01, 127.0, 2.5]], dtype=torch.float64)
    assert rounding.Rounding(8, 2)(pairs).tolist() == [[pytest.approx(2.54), 0.0, 127.0, 2.0]]
    # bf16 has 8 bits of mantissa: 257 lies halfway between 256 and 258, and 256 is even.
    assert rounding.BF16(torch.tensor([[257.0, 259.0]], dtype=torch.float64)).tolist() == [[256.0, 260.0]]
    assert rounding.NONE(row) is row


def test_weights_are_rounded_by_output_and_activations_by_row(rounding: ModuleType) -> None:
    weight = torch.tensor([[127.0, 1.4], [2.54, 0.031]], dtype=torch.float64)
    product = rounding.Rounded(PlainProduct(weight, None), rounding.BYTE, rounding.BYTE)
    one = product(torch.tensor([[63.5, 8.6]], dtype=torch.float64))
    assert one.tolist() == [[63.5 * 127 + 8.5, pytest.approx(63.5 * 2.54 + 8.5 * 0.04)]]
    both = product(torch.tensor([[63.5, 8.6], [6350.0, 1.0]], dtype=torch.float64))
    assert both[0].tolist() == one[0].tolist()


def test_every_product_of_a_model_is_rounded(rounding: ModuleType) -> None:
    weights = fuse(ARCHITECTURES["transformer"]().eval(), "fp32")
    sources = [[4, 5, 6], [7, 8], [9, 10, 11, 12], [5]]
    exact = rounding.translated(FusedModel(weights), sources, 2)
    count = 0

    def change(part: PlainProduct, activation: object) -> object:
        nonlocal count
        count += 1
        return rounding.Rounded(part, rounding.NONE, activation)

    same = rounding.rounded(weights, lambda part: change(part, rounding.NONE))
    # A table a side, the projection, four products an encoder layer, seven a decoder layer.
    assert count == 3 + 4 * len(weights.encoder) + 7 * len(weights.decoder)
    assert rounding.translated(FusedModel(same), sources, 2) == exact
    coarse = rounding.rounded(weights, lambda part: change(part, rounding.Rounding(2)))
    assert rounding.translated(FusedModel(coarse), sources, 2) != exact
