import itertools
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.base.errors import InputError
from clearhead.data.batches import BatchPlan, Cursor, length_batches, permuted


class FakeStore:
    """Lengths alone, which is all that a plan needs."""

    def __init__(self, source: list[int], target: list[int]) -> None:
        self.sides = {"source": np.array(source, np.int32), "target": np.array(target, np.int32)}

    def __len__(self) -> int:
        return len(self.sides["source"])

    def lengths(self, side: str) -> np.ndarray:
        return self.sides[side]


def random_store(pairs: int, seed: int = 0, longest: int = 60) -> FakeStore:
    rng = np.random.default_rng(seed)
    source = rng.integers(1, longest, pairs)
    return FakeStore(source.tolist(), np.maximum(1, source + rng.integers(-5, 6, pairs)).tolist())


def flat(batches) -> list[int]:
    return [int(i) for batch in batches for i in batch]


@pytest.mark.parametrize("pool", [1, 7, 100, 5000])
@pytest.mark.parametrize("epoch", [0, 3])
def test_every_pair_comes_exactly_once_an_epoch(pool, epoch):
    plan = BatchPlan(random_store(501), 400, seed=1, pool=pool)
    assert Counter(flat(plan.epoch(epoch))) == Counter(range(501))


def test_no_batch_exceeds_the_budget_on_either_side_counting_eos_and_padding():
    store = random_store(2000)
    for batch in BatchPlan(store, 512, seed=3, pool=700).epoch(1):
        for side in ("source", "target"):
            longest = int(store.lengths(side)[batch].max()) + 1
            assert len(batch) * longest <= 512 or len(batch) == 1


def test_a_full_batch_cannot_take_the_next_pair_of_its_pool():
    # one length throughout: 100 tokens hold exactly 20 rows of 4 + EOS
    store = FakeStore([4] * 50, [2] * 50)
    assert sorted(len(b) for b in BatchPlan(store, 100, seed=0).epoch(0)) == [10, 20, 20]


def test_a_pair_longer_than_the_budget_is_alone_and_not_lost():
    store = FakeStore([5, 5, 900, 5], [5, 5, 5, 5])
    batches = list(BatchPlan(store, 60, seed=0).epoch(0))
    assert sorted(flat(batches)) == [0, 1, 2, 3]
    assert [len(b) for b in batches if 2 in b] == [1]


def test_batch_pairs_bounds_rows_alone_or_beside_tokens():
    store = random_store(300)
    alone = list(BatchPlan(store, None, seed=0, batch_pairs=16).epoch(0))
    assert sorted(len(b) for b in alone)[1:] == [16] * 18  # 300 = 18 × 16 + 12
    both = list(BatchPlan(store, 200, seed=0, batch_pairs=16).epoch(0))
    assert max(len(b) for b in both) == 16
    assert all(len(b) == 1 or len(b) * (store.lengths("target")[b].max() + 1) <= 200 for b in both)


def test_batches_hold_pairs_of_like_length():
    """Padding stays small: this is what bucketing is for. Batches of the same sizes in random order waste far more."""
    store = random_store(5000)
    batches = list(BatchPlan(store, 1000, seed=0).epoch(0))

    def padded(groups) -> int:
        return sum(len(g) * int(store.lengths(side)[g].max()) for g in groups for side in ("source", "target"))

    true = int(store.lengths("source").sum() + store.lengths("target").sum())
    shuffled = np.random.default_rng(0).permutation(5000)
    cuts = np.cumsum([len(b) for b in batches])[:-1]
    assert padded(batches) < 1.05 * true
    assert padded(np.split(shuffled, cuts)) > 1.3 * true


def test_same_seed_same_batches_other_seed_or_epoch_other_batches():
    store = random_store(400)

    def stream(seed, epoch):
        return [batch.tolist() for batch in BatchPlan(store, 300, seed=seed, pool=128).epoch(epoch)]

    assert stream(5, 2) == stream(5, 2)
    assert stream(5, 2) != stream(6, 2)
    assert stream(5, 2) != stream(5, 3)
    assert {tuple(sorted(b)) for b in stream(5, 2)} != {tuple(sorted(b)) for b in stream(5, 3)}


def test_the_order_of_batches_is_shuffled_not_by_length():
    store = random_store(5000)
    means = [store.lengths("target")[b].mean() for b in BatchPlan(store, 1000, seed=0).epoch(0)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3


@pytest.mark.parametrize("pool", [40, 250])
def test_resuming_at_any_cursor_gives_the_identical_rest(pool):
    """Three epochs, so that epoch boundaries are among the places to resume."""
    store = random_store(97)
    fresh = list(itertools.takewhile(lambda s: s[1].pairs <= 3 * 97, BatchPlan(store, 150, 9, pool=pool).stream()))
    assert fresh[-1][1] == Cursor(3, 0, 3 * 97)
    assert [b.tolist() for b, _ in fresh] == [
        b.tolist() for e in range(3) for b in BatchPlan(store, 150, 9, pool=pool).epoch(e)
    ]
    for done, (_, cursor) in enumerate(fresh[:-1], 1):
        stored = Cursor.from_dict(json.loads(json.dumps(cursor.to_dict())))
        rest = itertools.islice(BatchPlan(store, 150, 9, pool=pool).stream(stored), len(fresh) - done)
        assert [(b.tolist(), c) for b, c in rest] == [(b.tolist(), c) for b, c in fresh[done:]]


def test_a_cursor_counts_batches_of_the_epoch_and_pairs_since_the_start():
    plan = BatchPlan(FakeStore([1] * 10, [1] * 10), None, seed=0, batch_pairs=4)
    cursors = [cursor for _, cursor in itertools.islice(plan.stream(), 4)]
    sizes = [len(batch) for batch, _ in itertools.islice(plan.stream(), 4)]
    assert sorted(sizes[:3]) == [2, 4, 4]
    assert cursors == [
        Cursor(0, 1, sizes[0]),
        Cursor(0, 2, sizes[0] + sizes[1]),
        Cursor(1, 0, 10),
        Cursor(1, 1, 10 + sizes[3]),
    ]


@pytest.mark.parametrize(
    "changed",
    [
        lambda: BatchPlan(random_store(97), 100, 9),  # another budget
        lambda: BatchPlan(random_store(96), 150, 9),  # another corpus
        lambda: BatchPlan(random_store(97, seed=1), 150, 9),  # other lengths
    ],
)
def test_a_cursor_of_another_plan_is_refused_not_silently_misread(changed):
    cursors = [c for _, c in itertools.islice(BatchPlan(random_store(97), 150, 9).stream(), 40)]
    refused = 0
    for cursor in cursors:
        try:
            next(changed().stream(cursor))
        except InputError:
            refused += 1
    assert refused > 10


def test_a_damaged_cursor_is_refused():
    with pytest.raises(InputError, match="data position"):
        Cursor.from_dict({"epoch": 0, "batch": -1, "pairs": 0})
    with pytest.raises(InputError, match="data position"):
        Cursor.from_dict({"epoch": 0, "batch": 1})


def test_a_plan_without_budget_or_pairs_is_refused():
    with pytest.raises(InputError, match="budget"):
        BatchPlan(random_store(3), None, 0)
    with pytest.raises(InputError, match="no pairs"):
        BatchPlan(FakeStore([], []), 10, 0)
    with pytest.raises(InputError, match="batch_tokens"):
        BatchPlan(random_store(3), 0, 0)


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
@settings(max_examples=60, deadline=None)
def test_permuted_is_a_permutation(size, key):
    assert sorted(permuted(0, size, size, key).tolist()) == list(range(size))


def test_permuted_can_be_asked_in_pieces_and_depends_on_the_key():
    whole = permuted(0, 1000, 1000, 7)
    pieces = [permuted(a, min(a + 130, 1000), 1000, 7) for a in range(0, 1000, 130)]
    assert np.concatenate(pieces).tolist() == whole.tolist()
    assert permuted(0, 1000, 1000, 8).tolist() != whole.tolist()


def test_permuted_spreads_like_a_random_permutation():
    """Places and values are uncorrelated, neighbours are not kept, and all first places are about equally likely."""
    whole = permuted(0, 10_000, 10_000, 11)
    assert abs(np.corrcoef(whole, np.arange(10_000))[0, 1]) < 0.03
    assert (np.abs(np.diff(whole)) == 1).sum() < 20  # 2 are expected
    firsts = Counter(int(permuted(0, 1, 10, key)[0]) for key in range(5000))
    assert all(400 < firsts[value] < 600 for value in range(10))


def test_the_order_is_pinned_so_that_old_checkpoints_stay_resumable():
    assert permuted(0, 10, 10, 1234).tolist() == PINNED


PINNED = [8, 4, 7, 9, 5, 3, 0, 6, 2, 1]


@given(st.lists(st.integers(1, 50), max_size=80), st.integers(1, 200), st.none() | st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_length_batches_cover_all_once_within_the_budget(lengths, budget, rows):
    batches = length_batches(lengths, budget, rows=rows)
    assert sorted(flat(batches)) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
        assert rows is None or len(batch) <= rows
    assert [lengths[i] for i in flat(batches)] == sorted(lengths, reverse=True)


def test_pools_are_drawn_anew_each_epoch():
    """Otherwise the same pairs would share a pool, and so a batch, for ever."""
    plan = BatchPlan(random_store(400), None, seed=5, batch_pairs=20, pool=100)
    first_pools = [frozenset(flat(itertools.islice(plan.epoch(epoch), 5))) for epoch in range(3)]
    assert [len(pool) for pool in first_pools] == [100, 100, 100]
    assert len(set(first_pools)) == 3
