r"""Text files of one sentence a line, plain or compressed, read and written as a stream.

The contract: a line ends at ``\n`` and nowhere else. U+2028, U+0085, form feed, vertical tab, NUL and a lone
carriage return are characters like others. A byte order mark at the start of the file is dropped, and so is one
carriage return at the end of a line (CRLF files). The last line may lack its ``\n``; an empty file has no lines.
Text is UTF-8; anything else is refused with file and line. Memory does not grow with the file, only with its
longest line.

``-`` stands for standard input or output, always as plain bytes. Names that end in .gz, .xz or .zst are
decompressed (members and frames in a row count as one file) and compressed; a cut archive is an error, never an end.
"""

import contextlib
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import zstandard

from clearhead.base.errors import DataError
from clearhead.base.files import atomic_stream

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "count_lines",
    "display_name",
    "gives_itself_once",
    "is_standard_stream",
    "open_bytes",
    "read_lines",
    "write_lines",
]

_READ_SIZE = 1 << 16
_BOM = b"\xef\xbb\xbf"
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


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
    _check_exists(path)
    return _decoded(path)


def gives_itself_once(path: str | Path) -> bool:
    """Whether reading `path` uses it up: a standard stream, or a pipe with a name (`/dev/stdin`, `<(…)`, a FIFO)."""
    return is_standard_stream(path) or (Path(path).exists() and not Path(path).is_file())


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
    if is_standard_stream(path):
        if sys.stdout is None:
            raise DataError("standard output is closed; name an output file")
        sys.stdout.flush()
        yield _writer(cast(BinaryIO, sys.stdout.buffer), "standard output", flush=True)
        return
    with atomic_stream(path) as file, _compressed(file, path) as stream:
        yield _writer(stream, str(path), flush=False)


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


def _check_exists(path: str | Path) -> None:
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
            raise DataError(_not_utf8(path, number, raw, error)) from None
        yield text


def _raw_lines(path: str | Path) -> Iterator[bytes]:
    """The bytes of each line, its end and the file's byte order mark taken off."""
    number = 0
    stream = open_bytes(path)
    try:
        with contextlib.nullcontext() if is_standard_stream(path) else stream:
            for raw in stream:
                number += 1
                line = raw.removeprefix(_BOM) if number == 1 else raw
                if line:  # a file of nothing but a byte order mark has no line
                    yield line.removesuffix(b"\n").removesuffix(b"\r")
    except _DAMAGE as error:
        raise DataError(
            f"{display_name(path)}: damaged or cut short after line {number} ({error}); get the file again"
        ) from None
    except OSError as error:
        raise DataError(f"{display_name(path)}: cannot be read: {error.strerror or error}") from None


def _not_utf8(path: str | Path, number: int, raw: bytes, error: UnicodeDecodeError) -> str:
    if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        found = "the file is UTF-16"
    else:
        found = f"byte 0x{raw[error.start]:02x} at position {error.start + 1} is not UTF-8"
    return f"{display_name(path)}, line {number}: {found}; convert the file to UTF-8 (iconv -f … -t UTF-8)"


def open_bytes(path: str | Path) -> BinaryIO:
    """The bytes of a file, decompressed by its suffix, or of standard input (which is not to be closed).

    Iterating gives pieces that end at line feeds, still with their ends. Raises DataError when it cannot be opened;
    reading raises EOFError, or the error of zlib, lzma or zstandard, where an archive is cut or damaged.
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
    make = _DECOMPRESSORS.get(Path(path).suffix.lower())
    return file if make is None else cast(BinaryIO, io.BufferedReader(_Decompressed(file, make), _READ_SIZE))


# ------------------------------------------------------------------------------------------------------ compression


class _Decompressor(Protocol):
    """What the decompressor objects of zlib, lzma and zstandard share; each reads one member or frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),  # 31: a gzip header and its checksum
    ".xz": lzma.LZMADecompressor,
    ".zst": lambda: zstandard.ZstdDecompressor().decompressobj(),
}


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of an archive. Unlike the libraries' own readers it never takes a cut for the end.

    gzip's reader gives an empty file for an empty archive, lzma's stops silently before a damaged second stream,
    and zstandard's stops silently wherever the bytes stop.
    """

    # What bounds memory: a chunk expands at most a thousandfold (gzip) to some thirty thousandfold (xz, zstd).
    _CHUNK = 1024

    def __init__(self, file: BinaryIO, make: Callable[[], _Decompressor]) -> None:
        self._file, self._make = file, make
        self._decompressor = make()
        self._started = False  # whether the present member has been given a byte
        self._members = 0
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill the buffer with the next bytes; 0 at the end of the last whole member."""
        while not self._output:
            if not self._input:
                self._input = self._file.read(self._CHUNK)
                if not self._input:
                    if self._started or not self._members:
                        raise EOFError("the archive ends in the middle")
                    return 0
            self._output = memoryview(self._advance())
        view = memoryview(buffer)
        size = min(len(view), len(self._output))
        view[:size] = self._output[:size]
        self._output = self._output[size:]
        return size

    def _advance(self) -> bytes:
        if not self._started and self._members:
            self._input = self._input.lstrip(b"\0")  # padding between and after members is allowed
            if not self._input:
                return b""
        self._started = True
        output, self._input = self._decompressor.decompress(self._input), b""
        if self._decompressor.eof:
            self._input = self._decompressor.unused_data
            self._decompressor, self._started = self._make(), False
            self._members += 1
        return output

    def close(self) -> None:
        """Close the archive's file too."""
        self._file.close()
        super().close()


@contextlib.contextmanager
def _compressed(file: BinaryIO, path: str | Path) -> Iterator[BinaryIO]:
    """A stream that compresses into `file` as the name says; the archive is complete when the block ends.

    The same text gives the same bytes: no name and no time is written.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            yield cast(BinaryIO, packed)
    elif suffix == ".xz":
        with lzma.LZMAFile(file, "wb") as packed_xz:
            yield cast(BinaryIO, packed_xz)
    elif suffix == ".zst":
        with zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as packed_zst:
            yield cast(BinaryIO, packed_zst)
    else:
        yield file
