"""Length penalties by hand."""

import math

import pytest

from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.penalties import attainable, divisor, formula, score


def test_the_papers_penalty_by_hand() -> None:
    # |Y| = 19 with EOS, alpha 0.6: (24 / 6)^0.6 = 4^0.6 = 2.29739671...; -6.0 / that = -2.61165169...
    assert divisor("gnmt", 0.6, 19) == pytest.approx(2.29739671, abs=1e-8)
    assert score(DecodingConfig(), -6.0, 19) == pytest.approx(-2.61165169, abs=1e-8)
    # |Y| = 1 divides by 1: nothing is won or lost.
    assert score(DecodingConfig(), -6.0, 1) == -6.0


def test_plain_length_and_none() -> None:
    assert score(DecodingConfig(penalty="length", alpha=1.0), -6.0, 4) == -1.5
    assert score(DecodingConfig(penalty="length", alpha=0.5), -6.0, 4) == -3.0
    assert score(DecodingConfig(penalty="none"), -6.0, 4) == -6.0


def test_the_best_divisor_is_at_the_favourable_end() -> None:
    longest = DecodingConfig(penalty="length", alpha=1.0)
    assert attainable(longest, 3, 10) == 10.0
    assert attainable(DecodingConfig(penalty="length", alpha=-1.0), 3, 10) == pytest.approx(1 / 3)
    for alpha in (-1.0, 0.0, 0.6, 2.0):
        config = DecodingConfig(alpha=alpha)
        best = max(score(config, -4.0, length) for length in range(3, 11))
        assert math.isclose(-4.0 / attainable(config, 3, 10), best)


def test_the_formula_names_what_is_computed() -> None:
    assert formula(DecodingConfig(alpha=0.6)) == "log P(Y|X) / ((5 + |Y|) / 6)^0.6"
    assert formula(DecodingConfig(penalty="length", alpha=1.0)) == "log P(Y|X) / |Y|^1"
    assert formula(DecodingConfig(penalty="none")) == "log P(Y|X)"
