from __future__ import annotations

import math

import torch

from clearhead.nn.embedding import Embedding, Projection


def test_rows_are_scaled_by_the_root_of_the_width() -> None:
    embedding = Embedding(7, 9)
    torch.nn.init.normal_(embedding.weight)
    ids = torch.tensor([[3, 0], [6, 3]])
    assert torch.equal(embedding(ids), embedding.weight[ids] * 3.0)


def test_normal_rows_of_variance_one_over_d_enter_with_unit_variance() -> None:
    embedding = Embedding(200, 128)
    torch.nn.init.normal_(embedding.weight, std=1 / math.sqrt(128), generator=torch.Generator().manual_seed(0))
    assert abs(float(embedding(torch.arange(200)[None]).detach().var()) - 1) < 0.05


def test_the_projection_has_no_bias_and_no_scale() -> None:
    projection = Projection(7, 9).double()
    torch.nn.init.normal_(projection.weight)
    hidden = torch.randn(2, 3, 9, dtype=torch.float64)
    torch.testing.assert_close(projection(hidden), hidden @ projection.weight.t(), rtol=1e-12, atol=1e-12)
    chosen = torch.tensor([5, 1])
    torch.testing.assert_close(projection(hidden, chosen), projection(hidden)[..., chosen], rtol=1e-12, atol=1e-12)
    assert [name for name, _ in projection.named_parameters()] == ["weight"]


def test_the_gradient_is_scaled_too() -> None:
    embedding = Embedding(4, 16)
    torch.nn.init.zeros_(embedding.weight)
    embedding(torch.tensor([[1, 1, 2]])).sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad[:, 0].tolist() == [0.0, 8.0, 4.0, 0.0]
