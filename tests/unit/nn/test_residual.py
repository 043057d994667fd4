"""Where the norm and the dropout stand around a sub-layer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from clearhead.nn.residual import NormPlacement, Residual


def double(x: Tensor) -> Tensor:
    return 2.0 * x


def residual(placement: NormPlacement, d_model: int = 4, dropout: float = 0.0) -> Residual:
    return Residual(placement, d_model, dropout).double()


def norm(x: Tensor) -> Tensor:
    """Equation 4 of Ba et al. 2016 written out: biased variance, 1e-6 inside the root."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


def check_handbook_norm(function: Callable[[Tensor], Tensor]) -> None:
    seen = function(torch.tensor([2.0, -2.0], dtype=torch.float64))
    truth = torch.tensor([0.9999998750000234, -0.9999998750000234], dtype=torch.float64)
    torch.testing.assert_close(seen, truth, rtol=0, atol=1e-15)


def test_the_norm_of_the_handbook() -> None:
    check_handbook_norm(residual("post", 2).norm)


@pytest.mark.parametrize(
    "fault",
    [
        lambda y: y / y.std(),  # unbiased: ±0.7071
        lambda y: y / (y.std(correction=0) + 1e-6),  # ε outside the root
        torch.nn.LayerNorm(2, eps=1e-5).double(),  # PyTorch's ε
    ],
    ids=["unbiased", "epsilon-outside", "epsilon-1e-5"],
)
def test_other_norms_are_caught(fault: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(AssertionError):
        check_handbook_norm(fault)


def test_post_norm_and_pre_norm_formulas() -> None:
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(residual("post")(x, double), norm(x + 2 * x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(residual("pre")(x, double), x + 2 * norm(x), rtol=1e-12, atol=1e-12)


def test_the_handbooks_block() -> None:
    """x = [1, −2], F(x) = [1, 0]: the sum [2, −2] is normed to ±1 (§9)."""
    seen = residual("post", 2)(torch.tensor([1.0, -2.0]).double(), lambda x: torch.tensor([1.0, 0.0]).double())
    torch.testing.assert_close(seen, torch.tensor([1.0, -1.0]).double(), rtol=0, atol=2e-7)


def test_dropout_falls_on_the_sublayer_and_never_on_the_input() -> None:
    torch.manual_seed(0)
    block = residual("pre", 64, 0.5).train()
    x = torch.full((20, 64), 10.0, dtype=torch.float64)
    added = block(x, torch.ones_like) - x
    assert sorted(set(added.flatten().tolist())) == [0.0, 2.0]
    assert 0.4 < float((added == 0).double().mean()) < 0.6


def test_dropout_comes_before_the_norm() -> None:
    """Dropping after it would leave zeros in the result."""
    torch.manual_seed(0)
    x = torch.randn(50, 64, dtype=torch.float64)
    seen = residual("post", 64, 0.5).train()(x, double)
    assert not bool((seen == 0).any())
    torch.testing.assert_close(seen.mean(-1), torch.zeros(50, dtype=torch.float64), rtol=0, atol=1e-12)
