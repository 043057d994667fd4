"""The training loop. It knows a model, an objective and batches by their contracts; no architecture and no task.

One update: draw `accumulate` batches, count their tokens, run each forward and backward with the sum of its losses
divided by the count of all, look whether everything is finite, step. Dividing by the common count makes k batches of
b the same update as one of k·b, whatever their lengths; so a batch that does not fit memory can be halved at any time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from clearhead.base.errors import TrainingError
from clearhead.base.log import logger
from clearhead.data.batches import Cursor
from clearhead.objectives.loss import Loss
from clearhead.training.config import TrainingConfig
from clearhead.training.device import Compute
from clearhead.training.ema import MovingAverage
from clearhead.training.memory import halved, is_out_of_memory
from clearhead.training.progress import Drawn, Outcome, Progress, Update, Validated

__all__ = ["Handler", "Interrupted", "Objective", "Stream", "Trainer"]


class Objective(Protocol):
    """Turns model and batch into a `Loss`."""

    def __call__(self, model: Any, batch: Any) -> Loss: ...


class Interrupted(Exception):
    """A measurement was given up, because a signal asked the run to stop."""


Stream = Callable[[Cursor], Iterator[Drawn[Any]]]
"""Batches without end from a position on; the same position gives the same batches."""


class Handler:
    """Something that listens. Each method is called at update boundaries, in the order of the trainer's list.

    `name` keys the handler's `state` in a checkpoint; whatever `state` returns must survive JSON.
    """

    name = "handler"

    def started(self, trainer: Trainer) -> None:
        """Before the first update of this process."""

    def updated(self, trainer: Trainer, update: Update) -> None:
        """After an optimizer step."""

    def validated(self, trainer: Trainer, result: Validated) -> None:
        """When some handler has published scores on the development set."""

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        """When the loop returns in good order."""

    def closed(self) -> None:
        """Always, at the very end, also after an error: give back terminals and files."""

    def state(self) -> dict[str, Any]:
        """What must survive a kill."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""


class Trainer:
    """Runs updates until a limit, a handler or a signal ends the run.

    `schedule` maps an update's number, from 1, to its learning rate. Reads and writes the global random state
    (dropout); nothing else is hidden, so `progress`, the handlers' states, model, optimizer, moving average and
    random state are all that a checkpoint needs.
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        objective: Objective,
        stream: Stream,
        optimizer: torch.optim.Optimizer,
        schedule: Callable[[int], float],
        config: TrainingConfig,
        compute: Compute,
        handlers: Sequence[Handler] = (),
    ) -> None:
        self.model = model
        self.objective = objective
        self.stream = stream
        self.optimizer = optimizer
        self.schedule = schedule
        self.config = config
        self.compute = compute
        self.handlers = tuple(handlers)
        self.progress = Progress()
        self.average = MovingAverage(model, config.ema) if config.ema else None
        self._parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._stopped: Outcome | None = None
        self._clock = time.perf_counter()
        self._batches: Iterator[Drawn[Any]] | None = None
        self._place = 0  # of the batch that is being computed, among those of the update

    def run(self) -> Outcome:
        """Train; return why it ended. Raises `TrainingError` when it cannot go on."""
        self._clock = time.perf_counter()
        try:
            for handler in self.handlers:
                handler.started(self)
            while (outcome := self.finished()) is None:
                update = self.step()
                self._tick()
                for handler in self.handlers:
                    handler.updated(self, update)
                self._tick()
            for handler in self.handlers:
                handler.ended(self, outcome)
        finally:
            for handler in self.handlers:
                handler.closed()
        # A signal may have come while the end was measured and saved, and cut that short.
        return self._stopped if self._stopped is not None and self._stopped.signal is not None else outcome

    def finished(self) -> Outcome | None:
        """Whether the run has reached an end by what a checkpoint knows, or was told to stop in this process."""
        config, progress = self.config, self.progress
        if self._stopped is not None:
            return self._stopped
        if progress.update >= config.updates:
            return Outcome(f"{progress.update} updates done")
        if config.max_minutes and progress.seconds >= 60 * config.max_minutes:
            return Outcome(f"{config.max_minutes:g} minutes are over")
        if config.epochs and progress.cursor.epoch >= config.epochs:
            return Outcome(f"{config.epochs} epochs done")
        return None

    def stop(self, reason: str, signal: int | None = None) -> None:
        """End the run at the next update boundary. The first reason given stands, but a signal before all others."""
        if self._stopped is None or (signal is not None and self._stopped.signal is None):
            self._stopped = Outcome(reason, signal)

    def heed(self, *_: object) -> None:
        """Raise `Interrupted` if a signal asked for an end: for long work that can as well be done another time."""
        if self._stopped is not None and self._stopped.signal is not None:
            raise Interrupted(self._stopped.reason)

    def publish(self, result: Validated) -> None:
        """Tell every handler about new scores."""
        for handler in self.handlers:
            handler.validated(self, result)

    def evaluation_weights(self) -> AbstractContextManager[None]:
        """Inside the block the model computes with the weights that a bundle of it would be used with."""
        return nullcontext() if self.average is None else self.average.applied()

    def step(self) -> Update:
        """One update. On a value that is not finite neither parameters nor optimizer nor average are touched: it raises
        `TrainingError`, or with `non_finite = "skip"` the update is counted, told and passed over."""
        begun = time.perf_counter()
        drawn = self._draw()
        number, tokens = self.progress.update + 1, sum(micro.tokens for micro in drawn)
        rate = self.schedule(number)
        self.model.train()
        losses, metrics = self._gradients(number, drawn, tokens)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self._parameters if p.grad is not None])
        gradient_norm = float(norm)
        skipped = self._refuse_non_finite(number, drawn, losses, gradient_norm)
        if not skipped:
            self._apply(rate, norm)
        self.progress.update = number
        self.progress.cursor = drawn[-1].cursor
        self.progress.tokens += tokens
        self.progress.source_tokens += (source_tokens := sum(micro.source_tokens for micro in drawn))
        self.progress.skipped += skipped
        self.progress.skipped_in_row = self.progress.skipped_in_row + 1 if skipped else 0
        return Update(
            number=number,
            learning_rate=rate,
            loss=_sum(losses) / tokens,
            metrics={name: value / tokens for name, value in metrics.items()},
            gradient_norm=gradient_norm,
            tokens=tokens,
            source_tokens=source_tokens,
            pairs=sum(len(micro.pairs) for micro in drawn),
            seconds=time.perf_counter() - begun,
            skipped=skipped,
        )

    def _apply(self, rate: float, norm: Tensor) -> None:
        """The step itself, with the gradients that are there."""
        if self.config.clip_norm:
            torch.nn.utils.clip_grads_with_norm_(self._parameters, self.config.clip_norm, norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        if self.average is not None:
            self.average.update()

    def _tick(self) -> None:
        """Book the time since the last call; validation and saving count as training time."""
        now = time.perf_counter()
        self.progress.seconds += now - self._clock
        self._clock = now

    def _draw(self) -> list[Drawn[Any]]:
        """The batches of the next update, those without a token passed over, within the last epoch."""
        if self._batches is None:
            self._batches = self.stream(self.progress.cursor)
        drawn: list[Drawn[Any]] = []
        started = self.progress.cursor.epoch
        while len(drawn) < self.config.accumulate:
            micro = next(self._batches)
            if micro.tokens:
                drawn.append(micro)
            elif not drawn and micro.cursor.epoch > started + 1:
                raise TrainingError("a whole epoch has no target token: there is nothing to learn from")
            if drawn and self.config.epochs and micro.cursor.epoch >= self.config.epochs:
                break
        return drawn

    def _gradients(self, number: int, drawn: list[Drawn[Any]], tokens: int) -> tuple[list[float], dict[str, float]]:
        """`_accumulate`, with a batch that does not fit memory in two (in `drawn`, too) and all computed anew.

        Anew, because a backward pass that memory ends has added to some gradients and not to others.
        """
        while True:
            self.optimizer.zero_grad(set_to_none=True)
            try:
                return self._accumulate(drawn, tokens)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # Out here the exception is gone, and with it the graph that its traceback held.
            self.optimizer.zero_grad(set_to_none=True)
            drawn[:] = halved(drawn, self._place, number)

    def _accumulate(self, drawn: Sequence[Drawn[Any]], tokens: int) -> tuple[list[float], dict[str, float]]:
        """Add up the gradients of all batches; the sums of loss (one a batch) and of each metric (over all)."""
        losses: list[Tensor] = []
        metrics: dict[str, list[Tensor]] = {}
        for self._place, micro in enumerate(drawn):
            with self.compute.autocast():
                loss = self.objective(self.model, micro.batch)
            (loss.sum / tokens).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.sum.detach().double())
            for name, value in loss.metrics.items():
                metrics.setdefault(name, []).append(value.detach().double())
        sums = {name: _sum(torch.stack(values).tolist()) for name, values in metrics.items()}
        return torch.stack(losses).tolist(), sums

    def _refuse_non_finite(
        self, number: int, drawn: Sequence[Drawn[Any]], losses: Sequence[float], gradient_norm: float
    ) -> bool:
        """Whether the update must be skipped; `TrainingError` where that is not wanted, or was done too often."""
        bad = [micro for micro, loss in zip(drawn, losses, strict=True) if not math.isfinite(loss)]
        if not bad and math.isfinite(gradient_norm):
            return False
        self.optimizer.zero_grad(set_to_none=True)
        what = "the loss" if bad else "the norm of the gradient"
        pairs = [int(pair) + 1 for micro in bad or drawn for pair in micro.pairs]
        listed = ", ".join(map(str, pairs[:20])) + (f" and {len(pairs) - 20} more" if len(pairs) > 20 else "")
        told = f"update {number}: {what} is not finite (pairs {listed}); nothing was changed"
        row, limit = self.progress.skipped_in_row + 1, self.config.skip_limit
        if self.config.non_finite == "skip" and row < limit:
            logger.warning("%s, and the update is skipped (%d in a row; %d would end the run)", told, row, limit)
            return True
        often = f", and this was number {row} in a row" if self.config.non_finite == "skip" else ""
        raise TrainingError(
            f"{told}{often}. Lower the learning rate, set training.clip_norm, or train in fp32; the last checkpoint is "
            "good"
        )


def _sum(values: Sequence[float]) -> float:
    """Their exact sum; no number where they are not all finite, or too large for one."""
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):  # +∞ and −∞ among them
        return math.nan
