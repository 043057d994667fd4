"""Paths and depths against graphs that are walked."""

from collections.abc import Callable

import pytest

from clearhead.analysis.paths import layer_kinds
from clearhead.base.errors import InputError

Reads = Callable[[int, int], list[int]]
"""(layer, position) → the positions of the layer below that it reads."""


def depth(length: int, reads: Reads, pairs: list[tuple[int, int]]) -> int:
    """The fewest layers after which the first of each pair has reached the second, position by position."""
    reached = [{position} for position in range(length)]  # what each position knows of
    layers = 0
    while not all(start in reached[end] for start, end in pairs):
        reached = [
            set().union(*(reached[read] for read in reads(layers, position) if 0 <= read < length))
            for position in range(length)
        ]
        layers += 1
    return layers


def both_ways(length: int) -> list[tuple[int, int]]:
    return [(start, end) for start in range(length) for end in range(length)]


def forwards(length: int) -> list[tuple[int, int]]:
    return [(start, end) for start, end in both_ways(length) if start <= end]


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 9, 10, 27, 28, 31])
@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_depths_are_those_of_the_graphs(length: int, kernel: int) -> None:
    side = (kernel - 1) // 2

    def causal(_: int, position: int) -> list[int]:
        return [position - back for back in range(kernel)]

    def centred(_: int, position: int) -> list[int]:
        return [position + offset for offset in range(-side, side + 1)]

    def dilated(layer: int, position: int) -> list[int]:
        return [position - back * kernel**layer for back in range(kernel)]

    def everything(_: int, position: int) -> list[int]:
        return list(range(length))

    full, plain, middle, wide, narrow = (
        next(kind for kind in layer_kinds(length, 8, kernel, window=kernel) if kind.name.startswith(name))
        for name in (
            "self-attention",
            "convolution, causal",
            "convolution, centred",
            "convolution, dilated",
            "restricted",
        )
    )
    assert full.path == full.depth == depth(length, everything, both_ways(length))
    assert plain.path == plain.depth == depth(length, causal, forwards(length))
    assert middle.path == middle.depth == depth(length, centred, both_ways(length))
    assert wide.path == wide.depth == depth(length, dilated, forwards(length))
    assert narrow.path == narrow.depth == depth(length, centred, both_ways(length))


def test_the_worked_figures() -> None:
    kinds = {kind.name.partition(", k")[0]: kind for kind in layer_kinds(100, 512, kernel=3)}
    assert kinds["recurrent"].path == 99  # 99 steps of the recurrence, all of them one after the other
    assert kinds["recurrent"].sequential == 100
    assert kinds["convolution, causal"].path == 50
    assert kinds["convolution, centred"].path == 99
    assert kinds["self-attention"].path == kinds["self-attention"].sequential == 1

    # Erratum E16: all windows of a convolution are worked out at once; n / k is how many layers lie on each other.
    five = next(kind for kind in layer_kinds(100, 512, kernel=5) if "causal" in kind.name)
    assert (five.sequential, five.depth) == (1, 25)
    # Five layers of width 3 see 5·(3 − 1) + 1 = 11 positions, with dilations 3⁵ = 243 of them.
    for reach, sort in ((11, "causal"), (243, "dilated")):
        for length, layers in ((reach, 5), (reach + 1, 6)):
            assert next(kind for kind in layer_kinds(length, 8) if sort in kind.name).depth == layers


def test_n_below_d_is_where_self_attention_is_cheaper() -> None:
    # Erratum E17: at n = 50, d = 512 the two differ by 10.24, in favour of self-attention.
    attention, recurrent, *_ = layer_kinds(50, 512)
    assert recurrent.operations / attention.operations == 10.24
    attention, recurrent, *_ = layer_kinds(4096, 512)
    assert attention.operations / recurrent.operations == 8
    attention, recurrent, *_ = layer_kinds(128, 512)
    assert (attention.operations, recurrent.operations) == (8_388_608, 33_554_432)


@pytest.mark.parametrize(("kernel", "window"), [(2, 3), (1, 3), (3, 4)])
def test_even_widths_are_refused(kernel: int, window: int) -> None:
    with pytest.raises(InputError, match="must be odd and at least 3"):
        layer_kinds(10, 8, kernel, window)
