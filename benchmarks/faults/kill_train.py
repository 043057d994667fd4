"""SIGKILL while training, at a random update or a random moment, and then a resume: as if nothing had happened.

Runs differ in accumulation (1 and 4) and in how often they save (every update, so that a resume begins at the end of
an epoch too, and every fifth). Dropout, subword sampling and the moving average are on. The loss of each update and all
final tensors must be those of the uninterrupted run, bit for bit. Controls leave out one part of the state in a resume.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.faults.processes import fork
from benchmarks.faults.rows import Result, note
from clearhead.recipes import train as recipe
from clearhead.recipes.run_config import compose
from clearhead.training import checkpoint as checkpoints
from clearhead.training import curve
from clearhead.training.progress import Progress
from clearhead.training.saving import Checkpoints
from clearhead.training.trainer import Trainer

UPDATES = 20
VARIANTS = [(1, 5), (4, 5), (1, 1), (4, 1)]  # batches an update, updates a save
KILLS = ("inside an update", "any moment", "end of an epoch", "after an update")
TENSORS = ("weights.safetensors", "ema.safetensors", "training/optimizer.safetensors")
WORDS = ["red", "green", "blue", "door", "window", "lamp", "light", "garden", "kitchen", "open", "close", "turn"]
Report = Callable[[object], None]


def run(count: int, seed: int, folder: Path) -> Result:
    torch.set_num_threads(1)
    draw = random.Random(seed)
    corpus = _corpus(folder / "corpus", seed)
    whole: dict[tuple[int, int], dict[str, Any]] = {}
    seconds: dict[tuple[int, int], float] = {}
    # What is drawn is no part of this, and takes as long as all else.
    mock.patch.object(curve, "draw_curve").start()
    for variant in [VARIANTS[0], *VARIANTS]:  # the first run has the token store to make; its time is not typical
        begun = time.monotonic()
        out = folder / f"whole-{len(seconds)}-{variant[0]}-{variant[1]}"
        _train(_table(corpus, out, variant))
        seconds[variant] = time.monotonic() - begun
        whole[variant] = _fingerprint(out)
    failures: list[str] = []
    kills: Counter[str] = Counter()
    for trial in range(count):
        variant, kind = VARIANTS[trial % 4], KILLS[trial // 4 % 4 if count > 8 else (trial + 1) % 4]
        table = _table(corpus, folder / f"run-{trial}", variant)
        at, delay = draw.randint(2, UPDATES - 1), draw.uniform(0.2, 0.9) * seconds[variant]
        while not _killed(table, kind, at, delay):  # too late: the machine has become faster meanwhile
            shutil.rmtree(folder / f"run-{trial}")
            delay *= 0.7
        kills[kind] += 1
        _train(table)
        if different := _differing(whole[variant], _fingerprint(folder / f"run-{trial}")):
            failures.append(f"trial {trial} ({kind}, accumulate {variant[0]}): {different} differ")
        if trial % 10 == 9:
            note(f"{trial + 1} kills, {len(failures)} differ")
    noticed = {}
    for name, patches in CONTROLS.items():
        table = _table(corpus, folder / f"control-{name}", VARIANTS[0])
        _killed(table, "inside an update", 8, 0.0)  # there is a checkpoint at 5, in the middle of an epoch
        _train(table, patches)
        noticed[name] = bool(_differing(whole[VARIANTS[0]], _fingerprint(folder / f"control-{name}")))
    return Result(
        count,
        f"{len(failures)} of {count} differ; {', '.join(f'{kind} {n}' for kind, n in kills.items())}",
        f"without {', '.join(noticed)}: {sum(noticed.values())} of {len(noticed)} differ",
        all(noticed.values()),
        failures,
        {"kills": kills, "controls": noticed},
    )


def _killed(table: dict[str, Any], kind: str, at: int, seconds: float) -> bool:
    """Train until the kill, at update `at` or after `seconds`; False if the run was over before it."""

    def work(report: Report) -> None:
        if kind != "any moment":
            _set_trap(kind, at)
        recipe.train(compose(table))

    child = fork(work)
    if kind == "any moment":
        time.sleep(seconds)
        child.kill()
    child.rest()
    status = child.wait()
    assert status in (0, -signal.SIGKILL), f"the run to be killed ended with {status}"
    return status != 0


def _set_trap(kind: str, at: int) -> None:
    accumulate, updated = Trainer._accumulate, Checkpoints.updated
    epoch = [0]

    def inside(self: Trainer, *arguments: Any) -> Any:
        done = accumulate(self, *arguments)
        if kind == "inside an update" and self.progress.update == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def after(self: Checkpoints, trainer: Trainer, update: Any) -> None:
        updated(self, trainer, update)
        ended, epoch[0] = trainer.progress.cursor.epoch > epoch[0], trainer.progress.cursor.epoch
        if (kind == "end of an epoch" and ended) or (kind == "after an update" and update.number == at):
            os.kill(os.getpid(), signal.SIGKILL)

    Trainer._accumulate, Checkpoints.updated = inside, after  # type: ignore[method-assign]


def _train(table: dict[str, Any], patches: Callable[[], None] | None = None) -> None:
    """Train to the end, in a fork."""

    def work(_report: Report) -> None:
        if patches is not None:
            patches()
        recipe.train(compose(table))

    child = fork(work)
    child.rest()
    assert child.wait() == 0, "training failed"


def _fingerprint(run: Path) -> dict[str, Any]:
    """The loss of each update in hexadecimal, and the bytes of all tensors of the last checkpoint."""
    last = max((run / "checkpoints").iterdir())
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    losses = [(line["update"], float(line["loss"]).hex()) for line in lines if "loss" in line]
    assert [number for number, _ in losses] == list(range(1, UPDATES + 1)), "not one loss an update"
    return {"update": last.name, "losses": losses} | {name: (last / name).read_bytes() for name in TENSORS}


def _differing(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    return [key for key in one if one[key] != two[key]]


def _forget_optimizer() -> None:
    mock.patch.object(checkpoints, "restore_optimizer").start()


def _forget_random() -> None:
    mock.patch.object(checkpoints, "restore_random").start()


def _forget_cursor() -> None:
    restore = Progress.restore

    def begin_again(self: Progress, values: Any) -> None:
        restore(self, {**values, "cursor": {"epoch": 0, "batch": 0, "pairs": 0}})

    mock.patch.object(Progress, "restore", begin_again).start()


CONTROLS = {"optimizer": _forget_optimizer, "random state": _forget_random, "cursor": _forget_cursor}


def _corpus(folder: Path, seed: int) -> Path:
    """60 pairs: about 8 batches, so that 20 updates cross ends of epochs."""
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    for name, size in (("train", 60), ("dev", 6)):
        lines = [[draw.choice(WORDS) for _ in range(draw.randint(1, 8))] for _ in range(size)]
        (folder / f"{name}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(" ".join(reversed(line)) + "\n" for line in lines))
    return folder


def _table(corpus: Path, out: Path, variant: tuple[int, int]) -> dict[str, Any]:
    sides = {
        name: {"source": str(corpus / f"{name}.en"), "target": str(corpus / f"{name}.de")} for name in ("train", "dev")
    }
    return {
        "out": str(out),
        "seed": 3,
        "data": {"languages": ["en", "de"], **sides, "batch_tokens": 80, "cache": str(corpus / "cache")},
        "tokenizer": {"vocab_size": 320, "sampling": 0.2},
        "model": {
            **{"preset": "tiny", "d_model": 16, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1},
            **{"attention": {"heads": 2}, "dropout": 0.2},
        },
        "training": {
            **{"updates": UPDATES, "accumulate": variant[0], "save_every": variant[1], "validate_every": 7},
            **{"log_every": 1, "clip_norm": 1.0, "precision": "fp32", "threads": 1, "ema": 0.9, "patience": 1000},
            "schedule": {"kind": "noam", "warmup": 8},
        },
    }
