"""Precision, recall and AER of alignments, in numbers worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.base.errors import DataError
from clearhead.metrics.alignment_error import AlignmentError, alignment_error

links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)))


def scores(result):
    return result.precision, result.recall, result.error_rate


def test_four_links_of_which_two_are_sure_and_one_is_possible():
    found = {(0, 0), (1, 1), (2, 2), (3, 3)}
    result = alignment_error([found], [({(0, 0), (1, 1), (2, 3)}, {(2, 2)})])
    assert (result.links, result.sure, result.possible, result.right_sure, result.right) == (4, 3, 4, 2, 3)
    # 3/4 are possible; 2/3 of the sure ones were found; 1 − (2 + 3) / (4 + 3).
    assert scores(result) == pytest.approx((3 / 4, 2 / 3, 2 / 7), abs=1e-15)
    assert str(result) == "AER 0.2857, precision 0.7500, recall 0.6667"


def test_counts_are_summed_before_they_are_divided():
    one, other = {(0, 0)}, {(0, 0), (1, 1), (2, 2)}
    result = alignment_error([one, other], [(one, one), ({(0, 1)}, {(0, 1)})])
    # |A ∩ S| = |A ∩ P| = 1, |A| = 4, |S| = 2; the mean of the pairs' own rates would be (0 + 1) / 2.
    assert scores(result) == pytest.approx((1 / 4, 1 / 2, 1 - 2 / 6), abs=1e-15)
    assert result.pairs == 2


@pytest.mark.parametrize(
    ("found", "sure", "possible", "expected"),
    [
        ({(0, 0)}, {(0, 0)}, set(), (1, 1, 0)),
        ({(0, 0), (1, 1)}, {(0, 0)}, {(1, 1)}, (1, 1, 0)),  # a possible link costs nothing, taken
        ({(0, 0)}, {(0, 0)}, {(1, 1)}, (1, 1, 0)),  # or left
        ({(1, 0)}, {(0, 1)}, set(), (0, 0, 1)),  # source and target exchanged
        (set(), {(0, 0)}, set(), (1, 0, 1)),
        ({(0, 0)}, set(), set(), (0, 1, 1)),
        (set(), set(), set(), (1, 1, 0)),
    ],
)
def test_borders(found, sure, possible, expected):
    assert scores(alignment_error([found], [(sure, possible)])) == expected


@given(links, links)
def test_without_merely_possible_links_it_is_one_minus_f1(found, sure):
    result = alignment_error([found], [(sure, sure)])
    if found & sure:
        f1 = 2 * result.precision * result.recall / (result.precision + result.recall)
        assert result.error_rate == pytest.approx(1 - f1, abs=1e-12)
    assert 0 <= result.error_rate <= 1


@pytest.mark.parametrize(("found", "gold"), [(1, 2), (2, 1), (0, 1)])
def test_counts_that_differ_are_refused(found, gold):
    short = "links" if found < gold else "gold links"
    with pytest.raises(DataError, match=f"my gold: the {short} end alone after pair {min(found, gold)},"):
        alignment_error([set()] * found, [(set(), set())] * gold, name="my gold")


def test_no_pair_at_all():
    assert scores(AlignmentError()) == (1, 1, 0)
