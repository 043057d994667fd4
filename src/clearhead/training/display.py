"""What a person sees while a run trains: a bar on a terminal, plain lines elsewhere, TensorBoard on request."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.base.errors import ConfigError
from clearhead.base.log import logger
from clearhead.training.events import Window
from clearhead.training.progress import Update, Validated
from clearhead.training.trainer import Handler, Trainer

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

__all__ = ["Display", "TensorBoard", "duration", "fraction_done"]

REFRESH = 4  # bar texts a second
STEPS = 1000  # of the bar


def duration(seconds: float) -> str:
    """
    >>> duration(75), duration(7384)
    ('1:15', '2:03:04')
    """
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def fraction_done(trainer: Trainer) -> float:
    """How much of the run is over, by whichever limit is nearer (0 to 1)."""
    config, progress = trainer.config, trainer.progress
    done = [progress.update / config.updates]
    if config.max_minutes:
        done.append(progress.seconds / (60 * config.max_minutes))
    if config.epochs:
        done.append(progress.cursor.epoch / config.epochs)
    return min(1.0, max(done))


class Display(Handler):
    """A rich bar when standard error is a terminal, else one line in the log every `every` updates."""

    name = "display"

    def __init__(self, every: int) -> None:
        self.every = every
        self.window = Window()
        self._bar: Bar | None = None
        self._shown = 0.0
        self._text = ""

    def started(self, trainer: Trainer) -> None:
        if not sys.stderr.isatty() or not logger.isEnabledFor(logging.INFO):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        # The log's own console, so that its lines go above the bar and not through it.
        consoles = [handler.console for handler in logger.handlers if hasattr(handler, "console")]
        self._bar = Progress(
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.description}", markup=False),
            console=consoles[0] if consoles else Console(stderr=True),
            refresh_per_second=REFRESH,
            transient=True,
        )
        self._bar.add_task("starting", total=STEPS, completed=round(STEPS * fraction_done(trainer)))
        self._bar.start()

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.window.add(update)
        done = fraction_done(trainer)
        due = update.number % self.every == 0
        if due or (self._bar is not None and trainer.progress.seconds - self._shown > 1):
            self._shown = trainer.progress.seconds
            if due or not self._text:
                self._text = self._described(self.window.report(update, trainer))
            left = duration(trainer.progress.seconds * (1 - done) / max(done, 1e-9))
            text = f"{update.number:,}/{trainer.config.updates:,}  {self._text}  {left} left"
            if self._bar is None:
                logger.info("update %s", text)
            else:
                self._bar.update(self._bar.task_ids[0], completed=round(STEPS * done), description=text)

    def closed(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @staticmethod
    def _described(line: dict[str, Any]) -> str:
        if "loss" not in line:
            return "no step made"
        ppl = f"  ppl {line['perplexity']:.4g}" if "perplexity" in line else ""
        rate = line["tokens_per_second"]
        speed = f"{rate / 1000:.1f}k" if rate >= 1000 else f"{rate:.0f}"
        return f"loss {line['loss']:.3f}{ppl}  lr {line['learning_rate']:.2e}  {speed} tokens/s"


class TensorBoard(Handler):
    """The numbers of `metrics.jsonl` as TensorBoard events; needs the extra `tensorboard`."""

    name = "tensorboard"

    def __init__(self, directory: Path, every: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError(
                "training.tensorboard: not installed; pip install 'clearhead[tensorboard]', or set it to false"
            ) from None
        self._make = SummaryWriter
        self.directory = directory
        self.every = every
        self.window = Window()
        self._writer: Any = None

    def started(self, trainer: Trainer) -> None:
        self._writer = self._make(str(self.directory), purge_step=trainer.progress.update + 1)

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.window.add(update)
        if update.number % self.every == 0:
            line = self.window.report(update, trainer)
            for name in ("loss", "nll", "learning_rate", "gradient_norm", "tokens_per_second"):
                if name in line:
                    self._writer.add_scalar(f"train/{name}", line[name], update.number)

    def validated(self, trainer: Trainer, result: Validated) -> None:
        for name, value in result.scores.items():
            self._writer.add_scalar(f"dev/{name}", value, result.update)

    def closed(self) -> None:
        if self._writer is not None:
            self._writer.close()
