"""One door to every corpus: pairs out of any format and into any format, told by the names of the files.

    .tsv .tab       columns of tab-separated text          .po          gettext
    .jsonl .ndjson  fields of JSON objects, one a line     .tmx         translation memory
    two files       aligned, a line a text                 .xlf .xliff  XLIFF

The suffix of an archive (.gz, .xz, .zst) comes after these. One file with another suffix is read as tab-separated text.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from clearhead.base.errors import DataError, InputError
from clearhead.formats.archives import ARCHIVE_SUFFIXES
from clearhead.formats.document import Piece, State, slots
from clearhead.formats.lines import goes_to_standard_output, is_standard_stream, write_lines
from clearhead.formats.pairs import read_pairs, read_tsv

__all__ = ["Corpus", "Entry", "Format", "open_corpus", "output_format", "write_corpus"]

Format = Literal["plain", "tsv", "jsonl", "po", "tmx", "xliff"]

SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".po": "po",
    ".tmx": "tmx",
    ".xlf": "xliff",
    ".xliff": "xliff",
}


class Entry(NamedTuple):
    """One text and its translation: how messages name it ("line 12"), both sides, and how the translation stands."""

    where: str
    source: str
    target: str
    state: State


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus on disk. Its methods read from the start, each time that they are called.

    Attributes:
        files: source and target file, or the one that holds both.
        format: what they are.
        languages: codes of source and target; None where the format does not need them.
        columns: of TSV, counted from 1.
        fields: of JSONL.
    """

    files: tuple[Path, ...]
    format: Format
    languages: tuple[str, str] | None
    columns: tuple[int, int]
    fields: tuple[str, str]

    @property
    def name(self) -> str:
        """How messages call it."""
        return " + ".join("standard input" if is_standard_stream(path) else str(path) for path in self.files)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The pairs to be trained on, in order, as a stream.

        Of lines, TSV and JSONL these are all records, so that their numbers are those of the file; of JSONL not those
        that need review. Of PO, TMX and XLIFF they are the translations that stand: neither empty nor in need of
        review nor closed. Raises DataError naming file and line for what the format does not allow.
        """
        if self.format == "plain":
            return read_pairs(*self.files)
        if self.format == "tsv":
            return read_tsv(self.files[0], self.columns)
        return ((entry.source, entry.target) for entry in self.placed_pairs())

    def placed_pairs(self) -> Iterator[Entry]:
        """What `pairs` gives, as entries that know where they stand."""
        wanted: tuple[State, ...] = ("translated",)
        if self.format in ("plain", "tsv", "jsonl"):
            wanted = ("translated", "empty", "closed")
        return (entry for entry in self.states() if entry.state in wanted)

    def entries(self) -> Iterator[tuple[str, str, str]]:
        """(where, source, target) of every entry that is not closed, those without a target or to be reviewed too."""
        return ((entry.where, entry.source, entry.target) for entry in self.states() if entry.state != "closed")

    def states(self) -> Iterator[Entry]:
        """Every entry with its state, closed ones (obsolete, translate="no") too, but not the header of a PO file.

        A text of nothing but white space is no translation. A line of aligned files or TSV is never closed. An entry
        with plural forms gives one `Entry` a form.
        """
        if self.format in ("plain", "tsv"):
            lines = read_pairs(*self.files) if self.format == "plain" else read_tsv(self.files[0], self.columns)
            for number, (source, target) in enumerate(lines, 1):
                yield Entry(f"line {number}", source, target, "translated" if target.strip() else "empty")
            return
        for slot in slots(self._document()):
            if self.format == "po" and slot.state == "closed" and slot.source == ("",):
                continue  # the header
            for source, target in zip(slot.source, slot.target, strict=True):
                yield Entry(
                    slot.where, source, target, slot.state if target.strip() or slot.state == "closed" else "empty"
                )

    def _document(self) -> Iterator[Piece]:
        path = self.files[0]
        match self.format:
            case "jsonl":
                from clearhead.formats.jsonl import read_jsonl_document

                return read_jsonl_document(path, self.fields, target_needed=True)
            case "po":
                from clearhead.formats.po import read_po

                return read_po(path)
            case "tmx":
                from clearhead.formats.tmx import read_tmx

                return read_tmx(path, _two_languages(self.languages, path), codes="none")
            case "xliff":
                from clearhead.formats.xliff import read_xliff

                return read_xliff(path, self.languages, codes="none")
            case _:
                raise AssertionError(f"{self.format} has no document")


def open_corpus(
    files: Sequence[str | Path],
    languages: tuple[str, str] | None = None,
    *,
    format: Format | Literal["auto"] = "auto",
    columns: tuple[int, int] = (1, 2),
    fields: tuple[str, str] = ("source", "target"),
) -> Corpus:
    """The corpus in two aligned files or in one of any format; nothing is read yet.

    `languages` says which texts of a TMX file are meant (there it is needed), and is checked against an XLIFF file.
    Raises InputError when the files do not fit the format, or languages are missing.
    """
    paths = tuple(Path(path) for path in files)
    if len(paths) not in (1, 2):
        raise InputError(f"a corpus is two aligned files or one of another format; {len(paths)} files were given")
    found = _format_of(paths, format, "--from")
    if found == "tmx":
        _two_languages(languages, paths[0])
    return Corpus(paths, found, languages, columns, fields)


def output_format(
    files: Sequence[str | Path], format: Format | Literal["auto"] = "auto", *, option: str | None = "--to"
) -> Format:
    """What `write_corpus` would write into these files. Raises InputError when they do not fit the format.

    `option` is what the error tells a user to name the format with; None where the command has no such option.
    """
    paths = tuple(Path(path) for path in files)
    if len(paths) not in (1, 2):
        raise InputError(f"a corpus is written as one file or two aligned ones; {len(paths)} files were given")
    return _format_of(paths, format, option, writing=True)


@contextlib.contextmanager
def write_corpus(
    files: Sequence[str | Path],
    languages: tuple[str, str] | None = None,
    *,
    format: Format | Literal["auto"] = "auto",
    fields: tuple[str, str] = ("source", "target"),
) -> Iterator[Callable[[str, str], None]]:
    """A function that writes one pair; the files appear, whole, when the block ends without an exception.

    Two files are written as aligned lines, one as its suffix or `format` says. `languages` are needed for TMX, XLIFF
    and PO. Raises InputError when the files do not fit the format, and DataError naming file and entry for a text that
    the format cannot hold: a line break in plain lines or TSV, a control character in XML.
    """
    paths = tuple(Path(path) for path in files)
    found = output_format(paths, format)
    match found:
        case "plain":
            writer = _write_plain(paths)
        case "tsv":
            from clearhead.formats.tsv import write_tsv

            writer = write_tsv(paths[0])
        case "jsonl":
            from clearhead.formats.jsonl import write_jsonl

            writer = write_jsonl(paths[0], fields)
        case "po":
            from clearhead.formats.po import write_po

            writer = write_po(paths[0], _needed(languages, paths[0]))
        case "tmx":
            from clearhead.formats.tmx import write_tmx

            writer = write_tmx(paths[0], _two_languages(languages, paths[0]))
        case "xliff":
            from clearhead.formats.xliff import write_xliff

            writer = write_xliff(paths[0], _needed(languages, paths[0]))
    with writer as write:
        yield write


def _format_of(
    paths: tuple[Path, ...], asked: Format | Literal["auto"], option: str | None, *, writing: bool = False
) -> Format:
    """The format of a corpus in these files, as asked or as told by their names. Raises InputError if it cannot be."""
    if asked not in ("auto", *get_args(Format)):
        raise InputError(f"unknown format {asked!r}: use one of auto, {', '.join(get_args(Format))}")
    told = [_format_by_suffix(path) for path in paths]
    if len(paths) == 2:
        if asked not in ("auto", "plain"):
            raise InputError(f"{paths[0]} and {paths[1]}: two files are aligned lines; {asked} is one file")
        # A column of a TSV, cut out and kept under its name, is a file of lines; the others never are.
        wrong = [path for path, kind in zip(paths, told, strict=True) if kind not in (None, "tsv")]
        if asked == "auto" and wrong:
            raise InputError(
                f"{wrong[0]}: two files are aligned lines, but this name is that of a {_format_by_suffix(wrong[0])} "
                f"file; give it alone{f', or say {option} plain if it holds lines' if option else ''}"
            )
        return "plain"
    if asked == "plain":
        raise InputError(f"{paths[0]}: plain text is two aligned files; the second is missing")
    if asked != "auto":
        return asked
    if told[0] is None and writing and not is_standard_stream(paths[0]):
        raise InputError(
            f"{paths[0]}: its name does not tell the format; give it one of the suffixes {', '.join(SUFFIXES)}, "
            f"{f'say {option}, ' if option else ''}or name two files for aligned lines"
        )
    return told[0] or "tsv"


def _format_by_suffix(path: Path) -> Format | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in ARCHIVE_SUFFIXES:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def _needed(languages: tuple[str, str] | None, path: Path) -> tuple[str, str]:
    if languages is None:
        raise InputError(f"{path}: which languages? A file of this format names them: --languages en-de, source first")
    return languages


def _two_languages(languages: tuple[str, str] | None, path: Path) -> tuple[str, str]:
    """The languages of a TMX file, where nothing but its language tells a text from its translation."""
    source, target = _needed(languages, path)
    if source.replace("_", "-").lower() == target.replace("_", "-").lower():
        raise InputError(f"{path}: source and target are both {source!r}; TMX tells them apart by their languages")
    return source, target


@contextlib.contextmanager
def _write_plain(paths: tuple[Path, ...]) -> Iterator[Callable[[str, str], None]]:
    """Two aligned files; unlike `write_lines`, it refuses what would not read back as it was."""
    if paths[0].resolve() == paths[1].resolve() or all(map(goes_to_standard_output, paths)):
        raise InputError(f"{paths[0]}: source and target cannot be the same file")
    with write_lines(paths[0]) as write_source, write_lines(paths[1]) as write_target:
        number = 0

        def write(source: str, target: str) -> None:
            nonlocal number
            number += 1
            for path, text, write_line in zip(paths, (source, target), (write_source, write_target), strict=True):
                if text.endswith("\r"):
                    raise DataError(
                        f"{path}, line {number}: the text ends in a carriage return, which reads back as the end of a "
                        f"line: {text[-80:]!r}"
                    )
                if number == 1 and text.startswith("\ufeff"):
                    raise DataError(
                        f"{path}, line 1: the text starts with U+FEFF, which reads back as a byte order mark"
                    )
                write_line(text)

        yield write
