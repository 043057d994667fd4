"""The line contract, against the one independent truth there is: bytes split at b"\\n"."""

import gc
import gzip
import io
import lzma
import os
import random
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.base.errors import DataError
from clearhead.formats import lines as lines_module
from clearhead.formats.lines import count_lines, read_lines, read_raw_lines, write_lines

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
ARCHIVES = [".gz", ".xz", ".zst"]
# Everything that str.splitlines or universal newlines would take for the end of a line.
SEPARATORS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


class FakeStream:
    """Stands in for sys.stdin or sys.stdout; counts flushes."""

    def __init__(self, data: bytes = b"") -> None:
        self.buffer = io.BytesIO(data)
        self.flushes = 0
        self.buffer.flush = self._flush  # type: ignore[method-assign]

    def _flush(self) -> None:
        self.flushes += 1

    def flush(self) -> None:
        pass


def stored(path: Path, data: bytes) -> Path:
    path.write_bytes(PACK[path.suffix if path.suffix in PACK else ""](data))
    return path


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"\n", [""]),
        (b"\n\n", ["", ""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),
        (b"\r\n", [""]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\r", ["a"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [""]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa", ["\ufeffa"]),
        (b"a\x00b\n", ["a\x00b"]),
        (b" a\tb  \n", [" a\tb  "]),
        (f"x{SEPARATORS}y\nz\n".encode(), [f"x{SEPARATORS}y", "z"]),
        (f"{SEPARATORS[1:]}\n".encode(), [SEPARATORS[1:]]),
    ],
)
@pytest.mark.parametrize("suffix", PACK)
def test_what_a_line_is(tmp_path: Path, suffix: str, data: bytes, lines: list[str]) -> None:
    path = stored(tmp_path / f"text{suffix}", data)
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


@given(
    data=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\r\ufeff" + SEPARATORS)).map(str.encode)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_lines_are_the_bytes_between_line_feeds(tmp_path: Path, data: bytes) -> None:
    path = stored(tmp_path / "any", data)
    expected = data[3:] if data[:3] == b"\xef\xbb\xbf" else data
    pieces = expected.split(b"\n")
    if pieces[-1] == b"":
        pieces.pop()
    pieces = [piece[:-1] if piece[-1:] == b"\r" else piece for piece in pieces]
    assert [line.encode() for line in read_lines(path)] == pieces
    assert count_lines(path) == len(pieces)


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))))
@pytest.mark.parametrize("suffix", PACK)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_what_is_written_is_read_back(tmp_path: Path, suffix: str, texts: list[str]) -> None:
    path = tmp_path / f"out{suffix}"
    with write_lines(path) as write:
        for text in texts:
            write(text)
    expected = [text.removesuffix("\r") for text in texts]  # the two exceptions that write_lines names
    if expected:
        expected[0] = expected[0].removeprefix("\ufeff")
    assert list(read_lines(path)) == expected


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_members_in_a_row_are_one_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    pack = PACK[suffix]
    path.write_bytes(pack(b"one\ntw") + pack(b"") + pack(b"o\nthree") + pack(b"\n"))
    assert list(read_lines(path)) == ["one", "two", "three"]


def test_skippable_frames_and_padding_are_no_text(tmp_path: Path) -> None:
    skippable = (0x184D2A50).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"hello"
    path = tmp_path / "text.zst"
    path.write_bytes(PACK[".zst"](b"a\n") + skippable + PACK[".zst"](b"b\n"))
    assert list(read_lines(path)) == ["a", "b"]
    padded = tmp_path / "text.xz"
    padded.write_bytes(PACK[".xz"](b"a\n") + bytes(8) + PACK[".xz"](b"b\n") + bytes(4))
    assert list(read_lines(padded)) == ["a", "b"]


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_a_cut_archive_is_an_error_wherever_it_is_cut(tmp_path: Path, suffix: str) -> None:
    whole = PACK[suffix](b"".join(b"line %d\n" % (number * 7919 % 1000) for number in range(300)))
    second = whole + PACK[suffix](b"tail\n")
    path = tmp_path / f"text{suffix}"
    for data, cuts in ((whole, range(len(whole))), (second, range(len(whole) + 1, len(second)))):
        for cut in list(cuts)[:: max(1, len(cuts) // 60)]:
            path.write_bytes(data[:cut])
            with pytest.raises(DataError, match=r"text\.\w+: damaged or cut short"):
                list(read_lines(path))
            with pytest.raises(DataError):
                count_lines(path)


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_a_damaged_archive_or_a_plain_file_with_its_name_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(b"plain text, not an archive\n" * 10)
    with pytest.raises(DataError, match=f"{suffix}: damaged or cut short after line 0"):
        list(read_lines(path))
    path.write_bytes(PACK[suffix](b"a\n") + b"rubbish after the end")
    with pytest.raises(DataError, match="after line 1"):
        list(read_lines(path))


def test_bytes_that_are_not_utf8_are_refused_with_file_and_line(tmp_path: Path) -> None:
    path = stored(tmp_path / "latin1", "grün\n".encode() * 2 + "grün\n".encode("latin-1"))
    lines = read_lines(path)
    assert next(lines) == "grün"
    with pytest.raises(DataError, match=r"latin1, line 3: byte 0xfc at position 3 is not UTF-8"):
        list(lines)
    surrogate = stored(tmp_path / "cesu", b"a\xed\xa0\x80b\n")
    with pytest.raises(DataError, match="line 1"):
        list(read_lines(surrogate))
    utf16 = stored(tmp_path / "utf16", "hello\n".encode("utf-16"))
    with pytest.raises(DataError, match="the file is UTF-16"):
        list(read_lines(utf16))


def test_a_file_that_cannot_be_opened_is_refused_a_missing_one_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.gz: cannot be read: No such file"):
        read_lines(tmp_path / "absent.gz")
    with pytest.raises(DataError, match="Is a directory"):
        list(read_lines(tmp_path))


def test_an_iterator_that_is_not_read_to_the_end_keeps_no_file_open(tmp_path: Path) -> None:
    # ResourceWarnings are errors in these tests, so an open file that is dropped would fail this one.
    path = stored(tmp_path / "text.zst", b"a\nb\n")
    read_lines(path)
    next(read_lines(path))
    gc.collect()


@pytest.mark.parametrize("suffix", PACK)
def test_memory_does_not_grow_with_the_file(tmp_path: Path, suffix: str) -> None:
    data = b"".join(b"the same line again " * 8 + b"%d\n" % (n * 7919 % 1_000_003) for n in range(120_000))
    path = stored(tmp_path / f"big{suffix}", data)
    tracemalloc.start()
    count = sum(1 for _ in read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 120_000
    assert peak < {"": 1, ".gz": 1, ".xz": 9, ".zst": 3}[suffix] << 20  # xz keeps a window of 8 MB


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 1000)
    longest = b"x" * 999 + b"\n"
    assert list(read_lines(stored(tmp_path / "long", longest * 2 + b"y" * 999))) == ["x" * 999] * 2 + ["y" * 999]
    with pytest.raises(DataError, match=r"endless, line 3: more than 0 MiB without a line feed"):
        list(read_lines(stored(tmp_path / "endless", longest * 2 + b"x" * 1001 + b"\n")))


def test_the_raw_lines_are_the_file(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfa\r\n\n\xff\x00\n\x0cb"
    for suffix in PACK:
        assert list(read_raw_lines(stored(tmp_path / f"raw{suffix}", data))) == data.splitlines(keepends=True)[:2] + [
            b"\xff\x00\n",
            b"\x0cb",
        ]


def test_text_that_compresses_as_text_does_is_read_in_little_memory(tmp_path: Path) -> None:
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(5000)]
    data = "\n".join(" ".join(rng.choices(words, k=12)) for _ in range(10_000)).encode()
    for suffix in ARCHIVES:
        path = stored(tmp_path / f"text{suffix}", data)
        tracemalloc.start()
        assert sum(1 for _ in read_lines(path)) == 10_000
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < (9 << 20 if suffix == ".xz" else 1 << 20)  # xz keeps a window of 8 MB


def test_standard_input_is_read_as_bytes_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeStream(f"\ufeffa{SEPARATORS}b\r\nc".encode())
    monkeypatch.setattr(sys, "stdin", fake)
    assert list(read_lines("-")) == [f"a{SEPARATORS}b", "c"]
    assert not fake.buffer.closed
    monkeypatch.setattr(sys, "stdin", FakeStream(b"\xff\n"))
    with pytest.raises(DataError, match="standard input, line 1"):
        list(read_lines("-"))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input is closed"):
        list(read_lines("-"))


def test_standard_output_gets_each_line_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeStream()
    monkeypatch.setattr(sys, "stdout", fake)
    with write_lines("-") as write:
        write("ä\u2028b")
        assert fake.buffer.getvalue() == "ä\u2028b\n".encode()
        assert fake.flushes == 1
        write("")
        assert fake.flushes == 2
    assert fake.buffer.getvalue() == "ä\u2028b\n\n".encode()
    assert not fake.buffer.closed


def test_a_closed_pipe_is_left_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb", buffering=0) as pipe:
        fake: Any = FakeStream()
        fake.buffer = pipe
        monkeypatch.setattr(sys, "stdout", fake)
        with pytest.raises(BrokenPipeError), write_lines("-") as write:
            write("nobody listens")


@pytest.mark.parametrize("suffix", PACK)
def test_a_failing_writer_leaves_what_was_there_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    path = stored(tmp_path / f"out{suffix}", b"old\n")

    def fail_halfway() -> None:
        with write_lines(path) as write:
            write("new")
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        fail_halfway()
    assert list(read_lines(path)) == ["old"]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_file_may_be_rewritten_from_itself(tmp_path: Path) -> None:
    path = stored(tmp_path / "text", b"a\nb\n")
    with write_lines(path) as write:
        for line in read_lines(path):
            write(line * 2)
    assert path.read_bytes() == b"aa\nbb\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("two\nlines", "holds a line break"), ("lone \udc80", r"character 6 is a lone surrogate \(U\+DC80\)")],
)
def test_a_text_that_cannot_be_one_line_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    def write_both() -> None:
        with write_lines(tmp_path / "out") as write:
            write("fine")
            write(text)

    with pytest.raises(DataError, match=rf"out, line 2: .*{reason}"):
        write_both()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_archives_are_what_the_other_tools_read_and_hold_no_time(tmp_path: Path, suffix: str) -> None:
    unpack: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.decompress,
        ".xz": lzma.decompress,
        ".zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
    }
    contents = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}{suffix.upper()}"
        with write_lines(path) as write:
            for number in range(1000):
                write(f"line {number}")
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert suffix != ".gz" or contents[0][3:8] == bytes(5)  # no name, time 0: RFC 1952, section 2.3
    assert unpack[suffix](contents[0]) == b"".join(b"line %d\n" % number for number in range(1000))


def test_devices_are_written_and_not_replaced() -> None:
    with write_lines("/dev/null") as write:
        write("gone")
    assert not Path("/dev/null").is_file()
