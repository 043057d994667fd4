import errno
import gc
import os
import random
import tempfile

import numpy as np
import pytest

from clearhead.base.errors import ClearheadError, InputError
from clearhead.data.columns import Column, Flags, Shelf


@pytest.mark.parametrize("room", [0, 100, 1 << 20])
def test_a_column_reads_like_one_array(room):
    numbers = np.random.default_rng(0).integers(0, 2**32, 53, dtype=np.uint32)
    column = Column(Shelf(room))
    for start in range(0, 53, 10):
        column.append(numbers[start : start + 10])
    assert len(column) == 53
    assert np.concatenate(list(column.blocks())).tolist() == numbers.tolist()
    for start in range(54):
        for stop in range(start, 54):
            assert column[start:stop].tolist() == numbers[start:stop].tolist()


def test_arrays_of_any_type_stay_what_they_were_when_they_were_put_away():
    shelf = Shelf(64)
    given = [np.arange(8, dtype=dtype) for dtype in (np.uint8, np.uint16, np.uint64, np.float32) * 3]
    kept = [shelf.put(array) for array in given]
    for array, stored in zip(given, kept, strict=True):
        expected = array[2:5].tolist()
        array[:] = 0
        assert (len(stored), stored[2:5].tolist(), stored[:].dtype) == (8, expected, array.dtype)
        assert stored[5:2].tolist() == []


def test_what_fits_touches_no_disk_and_the_file_goes_with_the_shelf(monkeypatch):
    opened = []
    real = tempfile.TemporaryFile

    def opening(**arguments):
        opened.append(real(**arguments))
        return opened[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", opening)
    shelf = Shelf(80)
    shelf.put(np.zeros(10))
    assert not opened
    stored = shelf.put(np.ones(1))
    assert len(opened) == 1 and os.fstat(opened[0].fileno()).st_nlink == 0  # without a name from the beginning
    del shelf
    assert stored[:].tolist() == [1.0]
    del stored
    gc.collect()
    assert opened[0].closed


def test_a_disk_that_takes_and_gives_a_few_bytes_at_a_time(monkeypatch):
    write, read = os.pwrite, os.pread
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: write(file, data[:3], offset))
    monkeypatch.setattr(os, "pread", lambda file, size, offset: read(file, min(size, 5), offset))
    stored = Shelf(0).put(np.arange(20))
    assert stored[3:17].tolist() == list(range(3, 17))


def test_a_full_disk_is_told_with_the_folder_and_what_to_do(monkeypatch):
    full = open("/dev/full", "r+b", buffering=0)  # noqa: SIM115 (closed with the shelf)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda buffering: full)
    with pytest.raises(ClearheadError) as caught:
        Shelf(0).put(np.zeros(5))
    assert not isinstance(caught.value, InputError)
    assert str(caught.value).startswith(f"{tempfile.gettempdir()}: cannot be written: No space left on device (")
    assert "make room" in str(caught.value) and "TMPDIR" in str(caught.value)


def test_no_folder_to_write_to_is_told_too(monkeypatch):
    def nowhere(**arguments):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/nowhere']")

    monkeypatch.setenv("TMPDIR", "/nowhere")
    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(InputError, match=r"^/nowhere: cannot be written: No usable temporary .* TMPDIR$"):
        Shelf(0).put(np.zeros(5))


@pytest.mark.parametrize("fault", ["error", "end"])
def test_a_file_that_cannot_be_read_back_is_an_error(monkeypatch, fault):
    def broken(file, size, offset):
        if fault == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return b""

    stored = Shelf(0).put(np.zeros(5))
    monkeypatch.setattr(os, "pread", broken)
    with pytest.raises(ClearheadError, match=r": cannot be read: Input/output error; .* TMPDIR"):
        stored[:]


@pytest.mark.parametrize("pairs", [0, 1, 7, 8, 9, 1000, 600_001])
def test_flags_are_a_set_of_places(pairs):
    rng = random.Random(pairs)
    some, others = (set(rng.sample(range(pairs), rng.randint(0, min(pairs, 400)))) for _ in range(2))
    flags, other = Flags(pairs), Flags(pairs)
    for half in (sorted(some)[::2], sorted(some)[1::2][::-1]):
        flags.set(np.array(half, dtype=np.int64))
    other.set(np.array(sorted(others), dtype=np.int64))
    for found, expected in ((flags, some), (flags.without(other), some - others)):
        assert (len(found), found.count) == (pairs, len(expected))
        for most in (0, 1, 5, pairs):
            assert found.first(most) == sorted(expected)[:most]
    assert flags.inverse().count == pairs - len(some)
    assert flags.inverse().first(10) == [place for place in range(min(pairs, 500)) if place not in some][:10]
    for _ in range(50):
        start, stop = sorted(rng.randint(0, pairs) for _ in range(2))
        stop = min(stop, start + 3000)
        assert flags[start:stop] == [place in some for place in range(start, stop)]
    assert flags[pairs : pairs + 9] == []
