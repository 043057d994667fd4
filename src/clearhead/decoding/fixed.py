"""Fixed shapes: batches in which the figures of a sentence cannot depend on its company, to the last bit.

A matrix product adds up in an order that depends on the sizes of its matrices, so a sentence usually gets scores that
differ in the last bits with the number and the lengths of its neighbours. Here every batch has the same number of
rows, and its lengths are those of the sentence itself, rounded up. Then each of its products has one size, wherever
the sentence comes, and what stands in the other rows cannot matter. Kernels that look at all rows to choose the sizes
of their products are not taken (`rows_apart`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
import torch.nn.functional as F

from clearhead.nn.kernels import rows_apart
from clearhead.nn.padding import Padded
from clearhead.text.symbols import PAD

__all__ = ["ROWS", "STEP", "by_shape", "rounded", "take"]

ROWS = 8
"""Sentences of one batch. More would be faster for many sentences, and slower for one, which pays for all rows."""
STEP = 16
"""Lengths are rounded up to multiples of this: what is shorter is padded."""

R = TypeVar("R")


def rounded(length: int) -> int:
    """The least multiple of `STEP` that is not below `length`.

    >>> [rounded(length) for length in (1, 16, 17)]
    [16, 16, 32]
    """
    return -(-length // STEP) * STEP


def by_shape(shapes: Sequence[tuple[int, int]], call: Callable[[tuple[int, int], list[int]], Sequence[R]]) -> list[R]:
    """The result of every sentence, found by calls with a shape and `ROWS` places of sentences that have it.

    Where no other sentence is left, the last one stands for the rest, and what is found for it again is dropped.
    """
    places: dict[tuple[int, int], list[int]] = {}
    for place, shape in enumerate(shapes):
        places.setdefault(shape, []).append(place)
    found: dict[int, R] = {}
    for shape, alike in places.items():
        for first in range(0, len(alike), ROWS):
            part = alike[first : first + ROWS]
            filled = part + part[-1:] * (ROWS - len(part))
            with rows_apart():
                found.update(zip(part, call(shape, filled), strict=False))
    return [found[place] for place in range(len(shapes))]


def take(source: Padded, places: Sequence[int], width: int) -> Padded:
    """The rows of `source` at `places`, padded to `width` or, where they are all padding beyond it, cut to it."""
    rows = source.rows(torch.tensor(places, dtype=torch.int64, device=source.ids.device))
    ids = rows.ids[:, :width]
    return Padded(F.pad(ids, (0, width - ids.shape[1]), value=PAD), rows.lengths)
