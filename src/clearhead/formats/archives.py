"""Compressed bytes as a stream, in both directions: gzip, xz and zstd, told by the name of the file.

Members and frames in a row count as one file. Three things that the libraries' own readers let pass are errors here:
an archive that is cut short (gzip gives an empty file for an empty archive, lzma stops silently before a damaged
second stream, zstandard stops silently wherever the bytes stop); one that unpacks to more than `MOST_TIMES` its own
size, which no text does; and one that asks for more than `MOST_MEMORY` to be unpacked in.
"""

import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import zstandard

from clearhead.base.errors import DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["ARCHIVE_SUFFIXES", "DAMAGE", "FREE_BYTES", "MOST_MEMORY", "MOST_TIMES", "compressed", "decompressed"]

DAMAGE = (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
"""What reading an archive that is cut or damaged raises."""

MOST_TIMES = 200
"""How many times its size an archive may unpack to. Text shrinks to a fourth, logs and generated text to a fiftieth."""

FREE_BYTES = 4 << 20
"""Unpacked bytes before `MOST_TIMES` counts: a small file of blank lines or repeated ones is no attack."""

MOST_MEMORY = 128 << 20
"""Bytes that unpacking may take for itself: enough for `xz -9` (65 MiB) and `zstd --long` (128 MiB)."""

_READ_SIZE = 1 << 16


def decompressed(file: BinaryIO, path: str | Path) -> BinaryIO:
    """The bytes in `file`, decompressed if the name of `path` says that they are compressed; closing it closes `file`.

    Reading raises one of `DAMAGE` where the archive is cut or damaged, and DataError where it would take too much room.
    """
    make = _DECOMPRESSORS.get(Path(path).suffix.lower())
    return file if make is None else cast(BinaryIO, io.BufferedReader(_Decompressed(file, path, make), _READ_SIZE))


@contextlib.contextmanager
def compressed(file: BinaryIO, path: str | Path) -> Iterator[BinaryIO]:
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


class _Decompressor(Protocol):
    """What the decompressor objects of zlib, lzma and zstandard share; each reads one member or frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    ".gz": lambda: zlib.decompressobj(wbits=31),  # 31: a gzip header and its checksum
    ".xz": lambda: lzma.LZMADecompressor(memlimit=MOST_MEMORY),
    ".zst": lambda: zstandard.ZstdDecompressor(max_window_size=MOST_MEMORY).decompressobj(),
}
ARCHIVE_SUFFIXES = frozenset(_DECOMPRESSORS)
"""The last part of the name of a compressed file."""


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of an archive."""

    # What bounds memory: a chunk expands at most a thousandfold (gzip) to some thirty thousandfold (xz, zstd).
    _CHUNK = 1024

    def __init__(self, file: BinaryIO, path: str | Path, make: Callable[[], _Decompressor]) -> None:
        self._file, self._path, self._make = file, path, make
        self._decompressor = make()
        self._started = False  # whether the present member has been given a byte
        self._members = 0
        self._taken, self._given = 0, 0
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill the buffer with the next bytes; 0 at the end of the last whole member."""
        while not self._output:
            if not self._input:
                self._input = self._file.read(self._CHUNK)
                self._taken += len(self._input)
                if not self._input:
                    if self._started or not self._members:
                        raise EOFError("the archive ends in the middle")
                    return 0
            self._output = memoryview(self._advance())
            self._given += len(self._output)
            self._check_size()
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
        try:
            output, self._input = self._decompressor.decompress(self._input), b""
        except (lzma.LZMAError, zstandard.ZstdError) as error:
            if "emory" in str(error):  # lzma: "Memory usage limit exceeded"; zstd: "Frame requires too much memory"
                raise DataError(
                    f"{self._path}: unpacking needs more than {MOST_MEMORY >> 20} MiB of memory ({error}); "
                    f"unpack it yourself if you trust it, and give the plain file"
                ) from None
            raise
        if self._decompressor.eof:
            self._input = self._decompressor.unused_data
            self._decompressor, self._started = self._make(), False
            self._members += 1
        return output

    def _check_size(self) -> None:
        if self._given > FREE_BYTES and self._given > MOST_TIMES * self._taken:
            raise DataError(
                f"{self._path}: {self._taken:,} bytes of the archive have unpacked to {self._given:,}, more than "
                f"{MOST_TIMES} times as many, as text does not; unpack it yourself if you trust it, and give the plain "
                f"file"
            )

    def close(self) -> None:
        """Close the archive's file too."""
        self._file.close()
        super().close()
