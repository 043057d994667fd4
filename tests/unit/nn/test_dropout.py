"""Dropout's statistics within five standard deviations, its mask, and the faults that these tests catch."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.nn.dropout import Dropout

N = 200_000


def check_statistics(dropout: Callable[[Tensor], Tensor], rate: float) -> None:
    """Dropped with probability `rate`, one by one; the survivors scaled so that the expectation is kept."""
    torch.manual_seed(1)
    seen = dropout(torch.ones(N))
    dropped = (seen == 0).double()
    deviation = math.sqrt(rate * (1 - rate) / N)
    assert abs(float(dropped.mean()) - rate) < 5 * deviation
    kept = seen[seen != 0]
    assert torch.allclose(kept, torch.full_like(kept, 1 / (1 - rate)), rtol=1e-3)
    assert abs(float(seen.double().mean()) - 1) < 5 * deviation / (1 - rate)
    # Neighbours (the four that share a word among them) are dropped independently: no correlation at lags 1 to 4.
    for lag in range(1, 5):
        both = float((dropped[lag:] * dropped[:-lag]).mean())
        assert abs(both - rate**2) < 5 * math.sqrt(rate**2 * (1 - rate**2) / N)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_statistics(rate: float) -> None:
    check_statistics(Dropout(rate).train(), rate)


@pytest.mark.parametrize(
    "fault",
    [
        lambda x: x * (torch.rand_like(x) >= 0.3),  # not scaled
        lambda x: F.dropout(x, 0.31),  # another rate
        lambda x: F.dropout(torch.ones(len(x) // 4), 0.3).repeat_interleave(4),  # one decision for four
    ],
    ids=["unscaled", "wrong-rate", "shared-decisions"],
)
def test_faults_are_caught(fault: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(AssertionError):
        check_statistics(fault, 0.3)


def test_the_scale_is_the_inverse_of_the_rate_that_results() -> None:
    """0.1 becomes 6554/65536; scaled by exactly its inverse, the expectation is kept without bias."""
    torch.manual_seed(0)
    kept = Dropout(0.1).train()(torch.ones(100, dtype=torch.float64)).max()
    assert float(kept) == 65536 / (65536 - 6554)


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (1,), (0, 4)])
def test_the_gradient_has_the_same_mask(shape: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    x = torch.full(shape, 3.0, requires_grad=True)
    seen = Dropout(0.5).train()(x)
    seen.backward(torch.full(shape, 3.0))
    assert x.grad is not None
    assert torch.equal(x.grad, seen)  # x and the incoming gradient are alike, so both are mask · scale · 3
    assert seen.shape == shape


def test_inputs_need_not_be_contiguous() -> None:
    torch.manual_seed(2)
    x = torch.arange(1.0, 25.0).view(4, 6).t()
    seen = Dropout(0.5).train()(x)
    assert torch.equal(seen[seen != 0], 2 * x[seen != 0])


def test_evaluation_is_the_identity() -> None:
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_the_seed_decides() -> None:
    dropout, x = Dropout(0.5).train(), torch.ones(64)
    torch.manual_seed(5)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(5)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_type_is_kept(dtype: torch.dtype) -> None:
    x = torch.ones(64, dtype=dtype, requires_grad=True)
    seen = Dropout(0.5).train()(x)
    seen.sum().backward()
    assert seen.dtype is dtype
    assert x.grad is not None
    assert x.grad.dtype is dtype


def test_a_rate_that_rounds_to_one_leaves_the_scale_finite() -> None:
    torch.manual_seed(0)
    assert bool(torch.isfinite(Dropout(0.9999999).train()(torch.ones(1000))).all())
