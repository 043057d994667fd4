"""Runs that are interrupted, ended and killed: what they say, how they end, and that going on changes no bit."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.program import clearhead, disjoint, process, settings, train, write

# One process trains what these share. Nothing here is about time; the machine may be shared.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("interrupt")]

UPDATES, SAVED = 24, 8

# The program, with a signal to itself at a moment that no waiting from outside could hit as surely.
BEFORE_UPDATE = """
import os, signal
from clearhead.training.trainer import Trainer
step = Trainer.step
def signalled(trainer):
    if trainer.progress.update == {update}:
        os.kill(os.getpid(), signal.{name})
    return step(trainer)
Trainer.step = signalled
from clearhead.cli.main import main
main()
"""
WHILE_SAVING = """
import os, signal
from clearhead.bundle import bundle
def killed(directory):
    if "{update:08d}" in str(directory):
        os.kill(os.getpid(), signal.{name})
    return write(directory)
write, bundle.write_manifest = bundle.write_manifest, killed
from clearhead.cli.main import main
main()
"""


@dataclass(frozen=True)
class Text:
    source: Path
    target: Path
    dev: Path


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    where = tmp_path_factory.mktemp("text")
    lines, dev = disjoint(5, (400, 20))
    return Text(write(where / "source", lines), write(where / "target", lines[::-1]), write(where / "dev", dev))


def arguments(text: Text, out: Path, updates: int = UPDATES) -> list[object]:
    """A run with everything that a resume has to bring back: dropout, accumulation, moving average, subword sampling,
    validations and the best of them."""
    values: dict[str, object] = {
        "tokenizer__sampling": 0.1,
        "model__d_model": 32,
        "model__encoder_layers": 1,
        "model__dropout": 0.2,
        "data__batch_tokens": 256,
        "training__updates": updates,
        "training__accumulate": 2,
        "training__clip_norm": 1.0,
        "training__ema": 0.9,
        "training__validate_every": 6,
        "training__patience": 50,
        "training__save_every": SAVED,
        "training__log_every": 1,
    }
    return train(out, text.source, text.target, "--dev-source", text.dev, "--dev-target", text.dev, **values)


def weights(run: Path) -> dict[str, str]:
    """SHA-256 of weights, moving average and optimizer after the last update."""
    last = run / "checkpoints" / f"step-{UPDATES:08d}"
    files = ("weights.safetensors", "ema.safetensors", "training/optimizer.safetensors")
    return {name: hashlib.sha256((last / name).read_bytes()).hexdigest() for name in files}


def losses(run: Path) -> list[tuple[int, float | None, float | None]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(line["update"], line.get("loss"), line.get("dev_nll")) for line in lines]


@pytest.fixture(scope="module")
def uninterrupted(text: Text, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "uninterrupted"
    clearhead(*arguments(text, run))
    return run


@pytest.mark.parametrize(
    ("program", "update", "name", "code", "newest"),
    [
        pytest.param(BEFORE_UPDATE, 13, "SIGKILL", -signal.SIGKILL, 12, id="killed between checkpoints"),
        pytest.param(WHILE_SAVING, 16, "SIGKILL", -signal.SIGKILL, 12, id="killed while saving"),
        pytest.param(BEFORE_UPDATE, 13, "SIGTERM", 143, 14, id="ended"),
    ],
)
def test_going_on_after_a_signal_changes_no_bit(
    program: str, update: int, name: str, code: int, newest: int, text: Text, uninterrupted: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    ran = process(arguments(text, run), code=code, start=("-c", program.format(update=update, name=name)))
    assert ran.out == b""
    if name == "SIGTERM":
        assert f"saved; go on with: clearhead train --out {run}" in ran.log
        assert "Traceback" not in ran.log
    assert not (run / "checkpoints" / f"step-{UPDATES:08d}").exists()
    resumed = clearhead("train", "--out", run)
    assert "going on from step-" in resumed.log
    assert weights(run) == weights(uninterrupted)
    assert losses(run) == losses(uninterrupted)
    assert not [path for path in run.rglob("*") if ".tmp" in path.name]


def test_another_seed_gives_other_bits(text: Text, uninterrupted: Path, tmp_path: Path) -> None:
    """Or the comparison above would show nothing."""
    clearhead(*arguments(text, tmp_path / "run"), *settings(seed=2))
    ours, theirs = weights(tmp_path / "run"), weights(uninterrupted)
    assert all(ours[name] != theirs[name] for name in ours)


def test_ctrl_c_saves_and_says_how_to_go_on(text: Text, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "clearhead", *map(str, arguments(text, run, updates=1_000_000))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as trainer:
        metrics = run / "metrics.jsonl"
        while not (metrics.is_file() and metrics.stat().st_size):
            assert trainer.poll() is None, trainer.stderr and trainer.stderr.read()
            time.sleep(0.05)
        os.kill(trainer.pid, signal.SIGINT)
        out, log = trainer.communicate()
    assert trainer.returncode == 130, log
    assert out == ""
    assert "Traceback" not in log
    assert f"saved; go on with: clearhead train --out {run}" in log
    reached = max(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").iterdir())
    # The command that it named, with an end in sight.
    resumed = clearhead("train", "--out", run, *settings(training__updates=reached + 2))
    assert f"going on from step-{reached:08d}" in resumed.log
    assert [update for update, loss, _ in losses(run) if loss is not None] == list(range(1, reached + 3))
