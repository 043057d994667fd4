"""SIGKILL while checkpoints are saved and pruned: half of them at a random moment, half at a chosen system call.

A child saves one checkpoint after the other, each with weights that tell its number; after the kill the newest that
verifies must be one that was reported as saved or a later one, load whole, and not be a mixture. Then the next start
must leave no temporary behind. The control writes the same state over its last file with `torch.save`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.faults.machinery import make_trainer, saver, temporaries, wide_bundle
from benchmarks.faults.processes import Child, fork
from benchmarks.faults.rows import Result, note
from clearhead.base.errors import ClearheadError
from clearhead.bundle import weights
from clearhead.bundle.bundle import Bundle, load_bundle
from clearhead.bundle.weights import read_tensors
from clearhead.training.checkpoint import OPTIMIZER, is_valid, newest_valid, read_state
from clearhead.training.progress import Update
from clearhead.training.trainer import Trainer

Report = Callable[[object], None]
PHASES = ("write", "fsync", "rename", "prune")


class Hooks:
    """Counts the calls of each phase; ends the process at one of them, before it, in its middle or after it."""

    def __init__(self, phase: str = "", at: int = 0, moment: str = "") -> None:
        self.phase, self.at, self.moment = phase, at, moment
        self.calls: Counter[str] = Counter()

    def install(self) -> None:
        for phase, owner, name in (
            ("write", Path, "write_text"), ("write", Path, "write_bytes"), ("write", weights, "save_file"),
            ("fsync", os, "fsync"), ("rename", os, "rename"), ("rename", os, "replace"),
            ("prune", os, "unlink"), ("prune", os, "rmdir"),
        ):  # fmt: skip
            mock.patch.object(owner, name, self._around(phase, getattr(owner, name))).start()

    def _around(self, phase: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls[phase] += 1
            fatal = phase == self.phase and self.calls[phase] == self.at
            if fatal and self.moment == "before":
                _die()
            done = real(*arguments, **named)
            if fatal:
                if phase == "write":  # half of it has reached the disk
                    path = next(each for each in arguments if isinstance(each, Path))
                    os.truncate(path, path.stat().st_size // 2)
                _die()
            return done

        return call


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(count: int, seed: int, folder: Path) -> Result:
    torch.set_num_threads(1)
    draw = random.Random(seed)
    bundle = wide_bundle()
    trainer = make_trainer(bundle, updates=10**9, keep_last=1)
    trainer.step()  # the optimizer has its moments now
    calls, seconds = _rehearse(bundle, trainer, folder / "rehearsal")
    failures: list[str] = []
    phases: Counter[str] = Counter()
    left = previous = 0
    for trial in range(count):
        run_folder = folder / "run"
        shutil.rmtree(run_folder, ignore_errors=True)
        chosen = "any moment" if trial % 2 else PHASES[trial // 2 % len(PHASES)]
        hooks = Hooks()
        if chosen in PHASES:
            hooks = Hooks(chosen, draw.randint(1, calls[chosen]), draw.choice(["before", "after"]))
        child = fork(partial(_save_for_ever, bundle, trainer, run_folder, hooks))
        reported = _ended(child, draw.uniform(0, 3 * seconds) if trial % 2 else None)
        problem, leftovers, newest = _look(run_folder, bundle, trainer, reported)
        phases[chosen] += 1
        left += leftovers
        previous += newest == reported
        if problem:
            failures.append(f"trial {trial} ({chosen}): {problem}")
        if trial % 50 == 49:
            note(f"{trial + 1} kills, {len(failures)} lost")
    lost, tried = _control(count, draw, trainer, folder)
    share = lost / tried
    return Result(
        count,
        f"{len(failures)} unloadable; {left} left temporaries, all swept; "
        + ", ".join(f"{phase} {kills}" for phase, kills in phases.items()),
        f"torch.save in place: {lost} of {tried} lost ({share:.0%})",
        share >= 0.25,
        failures,
        {"phases": phases, "left_temporaries": left, "previous_was_newest": previous, "control_lost": lost},
    )


def _save_for_ever(bundle: Bundle, trainer: Trainer, run: Path, hooks: Hooks, report: Report) -> None:
    """Save update 1, report it, and then go on under the hooks."""
    handler = saver(run, bundle, trainer)
    for number in range(1, 10**6):
        _save(handler, trainer, number)
        if number == 1:
            hooks.install()
        report(number)


def _save(handler: Any, trainer: Trainer, number: int) -> None:
    trainer.progress.update = number
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.fill_(float(number))
    handler.updated(trainer, Update(number, 1e-4, 1.0, {}, 1.0, 1, 1, 1, 0.0))


def _rehearse(bundle: Bundle, trainer: Trainer, run: Path) -> tuple[Counter[str], float]:
    """How many calls of each phase a save has, and the seconds that it takes."""

    def work(report: Report) -> None:
        handler, hooks = saver(run, bundle, trainer), Hooks()
        _save(handler, trainer, 1)
        hooks.install()
        begun = time.monotonic()
        for number in (2, 3):
            _save(handler, trainer, number)
        report((time.monotonic() - begun) / 2)
        for phase in PHASES:
            report(hooks.calls[phase] // 2)

    child = fork(work)
    seconds, *counts = (float(line) for line in child.rest())
    assert child.wait() == 0
    return Counter({phase: int(count) for phase, count in zip(PHASES, counts, strict=True)}), seconds


def _ended(child: Child, delay: float | None) -> int:
    """Wait for the first save, kill after `delay` (None: the child does it itself); the last save that it reported."""
    first = int(child.line() or 0)
    if delay is not None:
        time.sleep(delay)
        child.kill()
    rest = child.rest()
    status = child.wait()
    assert status == -signal.SIGKILL, f"the child was to be killed, but ended with {status}"
    return int(rest[-1]) if rest else first


def _look(run: Path, bundle: Bundle, trainer: Trainer, reported: int) -> tuple[str, int, int]:
    """What is wrong (or ""), how many temporaries were left, and the newest update."""
    left = len(temporaries(run))
    try:
        newest = newest_valid(run)
        if newest is None:
            return "no checkpoint at all", left, 0
        number = int(newest.name.removeprefix("step-"))
        if number < reported:
            return f"{reported} was saved, but the newest is {number}", left, number
        state = read_state(newest)
        loaded = load_bundle(newest).model.state_dict()
        moments = read_tensors(newest / OPTIMIZER)
        load_bundle(run)
    except ClearheadError as error:
        return str(error), left, 0
    if state["progress"]["update"] != number or not moments:
        return f"{newest.name} has the state of update {state['progress']['update']}", left, number
    if any(not bool((tensor == float(number)).all()) for tensor in loaded.values()):
        return f"{newest.name} has the weights of another update", left, number
    saver(run, bundle, trainer).tidy()
    remains = temporaries(run)
    unsound = [path.name for path in (run / "checkpoints").iterdir() if not is_valid(path)]
    if remains or unsound:
        return f"the next start left {remains + unsound}", left, number
    return "", left, number


def _control(count: int, draw: random.Random, trainer: Trainer, folder: Path) -> tuple[int, int]:
    """The same state, written over the last file; killed at random moments of saving again and again."""
    path = folder / "checkpoint.pt"

    def work(report: Report) -> None:
        state = {"model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict()}
        for number in range(10**6):
            torch.save(state, path)
            report(number)

    lost = 0
    for _ in range(count):
        path.unlink(missing_ok=True)
        _ended(fork(work), draw.uniform(0, 0.05))
        try:
            torch.load(path, weights_only=True)
        except Exception:  # of whatever kind: it cannot be loaded
            lost += 1
    return lost, count
