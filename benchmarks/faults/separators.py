"""Generated corpora that hold every character at which some tool ends a line: no pair may shift.

The truth is the list of pairs that was drawn. Each corpus is read as aligned files, sent through `data convert` into
another format and back, and split; what comes out must be those pairs. The control reads with `str.splitlines`.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

from benchmarks.faults.rows import Result, note
from clearhead.formats.corpus import open_corpus, write_corpus
from clearhead.formats.pairs import read_pairs
from clearhead.recipes.convert import convert_corpus
from clearhead.recipes.data import split_corpus

ODD = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r", "\ufeff", "\0", "\x1a"]
WORDS = ["red", "green", "blue", "door", "window", "lamp", "light", "garden", "kitchen", "ä", "中文", "{name}", "%s"]
Pair = tuple[str, str]
NO_NUL = {".po", ".tmx", ".xlf"}
XML_FORBIDS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f]")


def run(count: int, seed: int, folder: Path) -> Result:
    failures: list[str] = []
    shifted = 0
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        where = folder / str(number)
        where.mkdir()
        pairs = corpus(draw)
        files = _write(where, pairs, draw)
        failures += [f"corpus {number}: {problem}" for problem in _problems(where, files, pairs, draw)]
        texts = [path.read_bytes().decode("utf-8-sig").splitlines() for path in files]
        shifted += list(zip(*texts, strict=False)) != pairs
        for path in sorted(where.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        if number % 250 == 249:
            note(f"{number + 1} corpora, {len(failures)} problems")
    return Result(
        count,
        f"{len(failures)} shifted, by any of 3 ways",
        f"str.splitlines: {shifted} of {count} corpora shifted",
        shifted > count // 2,
        failures,
    )


def corpus(draw: random.Random) -> list[Pair]:
    """Up to thirty pairs with odd characters anywhere, but none that the contract takes for the end of a line."""

    def side() -> str:
        parts = [draw.choice(WORDS) if draw.random() < 0.7 else draw.choice(ODD) for _ in range(draw.randint(1, 9))]
        return draw.choice(["", " "]).join([*parts, draw.choice(WORDS)])  # never a carriage return at the end

    pairs = [(side(), side()) for _ in range(draw.randint(1, 30))]
    return [(source.lstrip("\ufeff"), target.lstrip("\ufeff")) for source, target in pairs]


def _write(where: Path, pairs: list[Pair], draw: random.Random) -> tuple[Path, Path]:
    """Two aligned files: with or without a byte order mark, CRLF, and an end of the last line."""
    files = where / "corpus.en", where / "corpus.de"
    for side, path in enumerate(files):
        end = draw.choice([b"\n", b"\r\n"])
        data = draw.choice([b"", b"\xef\xbb\xbf"]) + end.join(pair[side].encode() for pair in pairs)
        path.write_bytes(data + draw.choice([b"", end]))
    return files


def _problems(where: Path, files: tuple[Path, Path], pairs: list[Pair], draw: random.Random) -> list[str]:
    found = []
    if list(read_pairs(*files)) != pairs:
        found.append("read_pairs gives other pairs")
    suffix = draw.choice([".tsv", ".jsonl", ".po", ".tmx", ".xlf"])
    if problem := _there_and_back(where, files, pairs, suffix + draw.choice(["", ".gz", ".zst"])):
        found.append(f"{suffix}: {problem}")
    split_corpus(files, where / "split", dev=0, test=0, seed=1, by="exact")
    if list(read_pairs(where / "split" / "train.en", where / "split" / "train.de")) != pairs:
        found.append("split gives other pairs")
    return found


def _there_and_back(where: Path, files: tuple[Path, Path], pairs: list[Pair], suffix: str) -> str:
    """Through another format; what that format cannot hold is left out of the corpus first."""
    kind = "." + suffix.split(".")[1]
    if kind in NO_NUL:
        forbidden = XML_FORBIDS if kind != ".po" else re.compile("\0")
        pairs = [tuple(forbidden.sub("", text).lstrip("\ufeff") for text in pair) for pair in pairs]  # type: ignore[misc]
    if kind == ".tsv":
        pairs = [(source.replace("\t", " "), target.replace("\t", " ")) for source, target in pairs]
    start = (where / "sound.en", where / "sound.de")
    with write_corpus(start) as write:
        for pair in pairs:
            write(*pair)
    languages = ("en", "de")
    middle, back = where / f"middle{suffix}", (where / "back.en", where / "back.de")
    convert_corpus(open_corpus(start, languages), [middle])
    convert_corpus(open_corpus([middle], languages), back)
    return "" if list(read_pairs(*back)) == pairs else "other pairs come back"
