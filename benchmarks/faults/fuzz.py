"""Random and mutated bytes into each reader: one typed error that names file and line, or the content and all of it.

What is accepted is checked too: the pieces of a document are its bytes, and there are as many records as lines (told by
splitting bytes). The controls read the same inputs with the standard library and polib, as most programs do.
"""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import random
import re
import signal
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polib
import zstandard

from benchmarks.faults.memory import peak, reset_peak, resident
from benchmarks.faults.mutate import SEEDS, draw_input
from benchmarks.faults.rows import Result, note
from clearhead.base.errors import BundleError, ConfigError, DataError, InputError
from clearhead.bundle.manifest import MANIFEST, read_manifest, write_manifest
from clearhead.config.toml import load_toml
from clearhead.formats.document import Piece
from clearhead.formats.glossary import read_glossary
from clearhead.formats.jsonl import read_jsonl_document
from clearhead.formats.lines import read_lines
from clearhead.formats.pairs import read_pairs, read_tsv
from clearhead.formats.po import read_po
from clearhead.formats.tmx import read_tmx
from clearhead.formats.tsv import read_tsv_document
from clearhead.formats.xliff import read_xliff
from clearhead.recipes.run_config import compose

SLOWEST = 2.0  # seconds of processor time an input
HANG = 30  # seconds, after which an input is taken to hang
MOST_MEMORY = 200 << 20
# What is wrong with a file as a whole has no line.
LINE = re.compile(
    r"(?:line|entry) \d+|has \d+ lines"
    r"|larger than \d+ bytes|of the archive have unpacked|MiB of memory|nested too deeply"
)
PACKERS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    (".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstandard.ZstdCompressor().compress),
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """How a reader is fed. `read` returns "" or what is wrong with an accepted input."""

    suffix: str
    read: Callable[[Path, bytes], str]
    error: type[InputError]
    naive: Callable[[Path], Any]
    says_line: bool = True


def _joined(pieces: list[Piece], data: bytes) -> str:
    whole = b"".join(piece if isinstance(piece, bytes) else piece.raw for piece in pieces)
    return "" if whole == data else f"its pieces are {len(whole)} other bytes than its {len(data)}"


def _count(found: int, data: bytes) -> str:
    """Lines by the contract, counted in another way: what stands between line feeds."""
    parts = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    expected = len(parts) - (not parts[-1])
    return "" if found == expected else f"{found} records of {expected} lines"


def _read_lines(path: Path, data: bytes) -> str:
    return _count(len(list(read_lines(path))), data)


def _read_pairs(path: Path, data: bytes) -> str:
    other = path.with_suffix(".other")
    other.write_bytes(data[::-1] if len(data) % 3 else data)
    return _count(len(list(read_pairs(path, other))), data)


def _read_tsv(path: Path, data: bytes) -> str:
    return _joined(list(read_tsv_document(path)), data) or _count(len(list(read_tsv(path))), data)


def _read_archive(path: Path, data: bytes) -> str:
    list(read_lines(path))
    return ""


def _read_recipe(path: Path, data: bytes) -> str:
    compose(load_toml(path))
    return ""


def _read_manifest(path: Path, data: bytes) -> str:
    read_manifest(path.parent)
    return ""


def _glossary(path: Path, data: bytes) -> str:
    read_glossary(path)
    return ""


def _json_lines(path: Path) -> list[Any]:
    return [json.loads(line)["source"] + json.loads(line)["target"] for line in path.read_text("utf-8").splitlines()]


def _elements(path: Path) -> list[str]:
    return [element.attrib["id"] for element in ElementTree.parse(path).getroot().iter() if element.tag == "tuv"]


def _unpacked(path: Path) -> bytes:
    opened: Any = {".gz": gzip.open, ".xz": lzma.open, ".zst": zstandard.open}[path.suffix]
    with opened(path, "rb") as stream:
        return bytes(stream.read(1 << 24))


def _terms(path: Path) -> dict[str, str]:
    return dict(line.split("\t") for line in path.read_text("utf-8").splitlines())  # type: ignore[misc]


def _sections(path: Path) -> Any:
    return tomllib.loads(path.read_text("utf-8"))["data"]["train"]


READERS: dict[str, Reader] = {
    "lines": Reader(".txt", _read_lines, DataError, lambda path: path.read_text("utf-8").splitlines()),
    "pairs": Reader(".txt", _read_pairs, DataError, lambda path: path.read_text("utf-8").splitlines()),
    "tsv": Reader(".tsv", _read_tsv, DataError, lambda path: [a + b for a, b in csv.reader(path.open(), "excel-tab")]),
    "jsonl": Reader(".jsonl", lambda p, data: _joined(list(read_jsonl_document(p)), data), DataError, _json_lines),
    "tmx": Reader(".tmx", lambda p, data: _joined(list(read_tmx(p, ("en", "de"))), data), DataError, _elements),
    "xliff": Reader(".xlf", lambda p, data: _joined(list(read_xliff(p)), data), DataError, _elements),
    "po": Reader(".po", lambda p, data: _joined(list(read_po(p)), data), DataError, lambda p: polib.pofile(str(p))),
    "archives": Reader("", _read_archive, DataError, _unpacked),
    "glossary": Reader(".tsv", _glossary, DataError, _terms),
    "recipe": Reader(".toml", _read_recipe, ConfigError, _sections),
    "manifest": Reader("", _read_manifest, BundleError, lambda p: json.loads(p.read_text())["files"].items(), False),
}


def run(count: int, seed: int, folder: Path) -> Result:
    signal.signal(signal.SIGALRM, _hangs)
    failures: list[str] = []
    details: dict[str, Any] = {}
    naive: set[tuple[str, str]] = set()
    nameless = 0
    for name, reader in READERS.items():
        draw = random.Random(f"{seed} {name}")
        facts = _fuzz(name, reader, count, draw, folder, failures)
        details[name] = facts
        kinds, without = _naively(name, reader, max(40, count // 20), random.Random(f"{seed} {name}"), folder)
        naive |= {(name, kind) for kind in kinds}
        nameless += without
        note(f"{name}: {facts}")
    slowest = max(facts["slowest_s"] for facts in details.values())
    most = max(facts["memory_MiB"] for facts in details.values())
    accepted = sum(facts["accepted"] for facts in details.values())
    return Result(
        count * len(READERS),
        f"{len(failures)} problems in {len(READERS)} readers, {accepted:,} accepted and right; "
        f"slowest {slowest:.2f} s; memory + {most:.0f} MiB",
        f"naive readers: {len({kind for _, kind in naive})} kinds of exceptions, {nameless} without the file's name",
        len(naive) > len(READERS) and nameless > 0,
        failures,
        details | {"naive_kinds": sorted({kind for _, kind in naive})},
    )


def _hangs(*_: object) -> None:
    raise TimeoutError(f"over {HANG} s")


def _inputs(name: str, draw: random.Random, folder: Path, number: int) -> tuple[Path, bytes]:
    """The next input of a reader, and where it is to stand."""
    if name == "archives":
        suffix, pack = PACKERS[number % 3]
        text = draw_input(SEEDS["lines"], draw)
        packed = pack(text) + (pack(text) if number % 2 else b"")
        return folder / f"a{suffix}", draw_input([packed], draw) if draw.randrange(8) else packed
    if name == "manifest":
        place = folder / "bundle"
        if number == 0:
            (place / "tokenizer").mkdir(parents=True, exist_ok=True)
            for file in ("a.bin", "tokenizer/b.bin"):
                (place / file).write_bytes(b"abc")
            write_manifest(place)
            SEEDS["manifest"] = [(place / MANIFEST).read_bytes()]
        return place / MANIFEST, draw_input(SEEDS["manifest"], draw)
    return folder / f"a{READERS[name].suffix}", draw_input(SEEDS[name], draw)


def _fuzz(
    name: str, reader: Reader, count: int, draw: random.Random, folder: Path, failures: list[str]
) -> dict[str, Any]:
    reset_peak()
    before = resident()
    accepted, slowest = 0, 0.0
    said: Counter[str] = Counter()
    for number in range(count):
        path, data = _inputs(name, draw, folder, number)
        path.write_bytes(data)
        signal.alarm(HANG)
        begun = time.process_time()
        try:
            problem = reader.read(path, data)
            accepted += not problem
        except reader.error as error:
            problem = _unclear(str(error), path, reader)
            said[re.sub(r"\d+|'.*'|\(.*\)", "", str(error).removeprefix(str(path)))[:60]] += 1
        except BaseException as error:  # of whatever kind: it is not the one promised
            problem = f"{type(error).__name__}: {str(error)[:200]}"
        signal.alarm(0)
        seconds = time.process_time() - begun
        slowest = max(slowest, seconds)
        if seconds > SLOWEST:
            problem = problem or f"took {seconds:.1f} s"
        if problem:
            failures.append(f"{name} {number}: {problem}; {data[:120]!r}")
    grown = peak() - before
    if grown > MOST_MEMORY:
        failures.append(f"{name}: memory grew by {grown >> 20} MiB")
    facts: dict[str, Any] = {"accepted": accepted, "kinds_of_errors": len(said), "slowest_s": round(slowest, 3)}
    return facts | {"memory_MiB": round(max(grown, 0) / 2**20, 1)}


def _unclear(message: str, path: Path, reader: Reader) -> str:
    if reader.error is ConfigError and str(path) not in message:  # the table is right TOML; then keys are named
        return "" if re.search(r"[a-z_]+", message) else f"says too little: {message}"
    if str(path) not in message and path.stem not in message:
        return f"does not name the file: {message[:200]}"
    if reader.says_line and not LINE.search(message.replace(str(path), "")):
        return f"does not name a line: {message[:200]}"
    return ""


def _naively(name: str, reader: Reader, count: int, draw: random.Random, folder: Path) -> tuple[set[str], int]:
    """The kinds of exceptions of a naive reader, and how many of them do not name the file."""
    kinds: set[str] = set()
    nameless = 0
    for number in range(count):
        path, data = _inputs(name, draw, folder, number)
        path.write_bytes(data)
        signal.alarm(HANG)
        try:
            reader.naive(path)
        except Exception as error:  # of whatever kind: the kinds are what is counted
            kinds.add(type(error).__name__)
            nameless += str(path) not in str(error)
        signal.alarm(0)
    return kinds, nameless
