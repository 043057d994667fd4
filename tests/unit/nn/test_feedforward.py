from __future__ import annotations

import math

import pytest
import torch

from clearhead.nn.feedforward import Activation, FeedForward


def layer(activation: Activation, d_model: int = 3, d_ff: int = 5) -> FeedForward:
    made = FeedForward(d_model, d_ff, activation).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return made


def test_the_handbooks_numbers() -> None:
    """x = [1, −2], W₁ = [[1, 0, 1], [0, 1, 1]]: the inner layer is [1, −2, −1], ReLU leaves [1, 0, 0] (§9)."""
    made = FeedForward(2, 3).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
        made.inner.weight.copy_(torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]).t())
        made.outer.weight.copy_(torch.tensor([[1.0, 0.0], [7.0, 7.0], [7.0, 7.0]]).t())
    assert made(torch.tensor([[[1.0, -2.0]]]).double()).flatten().tolist() == [1.0, 0.0]


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
def test_the_formula_written_out(activation: Activation) -> None:
    made = layer(activation)
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inner = x @ made.inner.weight.t() + made.inner.bias
    if activation == "relu":
        bent = inner.clamp(min=0)
    elif activation == "gelu":
        bent = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    else:
        assert made.gate is not None
        gate = x @ made.gate.weight.t() + made.gate.bias
        bent = gate / (1 + (-gate).exp()) * inner
    truth = bent @ made.outer.weight.t() + made.outer.bias
    torch.testing.assert_close(made(x), truth, rtol=1e-12, atol=1e-12)


def test_positions_do_not_mix() -> None:
    made, x = layer("relu"), torch.randn(1, 4, 3, dtype=torch.float64)
    changed = x.clone()
    changed[0, 2] += 1
    assert (made(changed) != made(x)).any(-1).tolist() == [[False, False, True, False]]
