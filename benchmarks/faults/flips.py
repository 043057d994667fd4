"""A flipped bit or a truncation in any file of a saved checkpoint: found before anything of it is used.

In turn the damaged directory is loaded as a bundle, and stands as the newest of two in a run, which must fall back to
the older one with one warning. The controls read the same damage without a manifest.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections import Counter
from pathlib import Path

import torch
from safetensors.torch import load_file

from benchmarks.faults.machinery import make_trainer, saver
from benchmarks.faults.rows import Result, note
from clearhead.base.errors import BundleError
from clearhead.base.log import logger
from clearhead.bundle.bundle import load_bundle
from clearhead.training.checkpoint import checkpoint_path, newest_valid
from clearhead.training.progress import Update
from tests.unit.recipes.tiny import tiny_bundle


class Warnings(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


def run(count: int, seed: int, folder: Path) -> Result:
    torch.set_num_threads(1)
    draw = random.Random(seed)
    bundle = tiny_bundle()
    trainer = make_trainer(bundle, updates=10, ema=0.9)
    handler = saver(folder, bundle, trainer)
    for number in (1, 2):
        trainer.step()
        handler.updated(trainer, Update(number, 1e-4, 1.0, {}, 1.0, 1, 1, 1, 0.0))
    older, newest = checkpoint_path(folder, 1), checkpoint_path(folder, 2)
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    warnings = Warnings()
    logger.addHandler(warnings)
    failures: list[str] = []
    kinds: Counter[str] = Counter()
    for trial in range(count):
        path = files[trial % len(files)]
        whole = path.read_bytes()
        kind, damaged = damage(whole, draw)
        kinds[kind] += 1
        path.write_bytes(damaged)
        try:
            load_bundle(newest)
            failures.append(f"trial {trial}: {kind} in {path.name} was not found")
        except BundleError as error:
            if path.name not in str(error):
                failures.append(f"trial {trial}: {kind} in {path.name}: the message does not name it: {error}")
        warnings.told.clear()
        if newest_valid(folder) != older or len(warnings.told) != 1 or path.name not in warnings.told[0]:
            failures.append(f"trial {trial}: {kind} in {path.name}: no fall-back with one warning: {warnings.told}")
        path.write_bytes(whole)
    load_bundle(newest)
    if newest_valid(folder) != newest:
        failures.append("the undamaged checkpoint is not the newest valid one")
    note(f"{count} damaged files, {len(failures)} problems")
    silent = _control(count, draw, newest / "weights.safetensors", folder)
    shares = ", ".join(f"{name} {found}" for name, found in silent.items())
    return Result(
        count,
        f"{count - len(failures)} found ({', '.join(f'{kind} {n}' for kind, n in kinds.items())}; {len(files)} files)",
        f"of {count} flips read silently without a manifest: {shares}",
        all(found > count // 2 for found in silent.values()),
        failures,
        {"kinds": kinds, "silent": silent, "files": [path.name for path in files]},
    )


def damage(whole: bytes, draw: random.Random) -> tuple[str, bytes]:
    """A bit flipped (three times of four) or the end cut off."""
    if draw.randrange(4) == 0:
        return "truncation", whole[: draw.randrange(len(whole))]
    return "flip", flipped(whole, draw)


def flipped(whole: bytes, draw: random.Random) -> bytes:
    damaged = bytearray(whole)
    damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def _control(count: int, draw: random.Random, tensors: Path, folder: Path) -> dict[str, int]:
    """How many flips the readers of safetensors and torch let through, without a manifest beside the file."""
    safe, pickled = folder / "alone.safetensors", folder / "alone.pt"
    shutil.copyfile(tensors, safe)
    torch.save(load_file(safe), pickled)
    silent = {"safetensors": 0, "torch.load": 0}
    for path, name, load in ((safe, "safetensors", load_file), (pickled, "torch.load", _load)):
        whole = path.read_bytes()
        for _ in range(count):
            path.write_bytes(flipped(whole, draw))
            try:
                load(path)
                silent[name] += 1
            except Exception:  # of whatever kind: it was noticed
                continue
    return silent


def _load(path: Path) -> object:
    return torch.load(path, weights_only=True)
