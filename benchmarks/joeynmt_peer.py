"""joeynmt 2.3.0 on our pieces: the files it reads, its configuration, one training run, one test run.

joeynmt gets the very pieces that our tokenizer makes (level "word", a vocabulary file), so both systems see the same
tokens. Its own scheduler "noam" is used ("plateau" does not survive a current torch), its own loss, batches and
search; it has no bf16 on a CPU.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import children_seconds

__all__ = ["JoeyPlan", "available", "equal_budget", "train", "translate", "write_pieces"]


@dataclass(frozen=True)
class JoeyPlan:
    """What the two sides share. `peak` is the highest learning rate, reached at update `warmup`."""

    updates: int
    batch_tokens: int
    peak: float
    warmup: int
    d_model: int
    d_ff: int
    heads: int
    layers: int
    dropout: float
    smoothing: float
    norm: str
    beam: int
    alpha: float
    max_output: int
    threads: int
    seed: int


def available() -> str:
    """Why joeynmt cannot run here; empty if it can."""
    probe = [sys.executable, "-W", "ignore", "-c", "import joeynmt.training, joeynmt.prediction"]
    done = subprocess.run(probe, capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


def write_pieces(path: Path, lines: Iterable[Sequence[str]]) -> int:
    """One sentence a line, pieces with a space between; how many lines."""
    written = [" ".join(pieces) for pieces in lines]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(written) + "\n", "utf-8")
    return len(written)


def equal_budget(lengths: Sequence[tuple[int, int]], target_tokens: float, seed: int = 1) -> int:
    """The `batch_size` at which joeynmt's batches hold `target_tokens` real target tokens on average, EOS included.

    joeynmt counts sentences × longest side, draws sentences at random without bucketing, and closes a batch with
    the sentence that reaches the budget, so its real tokens are fewer than its budget says.
    """
    order = list(lengths)
    random.Random(seed).shuffle(order)

    def mean(budget: int) -> float:
        batches, tokens, rows, longest = 0, 0, 0, 0
        total = 0
        for source, target in order:
            rows, longest, tokens = rows + 1, max(longest, source + 1, target + 1), tokens + target + 1
            if rows * longest >= budget:
                batches, total = batches + 1, total + tokens
                rows = longest = tokens = 0
        return total / batches if batches else float("inf")

    low, high = 1, 64 * round(target_tokens)
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        low, high = (middle, high) if mean(middle) < target_tokens else (low, middle)
    return high


def _config(plan: JoeyPlan, folder: Path, *, test: bool) -> dict[str, Any]:
    def side(language: str) -> dict[str, Any]:
        return {
            "lang": language,
            "level": "word",
            "voc_file": str(folder / "vocabulary.txt"),
            "lowercase": False,
            "normalize": False,
            "tokenizer_cfg": {"pretokenizer": "none"},
        }

    def stack() -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": plan.layers,
            "num_heads": plan.heads,
            "dropout": plan.dropout,
            "embeddings": {"embedding_dim": plan.d_model, "scale": True, "dropout": plan.dropout},
            "hidden_size": plan.d_model,
            "ff_size": plan.d_ff,
            "layer_norm": plan.norm,
        }

    data = {"dataset_type": "plain", "src": side("src"), "trg": side("trg")}
    data |= {"test": str(folder / "test")} if test else {"train": str(folder / "train"), "dev": str(folder / "dev")}
    return {
        "name": "multi30k",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": plan.seed,
        "data": data,
        "testing": {
            "n_best": 1,
            "beam_size": plan.beam,
            "beam_alpha": plan.alpha,
            "batch_size": 1024,
            "batch_type": "token",
            "max_output_length": plan.max_output,
            "eval_metrics": [],
            "load_model": str(folder / "model" / "latest.ckpt"),
        }
        if test
        else {"beam_size": 1, "eval_metrics": []},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "normalization": "tokens",
            "scheduling": "noam",
            # factor · d^-½ · warmup^-½ is the peak.
            "learning_rate_factor": plan.peak * (plan.d_model * plan.warmup) ** 0.5,
            "learning_rate_warmup": plan.warmup,
            "learning_rate": 0.0001,
            "learning_rate_min": 0.0,
            "label_smoothing": plan.smoothing,
            "loss": "crossentropy",
            "batch_size": plan.batch_tokens,
            "batch_type": "token",
            "epochs": 1_000_000,
            "updates": plan.updates,
            "shuffle": True,
            "validation_freq": 10_000_000,
            "logging_freq": 50,
            "early_stopping_metric": "loss",
            "overwrite": True,
            "keep_best_ckpts": 1,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "init_gain": 1.0,
            "embed_init_gain": 1.0,
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack(),
            "decoder": stack(),
        },
    }


def _run(mode: str, config: dict[str, Any], folder: Path, threads: int, *arguments: str) -> None:
    """One joeynmt process; YAML reads JSON, so JSON is what it gets."""
    path = folder / f"{mode}.yaml"
    path.write_text(json.dumps(config, indent=1), "utf-8")
    command = [sys.executable, "-W", "ignore", "-m", "joeynmt", mode, str(path), *arguments]
    with (folder / f"{mode}.out").open("w", encoding="utf-8") as out:
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    if done.returncode != 0:
        tail = "\n".join((folder / f"{mode}.out").read_text("utf-8", "replace").splitlines()[-15:])
        raise SystemExit(f"joeynmt {mode} failed:\n{tail}")


def train(plan: JoeyPlan, folder: Path) -> dict[str, Any]:
    """Train; wall seconds from the first batch to the last, processor seconds of the whole process, tokens."""
    before = children_seconds()
    _run("train", _config(plan, folder, test=False), folder, plan.threads, "--skip-test")
    processor = children_seconds() - before
    log = (folder / "train.out").read_text("utf-8", "replace")
    start, end = _stamp(log, r"EPOCH 1$"), _stamp(log, r"Training ended")
    import torch

    stats = torch.load(folder / "model" / "latest.ckpt", weights_only=True)["stats_state"]
    seconds = (end - start).total_seconds()
    return {
        "plan": asdict(plan),
        "updates": int(stats["steps"]),
        "seconds": seconds,
        "target_tokens": int(stats["total_tokens"]),
        "processor_seconds": processor,
    }


def _stamp(log: str, pattern: str) -> datetime.datetime:
    """When the line that matches was logged."""
    for line in log.splitlines():
        found = re.match(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - ", line)
        if found and re.search(pattern, line):
            return datetime.datetime.strptime(found.group(1), "%Y-%m-%d %H:%M:%S,%f")
    raise SystemExit(f"joeynmt's log has no line like {pattern!r}; see train.out")


def translate(plan: JoeyPlan, folder: Path) -> tuple[list[list[str]], float]:
    """The test set as pieces, and the seconds that generation took."""
    _run("test", _config(plan, folder, test=True), folder, plan.threads, "-o", str(folder / "hypotheses"))
    lines = (folder / "hypotheses.test").read_text("utf-8").removesuffix("\n").split("\n")
    log = (folder / "test.out").read_text("utf-8", "replace")
    found = re.findall(r"Generation took ([\d.]+)\[sec\]", log)
    return [line.split(" ") for line in lines], float(found[-1]) if found else float("nan")
