import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.quantiles import Ranks

NUMBERS = st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=60)
SOME = st.lists(st.sampled_from([-1.5, -0.25, 0.0, 0.25, 1.0, 7.5, 1e-30, -1e-30, 3e38]), min_size=1, max_size=60)


def ranks_of(numbers: list[float], block: int = 7) -> Ranks:
    whole = np.array(numbers, dtype=np.float32)
    return Ranks(lambda: (whole[start : start + block] for start in range(0, len(whole), block)))


@given(NUMBERS | SOME)
def test_every_rank_is_that_of_the_sorted_list(numbers):
    ranks = ranks_of(numbers)
    found = ranks.at(range(len(numbers)))
    assert ranks.count == len(numbers)
    assert [found[rank] for rank in range(len(numbers))] == sorted(numbers)


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=60))
def test_quantiles_and_median_are_numpys(numbers):
    ranks, points = ranks_of(numbers), [0.0, 0.05, 0.5, 0.95, 1.0]
    exact = np.array(numbers, dtype=np.float64)
    np.testing.assert_allclose(ranks.quantiles(points), np.quantile(exact, points), rtol=1e-5, atol=2e-5)
    assert ranks.median() == np.median(exact.astype(np.float32))


def test_no_numbers_have_no_rank():
    ranks = ranks_of([])
    assert ranks.count == 0
    for ask in (ranks.median, lambda: ranks.quantiles([0.5]), lambda: ranks_of([1.0]).at([-1])):
        with pytest.raises(IndexError, match="no rank"):
            ask()
