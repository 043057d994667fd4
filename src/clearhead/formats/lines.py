r"""Text files of one sentence a line, plain or compressed, read and written as a stream.

The contract: a line ends at ``\n`` and nowhere else. U+2028, U+0085, form feed, vertical tab, NUL and a lone
carriage return are characters like others. A byte order mark at the start of the file is dropped, and so is one
carriage return at the end of a line (CRLF files). The last line may lack its ``\n``; an empty file has no lines.
Text is UTF-8; anything else is refused with file and line. Memory does not grow with the file, only with its
longest line.

``-`` stands for standard input or output, always as plain bytes. Names that end in .gz, .xz or .zst are
decompressed and compressed (`formats/archives.py`); a cut archive is an error, never an end.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from clearhead.base.errors import DataError, InputError
from clearhead.base.files import atomic_stream
from clearhead.formats.archives import DAMAGE, compressed, decompressed

__all__ = [
    "BOM",
    "LONGEST_LINE",
    "check_apart",
    "check_exists",
    "count_lines",
    "display_name",
    "gives_itself_once",
    "goes_to_standard_output",
    "is_one_stream",
    "is_standard_stream",
    "not_utf8",
    "open_bytes",
    "open_output",
    "read_lines",
    "read_raw_lines",
    "write_lines",
]

BOM = b"\xef\xbb\xbf"

LONGEST_LINE = 16 << 20
"""Bytes that a line may have. What is longer is no text of one sentence a line, and would fill the memory."""


def is_standard_stream(path: str | Path) -> bool:
    """Whether a path is `-`, standard input or output."""
    return str(path) == "-"


def display_name(path: str | Path) -> str:
    """How messages name an input: its path, or "standard input"."""
    return "standard input" if is_standard_stream(path) else str(path)


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file, without their ends, one at a time. See the module for what a line is.

    Raises DataError for a file that cannot be opened, is damaged, or holds bytes that are not UTF-8 (file and line).
    A missing file is reported at once; it is opened when the first line is asked for and closed after the last.
    """
    check_exists(path)
    return _decoded(path)


def gives_itself_once(path: str | Path) -> bool:
    """Whether reading `path` uses it up: a standard stream, or a pipe with a name (`/dev/stdin`, `<(…)`, a FIFO)."""
    return is_standard_stream(path) or (Path(path).exists() and not Path(path).is_file())


def is_one_stream(first: str | Path, second: str | Path) -> bool:
    """Whether two names are those of one stream that gives itself once: `-` and `/dev/stdin`, or one pipe twice."""
    if not (gives_itself_once(first) and gives_itself_once(second)):
        return False
    places = [_identity(path, 0) for path in (first, second)]
    return places[0] is not None and places[0] == places[1]


def goes_to_standard_output(path: str | Path) -> bool:
    """Whether what is written to `path` ends where standard output does: `-`, or `/dev/stdout` and the like."""
    place = _identity(path, 1)
    return is_standard_stream(path) or (place is not None and place == _identity("-", 1))


def _identity(path: str | Path, standard: int) -> tuple[int, int] | None:
    """Device and inode of a file, or of the standard stream of that number for `-`; None for what is not there."""
    try:
        status = os.fstat(standard) if is_standard_stream(path) else os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def count_lines(path: str | Path) -> int:
    """The number of lines `read_lines` would give, found without decoding. Raises DataError like it."""
    return sum(1 for _ in _raw_lines(path))


@contextlib.contextmanager
def write_lines(path: str | Path) -> Iterator[Callable[[str], None]]:
    r"""A function that writes one text a line; the file appears, whole, when the block ends without an exception.

    Raises DataError for a text that holds a ``\n`` (it would be two lines) or a lone surrogate (it is no UTF-8).
    Standard output is flushed after every line, so that a program at the other end of the pipe can answer; when
    that end is closed, BrokenPipeError passes through, and the command line ends quietly.
    Texts are written as they are. Two of them read back otherwise by the contract above: one that ends in ``\r``
    loses that character, and a U+FEFF that opens the file is taken for a byte order mark.
    """
    with open_output(path) as stream:
        name = "standard output" if is_standard_stream(path) else str(path)
        yield _writer(stream, name, flush=is_standard_stream(path))


@contextlib.contextmanager
def open_output(path: str | Path) -> Iterator[BinaryIO]:
    """A stream for the bytes of a file that appears, whole and compressed by its suffix, when the block ends without
    an exception; or standard output, as plain bytes. Raises DataError when that is closed.
    """
    if is_standard_stream(path):
        if sys.stdout is None:
            raise DataError("standard output is closed; name an output file")
        sys.stdout.flush()
        yield cast(BinaryIO, sys.stdout.buffer)
        return
    with atomic_stream(path) as file, compressed(file, path) as stream:
        yield stream


def _writer(stream: BinaryIO, name: str, *, flush: bool) -> Callable[[str], None]:
    number = 0

    def write(text: str) -> None:
        nonlocal number
        number += 1
        if "\n" in text:
            raise DataError(f"{name}, line {number}: the text holds a line break and cannot be one line: {text[:80]!r}")
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(
                f"{name}, line {number}: character {error.start + 1} is a lone surrogate "
                f"(U+{ord(text[error.start]):04X}), which UTF-8 cannot hold"
            ) from None
        stream.write(data + b"\n")
        if flush:
            stream.flush()

    return write


def check_apart(read: Sequence[str | Path], written: Sequence[str | Path], options: str) -> None:
    """Raise InputError if a file would be written that is read, or one written twice; `options` name those written."""
    files = [Path(path) for path in read if not is_standard_stream(path)]
    taken = {path.resolve(): "is to be read and would be replaced" for path in files}
    for path in written:
        place = Path("-") if is_standard_stream(path) else Path(path).resolve()
        if place in taken:
            raise InputError(f"{path}: {taken[place]}; name another file with {options}")
        taken[place] = "would be written twice"


def check_exists(path: str | Path) -> None:
    """Raise DataError for a file that is not there, before anything is read; `-` always is."""
    try:
        if not is_standard_stream(path):
            os.stat(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _decoded(path: str | Path) -> Iterator[str]:
    for number, raw in enumerate(_raw_lines(path), 1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(path, number, raw, error) from None
        yield text


def _raw_lines(path: str | Path) -> Iterator[bytes]:
    """The bytes of each line, its end and the file's byte order mark taken off."""
    for number, raw in enumerate(read_raw_lines(path), 1):
        line = raw.removeprefix(BOM) if number == 1 else raw
        if line:  # a file of nothing but a byte order mark has no line
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def read_raw_lines(path: str | Path) -> Iterator[bytes]:
    """The pieces of a file that end at line feeds, as they are: joined they are the (decompressed) file.

    Raises DataError for a file that cannot be opened or is damaged, and for a line of more than `LONGEST_LINE` bytes.
    """
    number = 0
    stream = open_bytes(path)
    try:
        with contextlib.nullcontext() if is_standard_stream(path) else stream:
            while raw := stream.readline(LONGEST_LINE):
                number += 1
                if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                    raise DataError(
                        f"{display_name(path)}, line {number}: more than {LONGEST_LINE >> 20} MiB without a line feed; "
                        f"is this a file of one sentence a line?"
                    )
                yield raw
    except DAMAGE as error:
        raise DataError(
            f"{display_name(path)}: damaged or cut short after line {number} ({error}); get the file again"
        ) from None
    except OSError as error:
        raise DataError(f"{display_name(path)}: cannot be read: {error.strerror or error}") from None


def not_utf8(path: str | Path, number: int, raw: bytes, error: UnicodeDecodeError) -> DataError:
    """The error for a line that is not UTF-8, the first of a file being number 1."""
    if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        found = "the file is UTF-16"
    else:
        found = f"byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8"
    return DataError(f"{display_name(path)}, line {number}: {found}; convert the file to UTF-8 (iconv -f … -t UTF-8)")


def open_bytes(path: str | Path) -> BinaryIO:
    """The bytes of a file, decompressed by its suffix, or of standard input (which is not to be closed).

    Iterating gives pieces that end at line feeds, still with their ends. Raises DataError when it cannot be opened;
    reading raises one of `archives.DAMAGE` where an archive is cut or damaged, and DataError where it is a bomb.
    """
    if is_standard_stream(path):
        if sys.stdin is None:
            raise DataError("standard input is closed; name an input file")
        return cast(BinaryIO, sys.stdin.buffer)
    try:
        # Never in text mode: its universal newlines end a line at a lone carriage return.
        file = open(path, "rb")  # noqa: SIM115 (closed by _raw_lines)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    return decompressed(file, path)
