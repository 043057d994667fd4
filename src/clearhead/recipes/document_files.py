"""Documents by format: how one is told by its name, opened, and gone through before it is translated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

from clearhead.base.errors import DataError, InputError
from clearhead.formats.archives import ARCHIVE_SUFFIXES
from clearhead.formats.corpus import SUFFIXES
from clearhead.formats.document import Piece, Slot, State
from clearhead.formats.lines import display_name

__all__ = ["STATES", "DocumentFormat", "Fill", "count_slots", "document_format", "open_document"]

DocumentFormat = Literal["tsv", "jsonl", "xliff", "tmx", "po"]
Fill = Literal["empty", "review", "all"]
"""Which slots are filled: those without a translation; those that need review, too; or all that are not closed."""

STATES: dict[Fill, frozenset[State]] = {
    "empty": frozenset({"empty"}),
    "review": frozenset({"empty", "review"}),
    "all": frozenset({"empty", "review", "translated"}),
}
"""The states of the slots that are filled."""

_PO_LANGUAGE = re.compile(r"^Language:[ \t]*([A-Za-z]{2,8})", re.MULTILINE | re.IGNORECASE)


def document_format(path: str | Path) -> DocumentFormat | None:
    """The format that the name of a file tells; None for lines of text, and for standard input."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in ARCHIVE_SUFFIXES:
        suffixes.pop()
    if not suffixes:
        return None
    found = "po" if suffixes[-1] == ".pot" else SUFFIXES.get(suffixes[-1])
    return None if found == "plain" else found


def open_document(
    path: str | Path,
    format: DocumentFormat,
    languages: tuple[str, str],
    *,
    columns: tuple[int, int] = (1, 2),
    fields: tuple[str, str] = ("source", "target"),
    any_languages: bool = False,
) -> Iterator[Piece]:
    """The bytes and slots of a document. With `any_languages` it may be in others than `languages`.

    Raises DataError naming file and line for what is none, and for one in other languages. TSV and JSONL do not say.
    """
    match format:
        case "tsv":
            from clearhead.formats.tsv import read_tsv_document

            return read_tsv_document(path, columns)
        case "jsonl":
            from clearhead.formats.jsonl import read_jsonl_document

            return read_jsonl_document(path, fields)
        case "xliff":
            from clearhead.formats.xliff import read_xliff

            return read_xliff(path, None if any_languages else languages)
        case "tmx":
            from clearhead.formats.tmx import read_tmx

            return read_tmx(path, languages)
        case "po":
            from clearhead.formats.po import read_po

            pieces = read_po(path)
            return pieces if any_languages else _checked_po(pieces, display_name(path), languages[1])
        case _:
            raise InputError(f"unknown format {format!r}: use one of {', '.join(get_args(DocumentFormat))}")


def count_slots(pieces: Iterable[Piece], fill: Fill = "empty") -> int:
    """How many slots of a document would be filled, having read it to the end.

    Raises DataError for what is wrong with it, and where its file allows no translation at all (XLIFF 2 without a
    target language).
    """
    count = 0
    for piece in pieces:
        if isinstance(piece, Slot) and piece.state in STATES[fill]:
            if not count:
                piece.fill(piece.source)  # its own tags are right: what is refused now will be refused of all
            count += 1
    return count


def _checked_po(pieces: Iterable[Piece], name: str, language: str) -> Iterator[Piece]:
    """The pieces, after a look at the language that the header names."""
    for piece in pieces:
        if isinstance(piece, Slot) and piece.state == "closed" and piece.source == ("",):
            found = _PO_LANGUAGE.search(piece.target[0])
            if found is not None and found[1].lower() != language.replace("_", "-").split("-")[0].lower():
                raise DataError(
                    f"{name}, {piece.where}: the header says Language: {found[1]}, but the model translates into "
                    f"{language}; choose another model, mend the header, or say --any-languages"
                )
        yield piece
