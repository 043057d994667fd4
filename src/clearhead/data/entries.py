"""The entries of a corpus for those who look for faults: in any format, and past what readers refuse."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from clearhead.base.errors import DataError, InputError
from clearhead.data.filescan import FileFacts, Sightings, scan_lines
from clearhead.formats.corpus import Corpus, Entry, Format, open_corpus
from clearhead.formats.lines import check_exists, gives_itself_once, read_lines
from clearhead.text.languages import is_known, parse_pair

__all__ = [
    "BY_NAME",
    "Layout",
    "Reading",
    "chunks",
    "entries_to_check",
    "held_out_texts",
    "languages_of",
    "open_rereadable",
]

CHUNK_PAIRS = 2000
CHUNK_CHARACTERS = 500_000


class Layout(NamedTuple):
    """Where the texts of a file stand: its format, if its name does not tell; columns of TSV, from 1; JSONL fields."""

    format: Format | Literal["auto"] = "auto"
    columns: tuple[int, int] = (1, 2)
    fields: tuple[str, str] = ("source", "target")


BY_NAME = Layout()
"""The format is told by the name, and the texts stand where they usually do."""


@dataclass
class Reading:
    """What one reading of a corpus told about its files; filled while `entries` is consumed."""

    corpus: Corpus
    files: list[FileFacts] = field(default_factory=list)
    no_tab: Sightings = field(default_factory=Sightings)
    damage: str = ""

    def entries(self) -> Iterator[Entry]:
        """The entries to be checked, in order.

        Of lines and TSV each line, as far as both files go; of a line without its columns what is missing is empty,
        bytes that are not UTF-8 become U+FFFD. Of other formats all that are not closed; the first fault of the file
        ends them and is told in `damage`.
        """
        match self.corpus.format:
            case "plain":
                yield from self._aligned()
            case "tsv":
                yield from self._columns()
            case _:
                try:
                    yield from entries_to_check(self.corpus)
                except DataError as error:
                    self.damage = str(error)

    def _aligned(self) -> Iterator[Entry]:
        self.files = [FileFacts(str(path)) for path in self.corpus.files]
        scans = (scan_lines(path, facts) for path, facts in zip(self.corpus.files, self.files, strict=True))
        for number, (source, target) in enumerate(zip_longest(*scans), 1):
            if source is not None and target is not None:
                yield Entry(f"line {number}", source, target, "translated")

    def _columns(self) -> Iterator[Entry]:
        self.files = [FileFacts(str(self.corpus.files[0]))]
        for number, line in enumerate(scan_lines(self.corpus.files[0], self.files[0]), 1):
            fields = line.split("\t")
            if len(fields) < max(self.corpus.columns):
                self.no_tab.add(number)
            source, target = (fields[place - 1] if place <= len(fields) else "" for place in self.corpus.columns)
            yield Entry(f"line {number}", source, target, "translated")


def entries_to_check(corpus: Corpus) -> Iterator[Entry]:
    """All entries but closed ones (obsolete, not to be translated), as strictly as training reads them.

    In JSONL nothing can be closed but a record without any text, which training reads and drops.
    """
    return (entry for entry in corpus.states() if entry.state != "closed" or corpus.format == "jsonl")


def chunks(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Some entries at a time, bounded in number and in characters."""
    chunk: list[Entry] = []
    characters = 0
    for entry in entries:
        chunk.append(entry)
        characters += len(entry.source) + len(entry.target)
        if len(chunk) == CHUNK_PAIRS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def open_rereadable(files: Sequence[str | Path], languages: tuple[str, str] | None, layout: Layout = BY_NAME) -> Corpus:
    """The corpus in these files, which can be read twice. Raises InputError or DataError if not."""
    corpus = open_corpus(files, languages, format=layout.format, columns=layout.columns, fields=layout.fields)
    for path in corpus.files:
        if path.is_dir():
            raise InputError(f"{path} is a directory: name the files in it")
    if any(gives_itself_once(path) for path in corpus.files):
        raise InputError("the corpus is read twice, which standard input ('-') or a pipe cannot be: name files")
    for path in corpus.files:
        check_exists(path)
    return corpus


def languages_of(files: Sequence[str | Path]) -> tuple[str, str] | None:
    """The languages that the names of two files end in ("all.en", "all.de.gz"), if they do."""
    if len(files) != 2:
        return None
    codes = []
    for path in files:
        parts = Path(path).name.split(".")[1:]
        codes.append(next((part for part in reversed(parts) if part.lower() not in ("gz", "xz", "zst")), ""))
    try:
        first, second = parse_pair(codes)
        return (first, second) if first != second and is_known(first) and is_known(second) else None
    except InputError:
        return None


def held_out_texts(path: str | Path, languages: tuple[str, str] | None, layout: Layout = BY_NAME) -> Iterator[str]:
    """The texts of a held-out file: its lines, the source column of a TSV, the sources of another format.

    Raises DataError, naming the file, for one that training would refuse: what was not read was not compared.
    """
    alone = open_corpus([path], languages, fields=layout.fields)
    column = layout.columns[0] - 1
    if alone.format == "tsv":
        is_tsv = any(suffix.lower() in (".tsv", ".tab") for suffix in Path(path).suffixes[-2:])
        for line in read_lines(path):
            yield (line.split("\t")[column:] or [""])[0] if is_tsv else line
    else:
        yield from (entry.source for entry in entries_to_check(alone))
