r"""Tab-separated text as a document whose other columns stay as they are, and as a file to be written.

There are no quoting rules and no escapes: a line is a record, a tab ends a column, and so no text with a tab or a line
feed can stand in one. What a line is says `formats/lines.py`. A column has no room for a mark, so that a translation
filled in here cannot be told from one that somebody has read.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from clearhead.base.errors import DataError, InputError
from clearhead.formats.document import Piece, Slot, State
from clearhead.formats.lines import BOM, display_name, is_standard_stream, not_utf8, read_raw_lines, write_lines

__all__ = ["read_tsv_document", "write_tsv"]


def read_tsv_document(path: str | Path, columns: tuple[int, int] = (1, 2)) -> Iterator[Piece]:
    """Each line as a slot; `columns` names the source and the target column, counted from 1.

    A target column that is not there, or holds white space alone, is empty; filling it adds what columns are missing. A
    line without a text on either side is closed. Raises InputError for columns that are none or the same, and DataError
    naming file and line for a line without a source column or with bytes that are not UTF-8.
    """
    if min(columns) < 1:
        raise InputError(f"{display_name(path)}: columns are counted from 1, got {columns[0]} and {columns[1]}")
    if columns[0] == columns[1]:
        raise InputError(f"{display_name(path)}: source and target cannot both be column {columns[0]}")
    return _lines(path, columns)


def _lines(path: str | Path, columns: tuple[int, int]) -> Iterator[Piece]:
    source_column, target_column = columns[0] - 1, columns[1] - 1
    for number, line in enumerate(read_raw_lines(path), 1):
        raw = line.removeprefix(BOM) if number == 1 else line
        if len(raw) < len(line):
            yield BOM
        if not raw:  # a file of nothing but a byte order mark has no line
            return
        body = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            fields = body.decode("utf-8").split("\t")
        except UnicodeDecodeError as error:
            raise not_utf8(path, number, raw, error) from None
        if len(fields) <= source_column:
            raise DataError(
                f"{display_name(path)}, line {number}: {len(fields)} column{'s' * (len(fields) != 1)}, so no column "
                f"{columns[0]} with a source; columns are separated by tabs: {body[:80].decode(errors='replace')!r}"
            )
        source = fields[source_column]
        target = fields[target_column] if target_column < len(fields) else ""
        state: State = "translated" if target.strip() else "empty" if source.strip() else "closed"
        fill = partial(_filled, f"{display_name(path)}, line {number}", raw, target_column)
        yield Slot(f"line {number}", (source,), (target,), state, raw, fill)


def _filled(where: str, raw: bytes, column: int, texts: Sequence[str]) -> bytes:
    """The line with the one text in its target column, the first column being number 0."""
    (text,) = texts
    data = _encoded(text, where)
    body = raw.removesuffix(b"\n").removesuffix(b"\r")
    fields = body.split(b"\t")  # in UTF-8 the byte of a tab is never part of another character
    fields += [b""] * (column + 1 - len(fields))
    fields[column] = data
    return b"\t".join(fields) + raw[len(body) :]


def _encoded(text: str, where: str) -> bytes:
    for character, name in (("\t", "a tab"), ("\n", "a line break")):
        if character in text:
            raise DataError(f"{where}: the text holds {name}, which a column cannot: {text[:80]!r}")
    if text.endswith("\r"):
        raise DataError(f"{where}: the text ends in a carriage return, which reads back as the end of a line: {text!r}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: character {error.start + 1} is a lone surrogate (U+{ord(text[error.start]):04X}), which UTF-8 "
            f"cannot hold"
        ) from None


@contextlib.contextmanager
def write_tsv(path: str | Path) -> Iterator[Callable[[str, str], None]]:
    """A function that writes one pair a line, source first; the file appears, whole, when the block ends.

    Raises DataError naming the line for a text that would not read back: with a tab, a line break, a carriage return at
    its end or (in the first source) a byte order mark at its start.
    """
    name = "standard output" if is_standard_stream(path) else str(path)
    with write_lines(path) as write_line:
        number = 0

        def write(source: str, target: str) -> None:
            nonlocal number
            number += 1
            where = f"{name}, line {number}"
            for text in (source, target):
                _encoded(text, where)
            if number == 1 and source.startswith("\ufeff"):
                raise DataError(f"{where}: the first text starts with U+FEFF, which reads back as a byte order mark")
            write_line(f"{source}\t{target}")

        yield write
