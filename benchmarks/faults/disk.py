"""A disk that refuses: each error at each call of a save, in the shim of `tests/faults.py`.

For every error × call × place: the save of update 4 fails in a run that saves at 2, 4 and 6. After it the checkpoint of
2 loads and nothing else is there; the warning names path, reason and bytes; update 6 is saved, and the run ends well.
Then three failures in a row must end a run, with the last good checkpoint named. The control writes in place.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.faults.flips import Warnings
from benchmarks.faults.machinery import make_trainer, saver, temporaries
from benchmarks.faults.rows import Result
from clearhead.base.errors import ClearheadError, TrainingError
from clearhead.base.log import logger
from clearhead.bundle import bundle as bundles
from clearhead.bundle.bundle import load_bundle
from clearhead.bundle.resolve import steps
from clearhead.training.checkpoint import checkpoint_path, is_valid, newest_valid
from clearhead.training.progress import Update
from clearhead.training.trainer import Handler, Trainer
from tests.faults import Call, DiskFault
from tests.unit.recipes.tiny import tiny_bundle

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO)
PLACES: tuple[tuple[Call, tuple[int, ...]], ...] = (
    ("write", (1, 2, 3, 4)),
    ("fsync", (1, 2, 5, 8, 11, 13)),
    ("rename", (1, 2)),
)
CASES = [(call, at, error) for call, places in PLACES for at in places for error in ERRORS]
BAD = 4  # the update whose save fails


class _Switch(Handler):
    """Stands before the saving handler and turns the fault on for its saves at some updates."""

    def __init__(self, fault: DiskFault, updates: set[int]) -> None:
        self.fault, self.updates = fault, updates

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.fault.on, self.fault.calls = update.number in self.updates, 0


class _Look(Handler):
    """Stands behind it, and looks at the run after each update."""

    def __init__(self, fault: DiskFault, run: Path) -> None:
        self.fault, self.run = fault, run
        self.valid: dict[int, str] = {}
        self.there: dict[int, list[str]] = {}

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.fault.on = False
        newest = newest_valid(self.run)
        self.valid[update.number] = newest.name if newest else ""
        self.there[update.number] = [path.name for _, path in steps(self.run)] + temporaries(self.run)


def run(count: int, seed: int, folder: Path) -> Result:
    torch.set_num_threads(1)
    warnings = Warnings()
    logger.addHandler(warnings)
    # Of a small count every call, first place first; of a large one every case.
    cases = list(islice(cycle(CASES), min(count, len(CASES)))) if count >= len(CASES) else _spread(count)
    failures, reached = [], Counter[str]()
    for number, (call, at, error) in enumerate(cases):
        warnings.told.clear()
        where = folder / str(number)
        problem, hit = _one(where, call, at, error, warnings)
        reached[call] += hit
        if problem:
            failures.append(f"{errno.errorcode[error]} at {call} {at}: {problem}")
        shutil.rmtree(where)
    for call, _ in PLACES:
        if problem := _three_in_a_row(folder / call, call):
            failures.append(f"three in a row at {call}: {problem}")
    ruins = _control(folder)
    told = ", ".join(f"{call} {reached[call]}" for call, _ in PLACES)
    return Result(
        len(cases),
        f"{len(failures)} problems; faults met: {told}; the third in a row ends the run",
        f"written in place: {ruins} of {len(ERRORS)} leave a broken checkpoint",
        ruins == len(ERRORS),
        failures,
        {"reached": reached},
    )


def _spread(count: int) -> list[tuple[Call, int, int]]:
    step = len(CASES) / count
    return [CASES[int(step * number)] for number in range(count)]


def _run(run: Path, fault: DiskFault, failing: set[int], updates: int) -> _Look:
    bundle, look = tiny_bundle(), _Look(fault, run)
    trainer = make_trainer(bundle, updates=updates, save_every=2)
    trainer.handlers = (_Switch(fault, failing), saver(run, bundle, trainer), look)
    trainer.run()
    return look


def _one(run: Path, call: Call, at: int, error: int, warnings: Warnings) -> tuple[str, bool]:
    """What is wrong (or ""), and whether there was a call for the fault to hit."""
    with pytest.MonkeyPatch.context() as patch:
        fault = DiskFault(patch, call, error, where=f"step-{BAD:08d}", at=at)
        try:
            look = _run(run, fault, {BAD}, 7)
        except ClearheadError as problem:
            return f"the run ended: {problem}", True
    hit = bool(warnings.told)
    expected = "step-00000002" if hit else "step-00000004"
    if look.valid[BAD] != expected or look.valid[BAD + 1] != expected:
        return f"the newest valid one is {look.valid[BAD] or 'none'}", hit
    if hit and look.there[BAD] != ["step-00000002"]:
        return f"left: {look.there[BAD]}", hit
    if look.valid[6] != "step-00000006":
        return "the next save failed, too", hit
    load_bundle(run)
    if not hit:
        return ("" if at > 1 else "the fault was never met"), hit
    words = (str(checkpoint_path(run, BAD)), os.strerror(error), "training goes on")
    if len(warnings.told) != 1 or not all(word in warnings.told[0] for word in words):
        return f"told: {warnings.told}", hit
    if not re.search(r"takes about [\d,.]+ MiB, [\d,.]+ MiB are free", warnings.told[0]):
        return f"no bytes in {warnings.told[0]!r}", hit
    return "", hit


def _three_in_a_row(run: Path, call: Call) -> str:
    with pytest.MonkeyPatch.context() as patch:
        fault = DiskFault(patch, call, errno.ENOSPC, where="step-")
        try:
            _run(run, fault, {4, 6, 8}, 12)
        except TrainingError as error:
            newest = newest_valid(run)
            sound = "step-00000002" in str(error) and newest == checkpoint_path(run, 2)
            return "" if sound else f"{error}; newest valid: {newest}"
    return "the run went on"


def _control(folder: Path) -> int:
    """How many of the errors leave a directory with the checkpoint's name that is none, when it is written in place."""

    @contextmanager
    def in_place(path: Path, **_: Any) -> Iterator[Path]:
        path.mkdir(parents=True)
        yield path

    ruins = 0
    for error in ERRORS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bundles, "atomic_directory", in_place)
            run = folder / f"control-{error}"
            fault = DiskFault(patch, "write", error, where=f"step-{BAD:08d}", at=3)
            look = _run(run, fault, {BAD}, 5)
        there = checkpoint_path(run, BAD).name in look.there[BAD]
        ruins += there and not is_valid(checkpoint_path(run, BAD))
    return ruins
