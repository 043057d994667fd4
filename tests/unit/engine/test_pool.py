"""The pool: who may write where, what copies keep, and what a state sees of it."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.decoding.fixed import rows_apart
from clearhead.engine.pool import FIRST_CAPACITY, LOW, FusedState, Pool, Sources, bias_of


def filled(columns: int, sentences: int = 2) -> Pool:
    """Two layers, in which the keys of column c of sentence b are 100·b + c, and the values the negative."""
    pool = Pool.empty(2, sentences, 1, 1, torch.empty(0, dtype=torch.float64))
    if not pool.claim(0, columns):
        pool = pool.copy(0, columns)
    for layer in pool.layers:
        keys = 100 * torch.arange(sentences)[:, None] + torch.arange(columns)
        layer[0, :, 0, :columns, 0], layer[1, :, 0, :columns, 0] = keys, -keys
    return pool


def keys(pool: Pool, columns: int) -> list[list[int]]:
    for layer in pool.layers:
        assert torch.equal(layer[1, ..., :columns, :], -layer[0, ..., :columns, :])
        assert torch.equal(layer[..., :columns, :], pool.layers[0][..., :columns, :])
    return pool.layers[0][0, :, 0, :columns, 0].int().tolist()


def state(visible: Tensor, pool: Pool) -> FusedState:
    sentences, beams, _ = visible.shape
    sources = Sources((torch.zeros(2, sentences, 1, 1, 1),), torch.ones(sentences, 1, dtype=torch.bool))
    return FusedState(torch.zeros(sentences * beams, dtype=torch.int64), visible, pool, sources)


def test_the_first_to_write_claims_and_others_copy() -> None:
    pool = filled(5)
    assert pool.claim(5, 2)
    assert not pool.claim(5, 2)  # another wrote behind these five
    assert pool.claim(7, 1)
    copy = pool.copy(5, 2)
    assert (copy.used, copy.capacity) == (7, FIRST_CAPACITY)
    assert keys(copy, 5) == [[0, 1, 2, 3, 4], [100, 101, 102, 103, 104]]
    copy.layers[0].zero_()
    assert keys(pool, 5)[1][4] == 104
    assert not pool.claim(8, FIRST_CAPACITY)  # no room


def test_room_doubles() -> None:
    full = filled(FIRST_CAPACITY)
    assert not full.claim(FIRST_CAPACITY, 1)
    assert full.copy(FIRST_CAPACITY, 1).capacity == 2 * FIRST_CAPACITY
    assert keys(full.copy(FIRST_CAPACITY, 1), FIRST_CAPACITY) == keys(full, FIRST_CAPACITY)
    assert filled(3).copy(3, 5 * FIRST_CAPACITY).capacity == 8 * FIRST_CAPACITY


def dead_columns(sentences: int = 2) -> Tensor:
    """Of a full pool, hypothesis k of sentence b sees columns b, b + 3 and 20 + k."""
    visible = torch.zeros(sentences, 2, FIRST_CAPACITY, dtype=torch.bool)
    for b in range(sentences):
        visible[b, :, [b, b + 3]] = True
        visible[b, 0, 20] = visible[b, 1, 21] = True
    visible[0, 0, 30] = True
    return visible


def seen(each: FusedState) -> list[list[set[int]]]:
    columns = keys(each.pool, each.visible.shape[2])
    return [
        [{columns[b][int(place)] for place in line.nonzero()} for line in lines] for b, lines in enumerate(each.visible)
    ]


def test_a_full_pool_leaves_out_what_nobody_sees() -> None:
    before = state(dead_columns(), filled(FIRST_CAPACITY))
    expected = [[{0, 3, 20, 30}, {0, 3, 21}], [{101, 104, 120}, {101, 104, 121}]]
    assert seen(before) == expected
    after = before.claimed(2)
    assert seen(after) == expected
    assert after.visible.shape[2] == 5  # as many as the first sentence needs
    assert (after.pool.used, after.pool.capacity) == (7, FIRST_CAPACITY)
    assert after.pool is not before.pool


def test_nothing_is_left_out_where_company_must_not_matter() -> None:
    before = state(dead_columns(), filled(FIRST_CAPACITY))
    with rows_apart():
        after = before.claimed(2)
    assert torch.equal(after.visible, before.visible)
    assert after.pool.capacity == 2 * FIRST_CAPACITY


def test_rows_touch_the_mask_alone_until_sentences_move() -> None:
    before = state(dead_columns(3), filled(FIRST_CAPACITY, 3))
    swapped = before.rows(torch.tensor([[1, 0, 1], [2, 2, 2], [5, 4, 4]]))
    assert swapped.pool is before.pool
    assert swapped.sources is before.sources
    assert seen(swapped)[0] == [{0, 3, 21}, {0, 3, 20, 30}, {0, 3, 21}]
    moved = before.rows(torch.tensor([[4], [1]]))
    assert moved.pool is not before.pool
    assert seen(moved) == [[{202, 205, 220}], [{0, 3, 21}]]
    assert len(moved.sources.mask) == 2


def test_join_hides_what_it_pads() -> None:
    one, two = state(torch.ones(1, 2, 3, dtype=torch.bool), filled(3, 1)), state(torch.ones(2, 2, 5) > 0, filled(5))
    for joined, shape in ((one.join(two), (3, 5)), (two.join(one), (5, 3))):
        lengths = joined.visible.sum(2)[:, 0].tolist()
        assert sorted(lengths) == [3, 5, 5]
        assert joined.pool.used == max(shape)
        assert len(joined.positions) == 6
    assert seen(one.join(two))[2] == [{100, 101, 102, 103, 104}] * 2


def test_sources_of_unequal_length_join() -> None:
    short = Sources((torch.ones(2, 1, 2, 3, 4),), torch.ones(1, 3, dtype=torch.bool))
    long = Sources((2 * torch.ones(2, 2, 2, 5, 4),), torch.tensor([[True] * 5, [False] * 5]))
    joined = short.join(long)
    assert joined.mask.tolist() == [[True] * 3 + [False] * 2, [True] * 5, [False] * 5]
    assert joined.layers[0].shape == (2, 3, 2, 5, 4)
    assert joined.layers[0][0, :, 0, :, 0].tolist() == [[1, 1, 1, 0, 0], [2] * 5, [2] * 5]
    assert joined.blank is not None
    assert joined.blank.flatten().tolist() == [False, False, True]
    assert short.blank is None
    assert joined.rows(torch.tensor([2, 0])).mask.tolist() == [[False] * 5, [True] * 3 + [False] * 2]


def test_bias_is_zero_or_low() -> None:
    assert bias_of(torch.tensor([True, False]), torch.float64).tolist() == [0.0, LOW]
    assert bias_of(torch.tensor([True, False]), torch.float32).softmax(-1).tolist() == [1.0, 0.0]
