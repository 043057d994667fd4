"""Position tables against the handbook's numbers, and how they grow and end."""

from __future__ import annotations

import math

import pytest
import torch

from clearhead.base.errors import InputError
from clearhead.nn.positions import LearnedPositions, SinusoidalPositions, sinusoidal_table

LIKE = torch.zeros(1, dtype=torch.float64)


def test_the_handbooks_numbers() -> None:
    truth = [
        [0.0, 1.0, 0.0, 1.0],
        [0.8414709848078965, 0.5403023058681398, 0.009999833334166664, 0.9999500004166653],
        [0.9092974268256817, -0.4161468365471424, 0.01999866669333308, 0.9998000066665778],
    ]
    torch.testing.assert_close(sinusoidal_table(3, 4), torch.tensor(truth, dtype=torch.float64), rtol=0, atol=1e-15)


@pytest.mark.parametrize("d_model", [1, 5, 8, 512])
def test_the_formula_written_out(d_model: int) -> None:
    """Sine at the even places, cosine of the same angle at the odd ones; an odd width ends on a sine."""
    table = sinusoidal_table(40, d_model)
    assert table.shape == (40, d_model)
    for position in (0, 3, 39):
        for place in range(d_model):
            angle = position / 10000 ** ((place - place % 2) / d_model)
            assert float(table[position, place]) == pytest.approx([math.sin, math.cos][place % 2](angle), abs=1e-12)


def test_a_fixed_offset_is_a_rotation() -> None:
    table = sinusoidal_table(60, 8)
    for pair in range(4):
        angle = 7 / 10000 ** (2 * pair / 8)
        sine, cosine = table[:50, 2 * pair], table[:50, 2 * pair + 1]
        turned = sine * math.cos(angle) + cosine * math.sin(angle)
        torch.testing.assert_close(table[7:57, 2 * pair], turned, rtol=0, atol=1e-12)


def test_the_table_grows_past_any_length() -> None:
    positions = SinusoidalPositions(6)
    for last in (3, 255, 256, 5000, 10):
        seen = positions(torch.tensor([[0, last]]), LIKE)
        assert torch.equal(seen[0], sinusoidal_table(last + 1, 6)[[0, last]])


def test_far_positions_are_exact_in_half_precision() -> None:
    """Worked out in float64 and then rounded; angles in bfloat16 would be off by several turns."""
    seen = SinusoidalPositions(4)(torch.tensor([[4001]]), torch.zeros(1, dtype=torch.bfloat16))
    assert seen.dtype is torch.bfloat16
    assert torch.equal(seen[0], sinusoidal_table(4002, 4)[4001:].to(torch.bfloat16))


def test_sinusoids_are_neither_learnt_nor_saved() -> None:
    positions = SinusoidalPositions(6)
    positions(torch.tensor([[3]]), LIKE)
    assert positions.state_dict() == {}
    assert list(positions.parameters()) == []


def test_no_positions_at_all() -> None:
    assert SinusoidalPositions(6)(torch.zeros(2, 0, dtype=torch.int64), LIKE).shape == (2, 0, 6)


def test_a_table_grown_in_inference_serves_training() -> None:
    positions, scale = SinusoidalPositions(6), torch.ones(6, dtype=torch.float64, requires_grad=True)
    with torch.inference_mode():
        positions(torch.tensor([[9]]), LIKE)
    (positions(torch.tensor([[9]]), LIKE) * scale).sum().backward()
    assert scale.grad is not None


def test_learnt_positions_end() -> None:
    positions = LearnedPositions(4, 6)
    torch.nn.init.normal_(positions.weight)
    assert torch.equal(positions(torch.tensor([[5, 0]]), LIKE)[0], positions.weight[[5, 0]])
    with pytest.raises(InputError, match=r"position 6 asked of a model that learnt 6 positions.*max_positions"):
        positions(torch.tensor([[2, 6]]), LIKE)
