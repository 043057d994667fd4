"""What happens around the updates: metrics, validation, the best score, checkpoints. Each is one small handler.

Order matters and is given by the recipe: reports of the update, validation, the best score, checkpoints last, so that a
checkpoint holds everything that happened at its update.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import nn

from clearhead.base.errors import TrainingError
from clearhead.base.files import atomic_write, sweep_temporaries
from clearhead.base.log import logger
from clearhead.bundle.bundle import Bundle
from clearhead.bundle.resolve import BEST, CHECKPOINTS, steps
from clearhead.training.checkpoint import checkpoint_path, is_valid, prune, save_checkpoint
from clearhead.training.config import TrainingConfig
from clearhead.training.progress import Outcome, Update, Validated
from clearhead.training.trainer import Handler, Trainer

__all__ = ["Best", "Checkpoints", "MetricsFile", "Validation", "Window", "perplexity", "read_metrics"]

METRICS = "metrics.jsonl"


def perplexity(nll: float) -> float:
    """exp of the mean negative log-likelihood in nats; infinite where a float cannot hold it."""
    return math.exp(nll) if nll < 700 else math.inf


class Window:
    """Sums since the last report, so that a report is a mean over tokens and survives a kill."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}

    def add(self, update: Update) -> None:
        """Take in one update."""
        values = {"loss": update.loss * update.tokens, "tokens": update.tokens, "source_tokens": update.source_tokens}
        values |= {name: value * update.tokens for name, value in update.metrics.items()}
        values |= {"seconds": update.seconds, "pairs": update.pairs}
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def report(self, update: Update, trainer: Trainer) -> dict[str, Any]:
        """The means of the window, which starts anew."""
        sums, self.sums = self.sums, {}
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
    resumed update are dropped, so each update is told once.
    """

    name = "metrics"

    def __init__(self, path: Path, every: int) -> None:
        self.path = path
        self.every = every
        self.window = Window()
        self._file: TextIO | None = None

    def started(self, trainer: Trainer) -> None:
        kept = [line for line in read_metrics(self.path) if line["update"] <= trainer.progress.update]
        atomic_write(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = self.path.open("a", encoding="utf-8")

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.window.add(update)
        if update.number % self.every == 0:
            self._write(self.window.report(update, trainer))

    def validated(self, trainer: Trainer, result: Validated) -> None:
        line: dict[str, Any] = {"update": result.update, "epoch": trainer.progress.cursor.epoch}
        line |= {f"dev_{name}": value for name, value in result.scores.items()}
        line["dev_perplexity"] = perplexity(result.scores["nll"])
        self._write(line | {"seconds": trainer.progress.seconds})

    def closed(self) -> None:
        if self._file is not None:
            self._file.close()

    def state(self) -> dict[str, Any]:
        return dict(self.window.sums)

    def restore(self, state: dict[str, Any]) -> None:
        self.window.sums = {name: float(value) for name, value in state.items()}

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics file (a kill can cut the last one short); none if there is no file."""
    if not path.exists():
        return []
    lines: list[dict[str, Any]] = []
    for text in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("update"), int):
            lines.append(line)
    return lines


class Validation(Handler):
    """Every `validate_every` updates the NLL of the development set, every `score_every` also BLEU and chrF.

    It runs in eval mode with the weights that a bundle would be used with (the moving average if one is kept), draws
    no random number, and runs once more at the end. `batches` gives the development set anew at each call; `score`
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

    def updated(self, trainer: Trainer, update: Update) -> None:
        due = self.score is not None and update.number % self.config.score_every == 0
        if due or (self.config.validate_every and update.number % self.config.validate_every == 0):
            outcome = trainer.finished()  # the last update is scored here already, so that it is measured once
            last = outcome is not None and outcome.signal is None
            self._run(trainer, due or (last and self.score is not None))

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        last = self._last if self.score is None else min(self._last, self._last_scored)
        if outcome.signal is None and last != trainer.progress.update:
            self._run(trainer, self.score is not None)

    def state(self) -> dict[str, Any]:
        return {"last": self._last, "last_scored": self._last_scored}

    def restore(self, state: dict[str, Any]) -> None:
        self._last, self._last_scored = int(state["last"]), int(state["last_scored"])

    @torch.no_grad()
    def measure(self, trainer: Trainer, model: nn.Module, scored: bool) -> dict[str, float]:
        """The scores of `model` on the development set; it is left in eval mode."""
        model.eval()
        sums: list[float] = []
        count = 0
        for batch in self.batches():
            with trainer.compute.autocast():
                loss = trainer.objective(model, batch)
            sums.append(float(loss.metrics.get("nll", loss.sum)))
            count += loss.count
        nll = math.fsum(sums) / max(1, count)
        if not math.isfinite(nll):
            raise TrainingError(f"update {trainer.progress.update}: the development NLL is not finite ({nll})")
        return {"nll": nll, **(self.score(model) if scored and self.score is not None else {})}

    def _run(self, trainer: Trainer, scored: bool) -> None:
        with trainer.evaluation_weights():
            scores = self.measure(trainer, trainer.model, scored)
        trainer.model.train()
        self._last = trainer.progress.update
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


class Checkpoints(Handler):
    """Saves every `save_every` updates, whenever `best` is new, and at the end; removes what need not be kept.

    `bundle` makes the bundle of the present moment. `best.json` names the best checkpoint for whoever loads the run.
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

    def started(self, trainer: Trainer) -> None:
        sweep_temporaries(self.run / CHECKPOINTS)
        self.valid = {path for _, path in steps(self.run) if is_valid(path)}
        self._note_best()

    def updated(self, trainer: Trainer, update: Update) -> None:
        if trainer.finished() is not None:
            return  # `ended` follows and saves, after the last validation
        due = self.config.save_every and update.number % self.config.save_every == 0
        if due or self.best.update == update.number:
            self._save(trainer)

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        if trainer.progress.update:
            self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        path = save_checkpoint(self.run, trainer, self.bundle(trainer), self.identity)
        self.valid.add(path)
        self._note_best()
        prune(
            self.run,
            keep_last=self.config.keep_last,
            keep_every=self.config.keep_every,
            save_every=self.config.save_every,
            best=self.best.update,
            valid=self.valid,
        )

    def _note_best(self) -> None:
        update = self.best.update
        if update is None:
            return
        path = checkpoint_path(self.run, update)
        if not path.is_dir():
            return
        note = {
            "step": update,
            "path": path.relative_to(self.run).as_posix(),
            "metric": self.best.metric,
            "value": self.best.value,
        }
        text = json.dumps(note, indent=1) + "\n"
        where = self.run / BEST
        if not where.exists() or where.read_text(encoding="utf-8") != text:
            atomic_write(where, text)
