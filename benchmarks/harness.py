"""What every benchmark shares: alternated runs, medians, ratios, the run header, tables and records.

A ratio between two programs is only worth printing when both met the same machine in the same minutes, so sides
take turns (A, B, A, B, …) and the ratio is the median of the ratios of each round, with the spread beside it.
Nothing here asserts a goal: a benchmark reports, a person judges.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = [
    "HERE",
    "ROOT",
    "Side",
    "alternate",
    "children_seconds",
    "common_arguments",
    "cpu_family",
    "cpu_info",
    "header",
    "length_buckets",
    "print_header",
    "ratios",
    "record",
    "table",
    "timed",
]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"
PACKAGES = (
    "clearhead",
    "torch",
    "numpy",
    "sentencepiece",
    "sacrebleu",
    "transformers",
    "ctranslate2",
    "pymarian",
    "joeynmt",
)
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8", "asimd", "sve", "bf16", "i8mm")


# The machine


def cpu_info() -> dict[str, str]:
    """Vendor, family, model and name of the processor, each "" where the system does not tell."""
    wanted = {"vendor_id": "vendor", "cpu family": "family", "model": "model", "model name": "name", "flags": "flags"}
    found = dict.fromkeys(wanted.values(), "")
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        name = wanted.get(key.strip())
        if name:
            found[name] = value.strip()
    found["name"] = found["name"] or platform.processor() or platform.machine()
    return found


def cpu_family(info: Mapping[str, str]) -> str:
    """A short name for file names, such as `zen4`; what cannot be named is spelled `vendor-family-model`.

    >>> cpu_family({"vendor": "AuthenticAMD", "family": "25", "model": "17", "name": "AMD EPYC"})
    'zen4'
    >>> cpu_family({"vendor": "GenuineIntel", "family": "6", "model": "143", "name": "Xeon"})
    'intel-6-143'
    """
    vendor = info.get("vendor", "")
    family, model = info.get("family", ""), info.get("model", "")
    if vendor == "AuthenticAMD" and family.isdigit() and model.isdigit():
        if family == "26":
            return "zen5"
        if family == "25":
            number = int(model)
            zen4 = 0x10 <= number <= 0x1F or 0x60 <= number <= 0x7F or 0xA0 <= number <= 0xAF
            return "zen4" if zen4 else "zen3"
        if family == "23":
            return "zen2" if int(model) >= 0x30 else "zen"
    short = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(vendor, vendor or info.get("name", "cpu"))
    slug = "-".join(part for part in (short, family, model) if part)
    return re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-") or "cpu"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def header(threads: int | None = None) -> dict[str, Any]:
    """What a reader needs to judge the figures: processor, threads, load, versions, allocator settings, date."""
    info = cpu_info()
    flags = set(info["flags"].split())
    facts: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": info["name"],
        "cpu_family": cpu_family(info),
        "cpu_flags": [flag for flag in FLAGS if flag in flags],
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "allocator": {key: value for key, value in sorted(os.environ.items()) if key.startswith("MALLOC_")},
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        facts["torch_threads"] = torch.get_num_threads()
        facts["torch_build"] = torch.__version__
    if "clearhead.nn.linear" in sys.modules:
        facts["clearhead_linear"] = str(sys.modules["clearhead.nn.linear"].linear_path())
    if threads is not None:
        facts["threads"] = threads
    return facts


def print_header(title: str, facts: Mapping[str, Any]) -> None:
    """The run header, before any figure."""
    print(f"# {title}")
    print(
        f"{facts['date']} · {facts['cpu']} ({facts['cpu_family']}), {facts['cores']} cores, "
        f"flags {' '.join(facts['cpu_flags']) or '-'}, load {facts['load_average']}"
    )
    threads = facts.get("threads", facts.get("torch_threads"))
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    print(f"threads {threads} · Python {facts['python']} · {versions}")
    allocator = " ".join(f"{key}={value}" for key, value in facts["allocator"].items())
    linear = facts.get("clearhead_linear")
    print(
        f"allocator {allocator or 'default'}" + (f" · clearhead multiplies fp32 by {linear}" if linear else ""),
        flush=True,
    )


def children_seconds() -> float:
    """Processor seconds (user + system) of all child processes that have ended: blind to what else the machine does."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# Alternated runs


@dataclass
class Side:
    """One program of a comparison: `run` does a fixed amount of work and returns the seconds it took."""

    name: str
    run: Callable[[], float]
    work: float = 1.0
    unit: str = "runs/s"
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median seconds of one run."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Work a second at the median."""
        return self.work / self.median


def timed(function: Callable[[], object]) -> float:
    """Wall seconds of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alternate(sides: Sequence[Side], rounds: int, *, warmup: int = 1, report: bool = True) -> None:
    """Run every side in turn, `rounds` times; the first `warmup` rounds are not kept.

    The order turns round from one round to the next, so that no side always follows the same neighbour.
    """
    for turn in range(warmup + rounds):
        order = list(sides) if turn % 2 == 0 else list(reversed(sides))
        for side in order:
            seconds = side.run()
            if turn >= warmup:
                side.seconds.append(seconds)
        if report and turn >= warmup:
            done = "  ".join(f"{side.name} {side.seconds[-1]:.2f}s" for side in sides)
            print(f"  round {turn - warmup + 1}/{rounds}: {done}", file=sys.stderr, flush=True)


def ratios(side: Side, against: Side) -> dict[str, float]:
    """How many times faster `side` works than `against`: the median of the rounds' ratios, and their spread.

    >>> a, b = Side("a", lambda: 0.0, seconds=[1.0, 2.0, 4.0]), Side("b", lambda: 0.0, seconds=[3.0, 4.0, 8.0])
    >>> ratios(a, b)
    {'median': 2.0, 'low': 2.0, 'high': 3.0}
    """
    if len(side.seconds) != len(against.seconds) or not side.seconds:
        raise ValueError(
            f"{side.name} and {against.name} were not alternated: {len(side.seconds)} and {len(against.seconds)} rounds"
        )
    each = [
        (side.work / own) / (against.work / other) for own, other in zip(side.seconds, against.seconds, strict=True)
    ]
    return {"median": statistics.median(each), "low": min(each), "high": max(each)}


# Synthetic text lengths


def length_buckets(count: int, batch_tokens: int, seed: int, *, mean: float = 25.0) -> list[list[tuple[int, int]]]:
    """`count` batches of (source, target) lengths with the mix of real text: a long tail, both sides alike.

    Lengths are log-normal (σ 0.55, cut to 3…100), the target is the source times a factor near 1; sentences
    are sorted by length, cut into batches of at most `batch_tokens` padded tokens a side, and `count` batches
    are taken at even steps, so that short, middle and long sentences all appear.
    """
    rng = random.Random(seed)
    sigma = 0.55
    pairs: list[tuple[int, int]] = []
    drawn = 0
    while drawn < 8 * count * batch_tokens:
        source = min(100, max(3, round(rng.lognormvariate(0, sigma) * mean * 2.718281828 ** (-sigma * sigma / 2))))
        target = min(100, max(3, round(source * rng.gauss(1.03, 0.15))))
        pairs.append((source, target))
        drawn += max(source, target)
    pairs.sort(key=lambda pair: (max(pair), pair))
    batches: list[list[tuple[int, int]]] = [[]]
    for pair in pairs:
        if max(pair) * (len(batches[-1]) + 1) > batch_tokens and batches[-1]:
            batches.append([])
        batches[-1].append(pair)
    batches.pop()  # the last one may be nearly empty
    step = len(batches) / count
    return [batches[int(step * (index + 0.5))] for index in range(count)]


# Reporting


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table whose columns line up in a terminal.

    >>> print(table(["side", "tok/s"], [["ours", 12], ["theirs", 7]]))
    | side   | tok/s |
    | ------ | ----- |
    | ours   | 12    |
    | theirs | 7     |
    """
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def record(
    name: str,
    facts: Mapping[str, Any],
    result: Mapping[str, Any],
    text: str | Callable[[], str],
    folder: Path = RESULTS,
) -> Path:
    """Write `<name>_<processor>_<date>.json` and `.md`; a second record of the day gets a number behind it.

    A `text` that is still to be made is made after the figures are written, so that no fault in it loses them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    date = str(facts["date"]).split(" ")[0]
    stem, number = f"{name}_{facts['cpu_family']}_{date}", 1
    while (folder / f"{stem}.json").exists():
        number += 1
        stem = f"{name}_{facts['cpu_family']}_{date}-{number}"
    path = folder / f"{stem}.json"
    whole = json.dumps({"header": facts, "result": result}, indent=1, ensure_ascii=False)
    path.write_text(_without_places(whole) + "\n", "utf-8")
    text = text if isinstance(text, str) else text()
    lines = [f"# {name}", "", *(f"- {key}: {_plain(value)}" for key, value in facts.items()), "", text.strip()]
    path.with_suffix(".md").write_text(_without_places("\n".join(lines)) + "\n", "utf-8")
    print(f"recorded in {path}", flush=True)
    return path


def _without_places(text: str) -> str:
    """`text` with each absolute path cut to its last part: a record says nothing about the machine's folders."""
    return re.sub(r"(?<![\w./:])/(?:[\w.@+-]+/)*([\w.@+-]+)", r"\1", text)


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {inner}" for key, inner in value.items()) or "-"
    if isinstance(value, list):
        return " ".join(str(inner) for inner in value) or "-"
    return str(value)


def common_arguments(description: str, *, threads: int = 2) -> argparse.ArgumentParser:
    """The options that every benchmark has: --quick, --record, --threads, --seed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a short run on small sizes: shows that it works")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/<name>_<cpu>_<date>.json|md")
    parser.add_argument("--threads", type=int, default=threads, help="threads of every side")
    parser.add_argument("--seed", type=int, default=1, help="seed of data and weights")
    return parser
