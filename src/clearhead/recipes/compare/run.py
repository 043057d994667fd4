"""`clearhead compare`: the text, the training, the scores and the mechanisms, each kept as soon as it is there."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead.base.errors import InputError, TrainingError
from clearhead.base.files import DirectoryLock, file_error
from clearhead.base.log import logger
from clearhead.bundle.bundle import versions
from clearhead.recipes.compare.corpus import Text, TextLimits, prepare
from clearhead.recipes.compare.lineup import FULL, LINE_UP, QUICK, REFERENCE, Entry, Size, choose, solved
from clearhead.recipes.compare.links import PREFIX, READERS, LinksTask, link_errors, link_table, write_task
from clearhead.recipes.compare.measuring import Measures, measure, result_fingerprint
from clearhead.recipes.compare.mechanisms import Mechanisms, gradients, layers, matrices
from clearhead.recipes.compare.results import (
    Alignments,
    ModelResult,
    Setting,
    read_models,
    read_result,
    read_setting,
    write_result,
)
from clearhead.recipes.compare.running import Job, make_job, train_all
from clearhead.training.device import processor

__all__ = ["CompareConfig", "Compared", "Plan", "compare", "plan_of"]

SAME = ("corpus", "languages", "pairs", "dev", "test", "vocab_size", "updates", "minutes", "batch_tokens", "quick")
"""Of the setting, what must not change when a comparison goes on."""

DEMO_WORDS = 4
"""Words that a pair of the demo's corpus has at least, a side: most of it are labels, which are no sentences."""


@dataclass(frozen=True)
class CompareConfig:
    """What the command is asked for; None: what the plan says.

    Attributes:
        corpus: a directory with train, val or dev, and test files; None: the demo's corpus.
        only: names of the line-up; none: all, or with `quick` those that it takes.
        updates: of each model. minutes: that each may take at most, whatever comes first.
        jobs: models that are trained at once, one thread each; 0: as many as there are cores.
    """

    out: Path
    corpus: Path | None = None
    languages: tuple[str, str] = ("en", "de")
    quick: bool = False
    only: tuple[str, ...] = ()
    updates: int | None = None
    minutes: float | None = None
    jobs: int = 0


@dataclass(frozen=True)
class Plan:
    """The size of everything."""

    size: Size
    limits: TextLimits
    updates: int
    minutes: float
    batch_tokens: int
    measures: Measures
    mechanisms: Mechanisms
    links: LinksTask


@dataclass(frozen=True)
class Compared:
    """What is there at the end, and {name: what went wrong} of the models that failed."""

    results: Path
    models: dict[str, ModelResult]
    failed: dict[str, str]


def plan_of(config: CompareConfig) -> Plan:
    """The plan for the whole, or for `quick`: the same sections, everything smaller. Raises InputError."""
    for name, value in (("--updates", config.updates), ("--minutes", config.minutes)):
        if value is not None and value <= 0:
            raise InputError(f"{name} {value}: must be more than 0")
    if config.jobs < 0:
        raise InputError(f"--jobs {config.jobs}: must be at least 1; leave it out for one a core")
    least = DEMO_WORDS if config.corpus is None else 1
    plan = (
        Plan(
            size=QUICK,
            limits=TextLimits(train=1000, dev=50, test=80, joined=8, least_words=least, most_words=40),
            updates=30,
            minutes=1.0,
            batch_tokens=512,
            measures=Measures(beam=2, resamples=100, edges=(9, 13), long_edges=(16, 32)),
            mechanisms=Mechanisms(
                width=16, distance=40, draws=1, texts=2, layer_width=32, lengths=(16, 32, 64), repeats=2, sentences=1,
                aligned=300,
            ),
            links=LinksTask(
                train=300, held_out=30, words=60, updates=30, batch_tokens=256,
                size=Size(d_model=32, d_ff=64, layers=1, vocab_size=300, max_length=127, dropout=0.0),
            ),
        )
        if config.quick
        else Plan(
            size=FULL,
            limits=TextLimits(train=0, dev=1000, test=1000, joined=110, least_words=least),
            updates=1200,
            minutes=5.0,
            batch_tokens=1024,
            measures=Measures(),
            mechanisms=Mechanisms(),
            links=LinksTask(),
        )
    )  # fmt: skip
    return dataclasses.replace(plan, updates=config.updates or plan.updates, minutes=config.minutes or plan.minutes)


def compare(config: CompareConfig) -> Compared:
    """Train, measure and look into the line-up; what an earlier call finished is kept.

    Everything stands in `config.out`: corpus/, models/, translations/, links/ and results/, of which the report is
    made (`explorer/comparison_page.py`). Models that fail are told and left out, the others go on. Raises InputError
    when the directory holds a comparison of another setting, TrainingError when no model could be trained.
    """
    plan, entries = plan_of(config), choose(config.only, quick=config.quick)
    out = config.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(out, "made", error) from None
    config = dataclasses.replace(config, out=out.resolve())
    with DirectoryLock(out):
        text = prepare(out, config.corpus, config.languages, plan.limits)
        setting = _setting(config, plan, text)
        _keep_setting(out / "results", setting)
        return _Comparison(config, plan, entries, text, setting.jobs).run()


class _Comparison:
    def __init__(self, config: CompareConfig, plan: Plan, entries: list[Entry], text: Text, processes: int) -> None:
        self.config, self.plan, self.entries, self.text = config, plan, entries, text
        self.processes = processes
        self.models, self.results = config.out / "models", config.out / "results"
        self.task = config.out / "links"

    def run(self) -> Compared:
        plan, quick = self.plan, self.config.quick
        jobs = {entry.name: make_job(self.models, entry.name, self._table(entry)) for entry in self.entries}
        held = write_task(self.task, plan.links)
        links = [self._link_job(name) for name in READERS] if not self.config.only else []
        self._refuse_others(jobs)
        logger.info("training %d models, %d at once", len(jobs) + len(links), self.processes)
        failed = train_all([*jobs.values(), *links], self.processes, together=quick)
        if all(name in failed for name in jobs):
            raise TrainingError("no model was trained; see the messages above")
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(1)
            for entry in self.entries:
                if entry.name not in failed:
                    self._measure(entry, jobs[entry.name])
            mechanisms = plan.mechanisms
            self._once("gradients.json", lambda: gradients(self.models, self.text, mechanisms))
            self._once("layers.json", lambda: layers(mechanisms))
            if links:
                scratch = self.task / "text"
                self._once(
                    "alignments.json",
                    lambda: Alignments(
                        matrices(self.models, self.text, mechanisms, scratch),
                        link_errors(self.models, self.task, held),
                    ),
                )
        finally:
            torch.set_num_threads(before)
        return Compared(self.results, read_models(self.results), failed)

    def _table(self, entry: Entry) -> dict[str, Any]:
        """The recipe of a model, as `clearhead train` reads it."""
        plan, text = self.plan, self.text
        files = {
            part: dict(zip(("source", "target"), map(str, text.files(part)), strict=True)) for part in ("train", "dev")
        }
        return {
            "seed": 1,
            "data": {
                "languages": list(text.languages),
                **files,
                "batch_tokens": plan.batch_tokens,
                "max_length": plan.size.max_length,
            },
            "tokenizer": {"kind": "bpe", "vocab_size": plan.size.vocab_size, "joint": True},
            "model": solved(entry, plan.size),
            "training": {
                "updates": plan.updates,
                "max_minutes": plan.minutes,
                "threads": 1,
                "precision": "fp32",  # of all: bf16 was slower here, and recurrent steps never use it
                "clip_norm": 1.0,
                "label_smoothing": 0.1,
                "schedule": {"kind": "linear", "peak": entry.peak, "warmup": max(1, plan.updates // 10)},
                "validate_every": max(1, plan.updates // 8),
                "save_every": max(1, plan.updates // 4),
                "keep_last": 1,
                "log_every": 10,
            },
        }

    def _link_job(self, name: str) -> Job:
        task = self.plan.links
        entry = next(each for each in LINE_UP if each.name == name)
        return make_job(self.models, PREFIX + name, link_table(self.task, solved(entry, task.size), task, entry.peak))

    def _refuse_others(self, jobs: dict[str, Job]) -> None:
        """Before anything is trained: results of other settings would not stand beside these."""
        for name, job in jobs.items():
            path = self.results / f"{name}.json"
            if path.is_file() and read_result(path).fingerprint != self._fingerprint(job):
                raise InputError(
                    f"{path}: was measured with other settings than {job.recipe} has now; remove it, or compare into "
                    "another directory (--out)"
                )

    def _fingerprint(self, job: Job) -> str:
        return result_fingerprint(job, self.text, self.plan.measures)

    def _measure(self, entry: Entry, job: Job) -> None:
        path = self.results / f"{entry.name}.json"
        if path.is_file():
            found = read_result(path)
            unpaired = found.bleu_p is None and entry.name != REFERENCE
            if not (unpaired and (self.results / f"{REFERENCE}.json").is_file()):
                return
        found = measure(job, entry, self.text, self.plan.measures, self.config.out / "translations")
        write_result(path, found)
        logger.info(
            "%s: BLEU %.1f [%.1f, %.1f], chrF %.1f, dev nll %.3f, %s parameters",
            *(entry.name, found.bleu.value, found.bleu.low, found.bleu.high, found.chrf.value, found.dev_nll),
            f"{found.parameters:,}",
        )

    def _once(self, name: str, make: Callable[[], Any]) -> None:
        """Write a file of results, unless it is there already."""
        path = self.results / name
        if not path.is_file():
            logger.info("measuring %s", name.removesuffix(".json"))
            write_result(path, make())


def _setting(config: CompareConfig, plan: Plan, text: Text) -> Setting:
    return Setting(
        corpus=text.name,
        languages=text.languages,
        pairs=text.pairs["train"],
        dev=text.pairs["dev"],
        test=text.pairs["test"],
        vocab_size=plan.size.vocab_size,
        updates=plan.updates,
        minutes=plan.minutes,
        batch_tokens=plan.batch_tokens,
        threads=1,
        jobs=config.jobs or os.cpu_count() or 1,
        resamples=plan.measures.resamples,
        quick=config.quick,
        machine=f"{processor()}, {os.cpu_count()} cores",
        versions=versions(),
        command=shlex.join(["clearhead", *sys.argv[1:]]),
    )


def _keep_setting(results: Path, setting: Setting) -> None:
    """Write the setting, or go on with the one that is there. Raises InputError naming what differs."""
    path = results / "setting.json"
    if path.is_file():
        before = read_setting(results)
        changed = [
            f"{name}: {getattr(before, name)!r} → {getattr(setting, name)!r}"
            for name in SAME
            if getattr(before, name) != getattr(setting, name)
        ]
        if changed:
            raise InputError(
                f"{results.parent} was begun with another setting ({'; '.join(changed)}); give the same again, or "
                "compare into another directory (--out)"
            )
        return
    write_result(path, json.loads(json.dumps(dataclasses.asdict(setting))))
