"""What happens around the updates: metrics, validation, the best score. Each is one small handler.

Order matters and is given by the recipe: reports of the update, validation, the best score, checkpoints (`saving`)
last, so that a checkpoint holds everything that happened at its update.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clearhead.base.errors import TrainingError
from clearhead.base.files import atomic_write, file_error
from clearhead.base.log import logger
from clearhead.bundle.regular import read_regular
from clearhead.training.config import TrainingConfig
from clearhead.training.progress import Outcome, Update, Validated
from clearhead.training.trainer import Handler, Interrupted, Trainer

__all__ = ["Best", "MetricsFile", "Validation", "Window", "perplexity", "read_metrics"]

METRICS = "metrics.jsonl"


def perplexity(nll: float) -> float:
    """exp of the mean negative log-likelihood in nats; infinite where a float cannot hold it."""
    return math.exp(nll) if nll < 700 else math.inf


class Window:
    """Sums since the last report, so that a report is a mean over tokens and survives a kill."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}

    def add(self, update: Update) -> None:
        """Take in one update; a skipped one has no numbers."""
        if update.skipped:
            return
        values = {"loss": update.loss * update.tokens, "tokens": update.tokens, "source_tokens": update.source_tokens}
        values |= {name: value * update.tokens for name, value in update.metrics.items()}
        values |= {"seconds": update.seconds, "pairs": update.pairs}
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def report(self, update: Update, trainer: Trainer) -> dict[str, Any]:
        """The means of the window, which starts anew; nothing when no step was made since the last report."""
        sums, self.sums = self.sums, {}
        if not sums:
            return {}
        tokens, seconds = sums["tokens"], max(sums["seconds"], 1e-9)
        line: dict[str, Any] = {"update": update.number, "epoch": trainer.progress.cursor.epoch}
        line["loss"] = sums["loss"] / tokens
        if "nll" in sums:
            line["nll"] = sums["nll"] / tokens
            line["perplexity"] = perplexity(line["nll"])
        line |= {"learning_rate": update.learning_rate, "gradient_norm": update.gradient_norm}
        line |= {"tokens": trainer.progress.tokens, "source_tokens": trainer.progress.source_tokens}
        line["tokens_per_second"] = (tokens + sums["source_tokens"]) / seconds
        line["seconds"] = trainer.progress.seconds
        return line


class MetricsFile(Handler):
    """`metrics.jsonl`: one JSON object a line, every `every` updates and after each validation.

    `tokens_per_second` counts source and target tokens over the updates' own time. On a resume the lines after the
    resumed update are dropped, so each update is told once. A skipped update gets a line of its own. Lines that the
    disk does not take wait for the next one.
    """

    name = "metrics"

    def __init__(self, path: Path, every: int) -> None:
        self.path = path
        self.every = every
        self.window = Window()
        self._file: FileIO | None = None
        self._waiting = b""
        self._whole = 0  # bytes of whole lines in the file
        self._refused = False
        self._told: set[tuple[int, frozenset[str]]] = set()

    def started(self, trainer: Trainer) -> None:
        kept = [line for line in read_metrics(self.path) if line["update"] <= trainer.progress.update]
        atomic_write(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._told = {_measurement(line) for line in kept}
        self._file = FileIO(self.path, "a")
        self._whole = self.path.stat().st_size

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.window.add(update)
        if update.skipped:
            line = {
                "update": update.number,
                "epoch": trainer.progress.cursor.epoch,
                "skipped": trainer.progress.skipped,
            }
            self._write(line | {"seconds": trainer.progress.seconds})
        if update.number % self.every == 0 and (line := self.window.report(update, trainer)):
            self._write(line)

    def validated(self, trainer: Trainer, result: Validated) -> None:
        line: dict[str, Any] = {"update": result.update, "epoch": trainer.progress.cursor.epoch}
        line |= {f"dev_{name}": value for name, value in result.scores.items()}
        line["dev_perplexity"] = perplexity(result.scores["nll"])
        if _measurement(line) not in self._told:  # a validation may be made up for more than once
            self._write(line | {"seconds": trainer.progress.seconds})

    def closed(self) -> None:
        if self._file is not None:
            self._write_waiting()
            self._file.close()

    def state(self) -> dict[str, Any]:
        return dict(self.window.sums)

    def restore(self, state: dict[str, Any]) -> None:
        self.window.sums = {name: float(value) for name, value in state.items()}

    def _write(self, line: Mapping[str, Any]) -> None:
        self._waiting += json.dumps(line).encode() + b"\n"
        self._write_waiting()

    def _write_waiting(self) -> None:
        file, rest = self._file, self._waiting
        if file is None:
            return
        try:
            while rest:  # a disk that fills up takes a part, and refuses the next
                rest = rest[file.write(rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                file.truncate(self._whole)
            if not self._refused:
                logger.warning("%s: cannot be written: %s; its lines wait", self.path, error.strerror or error)
            self._refused = True
        else:
            self._whole += len(self._waiting)
            self._waiting, self._refused = b"", False


def _measurement(line: Mapping[str, Any]) -> tuple[int, frozenset[str]]:
    """What a line of the metrics file tells: scores of which kinds, after which update."""
    return line["update"], frozenset(name for name in line if name.startswith("dev_"))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics file (a kill can cut the last one short); none if there is no file.

    Raises `file_error`'s where it cannot be read, or is no regular file.
    """
    try:
        content = read_regular(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise file_error(path, "read", error) from None
    lines: list[dict[str, Any]] = []
    for text in content.decode("utf-8", errors="replace").split("\n"):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and isinstance(line.get("update"), int):
            lines.append(line)
    return lines


class Validation(Handler):
    """Every `validate_every` updates the NLL of the development set, every `score_every` also BLEU and chrF.

    It runs in eval mode with the weights that a bundle would be used with (the moving average if one is kept), draws
    no random number, and runs once more at the end. A signal cuts it short; it is then made up for when the run goes
    on, before anything else. `batches` gives the development set anew at each call; `score`
    translates it with a model and returns {"bleu": …, "chrf": …}. Raises `TrainingError` when the NLL is not finite.
    """

    name = "validation"

    def __init__(
        self,
        batches: Callable[[], Iterable[Any]],
        config: TrainingConfig,
        score: Callable[[nn.Module], Mapping[str, float]] | None = None,
    ) -> None:
        self.batches = batches
        self.config = config
        self.score = score if config.score_every else None
        self._last = 0
        self._last_scored = 0
        self._owed = ""  # "nll" or "scores": what a signal cut short

    def started(self, trainer: Trainer) -> None:
        if self._owed:
            self._run(trainer, self._owed == "scores")

    def updated(self, trainer: Trainer, update: Update) -> None:
        due = self.score is not None and update.number % self.config.score_every == 0
        if due or (self.config.validate_every and update.number % self.config.validate_every == 0):
            outcome = trainer.finished()  # the last update is scored here already, so that it is measured once
            last = outcome is not None and outcome.signal is None
            self._run(trainer, due or (last and self.score is not None))

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        if outcome.signal is None and not self.complete(trainer):
            self._run(trainer, self.score is not None)

    def complete(self, trainer: Trainer) -> bool:
        """Whether the run as it stands has been measured in full, as it must be at its end."""
        last = self._last if self.score is None else min(self._last, self._last_scored)
        return last == trainer.progress.update

    def state(self) -> dict[str, Any]:
        return {"last": self._last, "last_scored": self._last_scored, "owed": self._owed}

    def restore(self, state: dict[str, Any]) -> None:
        self._last, self._last_scored = int(state["last"]), int(state["last_scored"])
        self._owed = str(state.get("owed", ""))

    @torch.no_grad()
    def measure(self, trainer: Trainer, model: nn.Module, scored: bool) -> dict[str, float]:
        """The scores of `model` on the development set; it is left in eval mode. A signal raises `Interrupted`."""
        model.eval()
        sums: list[float] = []
        count = 0
        for batch in self.batches():
            trainer.heed()
            with trainer.compute.autocast():
                loss = trainer.objective(model, batch)
            sums.append(float(loss.metrics.get("nll", loss.sum)))
            count += loss.count
        nll = math.fsum(sums) / max(1, count)
        if not math.isfinite(nll):
            raise TrainingError(f"update {trainer.progress.update}: the development NLL is not finite ({nll})")
        return {"nll": nll, **(self.score(model) if scored and self.score is not None else {})}

    def _run(self, trainer: Trainer, scored: bool) -> None:
        try:
            with trainer.evaluation_weights():
                scores = self.measure(trainer, trainer.model, scored)
        except Interrupted:
            self._owed = "scores" if scored else "nll"
            logger.warning("update %d: validation cut short; a resumed run begins with it", trainer.progress.update)
            return
        finally:
            trainer.model.train()
        self._last, self._owed = trainer.progress.update, ""
        self._last_scored = self._last if scored else self._last_scored
        shown = "  ".join(f"{name} {value:.2f}" for name, value in scores.items() if name != "nll")
        nll = scores["nll"]
        logger.info("update %d: dev nll %.4f  ppl %.2f  %s", self._last, nll, perplexity(nll), shown)
        trainer.publish(Validated(self._last, scores))


class Best(Handler):
    """Remembers the best score and stops the run after `patience` validations without a better one (0: never)."""

    name = "best"

    def __init__(self, metric: str, patience: int = 0) -> None:
        self.metric = metric
        self.patience = patience
        self.value: float | None = None
        self.update: int | None = None
        self.waited = 0
        self.seen = 0

    def better(self, value: float) -> bool:
        """Whether `value` would be the new best: lower for the NLL, higher for the others."""
        if self.value is None:
            return True
        return value < self.value if self.metric == "nll" else value > self.value

    def started(self, trainer: Trainer) -> None:
        self.judge(trainer)

    def validated(self, trainer: Trainer, result: Validated) -> None:
        value = result.scores.get(self.metric)
        if value is None:
            return
        if self.better(value):
            self.value, self.update, self.waited = value, result.update, 0
        elif result.update > self.seen:  # an update measured again costs nothing
            self.waited += 1
        self.seen = result.update
        self.judge(trainer)

    def state(self) -> dict[str, Any]:
        return {"value": self.value, "update": self.update, "waited": self.waited, "seen": self.seen}

    def restore(self, state: dict[str, Any]) -> None:
        self.value, self.update, self.waited = state["value"], state["update"], int(state["waited"])
        self.seen = int(state.get("seen", 0))

    def judge(self, trainer: Trainer) -> None:
        """Stop the run if its patience is spent."""
        if self.patience and self.waited >= self.patience:
            trainer.stop(f"{self.metric} has not improved for {self.waited} validations (best at update {self.update})")
