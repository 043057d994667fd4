"""Memory while a corpus is converted, checked, filtered and split: what a record more takes, in each format.

A corpus is written twice, with a fifth of the records and with all; with each the work is done in a fork, and the
difference of the peaks is divided by that of the records. Of a record nothing may stay but a bit for each rule; only
writing PO, which must not hold a text twice, keeps hashes. What check, filter and split otherwise hold in memory, up
to 24 MiB of it, goes into their temporary file here too, and in small blocks, so that few records show
what many take. The control reads all pairs into a list.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.faults.memory import peak, reset_peak, resident
from benchmarks.faults.processes import fork
from benchmarks.faults.rows import Result, note
from clearhead.data import columns, runs, split, traces
from clearhead.data.check import check_files
from clearhead.data.filter import choose_rules
from clearhead.data.rules import PAIR_RULES
from clearhead.formats.corpus import open_corpus, write_corpus
from clearhead.recipes.convert import convert_corpus
from clearhead.recipes.data import filter_corpus, split_corpus

LANGUAGES = ("en", "de")
SUFFIXES = {
    "plain": ("en", "de"), "TSV": ("tsv",), "JSONL": ("jsonl",), "PO": ("po",), "TMX": ("tmx",), "XLIFF": ("xlf",),
    "TSV.gz": ("tsv.gz",), "TSV.xz": ("tsv.xz",), "TSV.zst": ("tsv.zst",),
}  # fmt: skip
# Bytes a record.
BOUNDS = {"read": 4.0, "write": 4.0, "write PO": 40.0, "check": 8.0, "filter": 8.0, "split": 8.0}
# On top of it, bytes for all: allocators keep what they were given, and xz fills its dictionary as it goes.
SLACK, SLACK_XZ, SLACK_KEPT = 6 << 20, 96 << 20, 4 << 20
KEEPING = ("check", "filter", "split")
NAIVE = 150.0


def run(count: int, seed: int, folder: Path) -> Result:
    failures: list[str] = []
    details: dict[str, Any] = {}
    worst: dict[str, float] = {}
    columns.ROOM, runs.PART = 0, 4096
    traces.BLOCK = split.BLOCK = 4096
    for name, suffixes in SUFFIXES.items():
        sizes = (count // 5, count)
        files = [[folder / f"{name}-{size}.{suffix}" for suffix in suffixes] for size in sizes]
        grown: dict[str, list[int]] = {work: [] for work in BOUNDS if work != "write PO"}
        for size, paths in zip(sizes, files, strict=True):
            grown["write"].append(_grown(_writing(paths, size)))
            grown["read"].append(_grown(_converting(paths, folder / f"out-{size}.tsv")))
            if "." not in name and name != "JSONL":  # archives hold TSV; JSONL is checked as PO is
                grown["check"].append(_grown(_checking(paths)))
            if name == "plain":  # what they keep of a record does not depend on the format
                grown["filter"].append(_grown(_filtering(paths, folder)))
                grown["split"].append(_grown(_splitting(paths, folder / f"split-{size}")))
        for work, (few, all_of_them) in ((work, peaks) for work, peaks in grown.items() if peaks):
            slack = SLACK_XZ if name.endswith("xz") else SLACK_KEPT if work in KEEPING else SLACK
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
        f"bytes a record at most: {told} (PO keeps hashes); {len(SUFFIXES)} formats",
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


def _filtering(paths: list[Path], folder: Path) -> Callable[[], object]:
    out, dropped = [folder / "kept.en", folder / "kept.de"], folder / "dropped.jsonl"
    return lambda: filter_corpus(paths, out, dropped, rules=choose_rules(drop=list(PAIR_RULES)), languages=LANGUAGES)


def _splitting(paths: list[Path], out: Path) -> Callable[[], object]:
    return lambda: split_corpus(paths, out, dev=0, test=1, seed=1, by="exact")
