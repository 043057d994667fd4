"""Batches side by side: the same results in the same order, errors in their place, and a quick end."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import DecodingError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Model
from clearhead.decoding.search import Hypothesis, search
from clearhead.engine.abreast import abreast
from clearhead.engine.fused import FusedModel
from clearhead.engine.weights import fuse
from clearhead.nn.padding import Padded
from tests.laws.model_laws import transformer

CONFIG = DecodingConfig(max_length=12)
BATCHES = [[[4 + (row + batch) % 9, 5, 6, 3] for row in range(1 + batch % 3)] for batch in range(7)]


def translate(model: Model, batch: list[list[int]]) -> list[list[Hypothesis]]:
    return search(model, Padded.from_lists(batch), CONFIG)


def fused() -> FusedModel:
    return FusedModel(fuse(transformer(), "fp32"))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_come_in_order(threads: int) -> None:
    model, before = fused(), torch.get_num_threads()
    used: set[tuple[str, int]] = set()

    def run(model: Model, batch: list[list[int]]) -> list[list[Hypothesis]]:
        used.add((threading.current_thread().name, torch.get_num_threads()))
        return translate(model, batch)

    assert list(abreast(model, BATCHES, run, threads)) == [translate(model, batch) for batch in BATCHES]
    assert torch.get_num_threads() == before
    if threads > 1:
        assert {count for _, count in used} == {1}
        assert threading.current_thread().name not in {name for name, _ in used}


def test_an_error_comes_in_its_place() -> None:
    def run(model: Model, number: int) -> int:
        if number == 2:
            raise DecodingError("the third")
        return number

    results = abreast(fused(), range(50), run, 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(DecodingError, match="the third"):
        next(results)


class Endless:
    """A decoder that never comes to an end by itself."""

    def __init__(self) -> None:
        self.encoder = self.decoder = self

    def __call__(self, source: Padded) -> None:
        return None

    def advance(self, tokens: object, state: object) -> tuple[Tensor, None]:
        time.sleep(0.001)
        return torch.zeros(1), None


def test_whoever_goes_away_stops_the_calls() -> None:
    started = threading.Barrier(3)

    def run(model: Model, number: int) -> None:
        if number:
            started.wait(10)
            while True:
                with contextlib.suppress(Exception):  # as one that takes every exception for a failed sentence
                    model.decoder.advance(None, None)  # type: ignore[arg-type]

    results = abreast(Endless(), [0, 1, 2], run, 2)  # type: ignore[arg-type]
    next(results)
    started.wait(10)
    results.close()  # returns only when both have stopped
    assert not any(thread.name.startswith("batch") for thread in threading.enumerate())
