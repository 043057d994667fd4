"""A batch that does not fit memory is computed in parts, and the update is the same one."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import TrainingError
from clearhead.data.batches import Cursor
from clearhead.data.collate import collate
from clearhead.objectives.loss import Loss
from clearhead.training.memory import halved, is_out_of_memory
from clearhead.training.progress import Drawn
from clearhead.training.trainer import Trainer

from .conftest import examples

Make = Callable[..., Trainer]
ON_CPU = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "


@dataclass(frozen=True)
class Rows:
    x: Tensor
    y: Tensor

    @property
    def tokens(self) -> int:
        return len(self.x)

    @property
    def source_tokens(self) -> int:
        return 2 * len(self.x)

    def rows(self, start: int, stop: int) -> Rows:
        return Rows(self.x[start:stop], self.y[start:stop])


class Small:
    """A machine that can compute so many rows at once, and fails in the forward or in the middle of the backward."""

    def __init__(self, most: int, error: Exception, *, in_backward: bool) -> None:
        self.most, self.error, self.in_backward = most, error, in_backward
        self.sizes: list[int] = []

    def __call__(self, model: Any, batch: Rows) -> Loss:
        self.sizes.append(len(batch.x))
        failing = len(batch.x) > self.most
        if failing and not self.in_backward:
            raise self.error
        # Autograd begins with what was computed last: the bias has its gradient when that of the weight fails.
        fitted = batch.x @ model.weight
        bias = (model.bias - batch.y).square().sum() / 2
        if failing:
            fitted.register_hook(self.fail)
        total = bias + fitted.square().sum() / 2
        return Loss(total, len(batch.x), {"nll": total.detach()})

    def fail(self, gradient: Tensor) -> Tensor:
        raise self.error


def stream(sizes: tuple[int, ...]) -> Callable[[Cursor], Iterator[Drawn[Rows]]]:
    x, y = examples(sum(sizes))

    def stream(cursor: Cursor) -> Iterator[Drawn[Rows]]:
        start, epoch = 0, cursor.epoch
        while True:
            for size in sizes:
                numbers = range(start, start + size)
                start = (start + size) % sum(sizes)
                epoch += start == 0
                yield Drawn(Rows(x[numbers], y[numbers]), numbers, size, 2 * size, Cursor(epoch, 0, start))

    return stream


def trained(make: Make, objective: Small, updates: int = 2) -> tuple[Trainer, dict[str, Tensor]]:
    trainer = make(objective=objective, updates=updates, accumulate=3, clip_norm=1.0)
    trainer.stream = stream((3, 8, 2))
    trainer.run()
    return trainer, dict(trainer.model.named_parameters())


@pytest.mark.parametrize("in_backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("error", [RuntimeError(ON_CPU), torch.OutOfMemoryError("CUDA out of memory."), MemoryError()])
def test_the_update_is_the_same_in_parts(
    make_trainer: Make, caplog: pytest.LogCaptureFixture, error: Exception, in_backward: bool
) -> None:
    caplog.set_level(logging.INFO, logger="clearhead")
    small = Small(2, error, in_backward=in_backward)
    trainer, parts = trained(make_trainer, small)
    other, whole = trained(make_trainer, Small(99, error, in_backward=False))
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value, rtol=1e-12, atol=1e-14)
    assert trainer.progress.tokens == other.progress.tokens == 26
    assert trainer.progress.source_tokens == 52
    assert trainer.progress.cursor == other.progress.cursor
    assert max(small.sizes) == 8
    lines = [record.getMessage() for record in caplog.records]
    assert "update 1: a batch of 8 pairs does not fit memory; it is computed in two parts, of 4 and 4" in lines[1]
    assert len(lines) == 8  # 3 → 1 + 2, 8 → 4 + 4 → 2 + 2 + 2 + 2, twice


def norm(make: Make, most: int) -> float:
    """Of the first update's gradient; Adam's steps would hide its size."""
    trainer = make(objective=Small(most, RuntimeError(ON_CPU), in_backward=True), accumulate=3)
    trainer.stream = stream((3, 8, 2))
    return trainer.step().gradient_norm


def test_going_on_after_half_a_backward_pass_would_show(make_trainer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with what the broken pass left in the gradients, they are others."""
    whole = norm(make_trainer, 99)
    assert norm(make_trainer, 2) == pytest.approx(whole, rel=1e-12)

    def keeping(self: Trainer, number: int, drawn: list[Drawn[Any]], tokens: int) -> Any:
        self.optimizer.zero_grad(set_to_none=True)
        while True:
            try:
                return self._accumulate(drawn, tokens)
            except RuntimeError:
                drawn[:] = halved(drawn, self._place, number)

    monkeypatch.setattr(Trainer, "_gradients", keeping)
    assert norm(make_trainer, 2) != pytest.approx(whole, rel=0.01)


def test_one_pair_that_does_not_fit_is_an_error_with_its_name(make_trainer: Make) -> None:
    with pytest.raises(TrainingError, match=r"update 1: memory does not suffice for pair 1 \(2 source and 1 target"):
        trained(make_trainer, Small(0, MemoryError(), in_backward=False))


def test_another_failure_is_not_taken_for_it(make_trainer: Make) -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        trained(make_trainer, Small(2, RuntimeError("mat1 and mat2 shapes cannot be multiplied"), in_backward=False))


def test_a_batch_of_sentences_in_parts() -> None:
    """Each part is what `collate` would have made of its pairs."""
    pairs = [([5, 6, 7], [8]), ([9], [10, 11]), ([12, 13], [14, 15, 16, 17])]
    batch = collate(pairs)
    drawn = Drawn(batch, [4, 7, 9], batch.tokens, batch.source_tokens, Cursor())
    parts = halved([drawn], 0, 1)
    assert [list(part.pairs) for part in parts] == [[4], [7, 9]]
    for part, expected in zip(parts, (collate(pairs[:1]), collate(pairs[1:])), strict=True):
        assert (part.tokens, part.source_tokens) == (expected.tokens, expected.source_tokens)
        for side in ("source", "prefix", "gold"):
            ours, theirs = getattr(part.batch, side), getattr(expected, side)
            assert torch.equal(ours.ids, theirs.ids)
            assert torch.equal(ours.lengths, theirs.lengths)


def test_torch_says_it_as_we_expect() -> None:
    """A process with too little address space: the real error of the CPU's allocator."""
    code = """
import resource, sys, torch
from clearhead.training.memory import is_out_of_memory
resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
try:
    torch.ones(1 << 34, dtype=torch.uint8)
except Exception as error:
    print(type(error).__name__, is_out_of_memory(error))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "RuntimeError True\n", done.stderr
    assert not is_out_of_memory(RuntimeError("expected scalar type Float but found Double"))
