from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.data.batches import Cursor
from clearhead.objectives.loss import Loss
from clearhead.training.config import TrainingConfig
from clearhead.training.device import Compute
from clearhead.training.optim import build_optimizer
from clearhead.training.progress import Drawn
from clearhead.training.trainer import Handler, Trainer


class Line(nn.Module):
    """y = w · x + b, in float64: small enough for sums by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, -0.5], dtype=torch.float64))
        self.bias = nn.Parameter(torch.tensor(0.25, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def squares(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Loss:
    """Half the squared error; a token is an example."""
    x, y = batch
    total = (model(x) - y).square().sum() / 2
    return Loss(total, len(x), {"nll": 2 * total.detach()})


def examples(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, dtype=torch.float64, generator=generator)
    return x, x @ torch.tensor([2.0, -1.0], dtype=torch.float64) + 0.5


def stream_of(sizes: Sequence[int]) -> Callable[[Cursor], Iterator[Drawn[Any]]]:
    """An epoch is consecutive pieces of these sizes of one set of examples."""
    x, y = examples(max(1, sum(sizes)))

    def stream(cursor: Cursor) -> Iterator[Drawn[Any]]:
        epoch, batch, pairs = cursor.epoch, cursor.batch, cursor.pairs
        while True:
            start = sum(sizes[:batch])
            size = sizes[batch]
            numbers = list(range(start, start + size))
            batch, pairs = batch + 1, pairs + size
            if batch == len(sizes):
                epoch, batch = epoch + 1, 0
            piece = (x[numbers], y[numbers])
            yield Drawn(piece, numbers, size, 2 * size, Cursor(epoch, batch, pairs))

    return stream


@pytest.fixture
def make_trainer() -> Callable[..., Trainer]:
    def make(
        sizes: Sequence[int] = (4, 4, 4),
        handlers: Sequence[Handler] = (),
        objective: Any = squares,
        model: nn.Module | None = None,
        rate: float = 0.1,
        **settings: Any,
    ) -> Trainer:
        config = TrainingConfig(**{"updates": 10, "precision": "fp32", "validate_every": 0, **settings})
        model = Line() if model is None else model
        return Trainer(
            model=model,
            objective=objective,
            stream=stream_of(sizes),
            optimizer=build_optimizer(model, config.optimizer),
            schedule=lambda update: rate,
            config=config,
            compute=Compute(torch.device("cpu"), "fp32", 1),
            handlers=handlers,
        )

    return make
