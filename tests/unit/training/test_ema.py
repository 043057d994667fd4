from __future__ import annotations

import pytest
import torch
from torch import nn

from clearhead.base.errors import TrainingError
from clearhead.training.ema import MovingAverage


def one(value: float) -> nn.Module:
    module = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        module.weight.fill_(value)
    return module


def set_to(module: nn.Module, value: float) -> None:
    with torch.no_grad():
        module.weight.fill_(value)  # type: ignore[operator, union-attr]


def test_by_hand() -> None:
    """d = min(0.5, (1+n)/(10+n)): 1/10, then 2/11."""
    module = one(0.0)
    average = MovingAverage(module, 0.5)
    set_to(module, 1.0)
    average.update()
    assert float(average.tensors["weight"]) == pytest.approx(0.9)
    set_to(module, 2.0)
    average.update()
    assert float(average.tensors["weight"]) == pytest.approx(0.9 * 2 / 11 + 2.0 * 9 / 11)
    assert average.count == 2
    average.restore(average.tensors, 1000)
    set_to(module, 0.0)
    average.update()
    assert float(average.tensors["weight"]) == pytest.approx((0.9 * 2 / 11 + 2.0 * 9 / 11) / 2)


def test_the_raw_weights_are_never_touched() -> None:
    module = one(1 / 3)
    average = MovingAverage(module, 0.9)
    parameter, raw = module.weight, module.weight.detach().clone()
    set_to(module, 0.7)
    average.update()
    set_to(module, 1 / 3)
    with average.applied():
        assert module.weight.item() == average.tensors["weight"].item() != 1 / 3
    assert module.weight is parameter
    assert torch.equal(module.weight, raw)
    with pytest.raises(RuntimeError, match="inside"), average.applied():
        raise RuntimeError("inside")
    assert torch.equal(module.weight, raw)


def test_another_models_averages_are_refused() -> None:
    with pytest.raises(TrainingError, match="lacks 'weight'"):
        MovingAverage(one(0.0), 0.9).restore({"weight": torch.zeros(3)}, 1)
