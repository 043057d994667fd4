"""SGD, Adadelta and the halving against their formulas, worked out in numpy or by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure
from clearhead.training.config import Adadelta, Sgd, TrainingConfig
from clearhead.training.optim import build_optimizer, optimizer_tensors, restore_optimizer
from clearhead.training.schedules import Halving, describe, rate

Vector = NDArray[np.float64]
GRADIENTS: list[Vector] = [np.array([[0.1 * t, -0.3 / t, 1e-4]]) for t in range(1, 7)]
RATES = [0.7, 0.7, 0.35, 0.35, 0.175, 0.175]
BEGIN: Vector = np.array([[1.0, -2.0, 0.5]])


def line() -> nn.Linear:
    model = nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(BEGIN))
    return model


def step(model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.from_numpy(GRADIENTS[number].copy())
    for group in optimizer.param_groups:
        group["lr"] = RATES[number]
    optimizer.step()


def by_sgd(momentum: float, nesterov: bool) -> Vector:
    theta, velocity = BEGIN.copy(), np.zeros_like(BEGIN)
    for gradient, lr in zip(GRADIENTS, RATES, strict=True):
        velocity = momentum * velocity + gradient
        theta = theta - lr * (gradient + momentum * velocity if nesterov else velocity)
    return theta


def by_adadelta(rho: float, epsilon: float) -> Vector:
    """Zeiler 2012, Algorithm 1, times the rate."""
    theta, squares, steps = BEGIN.copy(), np.zeros_like(BEGIN), np.zeros_like(BEGIN)
    for gradient, lr in zip(GRADIENTS, RATES, strict=True):
        squares = rho * squares + (1 - rho) * gradient**2
        delta = -np.sqrt(steps + epsilon) / np.sqrt(squares + epsilon) * gradient
        steps = rho * steps + (1 - rho) * delta**2
        theta = theta + lr * delta
    return theta


CASES: list[tuple[Sgd | Adadelta, Callable[[], Vector]]] = [
    (Sgd(), lambda: by_sgd(0.0, False)),
    (Sgd(momentum=0.9), lambda: by_sgd(0.9, False)),
    (Sgd(momentum=0.99, nesterov=True), lambda: by_sgd(0.99, True)),
    (Adadelta(), lambda: by_adadelta(0.95, 1e-6)),
    (Adadelta(rho=0.9, epsilon=1e-4), lambda: by_adadelta(0.9, 1e-4)),
]


@pytest.mark.parametrize(("config", "formula"), CASES, ids=lambda value: str(getattr(value, "kind", "")))
def test_steps_are_those_of_the_formula(config: Sgd | Adadelta, formula: Callable[[], Vector]) -> None:
    model = line()
    optimizer = build_optimizer(model, config)
    for number in range(len(GRADIENTS)):
        step(model, optimizer, number)
    np.testing.assert_allclose(model.weight.detach().numpy(), formula(), rtol=1e-12)


def test_the_formulas_differ() -> None:
    """Else the cases above could be taken for one another."""
    ends = [formula() for _, formula in CASES]
    assert all(not np.allclose(one, two, rtol=1e-3) for i, one in enumerate(ends) for two in ends[:i])


@pytest.mark.parametrize("config", [case for case, _ in CASES], ids=lambda value: str(value.kind))
def test_restored_state_steps_bit_for_bit(config: Sgd | Adadelta) -> None:
    model, other = line(), line()
    optimizer = build_optimizer(model, config)
    for number in range(3):
        step(model, optimizer, number)
    other.load_state_dict(model.state_dict())
    restored = build_optimizer(other, config)
    kept = optimizer_tensors(optimizer, model)
    assert bool(kept) == (config.kind == "adadelta" or config.momentum > 0)  # plain SGD remembers nothing
    restore_optimizer(restored, other, kept)
    fresh = line()
    fresh.load_state_dict(model.state_dict())
    forgetful = build_optimizer(fresh, config)
    for number in range(3, 6):
        step(model, optimizer, number)
        step(other, restored, number)
        step(fresh, forgetful, number)
    assert torch.equal(model.weight, other.weight)
    assert torch.equal(model.weight, fresh.weight) == (not kept)  # what is kept does matter


def test_a_momentum_that_is_none_yet_is_left_out() -> None:
    model = line()
    optimizer = build_optimizer(model, Sgd(momentum=0.9))
    optimizer.state[model.weight]["momentum_buffer"] = None
    assert optimizer_tensors(optimizer, model) == {}


def test_a_step_near_nothing_leaves_no_rate_and_breaks_nothing() -> None:
    tiny = Halving(after=0, every=1e-300)
    assert rate(tiny, 5, d_model=8, updates=9, epochs=1.0) == 0.0
    assert rate(Halving(after=1e308, every=1e-300), 5, d_model=8, updates=9, epochs=1.0) == 1.0


SUTSKEVER = Halving(peak=0.7, after=5, every=0.5)
LUONG = Halving(peak=1.0, after=5, every=1)


@pytest.mark.parametrize(
    ("schedule", "epochs", "expected"),
    [
        (SUTSKEVER, 0.0, 0.7),
        (SUTSKEVER, 4.999, 0.7),
        (SUTSKEVER, 5.0, 0.35),
        (SUTSKEVER, 5.499, 0.35),
        (SUTSKEVER, 5.5, 0.175),
        (SUTSKEVER, 7.49, 0.021875),  # 7.5 epochs end after five halvings: 0.7 / 32
        (LUONG, 4.9, 1.0),
        (LUONG, 5.0, 0.5),
        (LUONG, 5.99, 0.5),
        (LUONG, 9.9, 0.03125),  # 10 epochs
        (Halving(after=8), 7.99, 1.0),
        (Halving(after=8), 8.0, 0.5),
        (Halving(peak=0.25, factor=0.1, after=2), 3.5, 0.0025),
        (Halving(after=0.1, every=0.1), 0.3, 0.125),  # 0.3 − 0.1 is below 0.2 in binary
    ],
)
def test_halving_by_epochs(schedule: Halving, epochs: float, expected: float) -> None:
    assert rate(schedule, 7, d_model=8, updates=1, epochs=epochs) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("update", "expected"), [(1, 2.0), (100, 2.0), (101, 1.0), (110, 1.0), (111, 0.5)])
def test_halving_by_updates(update: int, expected: float) -> None:
    schedule = Halving(peak=2.0, after=100, every=10, unit="updates")
    assert rate(schedule, update, d_model=8, updates=1, epochs=50.0) == expected
    assert rate(schedule, update, d_model=8, updates=1) == expected


def test_a_schedule_by_epochs_must_be_told() -> None:
    with pytest.raises(ValueError, match="must be told"):
        rate(LUONG, 1, d_model=8, updates=1)


def test_the_header_says_when() -> None:
    assert describe(SUTSKEVER, d_model=1, updates=1) == "0.7, halved after 5 epochs and every 0.5 from there"
    tenth = Halving(peak=0.25, factor=0.1, after=100, every=10, unit="updates")
    assert describe(tenth, d_model=1, updates=1) == "0.25, times 0.1 after 100 updates and every 10 from there"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"optimizer": {"kind": "sgd", "nesterov": True}}, "set momentum above 0"),
        ({"optimizer": {"kind": "sgd", "momentum": 1.0}}, "optimizer.momentum: must be less than 1"),
        ({"schedule": {"kind": "halving", "every": 0}}, "schedule.every: must be greater than 0"),
        ({"schedule": {"kind": "halving", "unit": "epoch"}}, "did you mean 'epochs'|schedule.unit"),
        ({"initialisation": {"kind": "uniform", "range": 0}}, "initialisation.range: must be greater than 0"),
    ],
)
def test_contradictions_are_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        structure(TrainingConfig, table)
