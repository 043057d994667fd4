from __future__ import annotations

import torch

from clearhead.nn.cache import Kept


def kept(rows: int, positions: int, first: float = 0.0) -> Kept:
    keys = torch.arange(first, first + rows * positions).view(rows, 1, positions, 1)
    return Kept(keys, -keys)


def test_append_puts_later_positions_behind() -> None:
    both = kept(2, 2).append(kept(2, 1, 10.0))
    assert both.keys.flatten(1).tolist() == [[0, 1, 10], [2, 3, 11]]
    assert torch.equal(both.values, -both.keys)
    empty = Kept(torch.empty(2, 1, 0, 1), torch.empty(2, 1, 0, 1))
    assert torch.equal(empty.append(kept(2, 2)).keys, kept(2, 2).keys)


def test_rows_copies_reorders_and_drops() -> None:
    chosen = kept(3, 2).rows(torch.tensor([2, 0, 2]))
    assert chosen.keys.flatten(1).tolist() == [[4, 5], [0, 1], [4, 5]]
    assert torch.equal(chosen.values, -chosen.keys)


def test_join_pads_the_shorter_on_the_right() -> None:
    for joined in (kept(1, 1, 5.0).join(kept(1, 3)), kept(1, 1, 5.0).join(kept(1, 3)).rows(torch.tensor([0, 1]))):
        assert joined.keys.flatten(1).tolist() == [[5, 0, 0], [0, 1, 2]]
    assert kept(1, 3).join(kept(1, 1, 5.0)).values.flatten(1).tolist() == [[0, -1, -2], [-5, 0, 0]]
