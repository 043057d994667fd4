"""Columns of a few bytes a pair that do not grow in memory: blocks on a shelf, beyond some room in a file; and bits.

What the whole of a corpus teaches (repetitions, usual lengths) needs a little of every pair. Here that little is put
away in blocks and read back block by block.
"""

import errno
import os
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from clearhead.base.errors import ClearheadError, InputError
from clearhead.base.files import file_error

__all__ = ["BLOCK", "Column", "Flags", "Shelf", "Stored"]

BLOCK = 1 << 16
"""Pairs in a block, so that a place in it takes 16 bits."""

ROOM = 24 << 20
"""Bytes that a shelf keeps in memory: about half a million pairs of `Traces`."""


class Shelf:
    """Arrays put away: the first `room` bytes of them stay in memory, the others go to a temporary file without a name.

    The file lies where temporary files of this system lie (TMPDIR), is made when it is needed first, and is gone with
    the shelf or the process, however that ends.
    """

    def __init__(self, room: int | None = None) -> None:
        self._left = ROOM if room is None else room
        self._file: BinaryIO | None = None
        self._end = 0

    def put(self, values: NDArray[Any]) -> "Stored":
        """Put an array of one axis away. Raises the errors of `file_error`, naming the folder of temporary files."""
        if values.nbytes <= self._left:
            self._left -= values.nbytes
            kept = values.copy()
            kept.flags.writeable = False
            return Stored(self, values.dtype, len(values), kept)
        stored = Stored(self, values.dtype, len(values), self._end)
        rest = memoryview(values.tobytes())
        try:
            if self._file is None:
                # Unbuffered, so that nothing is left to be written, and to fail, when it is closed.
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed with the shelf)
                weakref.finalize(self, self._file.close)
            while rest:
                written = os.pwrite(self._file.fileno(), rest, self._end)
                self._end += written
                rest = rest[written:]
        except OSError as error:
            raise _trouble("written", error) from None
        return stored

    def _get(self, offset: int, size: int) -> bytes:
        assert self._file is not None
        found = b""
        try:
            while len(found) < size:
                piece = os.pread(self._file.fileno(), size - len(found), offset + len(found))
                if not piece:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                found += piece
        except OSError as error:
            raise _trouble("read", error) from None
        return found


class Stored:
    """An array on a shelf; `len`, and slices of step 1, which are read-only arrays."""

    def __init__(self, shelf: Shelf, dtype: "np.dtype[Any]", count: int, place: "NDArray[Any] | int") -> None:
        self._shelf, self._dtype, self._count, self._place = shelf, dtype, count, place

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, part: slice) -> NDArray[Any]:
        if not isinstance(self._place, int):
            return self._place[part]
        start, stop, _ = part.indices(self._count)
        size = self._dtype.itemsize
        data = self._shelf._get(self._place + start * size, max(0, stop - start) * size)
        return np.frombuffer(data, dtype=self._dtype)


class Column:
    """One number of every pair in file order, in blocks of which all but the last have one length."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._blocks: list[Stored] = []
        self._count = 0
        self._read: tuple[int, NDArray[Any]] = -1, np.zeros(0)

    def append(self, values: NDArray[Any]) -> None:
        """One more block, of another length than the first only if it is the last. Raises `Shelf.put`'s errors."""
        self._blocks.append(self._shelf.put(values))
        self._count += len(values)

    def __len__(self) -> int:
        return self._count

    def blocks(self) -> Iterator[NDArray[Any]]:
        """All numbers, block by block."""
        for block in self._blocks:
            yield block[:]

    def __getitem__(self, part: slice) -> NDArray[Any]:
        """The numbers from part.start to part.stop, both within the column; the block read last is kept."""
        start, stop, _ = part.indices(self._count)
        if stop <= start:
            return np.zeros(0, dtype=np.uint32)
        length = len(self._blocks[0])
        pieces = []
        for number in range(start // length, (stop - 1) // length + 1):
            if self._read[0] != number:
                self._read = number, self._blocks[number][:]
            first = number * length
            pieces.append(self._read[1][max(start - first, 0) : stop - first])
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


class Flags:
    """One bit for each pair of a corpus."""

    def __init__(self, pairs: int) -> None:
        self._pairs = pairs
        self._bits = np.zeros((pairs + 7) // 8, dtype=np.uint8)  # the first pair is the lowest bit of the first byte

    def __len__(self) -> int:
        return self._pairs

    def set(self, places: NDArray[Any]) -> None:
        """Set the bits at some places, in any order."""
        places = places.astype(np.int64, copy=False)
        np.bitwise_or.at(self._bits, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))

    def without(self, other: "Flags") -> "Flags":
        """Those that are set here and not in `other`, which has as many."""
        found = Flags(self._pairs)
        np.bitwise_and(self._bits, ~other._bits, out=found._bits)
        return found

    def inverse(self) -> "Flags":
        """Those that are not set here."""
        found = Flags(self._pairs)
        np.invert(self._bits, out=found._bits)
        if spare := -self._pairs % 8:
            found._bits[-1] &= 0xFF >> spare
        return found

    @property
    def count(self) -> int:
        """How many are set."""
        return sum(int(_ONES[part].sum()) for part in self._parts())

    def first(self, most: int) -> list[int]:
        """The places of the first that are set, rising: at most `most`."""
        found: list[int] = []
        start = 0
        for part in self._parts():
            if len(found) >= most:
                break
            found += (np.flatnonzero(np.unpackbits(part, bitorder="little")) + start).tolist()[: most - len(found)]
            start += 8 * len(part)
        return found

    def __getitem__(self, part: slice) -> list[bool]:
        """Whether each of some neighbours is set."""
        start, stop, _ = part.indices(self._pairs)
        first = start // 8
        bits = np.unpackbits(self._bits[first : (max(start, stop) + 7) // 8], bitorder="little")
        found: list[bool] = bits[start - 8 * first : stop - 8 * first].astype(np.bool_).tolist()
        return found

    def _parts(self) -> Iterator[NDArray[np.uint8]]:
        """The bytes, some at a time."""
        for start in range(0, len(self._bits), BLOCK):
            yield self._bits[start : start + BLOCK]


_ONES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


def _trouble(doing: str, error: OSError) -> ClearheadError:
    """What to raise for an error of the temporary file: with its folder, and how to name another one."""
    try:
        folder = tempfile.gettempdir()
    except OSError:  # none of the usual places can be written to, as `error` says already
        folder = os.environ.get("TMPDIR") or "the folder for temporary files"
    told = file_error(folder, doing, error)
    kind = InputError if isinstance(told, InputError) else ClearheadError
    return kind(
        f"{told}; of a large corpus some 60 bytes a pair are kept in a temporary file: name a folder with room for it "
        f"in the environment variable TMPDIR"
    )
