from __future__ import annotations

import copy
import json
import logging
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.base.errors import TrainingError
from clearhead.objectives.loss import Loss
from clearhead.training.events import MetricsFile, read_metrics
from clearhead.training.optim import optimizer_tensors
from clearhead.training.progress import Outcome, Progress, Update, Validated
from clearhead.training.signals import stop_on_signals
from clearhead.training.trainer import Handler, Trainer

from .conftest import Line, examples, squares

Make = Callable[..., Trainer]


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}


def test_the_gradient_is_of_the_mean_over_all_tokens(make_trainer: Make) -> None:
    """Two unequal batches against autograd on the mean over their union; not the mean of two means."""
    trainer = make_trainer(sizes=(1, 7), accumulate=2, updates=1)
    model = Line()
    x, y = examples(8)
    ((model(x) - y).square() / 2).mean().backward()
    seen: dict[str, torch.Tensor] = {}
    step = trainer.optimizer.step

    def spy(*arguments: Any) -> None:
        seen.update({name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.grad is not None})
        step(*arguments)

    trainer.optimizer.step = spy  # type: ignore[method-assign]
    update = trainer.step()
    torch.testing.assert_close(seen["weight"], model.weight.grad, rtol=1e-12, atol=0)
    torch.testing.assert_close(seen["bias"], model.bias.grad, rtol=1e-12, atol=0)
    assert update.loss == pytest.approx(((Line()(x) - y).square() / 2).mean().item(), rel=1e-12)
    assert update.metrics["nll"] == pytest.approx(2 * update.loss, rel=1e-12)
    mean_of_means = sum(
        torch.autograd.grad(((m := Line())(x[p]) - y[p]).square().mean() / 2, m.bias)[0]
        for p in (slice(0, 1), slice(1, 8))
    )
    assert abs(mean_of_means / 2 - seen["bias"]) > 1e-3  # the two rules do differ here


@pytest.mark.parametrize("sizes", [(12,), (6, 6), (1, 4, 2, 5)])
def test_accumulating_k_batches_is_one_large_batch(make_trainer: Make, sizes: tuple[int, ...]) -> None:
    whole = make_trainer(sizes=(12,), updates=5)
    parts = make_trainer(sizes=sizes, accumulate=len(sizes), updates=5)
    whole.run()
    parts.run()
    for name, value in weights(whole).items():
        torch.testing.assert_close(weights(parts)[name], value, rtol=1e-10, atol=1e-12)


def test_one_step_of_adam_by_hand(make_trainer: Make) -> None:
    """The first bias-corrected step is the rate times the sign of the gradient."""
    trainer = make_trainer(updates=1, rate=0.01)
    before = weights(trainer)
    trainer.step()
    moved = weights(trainer)["weight"] - before["weight"]
    torch.testing.assert_close(moved.abs(), torch.full_like(moved, 0.01), rtol=1e-6, atol=0)


def test_the_rate_is_asked_for_each_update_from_one(make_trainer: Make) -> None:
    trainer = make_trainer(updates=4, accumulate=2)
    asked: list[int] = []
    trainer.schedule = lambda update: asked.append(update) or 0.1 / update  # type: ignore[func-returns-value]
    rates: list[float] = []

    class Watch(Handler):
        def updated(self, trainer: Trainer, update: Update) -> None:
            rates.append(update.learning_rate)
            assert all(group["lr"] == update.learning_rate for group in trainer.optimizer.param_groups)

    trainer.handlers = (Watch(),)
    trainer.run()
    assert asked == [1, 2, 3, 4]
    assert rates == [0.1, 0.05, 0.1 / 3, 0.025]


def test_clipping_scales_the_whole_gradient(make_trainer: Make) -> None:
    """Adam's first step does not see the scale of a gradient, its second moment does: v = 0.02 · g²."""
    free, clipped = make_trainer(updates=1), make_trainer(updates=1, clip_norm=0.5)
    norm = free.step().gradient_norm
    assert clipped.step().gradient_norm == pytest.approx(norm)  # reported as it was
    assert norm > 0.5
    for name, parameter in free.model.named_parameters():
        before = free.optimizer.state[parameter]["exp_avg_sq"]
        after = clipped.optimizer.state[dict(clipped.model.named_parameters())[name]]["exp_avg_sq"]
        torch.testing.assert_close(after, before * (0.5 / norm) ** 2, rtol=1e-4, atol=0)


class Poison:
    """An objective that breaks at one call."""

    def __init__(self, at: int, value: float, in_gradient: bool = False) -> None:
        self.calls, self.at, self.value, self.in_gradient = 0, at, value, in_gradient

    def __call__(self, model: torch.nn.Module, batch: Any) -> Loss:
        loss = squares(model, batch)
        self.calls += 1
        if self.calls != self.at:
            return loss
        if self.in_gradient:  # the loss itself stays finite: d sqrt(x)/dx is infinite at 0
            return Loss(loss.sum + (model.weight.sum() * 0).sqrt(), loss.count, loss.metrics)
        return Loss(loss.sum * self.value, loss.count, loss.metrics)


@pytest.mark.parametrize("in_gradient", [False, True], ids=["loss", "gradient"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_value_that_is_not_finite_changes_nothing(make_trainer: Make, value: float, in_gradient: bool) -> None:
    trainer = make_trainer(
        sizes=(2, 3, 4), accumulate=2, objective=Poison(6, value, in_gradient), log_every=100, ema=0.5
    )
    trainer.step()
    trainer.step()
    assert trainer.average is not None
    before = weights(trainer)
    moments = {name: t.clone() for name, t in optimizer_tensors(trainer.optimizer, trainer.model).items()}
    average, progress = copy.deepcopy(trainer.average.tensors), copy.deepcopy(trainer.progress)
    with pytest.raises(
        TrainingError, match=r"update 3: .* not finite \(pairs [0-9, ]+\); nothing was changed"
    ) as caught:
        trainer.step()
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())
    after = optimizer_tensors(trainer.optimizer, trainer.model)
    assert all(torch.equal(after[name], moment) for name, moment in moments.items())
    assert all(torch.equal(trainer.average.tensors[name], tensor) for name, tensor in average.items())
    assert trainer.progress == progress
    if not in_gradient:  # the sixth batch is the third of the second epoch: pairs 6 to 9
        assert "(pairs 6, 7, 8, 9)" in str(caught.value)


@pytest.mark.parametrize("in_gradient", [False, True], ids=["loss", "gradient"])
def test_a_skipped_update_is_counted_told_and_changes_nothing(
    make_trainer: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, in_gradient: bool
) -> None:
    caplog.set_level(logging.WARNING, logger="clearhead")
    metrics = MetricsFile(tmp_path / "metrics.jsonl", 1)
    trainer = make_trainer(
        sizes=(2, 3, 4),
        accumulate=2,
        objective=Poison(6, float("inf"), in_gradient),
        ema=0.5,
        clip_norm=1.0,
        non_finite="skip",
        handlers=[metrics],
    )
    metrics.started(trainer)
    for _ in range(2):
        metrics.updated(trainer, trainer.step())
    assert trainer.average is not None
    before = weights(trainer)
    moments = {name: t.clone() for name, t in optimizer_tensors(trainer.optimizer, trainer.model).items()}
    average = copy.deepcopy(trainer.average.tensors)
    update = trainer.step()
    metrics.updated(trainer, update)
    assert update.skipped
    assert update.number == trainer.progress.update == 3
    assert (trainer.progress.skipped, trainer.progress.skipped_in_row) == (1, 1)
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())
    after = optimizer_tensors(trainer.optimizer, trainer.model)
    assert all(torch.equal(after[name], moment) for name, moment in moments.items())
    assert all(torch.equal(trainer.average.tensors[name], tensor) for name, tensor in average.items())
    assert trainer.average.count == 2
    told = caplog.records[-1].getMessage()
    assert "update 3: " in told
    assert "the update is skipped (1 in a row; 3 would end the run)" in told
    if not in_gradient:
        assert "(pairs 6, 7, 8, 9)" in told
    progress = Progress()
    progress.restore(json.loads(json.dumps(trainer.progress.to_dict())))
    assert progress == trainer.progress  # survives a resume
    metrics.updated(trainer, trainer.step())
    assert (trainer.progress.skipped, trainer.progress.skipped_in_row) == (1, 0)
    metrics.closed()
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [line.get("skipped") for line in lines] == [None, None, 1, None]
    assert all(math.isfinite(line["loss"]) for line in lines if "loss" in line)


def test_skipping_has_an_end(make_trainer: Make) -> None:
    """The limit counts those in a row, and a resume goes on counting."""
    broken: Any = lambda model, batch: Loss(squares(model, batch).sum * math.nan, len(batch[0]), {})  # noqa: E731
    trainer = make_trainer(objective=broken, non_finite="skip", skip_limit=3)
    with pytest.raises(TrainingError, match=r"update 3: .* not finite .* this was number 3 in a row\. Lower"):
        trainer.run()
    assert trainer.progress.update == trainer.progress.skipped == 2
    resumed = make_trainer(objective=broken, non_finite="skip", skip_limit=3)
    resumed.progress.restore(trainer.progress.to_dict())
    with pytest.raises(TrainingError, match="update 3: .* number 3 in a row"):
        resumed.run()
    old = {name: value for name, value in trainer.progress.to_dict().items() if "skipped" not in name}
    resumed.progress.restore(old)  # a checkpoint from before there was skipping
    assert resumed.progress.skipped == 0


def test_infinities_of_both_signs_are_no_crash(make_trainer: Make) -> None:
    values = iter((math.inf, -math.inf))

    def objective(model: torch.nn.Module, batch: Any) -> Loss:
        loss = squares(model, batch)
        value = next(values)
        return Loss(loss.sum * value, loss.count, {"nll": loss.sum.detach() * value})

    with pytest.raises(TrainingError, match="update 1: the loss is not finite"):
        make_trainer(objective=objective, accumulate=2).step()


def test_batches_without_tokens_are_passed_over(make_trainer: Make) -> None:
    with_empty = make_trainer(sizes=(0, 5, 0, 0, 7), accumulate=2, updates=3)
    without = make_trainer(sizes=(5, 7), accumulate=2, updates=3)
    with_empty.run()
    without.run()
    assert all(torch.equal(weights(without)[name], value) for name, value in weights(with_empty).items())


def test_nothing_but_empty_batches_is_an_error_and_no_endless_loop(make_trainer: Make) -> None:
    with pytest.raises(TrainingError, match="no target token"):
        make_trainer(sizes=(0, 0)).run()


@pytest.mark.parametrize(
    ("settings", "reason", "updates"),
    [
        ({"updates": 4}, "4 updates done", 4),
        ({"updates": 100, "epochs": 2}, "2 epochs done", 6),
        ({"updates": 100, "epochs": 1, "accumulate": 2}, "1 epochs done", 2),
        ({"updates": 100, "max_minutes": 1e-9}, "1e-09 minutes are over", 1),
    ],
)
def test_limits(make_trainer: Make, settings: dict[str, Any], reason: str, updates: int) -> None:
    trainer = make_trainer(sizes=(4, 4, 4), **settings)
    assert trainer.run() == Outcome(reason)
    assert trainer.progress.update == updates
    assert trainer.run() == Outcome(reason)  # again: nothing is left to do
    assert trainer.progress.update == updates


def test_the_last_epoch_is_used_up_and_no_more(make_trainer: Make) -> None:
    """Three batches, two an update: the second update has one, and none of the next epoch's."""
    sizes: list[int] = []

    class Watch(Handler):
        def updated(self, trainer: Trainer, update: Update) -> None:
            sizes.append(update.tokens)

    make_trainer(sizes=(4, 3, 2), handlers=[Watch()], epochs=1, accumulate=2).run()
    assert sizes == [7, 2]


def test_handlers_hear_everything_in_order_and_are_always_closed(make_trainer: Make) -> None:
    heard: list[str] = []

    class Watch(Handler):
        def started(self, trainer: Trainer) -> None:
            heard.append("started")

        def updated(self, trainer: Trainer, update: Update) -> None:
            heard.append(f"updated {update.number}")
            if update.number == 2:
                trainer.publish(Validated(2, {"nll": 1.0}))
                trainer.stop("enough")
                trainer.stop("too late")

        def validated(self, trainer: Trainer, result: Validated) -> None:
            heard.append("validated")

        def ended(self, trainer: Trainer, outcome: Outcome) -> None:
            heard.append(outcome.reason)

        def closed(self) -> None:
            heard.append("closed")

    make_trainer(handlers=[Watch()]).run()
    assert heard == ["started", "updated 1", "updated 2", "validated", "enough", "closed"]
    heard.clear()
    with pytest.raises(TrainingError):
        make_trainer(handlers=[Watch()], objective=Poison(1, float("nan"))).run()
    assert heard == ["started", "closed"]


def test_a_signal_ends_the_run_at_an_update_boundary(make_trainer: Make) -> None:
    class Interrupt(Handler):
        def updated(self, trainer: Trainer, update: Update) -> None:
            if update.number == 3:
                signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    trainer = make_trainer(handlers=[Interrupt()])
    with stop_on_signals(trainer):
        outcome = trainer.run()
    assert outcome == Outcome("interrupted by SIGTERM", signal.SIGTERM)
    assert trainer.progress.update == 3
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN], ids=["terminal", "background"])
def test_a_second_signal_is_not_held_back(make_trainer: Make, before: Any) -> None:
    trainer = make_trainer()
    outside = signal.signal(signal.SIGINT, before)
    try:
        with stop_on_signals(trainer):
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, outside)


def test_a_signal_is_the_reason_whatever_else_was(make_trainer: Make) -> None:
    """Patience has run out and the end is being saved: whoever ended the process must be told that it was they."""
    trainer = make_trainer()
    trainer.stop("patience")
    trainer.stop("interrupted by SIGINT", signal=2)
    trainer.stop("patience again")
    assert trainer.run() == Outcome("interrupted by SIGINT", 2)


def test_it_learns_the_line(make_trainer: Make) -> None:
    trainer = make_trainer(updates=400)
    trainer.run()
    torch.testing.assert_close(
        weights(trainer)["weight"], torch.tensor([2.0, -1.0], dtype=torch.float64), atol=0.05, rtol=0
    )
