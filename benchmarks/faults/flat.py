"""Memory while a corpus is converted and checked: what a record more takes, in each format.

A corpus is written twice, with a fifth of the records and with all; each is converted and checked in a fork, and the
difference of the peaks is divided by that of the records. Nothing of a record may stay when it is converted; writing
PO, which must not hold a text twice, and checking keep hashes. The control reads all pairs into a list.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.faults.memory import peak, reset_peak, resident
from benchmarks.faults.processes import fork
from benchmarks.faults.rows import Result, note
from clearhead.data.check import check_files
from clearhead.formats.corpus import open_corpus, write_corpus
from clearhead.recipes.convert import convert_corpus

LANGUAGES = ("en", "de")
SUFFIXES = {
    "plain": ("en", "de"), "TSV": ("tsv",), "JSONL": ("jsonl",), "PO": ("po",), "TMX": ("tmx",), "XLIFF": ("xlf",),
    "TSV.gz": ("tsv.gz",), "TSV.xz": ("tsv.xz",), "TSV.zst": ("tsv.zst",),
}  # fmt: skip
# Bytes a record.
BOUNDS = {"read": 4.0, "write": 4.0, "write PO": 40.0, "check": 120.0}
# On top of it, bytes for all: allocators keep what they were given, and xz fills its dictionary as it goes.
SLACK, SLACK_XZ = 6 << 20, 96 << 20
NAIVE = 150.0


def run(count: int, seed: int, folder: Path) -> Result:
    failures: list[str] = []
    details: dict[str, Any] = {}
    worst: dict[str, float] = {}
    for name, suffixes in SUFFIXES.items():
        sizes = (count // 5, count)
        files = [[folder / f"{name}-{size}.{suffix}" for suffix in suffixes] for size in sizes]
        grown: dict[str, list[int]] = {"write": [], "read": [], "check": []}
        for size, paths in zip(sizes, files, strict=True):
            grown["write"].append(_grown(_writing(paths, size)))
            grown["read"].append(_grown(_converting(paths, folder / f"out-{size}.tsv")))
            if "." not in name:  # the archives are those of a format that has been checked
                grown["check"].append(_grown(_checking(paths)))
        for work, (few, all_of_them) in ((work, peaks) for work, peaks in grown.items() if peaks):
            slack = SLACK_XZ if name.endswith("xz") else SLACK
            each = max(0, all_of_them - few - slack) / (sizes[1] - sizes[0])
            key = f"write {name}" if f"write {name}" in BOUNDS else work
            worst[work] = max(worst.get(work, 0.0), each)
            details[f"{work} {name}"] = {"peak_MiB": round(all_of_them / 2**20, 1), "bytes_a_record": round(each, 1)}
            if each > BOUNDS[key]:
                failures.append(f"{work} {name}: {each:.0f} bytes a record, at most {BOUNDS[key]:.0f} are expected")
        note(f"{name}: " + ", ".join(f"{work} + {peaks[1] >> 20} MiB" for work, peaks in grown.items() if peaks))
        if name != "plain":
            for path in (path for paths in files for path in paths):
                path.unlink()
    plain = [folder / f"plain-{count}.{suffix}" for suffix in SUFFIXES["plain"]]
    naive = _grown(lambda: list(open_corpus(plain).pairs())) / count
    told = ", ".join(f"{work} {most:.1f}" for work, most in worst.items())
    return Result(
        count,
        f"bytes a record at most: {told} (PO and check keep hashes); {len(SUFFIXES)} formats",
        f"a list of all pairs: {naive:.0f} bytes a record",
        naive > NAIVE,
        failures,
        details,
    )


def _grown(work: Callable[[], object]) -> int:
    """Bytes by which the peak of a fork rises above what it begins with."""

    def measured(report: Callable[[object], None]) -> None:
        reset_peak()
        before = resident()
        kept = work()
        report(json.dumps(peak() - before))
        del kept

    child = fork(measured)
    lines = child.rest()
    assert child.wait() == 0, "the work failed"
    return int(lines[0])


def _writing(paths: list[Path], size: int) -> Callable[[], None]:
    def work() -> None:
        with write_corpus(paths, LANGUAGES) as write:
            for number in range(size):
                write(f"the door {number} of house {number % 97} is open", f"die Tür {number} von Haus {number % 97}")

    return work


def _converting(paths: list[Path], out: Path) -> Callable[[], object]:
    return lambda: convert_corpus(open_corpus(paths, LANGUAGES), [out])


def _checking(paths: list[Path]) -> Callable[[], None]:
    def work() -> None:
        report = check_files(paths, languages=LANGUAGES)
        assert report.pairs, "nothing was read"

    return work
