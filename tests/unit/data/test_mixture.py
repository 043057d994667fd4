from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest

from clearhead.base.errors import InputError
from clearhead.data import mixture as module
from clearhead.data.batches import BatchPlan
from clearhead.data.mixture import Mixture, weighted_pairs


class FakeStore:
    """Pairs that say who they are: the source is [corpus, pair], the target [showing]."""

    def __init__(self, corpus: int, pairs: int) -> None:
        self.corpus = corpus
        self.key = f"key {corpus}"
        rng = np.random.default_rng(corpus)
        self.sides = {side: rng.integers(1, 30, pairs).astype(np.int32) for side in ("source", "target")}

    def __len__(self) -> int:
        return len(self.sides["source"])

    def lengths(self, side: str) -> np.ndarray:
        return self.sides[side]

    def pair(self, index: int, epoch: int = 0) -> tuple[list[int], list[int]]:
        assert 0 <= index < len(self)
        return [self.corpus, index], [epoch]


def mixture(*parts: tuple[int, float], seed: int = 1) -> Mixture:
    return Mixture([FakeStore(i, pairs) for i, (pairs, _) in enumerate(parts)], [w for _, w in parts], seed)


def epoch_of(mixed: Mixture, epoch: int) -> Counter[tuple[int, int]]:
    """How often an epoch shows each (corpus, pair), counted one by one."""
    _, pairs = mixed.batch(np.arange(len(mixed)), epoch)
    return Counter((source[0], source[1]) for source, _ in pairs)


def test_a_mixture_that_ignores_weights_is_noticed(monkeypatch):
    """Control of the count below."""
    monkeypatch.setattr(module, "_share", lambda pairs, weight: module._Share(pairs, 1, 0))
    with pytest.raises(AssertionError):
        test_weights_two_one_and_a_half_counted_pair_by_pair()


def test_weights_two_one_and_a_half_counted_pair_by_pair():
    mixed = mixture((30, 2), (20, 1), (40, 0.5))
    assert (len(mixed), mixed.pairs, mixed.slots) == (60 + 20 + 20, 90, (60, 20, 20))
    epochs = [epoch_of(mixed, epoch) for epoch in range(4)]
    for counts in epochs:
        assert {counts[0, pair] for pair in range(30)} == {2}
        assert {counts[1, pair] for pair in range(20)} == {1}
        assert {counts[2, pair] for pair in range(40)} == {0, 1}
        assert counts.total() == len(mixed)
    first, second = ({key for key in counts if key[0] == 2} for counts in epochs[:2])
    assert first.isdisjoint(second)
    assert first | second == {(2, pair) for pair in range(40)}
    assert first != {(2, pair) for pair in range(20)}  # chosen, not the first half


@pytest.mark.parametrize(("weight", "slots"), [(0.3, 11), (0.75, 28), (1.5, 56), (2.4, 89), (1.999, 74)])
def test_no_pair_is_ever_ahead_by_more_than_one_and_epochs_are_equally_long(weight, slots):
    mixed = mixture((37, weight))
    assert len(mixed) == slots
    shown: Counter[tuple[int, int]] = Counter()
    for epoch in range(12):
        counts = epoch_of(mixed, epoch)
        assert counts.total() == len(mixed)
        shown += counts
        times = [shown[0, pair] for pair in range(37)]
        assert max(times) - min(times) <= 1
    assert sum(times) == 12 * len(mixed)


def test_a_corpus_is_never_left_out_altogether():
    mixed = mixture((3, 0.01), (100, 1))
    assert mixed.slots == (1, 100)
    assert {key for epoch in range(3) for key in epoch_of(mixed, epoch) if key[0] == 0} == {(0, 0), (0, 1), (0, 2)}


def test_the_choice_follows_from_the_seed():
    one, same, other = (epoch_of(mixture((50, 0.5), seed=seed), 3) for seed in (1, 1, 2))
    assert one == same != other


def test_no_two_showings_of_a_pair_are_sampled_alike():
    mixed = mixture((7, 2.5), (5, 1), (9, 0.4))
    seen = Counter()
    for epoch in range(6):
        _, pairs = mixed.batch(np.arange(len(mixed)), epoch)
        seen.update((*source, *target) for source, target in pairs)
    assert set(seen.values()) == {1}


def test_the_lengths_of_an_epoch_are_those_of_what_it_shows():
    mixed = mixture((30, 1.7), (20, 1), (40, 0.5))
    slots = np.random.default_rng(0).permutation(len(mixed))[:50]
    for epoch in (0, 5):
        _, pairs = mixed.batch(slots, epoch)
        for side in ("source", "target"):
            expected = [mixed.stores[source[0]].lengths(side)[source[1]] for source, _ in pairs]
            assert mixed.epoch(epoch).lengths(side)[slots].tolist() == expected


def test_numbers_count_through_the_corpora():
    mixed = mixture((10, 2), (20, 1))
    numbers, pairs = mixed.batch(np.arange(len(mixed)), 0)
    assert numbers == [source[1] + (10 if source[0] else 0) for source, _ in pairs]


def test_one_corpus_shown_once_is_the_corpus_itself():
    mixed = mixture((50, 1.0))
    assert mixed.key == "key 0"
    numbers, pairs = mixed.batch(np.array([3, 49, 0]), 4)
    assert numbers == [3, 49, 0]
    assert pairs == [([0, 3], [4]), ([0, 49], [4]), ([0, 0], [4])]
    plans = BatchPlan(mixed.epoch(2), 64, 5, pool=20), BatchPlan(mixed.stores[0], 64, 5, pool=20)
    assert [b.tolist() for b in plans[0].epoch(2)] == [b.tolist() for b in plans[1].epoch(2)]


def test_the_key_covers_content_and_weights():
    keys = {mixture(*parts).key for parts in [((5, 1),), ((5, 2),), ((5, 1), (6, 1)), ((5, 1), (6, 2))]}
    assert len(keys) == 4


def test_memory_does_not_grow_with_the_weight_or_the_corpus():
    mixed = Mixture([FakeStore(0, 200_000)], [900.5], 1)
    slots = np.array([0, 10**8, len(mixed) - 1])
    tracemalloc.start()
    numbers, _ = mixed.batch(slots, 10**6)
    lengths = mixed.epoch(10**6).lengths("source")[slots]
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(numbers) == len(lengths) == 3
    assert top < 100_000


@pytest.mark.parametrize("weights", [[0.0], [-1.0], [float("nan")], [float("inf")], [1.0, 1.0], []])
def test_what_is_no_weight_is_refused(weights):
    with pytest.raises(InputError, match="weight"):
        Mixture([FakeStore(0, 3)], weights, 1)


def test_a_tokenizer_reads_every_corpus_in_proportion():
    readers = [lambda c=c: ((f"{c}", f"{i}") for i in range(1000)) for c in "abc"]
    counts = Counter(source for source, _ in weighted_pairs(readers, [2.0, 1.0, 0.25]))
    assert (counts["a"], counts["b"]) == (2000, 1000)
    assert 200 < counts["c"] < 300
    assert list(weighted_pairs(readers[:2], [2.0, 2.0])) == [*readers[0](), *readers[1]()]
