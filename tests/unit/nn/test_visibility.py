from __future__ import annotations

import pytest
import torch

from clearhead.nn.visibility import HIDDEN, Visibility


def test_causal_is_by_position_not_by_place() -> None:
    """A query at position 2 over a cache whose second place is padding: positions 0, –, 1, 2."""
    keys = torch.tensor([[0, HIDDEN, 1, 2, 3]])
    visible = Visibility.causal(torch.tensor([[1, 2]]), keys)
    assert visible.mask.int().tolist() == [[[[1, 0, 1, 0, 0], [1, 0, 1, 1, 0]]]]


def test_causal_over_a_square_is_the_lower_triangle() -> None:
    places = torch.arange(4)[None]
    assert torch.equal(Visibility.causal(places, places).mask[0, 0], torch.ones(4, 4, dtype=torch.bool).tril())


def test_keys_are_hidden_from_every_query_alike() -> None:
    mask = torch.tensor([[True, False, True], [True, True, False]])
    assert torch.equal(Visibility.of_keys(mask).mask, mask[:, None, None])


def test_nothing_is_blank_unless_a_whole_row_is() -> None:
    assert Visibility.of_keys(torch.tensor([[True, False]])).blank is None
    blank = Visibility.of_keys(torch.tensor([[True, False], [False, False]])).blank
    assert blank is not None
    assert blank.flatten().tolist() == [False, True]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_bias_is_finite_and_its_weight_exactly_zero(dtype: torch.dtype) -> None:
    bias = Visibility.of_keys(torch.tensor([[True, False]])).bias(dtype)
    assert bias.dtype is dtype
    assert bool(torch.isfinite(bias).all())
    # A visible score as low, and a hidden one as high, as a trained model has.
    assert (bias + torch.tensor([-500.0, 500.0], dtype=dtype)).softmax(-1).flatten().tolist() == [1.0, 0.0]
