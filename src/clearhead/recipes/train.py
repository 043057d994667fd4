"""Training from a configuration to a run directory: wires tokenizer, stores, model, trainer and handlers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from clearhead.base.errors import ConfigError
from clearhead.base.files import DirectoryLock, file_error, sweep_temporaries
from clearhead.base.log import FileLog, logger
from clearhead.base.seeds import mix
from clearhead.bundle.bundle import Bundle, load_tensors
from clearhead.bundle.resolve import CHECKPOINTS, steps
from clearhead.config.strict import Config, unstructure
from clearhead.models.build import build, count_parameters
from clearhead.models.initialisation import initialise_as
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.linear import linear_path
from clearhead.objectives import CrossEntropy
from clearhead.recipes.run_average import settle_average
from clearhead.recipes.run_config import RunConfig
from clearhead.recipes.run_setup import (
    CURVE,
    LOG,
    TENSORBOARD,
    Parts,
    check_ahead,
    check_places,
    choose_parts,
    clear_run,
    learn_parts,
    refuse_lost,
    run_compute,
    write_config,
)
from clearhead.recipes.training_data import (
    Development,
    TrainingStream,
    data_identity,
    open_stores,
    store_directory,
    stream_seed,
)
from clearhead.training.allocator import Heap, tune_allocator
from clearhead.training.checkpoint import newest_valid, read_state, restore_trainer, seed_everything
from clearhead.training.curve import LearningCurve
from clearhead.training.device import Compute
from clearhead.training.display import Display, TensorBoard, duration
from clearhead.training.events import METRICS, Best, MetricsFile, Validation
from clearhead.training.huge_pages import ask_for_huge_pages
from clearhead.training.optim import build_optimizer
from clearhead.training.progress import Outcome
from clearhead.training.saving import Checkpoints
from clearhead.training.schedules import describe, rate
from clearhead.training.signals import stop_on_signals
from clearhead.training.trainer import Handler, Trainer

__all__ = ["TrainResult", "train"]

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


def train(config: RunConfig, *, fresh: bool = False) -> TrainResult:
    """Train, or go on with, the run in `config.out`.

    A directory with checkpoints is resumed from its newest valid one; the configuration must then be the same but for
    limits, logging and retention (`ConfigError` lists every difference), and so must the text. A run that has
    reached its end says so and is left as it is. `fresh` removes what an earlier run left there, once all is ready.
    What can be known to fail fails before the text is read, and config.toml is there from then on.
    Raises `InputError` when another process trains there, `BundleError` when its checkpoints are gone or damaged,
    `TrainingError` when training cannot go on.
    """
    pages = ask_for_huge_pages()  # first: PyTorch looks once, at its first tensor
    run = Path(config.out)
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(run, "used as a run directory", error) from None
    with DirectoryLock(run):
        for directory in (run, run / CHECKPOINTS, store_directory(config.data, run)):
            sweep_temporaries(directory)
        if fresh and config.init is not None and Path(config.init).resolve().is_relative_to(run.resolve()):
            raise ConfigError(f"init: {config.init} is inside {run}, which --fresh removes; train elsewhere (--out)")
        check_places(run, fresh=fresh)
        checkpoint = None if fresh else newest_valid(run)
        if checkpoint is None and not fresh:
            refuse_lost(run, config.training.save_every)
        state = read_state(checkpoint) if checkpoint is not None else None
        parts = choose_parts(config, checkpoint, state)
        compute = run_compute(config, state)
        check_ahead(config, run)
        if not steps(run):
            write_config(run, config)  # before the long work, so that `train --out RUN` goes on after a kill
        parts = parts or learn_parts(config)
        allocator = ", ".join(filter(None, (tune_allocator(), pages))) or None
        session = _Session(run, parts, compute, allocator, state)
        if fresh:  # now that text, model and device were found to be there
            write_config(run, parts.config)
            clear_run(run)
        return session.train(checkpoint, state)


class _Session:
    """One process's part in a run."""

    def __init__(
        self, run: Path, parts: Parts, compute: Compute, allocator: str | None, state: Mapping[str, Any] | None
    ) -> None:
        self.run = run
        self.parts = parts
        self.config = parts.config
        self.compute = compute
        self.allocator = allocator
        data = self.config.data
        begun = None if state is None else state.get("identity", {}).get("data", {})
        self.mixture, dev = open_stores(data, parts.tokenizers, run, self.config.seed, begun)
        self.dev = None if dev is None else Development(dev, data, compute.device)
        self.identity: dict[str, Any] = {"config": unstructure(self.config), "data": data_identity(self.mixture, dev)}
        if parts.origin_digest is not None:
            self.identity["init"] = parts.origin_digest
        self.best = Best(self.config.training.metric, self.config.training.patience)
        self.validation = (
            None if self.dev is None else Validation(lambda: self._dev().batches, self.config.training, self._score)
        )
        self.trainer = self._trainer()

    def train(self, checkpoint: Path | None, state: Mapping[str, Any] | None) -> TrainResult:
        trainer = self.trainer
        if checkpoint is not None and state is not None:
            restore_trainer(checkpoint, trainer, state)
            self.best.judge(trainer)
            ended = trainer.finished()
            if ended is not None and (self.validation is None or self.validation.complete(trainer)):
                self.checkpoints.tidy()
                logger.info("%s is finished: %s. Raise that limit to train on, or use --fresh", self.run, ended.reason)
                self._average()
                return self._result(ended, already_finished=True)
        write_config(self.run, self.config)
        with self._log_file():
            self._header(checkpoint)
            with stop_on_signals(trainer):
                outcome = trainer.run()
            if outcome.signal is None:
                self._average()
            self._summary(outcome)
        return self._result(outcome)

    def _trainer(self) -> Trainer:
        config, training = self.config, self.config.training
        seed = mix(config.seed, 1)
        model = build(self.parts.model_config, seed=seed)
        initialise_as(model, training.initialisation, torch.Generator().manual_seed(seed))
        if self.parts.origin is not None:
            load_tensors(model, self.parts.origin)
        model.to(self.compute.device)
        seed_everything(mix(config.seed, 2))
        return Trainer(
            model=model,
            objective=CrossEntropy(training.label_smoothing),
            stream=TrainingStream(self.mixture, config.data, stream_seed(config.seed), self.compute.device),
            optimizer=build_optimizer(model, training.optimizer),
            schedule=self._rate,
            config=training,
            compute=self.compute,
            handlers=self._handlers(),
        )

    def _rate(self, update: int) -> float:
        """The rate of the update that is about to be made, from what a checkpoint knows: its number, and the cursor."""
        training, width = self.config.training, self.parts.model_config.d_model
        epochs = self.trainer.progress.cursor.pairs / len(self.mixture)  # every epoch shows as many pairs
        return rate(training.schedule, update, d_model=width, updates=training.updates, epochs=epochs)

    def _handlers(self) -> list[Handler]:
        training = self.config.training
        title = " → ".join(self.config.data.languages) + f"  ({self.run.name})"
        handlers: list[Handler] = [
            MetricsFile(self.run / METRICS, training.log_every),
            Display(training.log_every),
        ]
        if training.tensorboard:
            handlers.append(TensorBoard(self.run / TENSORBOARD, training.log_every))
        handlers += [Heap()] if self.allocator else []
        handlers += [self.best] if self.validation is None else [self.validation, self.best]
        self.checkpoints = Checkpoints(self.run, training, self.best, self._bundle, self.identity)
        handlers.append(self.checkpoints)
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
        data = self.config.data
        languages, tag = data.languages, None if data.dev is None else data.dev.tag
        translator = Translator(cast("Seq2Seq", model), self.parts.tokenizers, languages, tag=tag)
        stream = translator.stream(sources, self.config.decoding, progress=self.trainer.heed)
        hypotheses = [translation.text for translation in stream]
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
            "pairs": self.mixture.pairs,
            "data": self.mixture.key,
            "precision": self.compute.precision,
        }
        if tags := self.config.data.tags:
            summary["tags"] = list(tags)
        if self.best.value is not None:
            summary |= {f"best_dev_{self.best.metric}": self.best.value, "best_update": self.best.update}
        parts, model = self.parts, cast("Seq2Seq", self.trainer.model)
        return Bundle(model, parts.tokenizers, self.config.data.languages, parts.model_config, summary)

    def _average(self) -> None:
        settle_average(self.run, self.trainer, self.validation, self.best)

    @contextlib.contextmanager
    def _log_file(self) -> Iterator[None]:
        handler = FileLog(self.run / LOG)
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
            "recurrent": self._roads(),
            "text": f"{' → '.join(self.config.data.languages)}, {self._size()}, "
            f"{tokenizer.kind} {tokenizer.vocab_size} ({'joint' if tokenizer.joint else 'one a side'})",
            "batches": f"at most {self.config.data.batch_tokens:,} tokens a side × {training.accumulate}",
            "objective": f"cross-entropy, smoothing {training.label_smoothing:g} (1−ε on the label, ε/(V−1) elsewhere)",
            "schedule": describe(training.schedule, d_model=d_model, updates=training.updates),
            "optimizer": _listed(training.optimizer),
            "clipping": f"gradient norm at most {training.clip_norm:g}" if training.clip_norm else "",
            "weights": self._first_weights(),
            "until": " or ".join(limits),
            "curve": "" if find_spec("matplotlib") else "not drawn: pip install 'clearhead[plots]'",
        }
        for key, value in lines.items():
            if value:
                logger.info("%-9s  %s", key, value)

    def _first_weights(self) -> str:
        """How the weights were drawn, where that is not each module's own way."""
        how = self.config.training.initialisation
        return "" if how.kind == "default" else _listed(how)

    def _roads(self) -> str:
        """How recurrent parts read a whole sequence while training; empty for a Transformer."""
        parts = {"encoder": self.trainer.model.encoder, "decoder": self.trainer.model.decoder}
        roads = {name: getattr(part, "path", "") for name, part in parts.items()}
        return ", ".join(f"{name} {road}" for name, road in roads.items() if road)

    def _size(self) -> str:
        mixture = self.mixture
        if len(mixture) == mixture.pairs:
            return f"{mixture.pairs:,} pairs"
        return f"{mixture.pairs:,} pairs ({len(mixture):,} an epoch by weight)"

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


def _listed(table: Config) -> str:
    """A small table in a line: its keys with their values."""
    return ", ".join(f"{key} {value}" for key, value in unstructure(table).items())
