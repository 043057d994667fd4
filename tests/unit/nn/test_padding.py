from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.nn.padding import Padded


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), max_size=5), max_size=5))
def test_lists_come_back(lines: list[list[int]]) -> None:
    padded = Padded.from_lists(lines)
    assert len(padded) == len(lines)
    assert padded.lengths.tolist() == [len(line) for line in lines]
    assert [row[seen].tolist() for row, seen in zip(padded.ids, padded.mask)] == lines
    assert padded.ids.shape[1] == max(map(len, lines), default=0)


def test_the_mask_follows_from_the_lengths_and_not_from_the_ids() -> None:
    """A real token may have the id of padding, and padding any id."""
    padded = Padded(torch.tensor([[0, 4, 9], [7, 9, 9]]), torch.tensor([2, 1]))
    assert padded.mask.tolist() == [[True, True, False], [True, False, False]]


def test_rows_and_full() -> None:
    padded = Padded.from_lists([[5, 6], [7], []]).rows(torch.tensor([2, 0, 0]))
    assert (padded.ids.tolist(), padded.lengths.tolist()) == ([[0, 0], [5, 6], [5, 6]], [0, 2, 2])
    assert Padded.full(torch.tensor([[1, 0]])).mask.all()
