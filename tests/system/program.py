"""The program as its users run it, and runs small enough for a test.

Most tests call it in this process, which saves the seconds that importing torch takes; what depends on signals, or on
a process of its own, starts one.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner

from clearhead.cli.main import app

__all__ = ["Ran", "clearhead", "disjoint", "process", "read", "settings", "train", "write"]

WORDS = ["ba", "be", "bi", "da", "de", "di", "ka", "ke", "ki", "ma", "me", "mi", "no", "nu"]


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it wrote where."""

    code: int
    out: bytes
    log: str

    @property
    def lines(self) -> list[str]:
        """Standard output by the line contract: a line ends at a line feed and nowhere else."""
        return self.out.decode("utf-8").split("\n")[:-1]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Standard output as one JSON object a line."""
        return [json.loads(line) for line in self.lines]


def clearhead(*arguments: object, stdin: bytes = b"", code: int = 0) -> Ran:
    """`clearhead ARGUMENTS` in this process. The exit code must be `code`; a fault of ours passes through."""
    threads = torch.get_num_threads()
    try:
        result = CliRunner().invoke(app, [str(each) for each in arguments], input=stdin, catch_exceptions=False)
    finally:
        torch.set_num_threads(threads)  # --threads is for a whole process, which here has other tests to run
    ran = Ran(result.exit_code, result.stdout_bytes, result.stderr)
    assert ran.code == code, f"exit code {ran.code}, expected {code}\n{ran.log}"
    assert "Traceback" not in ran.log
    return ran


def process(arguments: Sequence[object], *, code: int = 0, start: Sequence[str] = ("-m", "clearhead")) -> Ran:
    """`clearhead ARGUMENTS` in a process of its own; `start` may be a program of ours around it."""
    command = [sys.executable, *start, *(str(each) for each in arguments)]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": ""})
    ran = Ran(done.returncode, done.stdout, done.stderr.decode())
    assert ran.code == code, f"exit code {ran.code}, expected {code}\n{ran.log}"
    return ran


def settings(**values: object) -> list[str]:
    """`--set` for each; two underscores stand for the dot."""
    return [part for name, value in values.items() for part in ("--set", f"{name.replace('__', '.')}={value}")]


def train(out: Path, source: Path, target: Path, *more: object, **values: object) -> list[object]:
    """The arguments that train a small model from `source` and `target` into `out`; `values` are `settings`."""
    small = {
        "tokenizer__vocab_size": 300,
        "model__d_model": 64,
        "model__d_ff": 128,
        "model__encoder_layers": 2,
        "model__decoder_layers": 1,
        "data__batch_tokens": 1024,
        "training__threads": 1,
        "training__precision": "fp32",
        **values,
    }
    start = ["train", "--source", source, "--target", target, "--languages", "en,de", "--out", out]
    return [*start, "--preset", "tiny", *more, *settings(**small)]


def disjoint(seed: int, sizes: Sequence[int], words: tuple[int, int] = (3, 8)) -> list[list[str]]:
    """Lists of random strings of words, `words` to a line, no string twice in all of them."""
    draw = random.Random(seed)
    lines: dict[str, None] = {}
    while len(lines) < sum(sizes):
        lines[" ".join(draw.choices(WORDS, k=draw.randint(*words)))] = None
    rest = iter(lines)
    return [[next(rest) for _ in range(size)] for size in sizes]


def write(path: Path, lines: Sequence[str]) -> Path:
    """A text file of these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def read(path: Path) -> list[str]:
    """The lines of a text file."""
    return path.read_bytes().decode().split("\n")[:-1]
