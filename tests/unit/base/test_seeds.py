"""Seeds are the same everywhere and for ever, and unlike each other."""

import os
import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clearhead.base.seeds import mix, python_rng

# Written down once: a change here changes every run that anyone has seeded.
GOLDEN = {
    (): 13020603013274838756,
    (0,): 15016054196691854318,
    (1, 2, 3): 217118175011237326,
    (-1, 2**80): 5116509129132546336,
}


def test_the_values_never_change() -> None:
    assert {parts: mix(*parts) for parts in GOLDEN} == GOLDEN


def test_another_process_with_other_hash_randomisation_agrees() -> None:
    source = "from clearhead.base.seeds import *; print(mix(1, 2, 3), python_rng(7, 8).random())"
    for hash_seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", source], env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout.split() == [str(mix(1, 2, 3)), repr(python_rng(7, 8).random())]


@given(st.lists(st.integers(), max_size=4), st.lists(st.integers(), max_size=4))
def test_different_integers_give_different_seeds_of_64_bits(left: list[int], right: list[int]) -> None:
    assert 0 <= mix(*left) < 2**64
    assert (mix(*left) == mix(*right)) == (left == right)


def test_digits_do_not_run_together_and_signs_count() -> None:
    seeds = [
        mix(1, 23),
        mix(12, 3),
        mix(123),
        mix(1, 2, 3),
        mix(0),
        mix(),
        mix(0, 0),
        mix(-1),
        mix(255),
        mix(2**64 - 1),
    ]
    assert len(set(seeds)) == len(seeds)


def test_numpy_integers_count_as_integers() -> None:
    assert mix(np.int64(5), np.uint8(200)) == mix(5, 200)


def test_neighbouring_seeds_share_no_more_bits_than_chance_gives() -> None:
    flips = [bin(mix(1, step) ^ mix(1, step + 1)).count("1") for step in range(2000)]
    assert 31.5 < sum(flips) / len(flips) < 32.5  # 32 of 64, standard error 0.09
    assert min(flips) > 10


def test_generators_are_their_own() -> None:
    import random

    random.seed(1)
    before = random.getstate()
    first, second = python_rng(1), python_rng(1)
    assert [first.random() for _ in range(3)] == [second.random() for _ in range(3)]
    assert random.getstate() == before
