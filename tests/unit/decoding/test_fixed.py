"""Sorting sentences into batches of constant shape, and their results back into their order."""

import torch

from clearhead.decoding.fixed import ROWS, STEP, by_shape, rounded, take
from clearhead.nn.padding import Padded


def test_lengths_are_rounded_up() -> None:
    assert [rounded(n) for n in (1, STEP - 1, STEP, STEP + 1, 5 * STEP)] == [STEP, STEP, STEP, 2 * STEP, 5 * STEP]


def test_every_call_has_one_shape_and_all_its_rows() -> None:
    shapes = [(16 * (1 + n % 3), n % 2) for n in range(60)]
    calls: list[tuple[tuple[int, int], list[int]]] = []

    def call(shape: tuple[int, int], places: list[int]) -> list[str]:
        calls.append((shape, places))
        return [f"result of {place}" for place in places]

    assert by_shape(shapes, call) == [f"result of {n}" for n in range(60)]
    assert all(len(places) == ROWS for _, places in calls)
    assert all(shapes[place] == shape for shape, places in calls for place in places)
    assert len(calls) == 6 * 2  # ten sentences of each of the six shapes: eight, then two and six copies
    assert by_shape([], call) == []


def test_rows_are_padded_to_the_width_or_cut_to_it() -> None:
    source = Padded.from_lists([[5, 6, 3], [7, 3], [*range(4, 30), 3]])
    short = take(source, [1, 0, 1], 4)
    assert short.ids.tolist() == [[7, 3, 0, 0], [5, 6, 3, 0], [7, 3, 0, 0]]
    assert short.lengths.tolist() == [2, 3, 2]
    long = take(source, [2], 32)
    assert long.ids.shape == (1, 32)
    assert torch.equal(long.ids[0, :27], source.ids[2])
    assert not long.ids[0, 27:].any()
