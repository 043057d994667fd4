"""XML and archives that were made to hurt: refused within a second, and nothing but the file itself is opened.

The XML payloads are those of `tests/unit/formats/test_xml.py`, read as TMX; here stand those of archives and XLIFF. An
audit hook sees every file and socket that Python opens; libxml2's would block on the secret, which is a pipe, or call
the listener. The controls: a careless lxml reads the secret, and the library's own readers unpack a gigabyte.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard
from lxml import etree

from benchmarks.faults.memory import peak, reset_peak, resident
from benchmarks.faults.rows import Result, note
from clearhead.base.errors import DataError
from clearhead.formats.jsonl import read_jsonl
from clearhead.formats.lines import read_lines
from clearhead.formats.pairs import read_tsv
from clearhead.formats.po import read_po
from clearhead.formats.tmx import read_tmx
from clearhead.formats.xliff import read_xliff
from tests.unit.formats.test_xml import payloads

LIMIT = 1.0  # seconds of processor time
PIECE = 16 << 20
MOST_MEMORY = 400 << 20
Read = Callable[[Path], Any]


def run(count: int, seed: int, folder: Path) -> Result:
    secret = folder / "secret"
    os.mkfifo(secret)
    with _listener() as server:
        cases = list(_cases(folder, str(secret), server.getsockname()[1]))[:count]
        opened: list[str] = []
        _warm_up(folder)
        watching = _watch(opened)
        failures, slowest, grown = [], 0.0, 0
        for name, path, read in cases:
            reset_peak()
            before = resident()
            seconds, problem = 9e9, ""
            for _ in range(3):  # the best of three: other processes can only make it longer
                opened.clear()
                watching(True)
                begun = time.process_time()
                try:
                    read(path)
                    problem = "was read"
                except DataError as error:
                    problem = "" if str(path) in str(error) else f"the message does not name the file: {error}"
                except Exception as error:  # of whatever kind: not the one promised
                    problem = f"{type(error).__name__}: {str(error)[:200]}"
                seconds = min(seconds, time.process_time() - begun)
                watching(False)
                problem = problem or ", ".join(f"opened {each}" for each in opened if each != str(path))
                if problem or seconds < LIMIT:
                    break
            slowest, grown = max(slowest, seconds), max(grown, peak() - before)
            if seconds > LIMIT:
                problem = problem or f"{seconds:.2f} s"
            if peak() - before > MOST_MEMORY:
                problem = problem or f"memory grew by {(peak() - before) >> 20} MiB"
            if problem:
                failures.append(f"{name}: {problem}")
        if _called(server):
            failures.append("somebody called the listener")
    note(f"{len(cases)} payloads, slowest {slowest:.2f} s")
    read_secrets, unpacked = _control(folder)
    return Result(
        len(cases),
        f"{len(cases) - len(failures)} refused; slowest {slowest:.2f} s; memory + {grown >> 20} MiB; nothing opened",
        f"careless lxml read the secret in {read_secrets} of 2; gzip, lzma and zstandard unpacked {unpacked >> 20} MiB",
        read_secrets == 2 and unpacked >= 1 << 29,
        failures,
        {"slowest_s": round(slowest, 3)},
    )


def _cases(folder: Path, secret: str, port: int) -> Iterator[tuple[str, Path, Read]]:
    for number, (name, data) in enumerate(payloads(secret, port).items()):
        yield name, _put(folder / f"{number}.tmx", data), _tmx
    for number, (name, data) in enumerate(_xliff(secret, port).items()):
        yield f"XLIFF: {name}", _put(folder / f"{number}.xlf", data), _xlf
    readers: tuple[tuple[str, Read], ...] = (
        (".txt", lambda path: list(read_lines(path))), (".jsonl", lambda path: list(read_jsonl(path))),
        (".tsv", lambda path: list(read_tsv(path))), (".po", lambda path: list(read_po(path))), (".tmx", _tmx),
    )  # fmt: skip
    for suffix, pack in PACKERS.items():
        many = pack(b"a\tb\n" * (PIECE >> 2))
        for inner, read in readers:
            data = many if inner == ".tsv" else pack(bytes(PIECE))
            # 64 members of 16 MiB: a gigabyte, each member sound by itself
            yield f"bomb{inner}{suffix}", _put(folder / f"bomb{inner}{suffix}", data * 64), read
        sound = pack(b"a\tb\n" * 1000)
        yield f"cut{suffix}", _put(folder / f"cut.tsv{suffix}", sound[:-7]), readers[2][1]
        yield f"junk behind{suffix}", _put(folder / f"junk.tsv{suffix}", sound + b"junk"), readers[2][1]
        yield f"empty{suffix}", _put(folder / f"empty.tsv{suffix}", b""), readers[2][1]


def _xliff(secret: str, port: int) -> dict[str, bytes]:
    unit = '<trans-unit id="1"><source>{}</source></trans-unit>'
    body = '{}<xliff version="1.2"><file source-language="en"><body>' + unit + "</body></file></xliff>"
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
    return {
        name: body.format(doctype, text).encode()
        for name, doctype, text in (
            ("billion laughs", f"<!DOCTYPE xliff [<!ENTITY l0 'ha'>{laughs}]>", "&l9;"),
            ("file as an entity", f"<!DOCTYPE xliff [<!ENTITY x SYSTEM 'file://{secret}'>]>", "&x;"),
            ("http as an entity", f"<!DOCTYPE xliff [<!ENTITY x SYSTEM 'http://127.0.0.1:{port}/'>]>", "&x;"),
            ("entity of an external DTD", f"<!DOCTYPE xliff SYSTEM 'file://{secret}'>", "&x;"),
            ("20 MB of text", "", "a" * (20 << 20)),
            ("200,000 deep", "", "<g id='1'>" * 200_000),
        )
    }


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, 6),
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": zstandard.ZstdCompressor().compress,
}


def _tmx(path: Path) -> object:
    return list(read_tmx(path, ("en", "de")))


def _xlf(path: Path) -> object:
    return list(read_xliff(path))


def _put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _warm_up(folder: Path) -> None:
    """Whatever is imported late is imported now."""
    for path, read in ((_put(folder / "warm.tmx", b"<tmx/>"), _tmx), (_put(folder / "warm.xlf", b"<xliff/>"), _xlf)):
        read(path)
    for suffix, pack in PACKERS.items():
        list(read_lines(_put(folder / f"warm{suffix}", pack(b"a"))))
    list(read_po(_put(folder / "warm.po", b'msgid ""\nmsgstr ""\n')))
    list(read_jsonl(_put(folder / "warm.jsonl", b"")))


def _watch(opened: list[str]) -> Callable[[bool], None]:
    """An audit hook that writes down what is opened while it is switched on; it cannot be taken out again."""
    library = os.path.dirname(os.__file__)
    on = [False]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not on[0]:
            return
        if event == "open" and not str(arguments[0]).startswith(library):  # the codecs of Python itself may be read
            opened.append(str(arguments[0]))
        elif event.startswith(("socket.", "urllib", "subprocess", "os.system", "os.exec")):
            opened.append(event)

    sys.addaudithook(hook)
    return lambda value: on.__setitem__(0, value)


@contextlib.contextmanager
def _listener() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


def _called(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _control(folder: Path) -> tuple[int, int]:
    """How many of two attacks a careless parser falls for, and the bytes that every naive unpacker gives at least."""
    (folder / "plain-secret").write_text("s3cret")
    careless = etree.XMLParser(resolve_entities=True, load_dtd=True, no_network=False)
    attacks = payloads(str(folder / "plain-secret"), 9)
    names = ("file as an entity", "file as a bare path")
    fallen = sum("s3cret" in "".join(etree.fromstring(attacks[name], careless).itertext()) for name in names)
    unpacked = []
    for suffix, opened in ((".gz", gzip.open), (".xz", lzma.open), (".zst", _zstandard)):
        total = 0
        with contextlib.suppress(zlib.error), opened(folder / f"bomb.tsv{suffix}", "rb") as stream:
            while total < 1 << 29 and (piece := stream.read(1 << 20)):
                total += len(piece)
        unpacked.append(total)
    return fallen, min(unpacked)


def _zstandard(path: Path, mode: str) -> Any:
    return zstandard.ZstdDecompressor().stream_reader(path.open(mode), read_across_frames=True, closefd=True)
