"""Calibration: every method of inspection is tried on models whose right answer is known, before it is shown on others.

Small models learn tasks of which every link is known; those that have solved theirs are given to the methods, and what
is found is compared with the links (`calibration_methods`). `inspection/calibration.json` keeps the figures.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import torch

from clearhead.base.seeds import mix
from clearhead.bundle.bundle import load_bundle
from clearhead.data.synthetic import LinkedPair
from clearhead.inspection.calibrated import Baseline, CalibratedModel, Calibration, Measure, Score
from clearhead.inspection.teaching import Pairs, next_logits
from clearhead.models.build import build, count_parameters
from clearhead.models.seq2seq import Seq2Seq
from clearhead.recipes.inspect.calibration_methods import (
    HEAD_METHODS,
    TOKEN_METHODS,
    Effort,
    Example,
    Subject,
    head_scores,
    token_scores,
)
from clearhead.recipes.inspect.calibration_planted import planted_scores
from clearhead.recipes.inspect.calibration_scores import Hits, baselines
from clearhead.recipes.inspect.calibration_tasks import (
    MODELS,
    TASKS,
    CalibrationModel,
    CalibrationTask,
    Drawn,
    draw,
    gold_links,
    train_model,
)
from clearhead.recipes.inspect.families import family_of_model
from clearhead.text.tokenizer import Tokenizers

__all__ = ["DESCRIPTIVE", "MEASURES", "NEEDED", "accuracy", "calibrate", "subject_of"]

NEEDED = {True: 0.99, False: 0.95}
"""The share of held-out tokens that a model must get right before its scores mean anything: where the source says all,
and for the language."""

MEASURES: dict[str, Measure] = {
    **dict.fromkeys(TOKEN_METHODS, "links"),
    **dict.fromkeys(HEAD_METHODS, "rank-correlation"),
    "role": "named",
}
"""By what each method is summed up."""

DESCRIPTIVE = {
    "statistics": "Numbers that describe a map: there is nothing that they could be wrong about.",
    "lens": "The model's own last layers applied to an earlier state; at the last layer it is the model's output.",
    "temperature": "A measured curve of what the model does with sharper or flatter weights; it names no word or head.",
    "pruning": "A measured curve; the order in which heads are closed is that of importance, which is calibrated.",
    "seed-null": "A yardstick for the other tests: how much maps differ between models of other seeds.",
    "probes": "Every probe comes with its control task, which is its calibration (Hewitt and Liang 2019, §2).",
}
"""Methods that have no right answer on a task, each with the reason."""

Progress = Callable[[str], None]


def calibrate(
    directory: Path,
    *,
    tasks: Sequence[CalibrationTask] = TASKS,
    models: Sequence[CalibrationModel] = MODELS,
    effort: Effort | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Train each of `models` on each of `tasks` below `directory`, and score every method on those that solved theirs.

    Runs that are there are taken as they are, so that a calibration that was interrupted goes on. `progress` is told
    what is about to be done.
    """
    effort = effort or Effort()
    tell = progress or (lambda _: None)
    measured: list[CalibratedModel] = []
    lines: list[Baseline] = []
    scores: list[Score] = planted_scores()
    for task in tasks:
        drawn = draw(task)
        lines += _baselines(drawn)
        for each in models:
            found, its_scores = _tried(directory, drawn, each, effort, tell)
            measured.append(found)
            scores += its_scores
    return Calibration(
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        _versions(),
        _settings(tasks, models, effort),
        tuple(measured),
        tuple(lines),
        tuple(scores),
        dict(MEASURES),
        dict(DESCRIPTIVE),
    )


def _tried(
    directory: Path, drawn: Drawn, model: CalibrationModel, effort: Effort, tell: Progress
) -> tuple[CalibratedModel, list[Score]]:
    """One model on one task: what it learnt, and the scores of the methods if that was enough."""
    tell(f"{drawn.task.name}: {model.name} learns")
    run = train_model(directory, drawn, model)
    subject = subject_of(run, drawn, model)
    found = _measured(subject, drawn.task, model)
    if not found.solved:
        tell(f"{drawn.task.name}: {model.name} gets {found.accuracy:.1%} right and not {found.needed:.0%}: no scores")
        return found, []
    tell(f"{drawn.task.name}: {model.name} gets {found.accuracy:.1%} right and is looked into")
    return found, [*token_scores(subject, effort), *head_scores(subject, effort)]


def subject_of(run: Path, drawn: Drawn, model: CalibrationModel) -> Subject:
    """The trained model at `run`, itself before training (the same seed), and the pairs that were held out, as ids."""
    bundle = load_bundle(run, device="cpu")
    untrained = build(bundle.config, seed=mix(model.seed, 1)).eval()
    test, dev = (
        tuple(_example(drawn.task, pair, bundle.tokenizers) for pair in pairs) for pairs in (drawn.test, drawn.dev)
    )
    return Subject(
        drawn.task.name, model.name, family_of_model(bundle.model), bundle.model.eval(), untrained, test, dev
    )


def _example(task: CalibrationTask, pair: LinkedPair, tokenizers: Tokenizers) -> Example:
    source = tokenizers.source.encode(" ".join(pair.source))
    target = tokenizers.target.encode(" ".join(pair.target))
    return Example(tuple(source), tuple(target), (pair.source, pair.target), gold_links(task, pair))


@torch.no_grad()
def accuracy(model: Seq2Seq, examples: Sequence[Example]) -> tuple[float, int]:
    """The share of gold tokens, EOS among them, that are the likeliest by teacher forcing; and how many there are."""
    pairs = Pairs.of([each.source for each in examples], [each.target for each in examples])
    right = (next_logits(model, pairs).argmax(-1) == pairs.gold.ids) & pairs.gold.mask
    tokens = int(pairs.gold.mask.sum())
    return int(right.sum()) / tokens, tokens


def _measured(subject: Subject, task: CalibrationTask, model: CalibrationModel) -> CalibratedModel:
    share, tokens = accuracy(subject.model, subject.test)
    return CalibratedModel(
        task.name,
        model.name,
        subject.family,
        share,
        NEEDED[task.exact],
        tokens,
        count_parameters(subject.model),
        model.updates,
        model.seed,
    )


def _baselines(drawn: Drawn) -> list[Baseline]:
    counted: dict[str, Hits] = {}
    for pair in drawn.test:
        for name, each in baselines(len(pair.source), len(pair.target), gold_links(drawn.task, pair)).items():
            counted[name] = counted.get(name, Hits()) + each
    return [Baseline(drawn.task.name, name, each.share, each.asked) for name, each in counted.items()]


def _versions() -> dict[str, str]:
    return {
        "clearhead": metadata.version("clearhead"),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }


def _settings(tasks: Sequence[CalibrationTask], models: Sequence[CalibrationModel], effort: Effort) -> dict[str, str]:
    """What was asked for, in words: every figure of the tasks, the models and the methods."""

    def said(table: CalibrationTask | CalibrationModel | Effort) -> str:
        return ", ".join(f"{key} {value}" for key, value in asdict(table).items() if key != "name")

    found = {f"task {each.name}": said(each) for each in tasks}
    found |= {f"model {each.name}": said(each) for each in models}
    return found | {"pairs": said(effort), "sign of adversarial": "turned: the less room for other weights, the more"}
