"""A real trainer with real checkpoints, small enough to be saved hundreds of times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from clearhead.bundle.bundle import Bundle
from clearhead.bundle.resolve import CHECKPOINTS
from clearhead.data.batches import Cursor
from clearhead.objectives.loss import Loss
from clearhead.training.config import TrainingConfig
from clearhead.training.device import Compute
from clearhead.training.events import Best
from clearhead.training.optim import build_optimizer
from clearhead.training.progress import Drawn
from clearhead.training.saving import Checkpoints
from clearhead.training.trainer import Trainer
from tests.unit.recipes.tiny import tiny_bundle

__all__ = ["make_trainer", "saver", "temporaries"]


def _weight(model: torch.nn.Module, _batch: object) -> Loss:
    total = sum((parameter.square().sum() for parameter in model.parameters()), torch.zeros(()))
    return Loss(total, 1, {"nll": total.detach()})


def _stream(cursor: Cursor) -> Iterator[Drawn[Any]]:
    epoch = cursor.epoch
    while True:
        epoch += 1
        yield Drawn((), [epoch], 1, 1, Cursor(epoch, 0, 0))


def make_trainer(bundle: Bundle, handlers: list[Any] | None = None, **settings: Any) -> Trainer:
    """A trainer of the bundle's model that draws its weights to zero; the optimizer has its moments after a step."""
    config = TrainingConfig(**{"updates": 6, "precision": "fp32", "validate_every": 0, "save_every": 1, **settings})
    return Trainer(
        model=bundle.model,
        objective=_weight,
        stream=_stream,
        optimizer=build_optimizer(bundle.model, config.optimizer),
        schedule=lambda update: 1e-4,
        config=config,
        compute=Compute(torch.device("cpu"), "fp32", 1),
        handlers=handlers or [],
    )


def saver(run: Path, bundle: Bundle, trainer: Trainer) -> Checkpoints:
    """The handler that saves and prunes, as in a real run."""
    return Checkpoints(run, trainer.config, Best("nll"), lambda _: bundle, {})


def wide_bundle() -> Bundle:
    """1.5 MB of weights, so that a save has a middle."""
    return tiny_bundle(d_model=128, d_ff=512)


def temporaries(run: Path) -> list[str]:
    """What is in the folder of the checkpoints and is none."""
    where = run / CHECKPOINTS
    return sorted(path.name for path in where.iterdir() if not path.name.startswith("step-")) if where.is_dir() else []
