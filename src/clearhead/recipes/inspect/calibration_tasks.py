"""Tasks whose alignment is known, and the small models that learn them: what every method of inspection is tried on.

Copying, reversing and sorting leave nothing open: each target word comes from one place of the source, and a model
that makes no mistake must have taken it from there. The made-up `Language` adds a dictionary, another order of words,
words that become two and words that are dropped. The models are trained by the recipe that trains every other model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from clearhead.base.errors import InputError
from clearhead.data.synthetic import Language, Link, LinkedPair, copied, reversed_pairs, sorted_pairs
from clearhead.formats.lines import write_lines
from clearhead.recipes.compare.lineup import LINE_UP, Size
from clearhead.recipes.run_config import compose
from clearhead.recipes.train import train

__all__ = [
    "MODELS",
    "TASKS",
    "CalibrationModel",
    "CalibrationTask",
    "Drawn",
    "TaskName",
    "draw",
    "gold_links",
    "train_model",
]

TaskName = Literal["copy", "reverse", "sort", "language"]

_MOST_DRAWS = 4
"""Sentences drawn for each one that is wanted, before it is said that there are not enough different ones."""


@dataclass(frozen=True)
class CalibrationTask:
    """A task, and how much of it there is.

    `words` are in the vocabulary of copy, reverse and sort, or have a meaning in the language. Sentences have `lengths`
    words, from .. to, both inclusive. `held_out` pairs are for what a method chooses by gold links, and as many others
    for the scores.
    """

    name: TaskName
    train: int = 8000
    held_out: int = 200
    words: int = 32
    lengths: tuple[int, int] = (3, 10)
    seed: int = 1

    @property
    def exact(self) -> bool:
        """Whether each word is determined by the source, so that a model can be without mistakes."""
        return self.name != "language"


TASKS: tuple[CalibrationTask, ...] = (
    CalibrationTask("copy"),
    CalibrationTask("reverse"),
    CalibrationTask("sort"),
    CalibrationTask("language", words=80),
)


@dataclass(frozen=True)
class Drawn:
    """The pairs of a task: to train on, to choose by, and to score. No source stands there twice."""

    task: CalibrationTask
    train: tuple[LinkedPair, ...]
    dev: tuple[LinkedPair, ...]
    test: tuple[LinkedPair, ...]


@dataclass(frozen=True)
class CalibrationModel:
    """A model of the line-up of `clearhead compare`, small, and how it is trained.

    `entry` names it there, `norm` is that of a Transformer, and `peak` the highest rate of learning.
    """

    name: str
    entry: str
    peak: float
    norm: Literal["pre", "post"] | None = None
    updates: int = 1500
    width: int = 64
    d_ff: int = 128
    layers: int = 2
    dropout: float = 0.1
    batch_tokens: int = 1024
    seed: int = 1


MODELS: tuple[CalibrationModel, ...] = (
    CalibrationModel("transformer-pre", "transformer", 4e-3, "pre"),
    CalibrationModel("transformer-post", "transformer", 2e-3, "post"),
    CalibrationModel("rnnsearch", "rnnsearch", 8e-3, updates=600),
    CalibrationModel("luong", "luong", 8e-3, updates=1000),
    CalibrationModel("convs2s", "convs2s", 8e-3, updates=1000),
)
"""Four heads in each of a Transformer's layers; the others have one head, ConvS2S in each of its three layers."""


def draw(task: CalibrationTask) -> Drawn:
    """The pairs of `task`, by its seed. Raises InputError if it has too few different sentences."""
    wanted = task.train + 2 * task.held_out
    unique: dict[tuple[str, ...], LinkedPair] = {}
    for pair in _stream(task, _MOST_DRAWS * wanted):
        unique.setdefault(pair.source, pair)
        if len(unique) == wanted:
            break
    else:
        raise InputError(
            f"{task.name}: {len(unique):,} different sentences of {wanted:,} that are needed; take more words, longer "
            "sentences, or fewer pairs"
        )
    pairs = tuple(unique.values())
    held = task.held_out
    return Drawn(task, pairs[2 * held :], pairs[:held], pairs[held : 2 * held])


def _stream(task: CalibrationTask, count: int) -> Iterator[LinkedPair]:
    """All from one seed: the vocabulary of copy, reverse and sort goes with it."""
    if task.name == "language":
        return Language.made_up(task.seed, words=task.words).pairs(count, task.seed, lengths=task.lengths)
    made = {"copy": copied, "reverse": reversed_pairs, "sort": sorted_pairs}[task.name]
    return made(count, task.seed, words=task.words, lengths=task.lengths)


def gold_links(task: CalibrationTask, pair: LinkedPair) -> frozenset[Link]:
    """The links that count as right: the sure ones; of equal words that are sorted, each with each.

    Which of two equal words a sorted text takes up first is nothing that a model could get wrong. When text is copied
    or reversed, the place decides, and an equal word elsewhere is not the one.
    """
    if task.name != "sort":
        return pair.sure
    same = ((i, j) for i, word in enumerate(pair.source) for j, other in enumerate(pair.target) if word == other)
    return frozenset(same)


def train_model(directory: Path, drawn: Drawn, model: CalibrationModel) -> Path:
    """Train `model` on a task as `clearhead train` would; its run directory, `directory`/TASK/MODEL.

    A run that is there and finished is left as it is, and one that was interrupted goes on. The model is that of the
    last update: with smoothed labels a task that is solved has more loss (−ln 0.9 a token) than one that nearly is, so
    the loss would choose the wrong one.
    """
    text = directory / drawn.task.name
    text.mkdir(parents=True, exist_ok=True)
    files = {part: _write(text / part, getattr(drawn, part)) for part in ("train", "dev")}
    vocabulary = len({word for pair in drawn.train for word in (*pair.source, *pair.target)})
    run = text / model.name
    train(compose({"out": str(run), **_recipe(model, vocabulary + 4, files)}, where=model.name))
    return run


def _write(stem: Path, pairs: tuple[LinkedPair, ...]) -> dict[str, str]:
    files = {side: str(stem.with_suffix(ending)) for side, ending in (("source", ".src"), ("target", ".tgt"))}
    for side, path in files.items():
        with write_lines(path) as write:
            for pair in pairs:
                write(" ".join(getattr(pair, side)))
    return files


def _recipe(model: CalibrationModel, vocabulary: int, files: dict[str, dict[str, str]]) -> dict[str, Any]:
    """The languages are names only. Every word of the training text has an id, beside the four special ones."""
    size = Size(model.width, model.d_ff, model.layers, vocabulary, max_length=63, dropout=model.dropout)
    entry = next(each for each in LINE_UP if each.name == model.entry)
    table = entry.table(size, model.width)
    if model.norm is not None:
        table = {**table, "norm": model.norm}
    words = {"kind": "word", "vocab_size": vocabulary, "joint": True, "byte_fallback": False}
    return {
        "seed": model.seed,
        "data": {
            "languages": ["en", "de"],
            **files,
            "batch_tokens": model.batch_tokens,
            "max_length": size.max_length,
        },
        "tokenizer": words,
        "model": table,
        "training": {
            "updates": model.updates,
            "threads": 1,
            "device": "cpu",
            "precision": "fp32",
            "clip_norm": 1.0,
            "schedule": {"kind": "linear", "peak": model.peak, "warmup": max(1, model.updates // 10)},
            "validate_every": model.updates,  # the last is what is looked into: see train_model
            "save_every": 0,
            "keep_last": 1,
            "log_every": max(1, model.updates // 20),
        },
    }
