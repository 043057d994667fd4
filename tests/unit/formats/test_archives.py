"""Archives that no text makes: refused early, in little memory, and the limits let text pass."""

import gzip
import lzma
import random
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from clearhead.base.errors import DataError
from clearhead.data.check import check_files
from clearhead.formats import archives
from clearhead.formats.jsonl import read_jsonl
from clearhead.formats.lines import count_lines, open_bytes, read_lines
from clearhead.formats.tsv import read_tsv_document


def zeros_gz(size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


def zeros_xz(size: int) -> bytes:
    packer = lzma.LZMACompressor(preset=0)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


def zeros_zst(size: int) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
BOMBS: dict[str, Callable[[int], bytes]] = {".gz": zeros_gz, ".xz": zeros_xz, ".zst": zeros_zst}


@pytest.mark.parametrize("suffix", BOMBS)
def test_a_bomb_is_refused_early_and_in_little_memory(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(BOMBS[suffix](80 << 20))  # one endless line; what is done does not depend on its length
    for reader in (count_lines, lambda path: list(read_lines(path)), lambda path: list(read_jsonl(path))):
        started = time.process_time()
        with pytest.raises(DataError, match=rf"bomb{suffix}(, line 1: more than 16 MiB|: .*200 times)"):
            reader(path)
        assert time.process_time() - started < 1
    tracemalloc.start()
    with pytest.raises(DataError), open_bytes(path) as stream:  # a reader that bounds no line, such as that of XML
        stream.read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 << 20


@pytest.mark.parametrize("suffix", BOMBS)
def test_a_bomb_of_many_lines_is_named_with_its_sizes(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "FREE_BYTES", 1 << 20)  # so that a small one will do
    lines = b"a line\tlike all others\n" * 10_000
    path = tmp_path / f"many{suffix}"
    path.write_bytes(PACK[suffix](lines) * 8)  # members, each of them small enough
    for reader in (count_lines, lambda path: list(read_tsv_document(path)), lambda path: check_files([path])):
        with pytest.raises(DataError, match=r"bytes of the archive have unpacked to .*unpack it yourself"):
            reader(path)
    # The control: it is a sound archive, and without the bound every line is read.
    monkeypatch.setattr(archives, "MOST_TIMES", 10**9)
    assert count_lines(path) == 80_000


def test_text_that_repeats_itself_much_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "FREE_BYTES", 1 << 18)
    rng = random.Random(3)
    words = [f"word{number}" for number in range(50)]
    line = " ".join(rng.choices(words, k=30))
    data = "".join(f"{line} {rng.choice(words)} {number}\n" for number in range(6_000)).encode()  # from a template
    for suffix, pack in PACK.items():
        path = tmp_path / f"generated{suffix}"
        path.write_bytes(pack(data))
        assert count_lines(path) == 6_000
        assert 20 < len(data) / path.stat().st_size < archives.MOST_TIMES


def test_an_archive_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    wide = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=30, strategy=1))
    stream = wide.compressobj()
    zst = tmp_path / "wide.zst"
    zst.write_bytes(stream.compress(b"a\n") + stream.flush())
    assert zstandard.get_frame_parameters(zst.read_bytes()).window_size == 1 << 30
    xz = tmp_path / "wide.xz"
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    packed = bytearray(lzma.compress(b"a\n", filters=filters, check=lzma.CHECK_CRC32))
    # The block header (after the 12 bytes of the stream's): size, flags, filter, 1, dictionary, padding, CRC.
    assert packed[14:16] == bytes([0x21, 1])
    packed[16] = 36  # a dictionary of 1 GiB
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    xz.write_bytes(packed)
    for path in (zst, xz):
        with pytest.raises(DataError, match=r"needs more than 128 MiB of memory .*unpack it yourself"):
            list(read_lines(path))


def test_the_strongest_usual_settings_pass(tmp_path: Path) -> None:
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"a\n", preset=9 | lzma.PRESET_EXTREME))
    long = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=27, strategy=1))
    stream = long.compressobj()
    (tmp_path / "a.zst").write_bytes(stream.compress(b"a\n") + stream.flush())
    assert list(read_lines(tmp_path / "a.xz")) == list(read_lines(tmp_path / "a.zst")) == ["a"]
