"""Choosing exactly, ties and all, against a sort in plain Python."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.base.errors import DecodingError
from clearhead.decoding import select
from clearhead.decoding.select import top_tokens
from clearhead.text.symbols import BOS, EOS, PAD, UNK


def by_sorting(row: list[float], count: int) -> list[int]:
    """The `count` best ids from EOS upwards: higher first, then lower id."""
    return sorted(range(EOS, len(row)), key=lambda token: (-row[token], token))[:count]


@given(st.lists(st.lists(st.integers(-2, 2), min_size=12, max_size=12), min_size=1, max_size=5), st.integers(1, 12))
def test_ties_go_to_the_lower_token(rows: list[list[int]], count: int) -> None:
    logits = torch.tensor(rows, dtype=torch.float64)
    values, tokens = top_tokens(logits, count)
    assert tokens.tolist() == [by_sorting(row, count) for row in logits.tolist()]
    assert torch.equal(values, logits.log_softmax(-1).gather(1, tokens))


def test_many_equal_tokens_in_a_large_vocabulary() -> None:
    """Where `torch.topk` alone picks any of the equal ones."""
    logits = torch.zeros(3, 5000)
    logits[1, 4321] = 1.0
    assert top_tokens(logits, 4)[1].tolist() == [[3, 4, 5, 6], [4321, 3, 4, 5], [3, 4, 5, 6]]


@pytest.mark.parametrize("width", [3 + 64 * 12, 3 + 64 * 12 + 17, 3 + 64 * 40])
@pytest.mark.parametrize("kinds", [3, 50, 10**6])
def test_wide_rows_are_chosen_exactly(width: int, kinds: int) -> None:
    """Searched by chunks; with 3 and 50 different values ties cross the cut and the chunks."""
    generator = torch.Generator().manual_seed(width + kinds)
    logits = torch.randint(kinds, (6, width), generator=generator).double()
    logits[0, -1] = logits[1, 3] = kinds + 1.0  # the ends of the row
    for count in (1, 2, 9):
        found = top_tokens(logits, count)[1].tolist()
        assert found == [by_sorting(row, count) for row in logits.tolist()]


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(7, 50, generator=torch.Generator().manual_seed(0))
    may_end = torch.tensor([True, False, True, False, True, True, True])
    must_end = ~may_end & torch.tensor([False, False, False, False, True, True, True])
    must_end[5] = True
    whole = top_tokens(logits, 5, may_end, must_end)
    monkeypatch.setattr(select, "BLOCK", 100)  # two rows a block
    parts = top_tokens(logits, 5, may_end, must_end)
    assert all(torch.equal(one, two) for one, two in zip(whole, parts, strict=True))
    assert EOS not in whole[1][1].tolist() or whole[0][1][whole[1][1] == EOS].tolist() == [-math.inf]
    assert whole[1][5, 0] == EOS
    assert whole[0][5, 1:].tolist() == [-math.inf] * 4


def test_reserved_tokens_are_never_chosen_nor_renormalised_away() -> None:
    logits = torch.zeros(1, 6, dtype=torch.float64)
    logits[0, [PAD, UNK, BOS]] = 9.0
    values, tokens = top_tokens(logits, 9)
    assert tokens.tolist() == [[3, 4, 5]]
    # The model's own probability, 1 / (3 e^9 + 3), not 1/3.
    assert values[0, 0].item() == pytest.approx(-math.log(3 * math.exp(9) + 3))


def test_logits_are_left_as_they_were() -> None:
    logits = torch.randn(2, 9)
    before = logits.clone()
    top_tokens(logits, 2, torch.tensor([False, True]), torch.tensor([False, True]))
    assert torch.equal(logits, before)


def test_half_precision_is_normalised_in_float32() -> None:
    logits = torch.randn(2, 3000, generator=torch.Generator().manual_seed(1)).bfloat16()
    values, tokens = top_tokens(logits, 3)
    assert values.dtype == torch.float32
    assert torch.equal(values, logits.float().log_softmax(-1).gather(1, tokens))


def test_not_a_number_is_an_error() -> None:
    logits = torch.zeros(2, 9)
    logits[1, 4] = math.nan
    with pytest.raises(DecodingError, match="not a number"):
        top_tokens(logits, 2)
