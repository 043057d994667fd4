import random

import numpy as np
import pytest

from clearhead.data.alignment import Shift, find_shift
from clearhead.data.check import check_pairs
from clearhead.data.checktext import to_text


def lengths(pairs: int, seed: int = 0) -> tuple[list[int], list[int]]:
    rng = random.Random(seed)
    sources = [round(10 * 2 ** rng.uniform(0, 4)) for _ in range(pairs)]
    return sources, [round(length * rng.uniform(0.9, 1.4)) for length in sources]


def find(sources: list[int], targets: list[int]) -> Shift | None:
    pairs = min(len(sources), len(targets))
    return find_shift(np.array(sources[:pairs], dtype=np.uint32), np.array(targets[:pairs], dtype=np.uint32))


@pytest.mark.parametrize("pairs", [0, 1, 99, 100, 255, 256, 257, 3000])
def test_aligned_sides_are_not_shifted(pairs):
    assert find(*lengths(pairs)) is None


@pytest.mark.parametrize("place", [0, 3, 200, 256, 1000, 2700])
@pytest.mark.parametrize("lines", [1, 2, 3])
def test_a_line_too_many_or_too_few_is_found_about_where_it_is(place, lines):
    sources, targets = lengths(3000)
    for shift, offset in (
        (find(sources, targets[:place] + [40] * lines + targets[place:]), lines),
        (find(sources, targets[:place] + targets[place + lines :]), -lines),
    ):
        assert shift is not None
        assert shift.offset == offset
        assert abs(shift.begin - place) <= 5


def test_blank_texts_lengths_of_one_size_and_strangers_say_nothing():
    sources, targets = lengths(600)
    for place in range(0, 600, 3):
        targets[place] = 0
    assert find(sources, targets) is None
    assert find([7] * 600, [9] * 600) is None
    assert find([0] * 600, [0] * 600) is None
    assert find(sources, lengths(600, 1)[1]) is None
    assert find(sorted(sources), sorted(targets)) is None


def texts(sources: list[int], targets: list[int]) -> list[tuple[str, str]]:
    return [("a" * source, "b" * target) for source, target in zip(sources, targets, strict=False)]


def test_check_tells_a_shift_as_an_error_with_its_line():
    sources, targets = lengths(900)
    assert check_pairs(texts(sources, targets)).count("sides may be shifted") == 0
    report = check_pairs(texts(sources, targets[:400] + [40] + targets[400:]))
    (finding,) = (finding for finding in report.findings if finding.name == "sides may be shifted")
    assert finding.level == "error"
    assert abs(finding.lines[0] - 401) <= 5
    assert "1 line later" in to_text(report)


def test_sides_that_have_nothing_to_do_with_each_other_are_an_error_too():
    report = check_pairs(texts(lengths(900)[0], lengths(900, 1)[1]))
    (finding,) = (finding for finding in report.findings if finding.name == "sides may be shifted")
    assert "% of the pairs" in finding.where
    few = texts(*lengths(900))
    few[:100] = [("a" * 30, "b" * 300)] * 100  # more than a tenth are wrong, but the rest belongs together
    assert check_pairs(few).count("sides may be shifted") == 0
