from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.base.errors import TrainingError
from clearhead.objectives.loss import Loss
from clearhead.training.config import TrainingConfig
from clearhead.training.display import Display, TensorBoard, duration
from clearhead.training.events import Best, MetricsFile, Validation, perplexity, read_metrics
from clearhead.training.progress import Update, Validated
from clearhead.training.trainer import Handler, Trainer

from .conftest import examples, squares

Make = Callable[..., Trainer]


def test_metrics_are_means_over_the_window(make_trainer: Make, tmp_path: Path) -> None:
    """Three updates of 2, 4 and 6 tokens: the line is the mean over twelve."""
    updates: list[Update] = []

    class Watch(Handler):
        def updated(self, trainer: Trainer, update: Update) -> None:
            updates.append(update)

    make_trainer(sizes=(2, 4, 6), updates=6, handlers=[MetricsFile(tmp_path / "m", 3), Watch()]).run()
    lines = [json.loads(line) for line in (tmp_path / "m").read_text().splitlines()]
    assert [line["update"] for line in lines] == [3, 6]
    assert lines[0]["loss"] == pytest.approx(sum(u.loss * u.tokens for u in updates[:3]) / 12)
    assert lines[0]["nll"] == pytest.approx(2 * lines[0]["loss"])
    assert lines[0]["perplexity"] == pytest.approx(math.exp(lines[0]["nll"]))
    assert lines[1]["tokens"] == 24
    assert lines[1]["source_tokens"] == 48
    assert lines[1]["epoch"] == 2
    seconds = sum(u.seconds for u in updates[3:])
    assert lines[1]["tokens_per_second"] == pytest.approx((12 + 24) / seconds)


def test_lines_after_the_resumed_update_are_dropped(make_trainer: Make, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text('{"update": 1, "x": 1}\n{"update": 2, "x": 2}\n{"update": 3, "x": 3}\n{"update": 3, "lo')
    trainer = make_trainer(updates=4, handlers=[MetricsFile(path, 1)])
    trainer.progress.update = 2
    trainer.run()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["update"] for line in lines] == [1, 2, 3, 4]
    assert [line.get("x") for line in lines] == [1, 2, None, None]
    assert read_metrics(tmp_path / "absent") == []


def development() -> list[tuple[torch.Tensor, torch.Tensor]]:
    x, y = examples(9, seed=4)
    return [(x[:2], y[:2]), (x[2:], y[2:])]


class Heard(Handler):
    def __init__(self) -> None:
        self.results: list[Validated] = []

    def validated(self, trainer: Trainer, result: Validated) -> None:
        self.results.append(result)


def test_validation_is_the_mean_over_tokens_in_eval_mode(make_trainer: Make) -> None:
    modes: list[tuple[bool, bool]] = []

    def objective(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> Loss:
        modes.append((model.training, torch.is_grad_enabled()))
        return squares(model, batch)

    heard = Heard()
    config = TrainingConfig(updates=5, validate_every=2)
    trainer = make_trainer(
        updates=5, validate_every=2, objective=objective, handlers=[Validation(development, config), heard]
    )
    state = torch.get_rng_state()
    trainer.run()
    assert torch.equal(torch.get_rng_state(), state)
    assert [result.update for result in heard.results] == [2, 4, 5]
    assert trainer.model.training
    assert modes.count((False, False)) == 6
    x, y = examples(9, seed=4)
    with torch.no_grad():
        expected = (trainer.model(x) - y).square().mean().item()
    assert heard.results[-1].scores["nll"] == pytest.approx(expected, rel=1e-12)


def test_scoring_has_its_own_interval_and_happens_at_the_end(make_trainer: Make) -> None:
    heard = Heard()
    config = TrainingConfig(updates=7, validate_every=2, score_every=3)
    validation = Validation(development, config, lambda model: {"bleu": 12.5, "chrf": 30.0})
    make_trainer(updates=7, validate_every=2, handlers=[validation, heard]).run()
    assert {r.update: r.scores.get("bleu") for r in heard.results} == {2: None, 3: 12.5, 4: None, 6: 12.5, 7: 12.5}


@pytest.mark.parametrize(("updates", "patience"), [(4, 1), (4, 2), (9, 1)])
def test_no_update_is_counted_twice(make_trainer: Make, updates: int, patience: int) -> None:
    """The last update is validated for its NLL and scored because it is the last; that is one validation of it."""
    heard = Heard()
    config = TrainingConfig(updates=updates, validate_every=2, score_every=3, patience=patience)
    values = iter([3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])

    class Scripted(Validation):
        def measure(self, trainer: Trainer, model: torch.nn.Module, scored: bool) -> dict[str, float]:
            return {"nll": next(values), **({"bleu": 1.0} if scored else {})}

    best = Best("nll", patience)
    validation = Scripted(development, config, lambda model: {"bleu": 1.0})
    trainer = make_trainer(updates=updates, validate_every=2, handlers=[validation, best, heard])
    trainer.run()
    if updates == 4:
        assert [(result.update, "bleu" in result.scores) for result in heard.results] == [
            (2, False), (3, True), (4, True)
        ]  # fmt: skip
        assert (best.update, best.waited) == (4, 0)
    else:  # patience ends the run at 6, which is scored there because 6 is due
        assert (best.update, best.waited, trainer.progress.update) == (4, 1, 6)


def test_the_same_update_again_costs_no_patience(make_trainer: Make) -> None:
    best, trainer = Best("nll", patience=1), make_trainer()
    best.validated(trainer, Validated(3, {"nll": 1.0}))
    best.validated(trainer, Validated(3, {"nll": 1.0}))
    assert best.waited == 0
    again = Best("nll", patience=1)
    again.restore(best.state())
    again.validated(trainer, Validated(3, {"nll": 1.0}))
    assert again.waited == 0
    again.validated(trainer, Validated(4, {"nll": 1.0}))
    assert again.waited == 1


def test_an_interrupted_run_does_not_validate_on_its_way_out(make_trainer: Make) -> None:
    """Else it would differ from the run that was not interrupted."""
    heard = Heard()
    config = TrainingConfig(updates=9, validate_every=4)
    trainer = make_trainer(updates=9, validate_every=4, handlers=[Validation(development, config), heard])

    class Interrupt(Handler):
        def updated(self, trainer: Trainer, update: Update) -> None:
            if update.number == 5:
                trainer.stop("interrupted", signal=15)

    trainer.handlers += (Interrupt(),)
    trainer.run()
    assert [result.update for result in heard.results] == [4]


@pytest.mark.parametrize("scoring", [False, True], ids=["nll", "scores"])
@pytest.mark.parametrize("updates", [4, 9], ids=["at the end", "on the way"])
def test_a_signal_cuts_validation_short_and_a_resume_makes_up_for_it(
    make_trainer: Make, tmp_path: Path, updates: int, scoring: bool
) -> None:
    """The run that goes on says and knows what the one that was not interrupted does, each thing once."""

    def run(name: str, interrupted: bool, state: Any = None) -> tuple[Trainer, Validation, Best, list[str]]:
        done: list[str] = []

        def measured(what: str) -> None:
            done.append(what)
            if interrupted and trainer.progress.update == 4 and (what == "scores") == scoring:
                trainer.stop("interrupted", signal=15)

        def batches() -> Iterator[Any]:
            for batch in development():
                yield batch
                measured("batch")

        def score(model: torch.nn.Module) -> dict[str, float]:
            for _ in range(3):
                measured("scores")
                trainer.heed()
            return {"bleu": 1.0, "chrf": 2.0}

        config = TrainingConfig(updates=updates, validate_every=2, score_every=4)
        validation, best = Validation(batches, config, score), Best("nll")
        handlers = [MetricsFile(tmp_path / name, 1), validation, best]
        trainer = make_trainer(updates=updates, validate_every=2, handlers=handlers)
        if state is not None:
            before, states = state
            trainer.progress = before.progress
            trainer.model.load_state_dict(before.model.state_dict())
            trainer.optimizer.load_state_dict(before.optimizer.state_dict())
            for handler, its in zip(handlers, states, strict=True):
                handler.restore(its)
        outcome = trainer.run()
        assert (outcome.signal == 15) == interrupted
        return trainer, validation, best, done

    _, _, best, _ = run("whole", interrupted=False)
    trainer, validation, cut, done = run("run", interrupted=True)
    assert not validation.complete(trainer)
    assert trainer.progress.update == 4
    assert done[2:] == (["batch"] * 2 + ["scores"] if scoring else ["batch"])  # no more after the signal
    assert cut.update == 2
    saved = trainer, [json.loads(json.dumps(handler.state())) for handler in trainer.handlers]
    resumed, validation, again, done = run("run", interrupted=False, state=saved)
    assert done[:5] == ["batch"] * 2 + ["scores"] * 3
    assert validation.complete(resumed)
    assert (again.value, again.update) == (best.value, best.update)
    clocks = {"seconds", "tokens_per_second"}
    ours, theirs = (
        [{key: value for key, value in line.items() if key not in clocks} for line in read_metrics(tmp_path / name)]
        for name in ("run", "whole")
    )
    assert ours == theirs


def test_validation_uses_the_moving_average(make_trainer: Make) -> None:
    heard = Heard()
    config = TrainingConfig(updates=3, validate_every=3)
    trainer = make_trainer(updates=3, validate_every=3, ema=0.9, handlers=[Validation(development, config), heard])
    trainer.run()
    x, y = examples(9, seed=4)
    assert trainer.average is not None
    tensors = trainer.average.tensors
    expected = (x @ tensors["weight"] + tensors["bias"] - y).square().mean().item()
    assert heard.results[-1].scores["nll"] == pytest.approx(expected, rel=1e-12)


def test_a_development_nll_that_is_not_finite_ends_the_run(make_trainer: Make) -> None:
    def broken() -> list[tuple[torch.Tensor, torch.Tensor]]:
        x, y = examples(2)
        return [(x * math.inf, y)]

    config = TrainingConfig(updates=5, validate_every=2)
    with pytest.raises(TrainingError, match="update 2: the development NLL is not finite"):
        make_trainer(updates=5, validate_every=2, handlers=[Validation(broken, config)]).run()


@pytest.mark.parametrize(
    ("metric", "values", "best", "stopped_at"),
    [
        ("nll", [3.0, 2.0, 2.5, 2.0, 1.0], (2.0, 2), 4),
        ("nll", [3.0, 2.0, 2.5, 1.9, 1.0], (1.0, 5), None),
        ("bleu", [3.0, 2.0, 2.5, 9.0, 9.5], (3.0, 1), 3),
        ("bleu", [1.0, 2.0, 3.0, 3.0, 4.0], (4.0, 5), None),
    ],
)
def test_patience(
    make_trainer: Make, metric: str, values: list[float], best: tuple[float, int], stopped_at: int | None
) -> None:
    """Two validations in a row without a better score end the run; an equal one is not better."""
    handler = Best(metric, patience=2)

    class Publish(Handler):
        def updated(self, trainer: Trainer, update: Update) -> None:
            other = {} if metric == "nll" else {"nll": -update.number}
            trainer.publish(Validated(update.number, {**other, metric: values[update.number - 1]}))

    trainer = make_trainer(updates=5, handlers=[Publish(), handler])
    outcome = trainer.run()
    assert (handler.value, handler.update) == best
    assert trainer.progress.update == (stopped_at or 5)
    assert ("has not improved for 2 validations" in outcome.reason) == (stopped_at is not None)
    again = Best(metric, patience=2)
    again.restore(handler.state())
    assert again.state() == handler.state()
    resumed = make_trainer(updates=9, handlers=[again])
    again.judge(resumed)
    assert (resumed.finished() is not None) == (stopped_at is not None)


def test_validations_without_the_metric_do_not_cost_patience(make_trainer: Make) -> None:
    best = Best("bleu", patience=1)
    trainer = make_trainer()
    best.validated(trainer, Validated(1, {"nll": 1.0, "bleu": 5.0}))
    for update in range(2, 9):
        best.validated(trainer, Validated(update, {"nll": 1.0}))
    assert trainer.finished() is None


def test_perplexity_does_not_overflow() -> None:
    assert perplexity(math.log(42)) == pytest.approx(42)
    assert perplexity(1e6) == math.inf


def test_plain_lines_where_there_is_no_terminal(make_trainer: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="clearhead")
    make_trainer(updates=6, handlers=[Display(2)]).run()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert all(part in lines[0] for part in ("update 2/6", "loss ", "ppl ", "lr 1.00e-01", "tokens/s", "left"))


def test_a_bar_on_a_terminal(
    make_trainer: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    logging.getLogger("clearhead").setLevel(logging.INFO)
    display = Display(2)
    trainer = make_trainer(updates=6, handlers=[display])
    seen: list[str] = []

    class Watch(Handler):
        def updated(self, trainer: Trainer, update: Update) -> None:
            assert display._bar is not None
            seen.append(display._bar.tasks[0].description)

    trainer.handlers += (Watch(),)
    trainer.run()
    assert "6/6" in seen[-1]
    assert "tokens/s" in seen[-1]
    assert capsys.readouterr().out == ""  # standard output is for results


def test_tensorboard_has_the_same_numbers(make_trainer: Make, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoard(tmp_path / "tb", 2)
    make_trainer(updates=4, handlers=[MetricsFile(tmp_path / "m", 2), board]).run()
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    shown = [(event.step, event.value) for event in events.Scalars("train/loss")]
    written = [(line["update"], line["loss"]) for line in read_metrics(tmp_path / "m")]
    assert [step for step, _ in shown] == [step for step, _ in written]
    assert [value for _, value in shown] == pytest.approx([value for _, value in written])


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (-3, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
