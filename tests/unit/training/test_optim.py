from __future__ import annotations

import pytest
import torch
from torch import nn

from clearhead.base.errors import TrainingError
from clearhead.training.config import Adam, AdamW
from clearhead.training.optim import build_optimizer, optimizer_tensors, restore_optimizer


def step(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()


@pytest.mark.parametrize("config", [Adam(), AdamW()], ids=lambda config: config.kind)
def test_restored_state_steps_bit_for_bit(config: Adam | AdamW) -> None:
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = build_optimizer(model, config)
    for seed in range(3):
        step(model, optimizer, seed)
    other.load_state_dict(model.state_dict())
    restored = build_optimizer(other, config)
    restore_optimizer(restored, other, optimizer_tensors(optimizer, model))
    for seed in range(3, 6):
        step(model, optimizer, seed)
        step(other, restored, seed)
    assert torch.equal(model.weight, other.weight)
    assert torch.equal(model.bias, other.bias)
    fresh = nn.Linear(3, 2)
    fresh.load_state_dict(model.state_dict())
    step(model, optimizer, 9)
    step(fresh, build_optimizer(fresh, config), 9)
    assert not torch.equal(model.weight, fresh.weight)  # the moments do matter


def test_adam_agrees_with_the_formula() -> None:
    """Kingma & Ba 2015, Algorithm 1, in float64."""
    model = nn.Linear(2, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, -2.0]]))
    optimizer = build_optimizer(model, Adam())
    theta, m, v = torch.tensor([[1.0, -2.0]], dtype=torch.float64), 0.0, 0.0
    for t in range(1, 6):
        gradient = torch.tensor([[0.1 * t, -0.3]], dtype=torch.float64)
        model.weight.grad = gradient.clone()
        optimizer.param_groups[0]["lr"] = 0.01 * t
        optimizer.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        theta = theta - 0.01 * t * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
    torch.testing.assert_close(model.weight.detach(), theta, rtol=1e-12, atol=0)


def test_decay_is_for_matrices_only() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    optimizer = build_optimizer(model, AdamW(weight_decay=0.5))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    for name, parameter in model.named_parameters():
        expected = before[name] * (0.95 if name == "0.weight" else 1.0)
        torch.testing.assert_close(parameter.detach(), expected)


def test_foreign_state_is_refused() -> None:
    model = nn.Linear(3, 2)
    optimizer = build_optimizer(model, Adam())
    step(model, optimizer, 0)
    tensors = optimizer_tensors(optimizer, model)
    with pytest.raises(TrainingError, match="knows 'other'"):
        restore_optimizer(optimizer, model, {"exp_avg:other": torch.zeros(1)})
    with pytest.raises(TrainingError, match="shape"):
        restore_optimizer(optimizer, model, tensors | {"exp_avg:weight": torch.zeros(2, 2)})
    with pytest.raises(TrainingError, match="does not cover"):
        restore_optimizer(optimizer, model, {k: t for k, t in tensors.items() if k.endswith("weight")})


def test_nothing_to_train() -> None:
    with pytest.raises(TrainingError, match="no parameter"):
        build_optimizer(nn.Linear(1, 1).requires_grad_(False), Adam())
