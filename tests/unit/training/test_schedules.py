from __future__ import annotations

import pytest

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure
from clearhead.training.config import TrainingConfig
from clearhead.training.schedules import Constant, Cosine, InverseSqrt, Linear, describe, rate


@pytest.mark.parametrize(
    ("d_model", "update", "expected"),
    [
        # Vaswani et al. 2017, equation 3, worked out with bc to 12 places.
        (512, 1, 1.746928e-07),
        (512, 4000, 6.987712e-04),
        (512, 100000, 1.397542e-04),
        (1024, 4000, 4.941059e-04),
        (1024, 300000, 5.705444e-05),
    ],
)
def test_the_papers_schedule(d_model: int, update: int, expected: float) -> None:
    assert rate(InverseSqrt(), update, d_model=d_model, updates=1) == pytest.approx(expected, rel=1e-6)


def test_its_two_branches_meet_at_the_warm_up() -> None:
    rates = [rate(InverseSqrt(warmup=50), s, d_model=64, updates=1) for s in range(1, 200)]
    assert max(rates) == rates[49]
    assert rates[24] == pytest.approx(rates[49] / 2)
    assert rates[199 - 1] == pytest.approx(rates[49] * (50 / 199) ** 0.5)


def test_factor_scales() -> None:
    one, two = (rate(InverseSqrt(factor=f), 7, d_model=64, updates=1) for f in (1.0, 2.0))
    assert two == pytest.approx(2 * one)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Constant(peak=0.5), {1: 0.5, 1000: 0.5}),
        (Constant(peak=0.5, warmup=10), {1: 0.05, 5: 0.25, 10: 0.5, 11: 0.5}),
        (Linear(peak=0.4, warmup=10), {5: 0.2, 10: 0.4, 60: 0.2, 110: 0.0, 200: 0.0}),
        (Linear(peak=0.4, warmup=0, total=4), {1: 0.3, 4: 0.0}),
        (Cosine(peak=0.4, floor=0.1, warmup=10), {5: 0.2, 10: 0.4, 35: 0.3560660, 60: 0.25, 110: 0.1, 200: 0.1}),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_the_others(schedule: Constant | Linear | Cosine, expected: dict[int, float]) -> None:
    for update, value in expected.items():
        assert rate(schedule, update, d_model=8, updates=110) == pytest.approx(value, abs=1e-7), update


def test_update_zero_does_not_exist() -> None:
    with pytest.raises(ValueError, match="count from 1"):
        rate(InverseSqrt(), 0, d_model=8, updates=1)


def test_the_header_gives_the_formula_with_its_peak() -> None:
    text = describe(InverseSqrt(), d_model=512, updates=1)
    assert text == "1 · 512^-½ · min(s^-½, s · 4000^-1.5), peak 6.988e-04 at s = 4000"
    assert "cosine to 0 at s = 700" in describe(Cosine(), d_model=1, updates=700)


def test_a_descent_is_fixed_when_the_run_begins() -> None:
    """Training on later must not stretch a descent that has already happened."""
    config = structure(TrainingConfig, {"updates": 300, "schedule": {"kind": "cosine"}}).resolved()
    assert config.schedule == Cosine(total=300)
    assert config.resolved() == config
    assert TrainingConfig().resolved() == TrainingConfig()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"schedule": {"kind": "nom"}}, "did you mean 'noam'"),
        ({"schedule": {"kind": "cosine", "factor": 2}}, "schedule.factor: unknown key"),
        ({"schedule": {"warmup": 0}}, "schedule.warmup: must be at least 1"),
        ({"metric": "bleu"}, "only known when score_every"),
        ({"patience": 3, "validate_every": 0}, "set validate_every"),
        ({"average_last": 9}, "needs a keep_last as large"),
        ({"average_last": 1}, "average_last 1 would be a copy"),
        ({"precision": "fp16"}, "precision"),
    ],
)
def test_contradictions_are_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        structure(TrainingConfig, table)


def test_the_papers_optimizer_is_the_default() -> None:
    """§5.3: β₁ 0.9, β₂ 0.98, ε 1e-9; no clipping, no decay."""
    config = TrainingConfig()
    assert (config.optimizer.beta1, config.optimizer.beta2, config.optimizer.epsilon) == (0.9, 0.98, 1e-9)
    assert config.optimizer.kind == "adam"
    assert config.schedule == InverseSqrt(factor=1.0, warmup=4000)
    assert config.clip_norm == 0
    assert config.label_smoothing == 0.1
