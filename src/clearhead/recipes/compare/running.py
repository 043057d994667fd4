"""The training of the line-up: several processes at once, one display, and a stop that can be gone on from."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.base.files import atomic_write
from clearhead.base.log import logger
from clearhead.config.toml import dump_toml
from clearhead.recipes.compare.worker import Trained, outcome_of
from clearhead.training.display import duration
from clearhead.training.events import METRICS, read_metrics

__all__ = ["Job", "lost", "make_job", "train_all"]

WORKER = "clearhead.recipes.compare.worker"
POLL, LOOK = 0.1, 2.0
"""Seconds between looks at the processes, and at how far they are."""

PATIENCE = 60.0
"""Seconds that a process has to save what it trains after it was asked to stop."""


@dataclass(frozen=True)
class Job:
    """One model to train: its name, its recipe, and its updates."""

    name: str
    recipe: Path
    updates: int

    @property
    def run(self) -> Path:
        """Its run directory, beside the recipe."""
        return self.recipe.with_suffix("")

    @property
    def trained(self) -> Trained | None:
        """How it ended, if the recipe as it stands was trained to its end."""
        found = outcome_of(self.recipe)
        return found if found is not None and found.signal is None and not found.error else None

    @property
    def progress(self) -> tuple[int, float | None]:
        """The update that was last reported, and its loss."""
        lines = [line for line in read_metrics(self.run / METRICS) if "loss" in line]
        return (int(lines[-1]["update"]), float(lines[-1]["loss"])) if lines else (0, None)


def make_job(directory: Path, name: str, table: dict[str, Any]) -> Job:
    """Write `directory`/NAME.toml, unless it says so already; its run will be `directory`/NAME."""
    job = Job(name, directory / f"{name}.toml", int(table["training"]["updates"]))
    directory.mkdir(parents=True, exist_ok=True)
    content = dump_toml({"out": str(job.run), **table})
    if not job.recipe.is_file() or job.recipe.read_text("utf-8") != content:
        atomic_write(job.recipe, content)
    return job


def train_all(jobs: Sequence[Job], processes: int, *, together: bool) -> dict[str, str]:
    """Train what is not trained yet, `processes` at once; {name: what went wrong} of those that failed.

    Each process has one thread. With `together` each gets its share of all the models at the beginning, which saves the
    seconds that a start takes; otherwise one model at a time. What interrupts the block (Ctrl-C, SIGTERM) is passed on
    to the processes, which save what they have.
    """
    waiting = [job for job in jobs if job.trained is None]
    if not waiting:
        return {}
    groups = [waiting[at::processes] for at in range(processes)] if together else [[job] for job in waiting]
    queue = [group for group in groups if group]
    running: list[_Process] = []
    failed: dict[str, str] = {}
    with _Display(jobs) as display:
        try:
            while queue or running:
                while queue and len(running) < processes:
                    running.append(_Process(queue.pop(0)))
                time.sleep(POLL)
                for process in [each for each in running if each.popen.poll() is not None]:
                    running.remove(process)
                    failed |= _judged(process)
                display.look(running)
        except BaseException as error:
            number = getattr(error, "exit_code", 130) - 128
            _stop(running, signal.SIGTERM if number == signal.SIGTERM else signal.SIGINT)
            raise
    return failed


@dataclass
class _Process:
    """A worker and its models. Its own session keeps a terminal's Ctrl-C from it: it is told once, by us."""

    jobs: list[Job]
    popen: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        command = [sys.executable, "-m", WORKER, *(str(job.recipe) for job in self.jobs)]
        one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with open(self.jobs[0].recipe.with_suffix(".stderr"), "wb") as stderr:
            self.popen = subprocess.Popen(  # noqa: S603 (our own program)
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=os.environ | one,
                start_new_session=True,
            )

    @property
    def current(self) -> Job | None:
        """The model that it is at."""
        return next((job for job in self.jobs if outcome_of(job.recipe) is None), None)


def _judged(process: _Process) -> dict[str, str]:
    """What went wrong with the models of a process that has ended."""
    failed = {}
    assert process.popen.stdin is not None
    process.popen.stdin.close()
    for job in process.jobs:
        found = outcome_of(job.recipe)
        if found is None or found.signal is not None:
            failed[job.name] = lost(job, f"its process ended with {process.popen.returncode}", process)
        elif found.error:
            failed[job.name] = lost(job, found.error, process)
        else:
            logger.info("%s: %s", job.name, found.reason)
            continue
        logger.error("%s", failed[job.name])
    return failed


def lost(job: Job, why: str, process: _Process) -> str:
    """What to tell of a model that was not trained: the reason, and the end of what its process said."""
    said = [job.recipe.with_suffix(".log"), process.jobs[0].recipe.with_suffix(".stderr")]
    lines = [line for path in said if path.is_file() for line in path.read_text("utf-8", "replace").splitlines()]
    tail = "".join(f"\n  {line}" for line in lines[-8:] if line.strip())
    return f"{job.name} was not trained: {why} ({said[0]}){tail}"


def _stop(running: Sequence[_Process], number: signal.Signals) -> None:
    """Have the processes save and end; those that do not within PATIENCE are killed."""
    for process in running:
        if process.popen.poll() is None:
            process.popen.send_signal(number)
    until = time.monotonic() + PATIENCE
    for process in running:
        try:
            process.popen.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.popen.kill()
            process.popen.wait()
        assert process.popen.stdin is not None
        process.popen.stdin.close()


class _Display:
    """How far all are, on a terminal; elsewhere the log's line for each model that is done must do."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._already = sum(job.updates for job in jobs if job.trained is not None)
        self._total = sum(job.updates for job in jobs)
        self._began = self._looked = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> _Display:
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

            consoles = [handler.console for handler in logger.handlers if hasattr(handler, "console")]
            columns = BarColumn(bar_width=24), TaskProgressColumn(), TextColumn("{task.description}", markup=False)
            console = consoles[0] if consoles else Console(stderr=True)
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.add_task("starting", total=max(1, self._total), completed=self._already)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def look(self, running: Sequence[_Process]) -> None:
        """Bring the bar up to date, every few seconds."""
        if self._bar is None or time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        at = [(job, *job.progress) for process in running if (job := process.current) is not None]
        trained = [job for job in self._jobs if job.trained is not None]
        done = sum(job.updates for job in trained) + sum(update for _, update, _ in at)
        each = [
            f"{job.name} {update:,}/{job.updates:,}" + ("" if loss is None else f" loss {loss:.2f}")
            for job, update, loss in at
        ]
        text = f"{len(trained)}/{len(self._jobs)} models  {'  '.join(each)}"
        if made := done - self._already:
            text += f"  {duration((time.monotonic() - self._began) * (self._total - done) / made)} left"
        self._bar.update(self._bar.task_ids[0], completed=done, description=text)
