"""Law: train 2N == train N, stop or be killed, go on to 2N. Bit for bit: weights, moments, average, metrics, state.

Every part of the state that a resume restores has a control here: with that part left out the law must be seen to
break.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.recipes import train as recipe
from clearhead.recipes.run_config import RunConfig, compose
from clearhead.training import checkpoint as checkpoints
from clearhead.training.ema import MovingAverage
from clearhead.training.progress import Progress

UPDATES = 24
STOP = 10


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 pairs: an epoch is about 15 batches, so 24 updates of 2 or 3 batches cross several ends of an epoch."""
    directory = tmp_path_factory.mktemp("corpus")
    draw = random.Random(7)
    words = ["red", "green", "blue", "door", "window", "lamp", "light", "garden", "kitchen", "open", "close", "turn"]
    for name, size in (("train", 120), ("dev", 10)):
        lines = [[draw.choice(words) for _ in range(draw.randint(1, 8))] for _ in range(size)]
        (directory / f"{name}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
        (directory / f"{name}.de").write_text("".join(" ".join(reversed(line)) + "\n" for line in lines))
    return directory


def table(corpus: Path, out: Path, **training: Any) -> dict[str, Any]:
    return {
        "out": str(out),
        "seed": 3,
        "data": {
            "languages": ["en", "de"],
            "train": {"source": str(corpus / "train.en"), "target": str(corpus / "train.de")},
            "dev": {"source": str(corpus / "dev.en"), "target": str(corpus / "dev.de")},
            "batch_tokens": 80,
            "cache": str(corpus / "cache"),
        },
        "tokenizer": {"vocab_size": 320, "sampling": 0.2},
        "model": {
            "preset": "tiny",
            "d_model": 16,
            "d_ff": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "attention": {"heads": 2},
            "dropout": 0.2,
        },
        "training": {
            "updates": UPDATES,
            "accumulate": 3,
            "clip_norm": 1.0,
            "precision": "fp32",
            "threads": 1,
            "ema": 0.9,
            "schedule": {"kind": "noam", "warmup": 8},
            "validate_every": 4,
            "save_every": 5,
            "log_every": 7,
            "patience": 1000,
        }
        | training,
    }


def config(corpus: Path, out: Path, **training: Any) -> RunConfig:
    return compose(table(corpus, out, **training))


def train(corpus: Path, out: Path, **training: Any) -> Path:
    """Train to the end; the last checkpoint."""
    recipe.train(config(corpus, out, **training))
    return max((out / "checkpoints").iterdir())


CLOCKS = {"seconds", "tokens_per_second"}


def without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_clocks(inner) for key, inner in value.items() if key not in CLOCKS and key != "out"}
    return [without_clocks(inner) for inner in value] if isinstance(value, list) else value


def fingerprint(last: Path) -> dict[str, Any]:
    """Everything that must agree: tensors by their bytes, state and metrics but for the clocks."""
    run = last.parent.parent
    tensors = ("weights.safetensors", "ema.safetensors", "training/optimizer.safetensors")
    state = json.loads((last / "training/state.json").read_text())
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "update": last.name,
        **{name: (last / name).read_bytes() for name in tensors},
        "state": without_clocks(state),
        "metrics": without_clocks(metrics),
    }


def differing(one: dict[str, Any], two: dict[str, Any]) -> set[str]:
    return {key for key in one if one[key] != two[key]}


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The uninterrupted run."""
    return fingerprint(train(corpus, tmp_path_factory.mktemp("whole") / "run"))


def test_the_run_crosses_epochs_and_learns(whole: dict[str, Any]) -> None:
    """Otherwise the law would be about nothing."""
    cursor = whole["state"]["progress"]["cursor"]
    assert cursor["epoch"] >= 2
    assert cursor["batch"] > 0
    losses = [line["loss"] for line in whole["metrics"] if "loss" in line]
    assert losses[-1] < losses[0] - 1


def test_twice_the_same(corpus: Path, tmp_path: Path, whole: dict[str, Any]) -> None:
    assert differing(whole, fingerprint(train(corpus, tmp_path / "run"))) == set()


def test_stopped_and_resumed(corpus: Path, tmp_path: Path, whole: dict[str, Any]) -> None:
    train(corpus, tmp_path / "run", updates=STOP)
    disturb()
    resumed = fingerprint(train(corpus, tmp_path / "run"))
    # The run that ended at STOP validated there once more than the whole one.
    resumed["metrics"] = [line for line in resumed["metrics"] if not ("dev_nll" in line and line["update"] == STOP)]
    resumed["state"]["handlers"]["best"]["waited"] = whole["state"]["handlers"]["best"]["waited"]
    assert differing(whole, resumed) == set()


@pytest.mark.parametrize("accumulate", [2, 3])
def test_killed_and_resumed(corpus: Path, tmp_path: Path, whole: dict[str, Any], accumulate: int) -> None:
    """SIGKILL inside update 15: after the metrics of update 14, and after a checkpoint before that."""
    reference = whole if accumulate == 3 else fingerprint(train(corpus, tmp_path / "whole", accumulate=accumulate))
    driver = """
import json, os, signal, sys
from clearhead.recipes import train as recipe
from clearhead.recipes.run_config import compose
from clearhead.training.trainer import Trainer
accumulate = Trainer._accumulate
def fatal(self, drawn, tokens):
    done = accumulate(self, drawn, tokens)
    if self.progress.update == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
Trainer._accumulate = fatal
recipe.train(compose(json.loads(sys.argv[1])))
"""
    run = tmp_path / "run"
    arguments = json.dumps(table(corpus, run, accumulate=accumulate))
    killed = subprocess.run([sys.executable, "-c", driver, arguments], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    saved = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert "step-00000010" <= saved[-1] < "step-00000014"
    assert json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["update"] == 14
    assert differing(reference, fingerprint(train(corpus, run, accumulate=accumulate))) == set()


def test_a_mixture_is_resumed_in_the_middle_of_an_epoch(corpus: Path, tmp_path: Path) -> None:
    """Fractions of corpora and tags, stopped where some pairs of the epoch have come and others have not."""

    def mixed(out: Path, updates: int) -> dict[str, Any]:
        whole = table(corpus, out, updates=updates, accumulate=2, validate_every=0, patience=0)
        train_text, dev_text = whole["data"]["train"], whole["data"].pop("dev")
        whole["data"]["train"] = [
            {**train_text, "weight": 0.6, "tag": "<a>"},
            {**dev_text, "weight": 2.5, "tag": "<b>"},
        ]
        return whole

    def train_mixed(out: Path, updates: int) -> dict[str, Any]:
        recipe.train(compose(mixed(out, updates)))
        return fingerprint(max((out / "checkpoints").iterdir()))

    whole = train_mixed(tmp_path / "whole", UPDATES)
    stopped = train_mixed(tmp_path / "run", STOP)["state"]["progress"]["cursor"]
    assert stopped["epoch"] >= 1
    assert stopped["batch"] > 0
    disturb()
    assert differing(whole, train_mixed(tmp_path / "run", UPDATES)) == set()


def disturb() -> None:
    """What other work in this process would do to the global generators."""
    torch.manual_seed(99)
    random.seed(99)


def forget_random(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoints, "restore_random", lambda state, device: None)


def forget_optimizer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoints, "restore_optimizer", lambda optimizer, model, tensors: None)


def forget_average(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MovingAverage, "restore", lambda self, tensors, count: None)


def forget_average_count(patch: pytest.MonkeyPatch) -> None:
    restore = MovingAverage.restore
    patch.setattr(MovingAverage, "restore", lambda self, tensors, count: restore(self, tensors, 0))


def forget_cursor(patch: pytest.MonkeyPatch) -> None:
    restore = Progress.restore

    def start_again(self: Progress, values: Any) -> None:
        restore(self, {**values, "cursor": {"epoch": 0, "batch": 0, "pairs": 0}})

    patch.setattr(Progress, "restore", start_again)


def forget_update(patch: pytest.MonkeyPatch) -> None:
    restore = Progress.restore
    patch.setattr(Progress, "restore", lambda self, values: restore(self, {**values, "update": STOP - 1}))


@pytest.mark.parametrize(
    ("forget", "shows_in"),
    [
        (forget_random, "weights.safetensors"),
        (forget_optimizer, "weights.safetensors"),
        (forget_cursor, "weights.safetensors"),
        (forget_update, "weights.safetensors"),
        (forget_average, "ema.safetensors"),
        (forget_average_count, "ema.safetensors"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_is_forgotten_is_noticed(
    corpus: Path,
    tmp_path: Path,
    whole: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    forget: Callable[[pytest.MonkeyPatch], None],
    shows_in: str,
) -> None:
    """Negative controls: a resume that leaves out one part of the state breaks the law."""
    train(corpus, tmp_path / "run", updates=STOP)
    disturb()
    forget(monkeypatch)
    assert shows_in in differing(whole, fingerprint(train(corpus, tmp_path / "run")))
