"""The text of a comparison: what is trained on, the two test sets, and where they came from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from clearhead.base.errors import DataError, InputError
from clearhead.base.files import atomic_write, sha256_file
from clearhead.base.log import logger
from clearhead.data.corpora import get_corpus
from clearhead.formats.lines import read_lines, write_lines
from clearhead.formats.pairs import read_pairs
from clearhead.recipes.data import split_corpus

__all__ = ["Text", "TextLimits", "bucket", "joined", "prepare"]

Pair = tuple[str, str]

PARTS = {"train": ("train",), "dev": ("val", "dev", "valid"), "test": ("test",)}
ENDINGS = ("", ".xz", ".gz", ".zst")
DEMO, RECORD = "home-assistant", "corpus.json"
JOINED = 5
"""Captions that are joined into one line of the long test set, at most."""


@dataclass(frozen=True)
class TextLimits:
    """How much of the corpus is used (0: all), the words of a side, and how many lines join each number of them."""

    train: int
    dev: int
    test: int
    joined: int
    least_words: int = 1
    most_words: int = 60


@dataclass(frozen=True)
class Text:
    """The text in DIR/corpus, written once and then the same for all models.

    `test` and `long` have each a .src and a .tgt, as the other two parts have.
    """

    directory: Path
    name: str
    languages: tuple[str, str]
    pairs: dict[str, int]

    def files(self, part: str) -> tuple[Path, Path]:
        """Source and target of train, dev, test or long."""
        return self.directory / f"{part}.src", self.directory / f"{part}.tgt"

    def read(self, part: str) -> tuple[list[str], list[str]]:
        """Both sides of a part."""
        source, target = self.files(part)
        return list(read_lines(source)), list(read_lines(target))


def prepare(out: Path, corpus: Path | None, languages: tuple[str, str], limits: TextLimits) -> Text:
    """Write `out`/corpus, or find it as it was written for the same corpus and limits.

    Raises InputError for a corpus without one of its parts and for a directory that holds another comparison's text,
    DataError when a part has no pair left.
    """
    directory = out / "corpus"
    directory.mkdir(parents=True, exist_ok=True)
    found = _demo(directory, languages) if corpus is None else _found(corpus, languages)
    asked = {
        "corpus": DEMO if corpus is None else corpus.resolve().name,
        "languages": list(languages),
        "limits": asdict(limits),
        "files": {str(path.name): sha256_file(path) for files in found.values() for path in files},
    }
    record = directory / RECORD
    if record.is_file():
        before = json.loads(record.read_text("utf-8"))
        if changed := [key for key in asked if before.get(key) != asked[key]]:
            raise InputError(
                f"{out}: was begun with another {' and '.join(changed)} of the text ({record}); "
                "give the same again, or compare into another directory (--out)"
            )
        return Text(directory, before["corpus"], languages, before["pairs"])
    counts = {}
    for part, files in found.items():
        kept = list(_kept(files, limits, part))
        if not kept:
            raise DataError(f"{files[0]}: no pair of {limits.least_words} to {limits.most_words} words a side is left")
        counts[part] = _write(directory, part, kept)
        if part == "test":
            counts["long"] = _write(directory, "long", joined(kept, limits.joined))
    atomic_write(record, json.dumps(asked | {"pairs": counts}, ensure_ascii=False, indent=1) + "\n")
    return Text(directory, str(asked["corpus"]), languages, counts)


def joined(pairs: list[Pair], most: int) -> list[Pair]:
    """Neighbouring pairs put together 1, 2, … 5 at a time, at most `most` lines of each number.

    Lines of k take the corpus from its beginning, each pair at most once for every k.

    >>> joined([("a", "A"), ("b", "B"), ("c", "C")], 2)
    [('a', 'A'), ('b', 'B'), ('a b', 'A B'), ('a b c', 'A B C')]
    """
    lines = []
    for number in range(1, JOINED + 1):
        groups = [pairs[at : at + number] for at in range(0, len(pairs) - number + 1, number)]
        lines += [(" ".join(a for a, _ in group), " ".join(b for _, b in group)) for group in groups[:most]]
    return lines


def bucket(sources: list[str], edges: tuple[int, ...]) -> list[tuple[int, int | None, list[int]]]:
    """(least words, most words, line numbers from 0) for each bucket that ends at an edge, and one beyond the last.

    >>> bucket(["one", "one two", "one two three"], (1, 2))
    [(1, 1, [0]), (2, 2, [1]), (3, None, [2])]
    """
    lengths = [len(text.split()) for text in sources]
    lows = (1, *(edge + 1 for edge in edges))
    highs = (*edges, None)
    return [
        (low, high, [n for n, words in enumerate(lengths) if low <= words and (high is None or words <= high)])
        for low, high in zip(lows, highs, strict=True)
    ]


def _found(corpus: Path, languages: tuple[str, str]) -> dict[str, tuple[Path, Path]]:
    """The files of each part. Several test sets: the first by name."""
    if not corpus.is_dir():
        raise InputError(f"--corpus {corpus}: not a directory")
    found = {}
    for part, names in PARTS.items():
        sides = [
            path
            for name in names
            for path in sorted(corpus.glob(f"{name}*"))
            if any(path.name.endswith(f".{languages[0]}{ending}") for ending in ENDINGS)
        ]
        pairs = [(path, other) for path in sides if (other := _beside(path, languages)) is not None]
        if not pairs:
            raise InputError(
                f"--corpus {corpus}: no {' or '.join(names)}*.{languages[0]} with a .{languages[1]} beside it "
                f"(plain, or ending in .xz, .gz or .zst); are the languages right (--languages)?"
            )
        found[part] = pairs[0]
    return found


def _beside(path: Path, languages: tuple[str, str]) -> Path | None:
    stem = next(
        path.name.removesuffix(ending).removesuffix(f".{languages[0]}")
        for ending in ENDINGS
        if path.name.endswith(f".{languages[0]}{ending}")
    )
    others = (path.with_name(f"{stem}.{languages[1]}{ending}") for ending in ENDINGS)
    return next((other for other in others if other.is_file()), None)


def _demo(directory: Path, languages: tuple[str, str]) -> dict[str, tuple[Path, Path]]:
    """The demo's corpus, fetched and split beside the text that is taken from it."""
    pair, place = "-".join(languages), directory / "demo"
    if not (place / "provenance.json").is_file():
        get_corpus(DEMO, pair, place)
    if not (place / "split" / "split.json").is_file():
        files = [place / f"corpus.{code}" for code in languages]
        split_corpus(files, place / "split", dev=2000, test=3000, seed=1)
    source, target = languages
    return {part: (place / "split" / f"{part}.{source}", place / "split" / f"{part}.{target}") for part in PARTS}


def _kept(files: tuple[Path, Path], limits: TextLimits, part: str) -> Iterator[Pair]:
    def fits(pair: Pair) -> bool:
        return all(limits.least_words <= len(text.split()) <= limits.most_words for text in pair)

    most = {"train": limits.train, "dev": limits.dev, "test": limits.test}[part]
    return islice((pair for pair in read_pairs(*files) if fits(pair)), most or None)


def _write(directory: Path, part: str, pairs: list[Pair]) -> int:
    for side, ending in enumerate(("src", "tgt")):
        with write_lines(directory / f"{part}.{ending}") as write:
            for pair in pairs:
                write(pair[side])
    logger.info("%s: %s pairs", directory / part, f"{len(pairs):,}")
    return len(pairs)
