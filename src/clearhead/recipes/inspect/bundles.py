"""The model that is inspected, by the path of its bundle: what to call it, and what it was before it was trained."""

from __future__ import annotations

from pathlib import Path

import torch

from clearhead.base.seeds import mix
from clearhead.bundle.bundle import read_info
from clearhead.bundle.resolve import CHECKPOINTS, resolve
from clearhead.models.build import build
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["AVERAGE", "model_name", "seed_beside", "untrained_model"]

AVERAGE = "average"
"""What the average of a run's checkpoints is called in its folder, so that the name alone does not tell whose it is."""


def model_name(path: Path | str) -> str:
    """The last part of the path, with the run before it where the bundle is one of several of a run.

    >>> model_name("runs/x"), model_name("runs/x/average"), model_name("runs/x/checkpoints/step-00001000")
    ('x', 'x/average', 'x/step-00001000')
    """
    where = Path(path).resolve()
    if where.parent.name == CHECKPOINTS:
        run = where.parent.parent
    elif where.name == AVERAGE:
        run = where.parent
    else:
        return where.name
    return f"{run.name}/{where.name}" if run.name else where.name


def seed_beside(path: Path | str) -> int:
    """A seed that is not the one which the model at `path` was trained from: the next, and 2 where none is told."""
    seed = read_info(resolve(path)).training.get("seed")
    return (seed if isinstance(seed, int) else 1) + 1


def untrained_model(path: Path | str, *, seed: int, device: torch.device) -> Seq2Seq:
    """A model of the configuration of the bundle at `path`, as training from `seed` would begin, in evaluation mode.

    A bundle does not tell the schemes of `training.initialisation`, so these are the default ones. Raises BundleError
    for what is no bundle.
    """
    return build(read_info(resolve(path)).config, seed=mix(seed, 1), device=device).eval()
