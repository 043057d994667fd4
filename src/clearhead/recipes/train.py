"""Training from a configuration to a run directory: wires tokenizer, stores, model, trainer and handlers."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from clearhead.base.errors import ConfigError
from clearhead.base.files import DirectoryLock, atomic_write, sweep_temporaries
from clearhead.base.log import logger
from clearhead.base.seeds import mix
from clearhead.bundle.bundle import Bundle, BundleInfo, load_bundle, load_tensors, read_info
from clearhead.bundle.resolve import BEST, CHECKPOINTS, resolve, steps
from clearhead.config.strict import unstructure
from clearhead.config.toml import dump_toml
from clearhead.models.build import build, count_parameters
from clearhead.models.config import ModelConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.linear import linear_path
from clearhead.objectives import CrossEntropy
from clearhead.recipes.run_config import RunConfig, changed_keys, resolve_model, resolved
from clearhead.recipes.training_data import Development, TrainingStream, data_identity, open_stores, stream_seed
from clearhead.text.tokenizer import Tokenizer, Tokenizers
from clearhead.training.allocator import tune_allocator
from clearhead.training.checkpoint import is_valid, newest_valid, read_state, restore_trainer, seed_everything
from clearhead.training.curve import LearningCurve
from clearhead.training.device import Compute, choose_compute
from clearhead.training.display import Display, TensorBoard, duration
from clearhead.training.events import METRICS, Best, Checkpoints, MetricsFile, Validation
from clearhead.training.optim import build_optimizer
from clearhead.training.progress import Outcome
from clearhead.training.schedules import describe, rate
from clearhead.training.signals import stop_on_signals
from clearhead.training.trainer import Handler, Trainer

__all__ = ["TrainResult", "train"]

CONFIG = "config.toml"
LOG = "train.log"
CURVE = "curve.png"
AVERAGE = "average"
PRODUCTS = (CHECKPOINTS, AVERAGE, "tensorboard", METRICS, BEST, CURVE, LOG, CONFIG)

Score = Callable[[nn.Module], Mapping[str, float]]


@dataclass(frozen=True)
class TrainResult:
    """How a run stands: where it is, why training returned, at which update, and its best development score."""

    run: Path
    outcome: Outcome
    update: int
    metric: str
    best: float | None
    already_finished: bool = False

    @property
    def exit_code(self) -> int:
        """0, or 128 + the signal that interrupted the run."""
        return 128 + self.outcome.signal if self.outcome.signal is not None else 0


@dataclass(frozen=True)
class Parts:
    """What a run stands on: text model, network and their origin."""

    config: RunConfig
    model_config: ModelConfig
    tokenizers: Tokenizers
    origin: Path | None


def train(config: RunConfig, *, fresh: bool = False) -> TrainResult:
    """Train, or go on with, the run in `config.out`.

    A directory with checkpoints is resumed from its newest valid one; the configuration must then be the same but for
    limits, logging and retention (`ConfigError` lists every difference), and so must the text. A run that has
    reached its end says so and is left as it is. `fresh` removes what an earlier run left there, once all is ready.
    Raises `InputError` when another process trains there, `TrainingError` when training cannot go on.
    """
    run = Path(config.out)
    run.mkdir(parents=True, exist_ok=True)
    with DirectoryLock(run):
        sweep_temporaries(run)
        sweep_temporaries(run / CHECKPOINTS)
        if fresh and config.init is not None and Path(config.init).resolve().is_relative_to(run.resolve()):
            raise ConfigError(f"init: {config.init} is inside {run}, which --fresh removes; train elsewhere (--out)")
        checkpoint = None if fresh else newest_valid(run)
        state = read_state(checkpoint) if checkpoint is not None else None
        parts = _parts(config, checkpoint)
        _refuse_changes(run, parts, state)
        allocator = tune_allocator()
        compute = _compute(parts.config, state)
        session = _Session(run, parts, compute, allocator)
        if fresh:
            _clear(run)  # now that text, model and device were found to be there
        return session.train(checkpoint, state)


class _Session:
    """One process's part in a run."""

    def __init__(self, run: Path, parts: Parts, compute: Compute, allocator: str | None) -> None:
        self.run = run
        self.parts = parts
        self.config = parts.config
        self.compute = compute
        self.allocator = allocator
        data = self.config.data
        self.store, dev = open_stores(data, parts.tokenizers, run / "cache", self.config.seed)
        self.dev = None if dev is None else Development(dev, data, compute.device)
        self.identity = {"config": unstructure(self.config), "data": data_identity(self.store, dev)}
        self.best = Best(self.config.training.metric, self.config.training.patience)
        self.validation = (
            None if self.dev is None else Validation(lambda: self._dev().batches, self.config.training, self._score)
        )
        self.trainer = self._trainer()

    def train(self, checkpoint: Path | None, state: Mapping[str, Any] | None) -> TrainResult:
        trainer = self.trainer
        if checkpoint is not None and state is not None:
            if (stored := state.get("identity", {}).get("data")) != self.identity["data"]:
                raise ConfigError(
                    f"data: the text is not what {self.run} was trained on (content {stored} then, "
                    f"{self.identity['data']} now); restore it, or start again with --fresh"
                )
            restore_trainer(checkpoint, trainer, state)
            self.best.judge(trainer)
            if (ended := trainer.finished()) is not None:
                logger.info("%s is finished: %s. Raise that limit to train on, or use --fresh", self.run, ended.reason)
                self._average()
                return self._result(ended, already_finished=True)
        self._write_config()
        with self._log_file():
            self._header(checkpoint)
            with stop_on_signals(trainer):
                outcome = trainer.run()
            if outcome.signal is None:
                shutil.rmtree(self.run / AVERAGE, ignore_errors=True)  # of a shorter run
                self._average()
            self._summary(outcome)
        return self._result(outcome)

    def _trainer(self) -> Trainer:
        config, training = self.config, self.config.training
        model = build(self.parts.model_config, seed=mix(config.seed, 1))
        if self.parts.origin is not None:
            load_tensors(model, self.parts.origin)
        model.to(self.compute.device)
        seed_everything(mix(config.seed, 2))
        d_model = self.parts.model_config.d_model
        return Trainer(
            model=model,
            objective=CrossEntropy(training.label_smoothing),
            stream=TrainingStream(self.store, config.data, stream_seed(config.seed), self.compute.device),
            optimizer=build_optimizer(model, training.optimizer),
            schedule=lambda update: rate(training.schedule, update, d_model=d_model, updates=training.updates),
            config=training,
            compute=self.compute,
            handlers=self._handlers(),
        )

    def _handlers(self) -> list[Handler]:
        training = self.config.training
        title = " → ".join(self.config.data.languages) + f"  ({self.run.name})"
        handlers: list[Handler] = [
            MetricsFile(self.run / METRICS, training.log_every),
            Display(training.log_every),
        ]
        if training.tensorboard:
            handlers.append(TensorBoard(self.run / "tensorboard", training.log_every))
        handlers += [self.best] if self.validation is None else [self.validation, self.best]
        handlers.append(Checkpoints(self.run, training, self.best, self._bundle, self.identity))
        handlers.append(LearningCurve(self.run / METRICS, self.run / CURVE, title))
        return handlers

    def _dev(self) -> Development:
        assert self.dev is not None
        return self.dev

    def _score(self, model: nn.Module) -> Mapping[str, float]:
        """BLEU and chrF of the development set, translated by the code that `translate` and `evaluate` use."""
        from clearhead.metrics.scores import score_corpus
        from clearhead.recipes.translator import Translator

        sources, references = self._dev().text
        languages = self.config.data.languages
        translator = Translator(cast("Seq2Seq", model), self.parts.tokenizers, languages)
        hypotheses = [translation.text for translation in translator.stream(sources, self.config.decoding)]
        scores = score_corpus(hypotheses, references, target_language=languages[1])
        return {"bleu": scores.bleu.value, "chrf": scores.chrf.value}

    def _bundle(self, trainer: Trainer) -> Bundle:
        """The bundle of this moment."""
        progress = trainer.progress
        summary: dict[str, Any] = {
            "updates": progress.update,
            "epochs": progress.cursor.epoch,
            "tokens": progress.tokens,
            "source_tokens": progress.source_tokens,
            "minutes": round(progress.seconds / 60, 2),
            "seed": self.config.seed,
            "pairs": len(self.store),
            "data": self.store.key,
            "precision": self.compute.precision,
        }
        if self.best.value is not None:
            summary |= {f"best_dev_{self.best.metric}": self.best.value, "best_update": self.best.update}
        parts, model = self.parts, cast("Seq2Seq", self.trainer.model)
        return Bundle(model, parts.tokenizers, self.config.data.languages, parts.model_config, summary)

    def _average(self) -> None:
        """Average the last checkpoints if that was asked for, measure the result, and make it the best if it is."""
        k = self.config.training.average_last
        out = self.run / AVERAGE
        if not k:
            return
        if out.exists() and not is_valid(out):
            shutil.rmtree(out)
        if out.exists():  # of this very run; a kill may have come before it was judged
            if (note := _read_json(self.run / BEST)).get("path") == AVERAGE:
                self.best.value = note["value"]
                return
            bundle = load_bundle(out)
        else:
            from clearhead.recipes.average import average, last_checkpoints

            chosen = last_checkpoints(self.run, k, every=self.config.training.save_every, fewer=True)
            if len(chosen) < k:
                logger.warning("training.average_last is %d, but only %d checkpoints are there", k, len(chosen))
            if len(chosen) < min(k, 2):
                return
            bundle = average(chosen, out)
            logger.info("averaged the last %d checkpoints into %s", len(chosen), out)
        if self.validation is None:
            return
        bundle.model.to(self.compute.device)
        scores = self.validation.measure(self.trainer, bundle.model, scored=self.config.training.score_every > 0)
        logger.info("average: %s", "  ".join(f"dev {name} {value:.4g}" for name, value in scores.items()))
        if self.best.metric in scores and self.best.better(value := scores[self.best.metric]):
            note = {"step": self.trainer.progress.update, "path": AVERAGE, "metric": self.best.metric, "value": value}
            _write_json(self.run / BEST, note)
            self.best.value = value

    def _write_config(self) -> None:
        text = dump_toml(unstructure(self.config))
        where = self.run / CONFIG
        if not where.exists() or where.read_text(encoding="utf-8") != text:
            atomic_write(where, text)

    @contextlib.contextmanager
    def _log_file(self) -> Iterator[None]:
        handler = logging.FileHandler(self.run / LOG, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(message)s", "%Y-%m-%d %H:%M:%S"))
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            handler.close()

    def _header(self, checkpoint: Path | None) -> None:
        training, model = self.config.training, self.trainer.model
        d_model = self.parts.model_config.d_model
        limits = [f"{training.updates:,} updates"]
        limits += [f"{training.max_minutes:g} minutes"] if training.max_minutes else []
        limits += [f"{training.epochs} epochs"] if training.epochs else []
        tokenizer = self.parts.tokenizers.config
        lines = {
            "run": f"{self.run}" + (f", going on from {checkpoint.name}" if checkpoint else ""),
            "device": str(self.compute),
            "linear": f"fp32 matrices by {linear_path()}" if self.compute.device.type == "cpu" else "",
            "allocator": self.allocator or "",
            "model": f"{count_parameters(model):,} parameters ({self.parts.model_config.kind})",
            "text": f"{' → '.join(self.config.data.languages)}, {len(self.store):,} pairs, "
            f"{tokenizer.kind} {tokenizer.vocab_size} ({'joint' if tokenizer.joint else 'one a side'})",
            "batches": f"at most {self.config.data.batch_tokens:,} tokens a side × {training.accumulate}",
            "objective": f"cross-entropy, smoothing {training.label_smoothing:g} (1−ε on the label, ε/(V−1) elsewhere)",
            "schedule": describe(training.schedule, d_model=d_model, updates=training.updates),
            "optimizer": ", ".join(f"{key} {value}" for key, value in unstructure(training.optimizer).items()),
            "until": " or ".join(limits),
        }
        for key, value in lines.items():
            if value:
                logger.info("%-9s  %s", key, value)

    def _summary(self, outcome: Outcome) -> None:
        progress = self.trainer.progress
        logger.info("%s after %s (update %d)", outcome.reason, duration(progress.seconds), progress.update)
        if outcome.signal is not None:
            logger.warning("saved; go on with: clearhead train --out %s", self.run)
            return
        if self.best.value is not None:
            logger.info("best dev %s %.4f", self.best.metric, self.best.value)
        logger.info("translate with: clearhead translate %s FILE", self.run)

    def _result(self, outcome: Outcome, already_finished: bool = False) -> TrainResult:
        update, best = self.trainer.progress.update, self.best
        return TrainResult(self.run, outcome, update, best.metric, best.value, already_finished)


def _parts(config: RunConfig, checkpoint: Path | None) -> Parts:
    """Tokenizer and model configuration: from the checkpoint, from `init`, or new."""
    origin: Path | None = None
    if checkpoint is not None:
        info: BundleInfo | None = read_info(checkpoint)
        tokenizers = Tokenizers.load(checkpoint / "tokenizer")
    elif config.init is not None:
        origin = resolve(config.init)
        info = read_info(origin)
        tokenizers = Tokenizers.load(origin / "tokenizer")
        if info.languages != config.data.languages:
            logger.warning("%s translates %s, this run %s", config.init, info.languages, config.data.languages)
    else:
        info = None
        logger.info("learning the tokenizer")
        tokenizers = Tokenizers.train(config.tokenizer, config.data.train.pairs)
    tokenizers = _with_sampling(tokenizers, config.tokenizer.sampling)
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    table = config.model if info is None or config.init is None else unstructure(info.config) | config.model
    model_config = resolve_model(table, *sizes, tokenizers.joint)
    if config.init is None and unstructure(tokenizers.config) != unstructure(config.tokenizer):
        raise ConfigError(
            f"tokenizer: {config.out} was begun with another one; restore [tokenizer], or start again with --fresh"
        )
    return Parts(resolved(config, model_config, tokenizers), model_config, tokenizers, origin)


def _with_sampling(tokenizers: Tokenizers, sampling: float) -> Tokenizers:
    """The same pieces with this run's subword sampling, which is a matter of training and not of the vocabulary."""

    def renewed(tokenizer: Tokenizer) -> Tokenizer:
        return Tokenizer(tokenizer.model, tokenizer.config.model_copy(update={"sampling": sampling}))

    if tokenizers.config.sampling == sampling:
        return tokenizers
    source = renewed(tokenizers.source)
    return Tokenizers(source, source if tokenizers.joint else renewed(tokenizers.target), tokenizers.report)


def _refuse_changes(run: Path, parts: Parts, state: Mapping[str, Any] | None) -> None:
    if state is None:
        return
    before = state.get("identity", {}).get("config", {})
    if changes := changed_keys(before, unstructure(parts.config)):
        listed = "\n  ".join(changes)
        raise ConfigError(
            f"{run}: a run cannot go on with another configuration:\n  {listed}\n"
            "restore these, train elsewhere (--out), or start again with --fresh"
        )


def _compute(config: RunConfig, state: Mapping[str, Any] | None) -> Compute:
    """Device, precision and threads: for a resumed run the thread count that it began with, unless one is asked for."""
    training = config.training
    threads = training.threads or (int(state["threads"]) if state is not None else 0)
    compute = choose_compute(training.device, training.precision, threads)
    if state is not None:
        then = (state["device"].partition(":")[0], state["precision"], state["threads"], state["versions"]["torch"])
        now = (compute.device.type, compute.precision, compute.threads, torch.__version__)
        if then != now:
            logger.warning("resumed with %s where the run had %s: results will not be equal to the bit", now, then)
    return compute


def _clear(run: Path) -> None:
    """Remove what an earlier run left; its cache stays, because it is keyed by content."""
    if steps(run):
        logger.warning("--fresh: removing the %d checkpoints in %s", len(steps(run)), run)
    for name in PRODUCTS:
        path = run / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _read_json(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    atomic_write(path, json.dumps(value, indent=1) + "\n")
