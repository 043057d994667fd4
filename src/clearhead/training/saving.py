"""When checkpoints are saved and removed, what best.json says of them, and what happens when the disk refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clearhead.base.errors import ClearheadError, TrainingError
from clearhead.base.files import atomic_write, file_error, sweep_temporaries
from clearhead.base.log import logger
from clearhead.bundle.bundle import Bundle
from clearhead.bundle.regular import read_regular
from clearhead.bundle.resolve import BEST, CHECKPOINTS, LARGEST_NOTE, steps
from clearhead.training.checkpoint import (
    checkpoint_bytes,
    checkpoint_path,
    free_bytes,
    is_valid,
    prune,
    save_checkpoint,
)
from clearhead.training.config import TrainingConfig
from clearhead.training.events import Best
from clearhead.training.progress import Outcome, Update, Validated
from clearhead.training.trainer import Handler, Trainer

__all__ = ["Checkpoints", "note_best", "write_note"]

MOST_FAILURES = 3  # in a row
RESERVE = 1.2  # of the room that the checkpoints to be kept will take


class Checkpoints(Handler):
    """Saves every `save_every` updates, whenever `best` is new, and at the end; removes what need not be kept.

    `bundle` makes the bundle of the present moment. `best.json` names the best checkpoint for whoever loads the run.
    A save that the disk refuses costs a warning, and training goes on to the next one; the third in a row, and one at
    the end of the run, is a `TrainingError`.
    """

    name = "checkpoints"

    def __init__(
        self,
        run: Path,
        config: TrainingConfig,
        best: Best,
        bundle: Callable[[Trainer], Bundle],
        identity: Mapping[str, Any],
    ) -> None:
        self.run = run
        self.config = config
        self.best = best
        self.bundle = bundle
        self.identity = identity
        self.valid: set[Path] = set()
        self.failures = 0
        self._validated = False

    def started(self, trainer: Trainer) -> None:
        self.tidy()
        self._warn_of_little_room(trainer)
        if self._validated:  # what an interruption had left undone; now it need not be done again
            self._save(trainer)

    def validated(self, trainer: Trainer, result: Validated) -> None:
        self._validated = True

    def updated(self, trainer: Trainer, update: Update) -> None:
        if trainer.finished() is not None:
            return  # `ended` follows and saves, after the last validation
        due = self.config.save_every and update.number % self.config.save_every == 0
        if due or self.best.update == update.number:
            self._save(trainer)

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        if trainer.progress.update:
            self._save(trainer, last=True)

    def tidy(self) -> None:
        """Put right what a kill can leave: temporaries, surplus checkpoints, a best.json that is behind."""
        sweep_temporaries(self.run / CHECKPOINTS)
        self.valid = {path for _, path in steps(self.run) if is_valid(path)}
        note_best(self.run, self.best)
        self._prune()

    def _save(self, trainer: Trainer, *, last: bool = False) -> None:
        try:
            # A checkpoint that is there already is as good, unless a validation has come since it was written.
            path = save_checkpoint(self.run, trainer, self.bundle(trainer), self.identity, renew=self._validated)
            self._validated = False
            self.valid.add(path)
            note_best(self.run, self.best)
            self._prune()
        except (OSError, ClearheadError) as error:
            self._failed(error, last)
        else:
            self.failures = 0

    def _failed(self, error: OSError | ClearheadError, last: bool) -> None:
        self.failures += 1
        told = error if isinstance(error, ClearheadError) else file_error(error.filename or self.run, "used", error)
        newest = max((path for path in self.valid if path.is_dir()), default=None)
        before = f"the last good checkpoint is {newest.name}" if newest else "there is no earlier one"
        if last:
            raise TrainingError(f"{told}; this was the end of the run, and {before}") from None
        if self.failures >= MOST_FAILURES:
            raise TrainingError(f"{told}; {self.failures} saves in a row have failed; {before}") from None
        logger.warning("%s; training goes on and tries again at the next save; %s", told, before)

    def _prune(self) -> None:
        best = self.best.update
        if best is not None and not checkpoint_path(self.run, best).is_dir():
            best = _noted(self.run)  # the new best one could not be saved, so the one before it is still the best
        prune(
            self.run,
            keep_last=self.config.keep_last,
            keep_every=self.config.keep_every,
            save_every=self.config.save_every,
            best=best,
            valid=self.valid,
        )

    def _warn_of_little_room(self, trainer: Trainer) -> None:
        coming = max(1, self.config.keep_last + 1 - len(self.valid))
        needed, free = RESERVE * checkpoint_bytes(trainer) * coming, free_bytes(self.run)
        if free is not None and free < needed:
            logger.warning(
                "%s: %.1f MiB are free, and the checkpoints to come take about %.1f MiB; make room, or lower "
                "training.keep_last",
                *(self.run, free / 2**20, needed / 2**20),
            )


def note_best(run: Path, best: Best) -> None:
    """Have best.json name the best checkpoint, if there is one; a file that says so already is left alone."""
    if best.update is not None and (path := checkpoint_path(run, best.update)).is_dir():
        write_note(run, best.update, path.relative_to(run).as_posix(), best)


def write_note(run: Path, update: int, path: str, best: Best) -> None:
    """Write best.json: that the bundle at `path` in `run` has the value of `best`, and after which update."""
    note = {"step": update, "path": path, "metric": best.metric, "value": best.value}
    content = (json.dumps(note, indent=1) + "\n").encode()
    if _content(run / BEST) != content:
        atomic_write(run / BEST, content)


def _content(path: Path) -> bytes | None:
    """What a note holds, be it text or not; None where it cannot be read."""
    try:
        return read_regular(path, LARGEST_NOTE)
    except OSError:
        return None


def _noted(run: Path) -> int | None:
    """The update of the checkpoint that best.json names."""
    try:
        note = json.loads(_content(run / BEST) or b"")
        return int(note["step"]) if str(note["path"]).startswith(CHECKPOINTS) else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
