"""The rows of the fault table: what is injected how often, what must hold, and how a row is run.

A row is green only if nothing was lost *and* its control failed: the naive implementation, under the same faults.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "ROWS", "Result", "Row", "note", "run_here", "run_row", "to_json"]

ROOT = Path(__file__).resolve().parents[2]
MOST_SHOWN = 20  # failures kept of a row
ON_DISK = {"kill-save", "kill-train", "flat"}  # the others need no fsync that is one, and would only wait for it


@dataclass(frozen=True)
class Row:
    """A kind of fault. `full` is the count of the acceptance, `quick` and `ci` smaller ones; `module` holds `run`."""

    name: str
    fault: str
    must_hold: str
    full: int
    quick: int
    ci: int

    @property
    def module(self) -> str:
        return f"benchmarks.faults.{self.name.replace('-', '_')}"


ROWS = {
    row.name: row
    for row in (
        Row("kill-save", "SIGKILL spread over a save", "0 unloadable", 200, 24, 24),
        Row("kill-train", "SIGKILL at a random update, then resume", "losses and weights bit-equal", 50, 6, 4),
        Row("flips", "flipped bit or truncation in a bundle", "100 % detected", 500, 80, 60),
        Row("disk", "ENOSPC … EIO on write, fsync, rename", "previous loads, no remains, goes on", 60, 15, 15),
        Row("fuzz", "random and mutated bytes, each reader", "typed error, ≤ 2 s, ≤ 200 MB", 10_000, 300, 150),
        Row("bombs", "XML and decompression bombs, XXE, DTDs", "refused ≤ 1 s, nothing opened", 96, 96, 96),
        Row("separators", "corpora with every odd separator", "0 shifted pairs", 1_000, 60, 40),
        Row("hostile", "pickles, arrays, configs, tokenizers as bundles", "0 executions, refused", 50, 50, 50),
        Row("masked", "rows that may read nothing", "finite, exactly 0, neighbours same", 200, 200, 200),
        Row("crafted", "crafted lines, up to 1 MB", "doubling costs ≤ 2.5 ×", 1_000, 100, 30),
        Row("flat", "records through convert, check, filter, split", "memory does not grow", 200_000, 20_000, 50_000),
    )
}
"""By name, in the order of the table."""


@dataclass
class Result:
    """What a row gave: cases tried, what was measured, what the control lost, and what went wrong."""

    count: int
    measured: str
    control: str
    control_failed: bool
    failures: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def green(self) -> bool:
        return self.count > 0 and not self.failures and self.control_failed


def note(text: str) -> None:
    """Progress, on standard error."""
    print(f"  {text}", file=sys.stderr, flush=True)


def run_here(name: str, count: int, seed: int, folder: Path) -> Result:
    """Run a row in this process, which is then good for nothing else: hooks and patches stay."""
    result: Result = importlib.import_module(ROWS[name].module).run(count, seed, folder)
    result.failures = result.failures[:MOST_SHOWN]
    return result


def run_row(name: str, count: int, seed: int = 1, timeout: float | None = None) -> Result:
    """Run a row in a process of its own, in a folder of its own."""
    with _folder(name in ON_DISK) as folder:
        out = folder / "result.json"
        arguments = [name, str(count), str(seed), str(folder / "work"), str(out)]
        command = [sys.executable, "-m", "benchmarks.faults", *arguments]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, timeout=timeout, check=False)
        if done.returncode or not out.exists():
            return Result(count, "-", "-", False, [f"the row's process ended with status {done.returncode}"])
        return Result(**json.loads(out.read_text("utf-8")))


@contextmanager
def _folder(on_disk: bool) -> Iterator[Path]:
    memory = "/dev/shm" if not on_disk and os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="faults-", dir=memory, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def to_json(result: Result) -> str:
    return json.dumps(vars(result), ensure_ascii=False)
