"""Matrices worked out by hand, and a plain sweep over whole matrices on drawn ones."""

import random

import pytest

from clearhead.base.errors import InputError
from clearhead.data.symmetrise import symmetriser

FORWARD = {(0, 0), (1, 1), (1, 2), (3, 3)}
BACKWARD = {(0, 0), (1, 1), (2, 2), (3, 0)}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("intersection", {(0, 0), (1, 1)}),
        ("union", {(0, 0), (1, 1), (1, 2), (2, 2), (3, 3), (3, 0)}),
        ("none", FORWARD),
        # (1, 2) beside and (2, 2) across from (1, 1); then (3, 3) across from (2, 2). Nothing touches (3, 0), and in
        # the end its source word has a link.
        ("grow-diag-final-and", {(0, 0), (1, 1), (1, 2), (2, 2), (3, 3)}),
    ],
)
def test_two_alignments_of_four_words(method, expected):
    assert symmetriser(method)(FORWARD, BACKWARD) == expected


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        # Both words of (0, 1) have links.
        ({(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1)}, {(0, 0), (1, 1)}),
        # Far from the rest: taken in the end, of forward first; then source word 2 has a link ("final-and").
        ({(0, 0), (2, 2)}, {(0, 0), (2, 3)}, {(0, 0), (2, 2)}),
        ({(0, 0), (2, 2)}, {(0, 0), (3, 3)}, {(0, 0), (2, 2), (3, 3)}),
        # Nothing in common: only the end.
        ({(0, 1)}, {(1, 0)}, {(0, 1), (1, 0)}),
        # Beside before across: (1, 0) gives source word 1 its link, so that (1, 1) is taken for target word 1 alone.
        ({(0, 0), (1, 1)}, {(0, 0), (1, 0)}, {(0, 0), (1, 0), (1, 1)}),
        (set(), set(), set()),
    ],
)
def test_growing_and_the_end(forward, backward, expected):
    assert symmetriser("grow-diag-final-and")(forward, backward) == expected


def swept(forward, backward, size):
    """The same by the book: whole sweeps until nothing changes."""
    matrix = {(i, j): (i, j) in forward and (i, j) in backward for i in range(size) for j in range(size)}

    def free(i, j):
        return (not any(matrix[i, k] for k in range(size)), not any(matrix[k, j] for k in range(size)))

    changed = True
    while changed:
        changed = False
        for i, j in sorted(place for place in matrix if matrix[place]):
            for down, right in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                place = (i + down, j + right)
                if place in matrix and not matrix[place] and place in forward | backward and any(free(*place)):
                    matrix[place] = changed = True
    for directed in (forward, backward):
        for place in sorted(directed):
            if not matrix[place] and all(free(*place)):
                matrix[place] = True
    return {place for place in matrix if matrix[place]}


def test_drawn_alignments_grow_as_by_whole_sweeps():
    rng = random.Random(0)
    for _ in range(300):
        size = rng.randint(1, 7)
        forward = {(rng.randrange(size), j) for j in range(size) if rng.random() < 0.8}
        backward = {(i, rng.randrange(size)) for i in range(size) if rng.random() < 0.8}
        found = symmetriser("grow-diag-final-and")(forward, backward)
        assert found == swept(forward, backward, size)
        assert forward & backward <= found <= forward | backward


def test_another_name_is_refused():
    with pytest.raises(InputError, match="'grow'.*intersection, union, grow-diag-final-and, none"):
        symmetriser("grow")
