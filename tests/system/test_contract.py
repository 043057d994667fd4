"""The corpus contract and the mistakes of users, from the command line: no line is lost, moved or cut in silence."""

import gzip
import hashlib
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import zstandard

from tests.system.program import Ran, clearhead, disjoint, process, read, settings, train, write
from tests.unit.recipes.tiny import save_tiny

# One process trains what these share. Nothing here is about time; the machine may be shared.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("contract")]

BOM = b"\xef\xbb\xbf"
WORD = "ba be bi da"
# Each is one line; what looks like a line end to other programs stands inside.
STRANGE = [
    "ba be\u2028bi da",
    "ba be\u2029bi da",
    "ba be\u0085bi da",
    "ba be\x0cbi da",
    "ba be\x0bbi da",
    "ba be\x1c\x1d\x1ebi da",
    "ba be\rbi da",
    "ba be\x00bi da",
    "\u3000ba be",
    "℃，ﬁ \u2581 e\u0301 👩‍👩‍👧 \ufeff",
]
BLANK = ["", "   ", "\t", "\u00a0 ", "\u2028", "\x0c", "\r "]
LONG = " ".join(["ba"] * 6000)
UNBROKEN = "".join("bcdfghjklm"[n * n % 7] for n in range(6000))
OPTIONS = ("--max-length", 6, "--beam", 2, "--threads", 1)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights, under which different sentences get different translations."""
    return save_tiny(tmp_path_factory.mktemp("bundle") / "bundle")


def translate(bundle: Path, text: bytes, *more: object) -> Ran:
    return clearhead("translate", bundle, *OPTIONS, *more, stdin=text)


def encoded(lines: list[str], end: str = "\n") -> bytes:
    return "".join(line + end for line in lines).encode()


# ------------------------------------------------------------------------------------------------- lines in, lines out


def test_every_line_comes_back_in_its_place(bundle: Path) -> None:
    lines = [part for n, line in enumerate([*STRANGE, *BLANK]) for part in (line, f"{WORD} {'bi ' * n}da")]
    found = translate(bundle, encoded(lines), "--json").objects
    assert len(found) == len(lines)
    for line, each in zip(lines, found, strict=True):
        assert ("blank" in each["flags"]) == (line in BLANK)
        assert line not in BLANK or each["text"] == ""
        assert "\n" not in each["text"]
        assert not {"failed", "split"} & set(each["flags"])
        alone = translate(bundle, encoded([line]), "--json").objects
        assert [each["text"]] == [other["text"] for other in alone]
    texts = [each["text"] for each in found if each["text"]]
    assert len(set(texts)) >= 5  # or a wrong order could not be seen
    assert translate(bundle, encoded(lines)).lines == [each["text"] for each in found]


def test_the_last_line_may_lack_its_end(bundle: Path) -> None:
    whole = translate(bundle, encoded(["ba be", "bi da"]))
    assert translate(bundle, b"ba be\nbi da").out == whole.out
    assert translate(bundle, b"ba be\nbi da\n\n").out == whole.out + b"\n"
    assert translate(bundle, b"").out == b""
    assert translate(bundle, BOM).out == b""
    assert translate(bundle, b"\n").out == b"\n"


def test_a_windows_file_is_the_same_text(bundle: Path) -> None:
    lines = [line for line in [*STRANGE, *BLANK, WORD, f"{WORD} {WORD}"] if not line.endswith("\r")]
    assert translate(bundle, BOM + encoded(lines, "\r\n")).out == translate(bundle, encoded(lines)).out


@pytest.mark.parametrize("long", [LONG, UNBROKEN], ids=["with spaces", "without"])
def test_a_very_long_line_is_split_and_its_neighbours_are_as_without_it(bundle: Path, long: str) -> None:
    neighbours = ["ba be bi", "", f"{WORD} ki", "da ma"]
    clean = translate(bundle, encoded(neighbours), "--json").objects
    ran = translate(bundle, encoded([*neighbours[:2], long, *neighbours[2:]]), "--json")
    found = ran.objects
    assert len(found) == 5
    assert "split" in found[2]["flags"]
    assert len(found[2]["tokens"]) > 6  # more than one piece has been translated
    assert "1 split" in ran.log
    rest = found[:2] + found[3:]
    assert [(each["text"], each["flags"]) for each in rest] == [(each["text"], each["flags"]) for each in clean]
    assert all("split" not in each["flags"] for each in rest)


def test_standard_output_carries_translations_only(bundle: Path) -> None:
    """In a process of its own, where nothing can be caught on its way to the descriptor."""
    text = encoded(["ba be", "", "bi da"])
    command = [sys.executable, "-m", "clearhead", "-v", "translate", str(bundle), *map(str, OPTIONS)]
    done = subprocess.run(command, input=text, capture_output=True)
    assert done.returncode == 0
    assert done.stdout == translate(bundle, text).out
    assert b"beam 2" in done.stderr


# --------------------------------------------------------------------------------------------------- files of all kinds

PACKERS = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.compress}
UNPACKERS = {
    "gz": gzip.decompress,
    "xz": lzma.decompress,
    "zst": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_files(bundle: Path, kind: str, tmp_path: Path) -> None:
    text = encoded([*STRANGE, *BLANK])
    (tmp_path / f"in.{kind}").write_bytes(PACKERS[kind](text))
    clearhead("translate", bundle, tmp_path / f"in.{kind}", "-o", tmp_path / f"out.{kind}", *OPTIONS)
    assert UNPACKERS[kind]((tmp_path / f"out.{kind}").read_bytes()) == translate(bundle, text).out
    (tmp_path / f"cut.{kind}").write_bytes(PACKERS[kind](text)[:-6])
    cut = clearhead("translate", bundle, tmp_path / f"cut.{kind}", *OPTIONS, code=2)
    assert f"cut.{kind}: damaged or cut short" in cut.log


def test_a_pipe_with_a_name_loses_nothing(bundle: Path, tmp_path: Path) -> None:
    """Counting the lines of a pipe would use them up: nothing would be left to translate, and nobody would notice."""
    text = b"ba be\nka ke\nno nu\n"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(text,))
    writer.start()
    ran = clearhead("translate", bundle, pipe, *OPTIONS)
    writer.join()
    assert ran.lines == translate(bundle, text).lines
    assert len(ran.lines) == 3
    refused = clearhead("data", "check", pipe, code=2)
    assert "name files" in refused.log


def test_trouble_with_the_disk_is_one_message(bundle: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "file", ["ba be"])
    for arguments in (
        ("translate", "x" * 300, file),
        ("info", "x" * 300),
        ("average", bundle, "-o", file / "below"),
        ("data", "split", file, file, "--out", file / "below", "--dev", 0, "--test", 0),
    ):
        assert clearhead(*arguments, code=2).log.splitlines()[-1].startswith("error: ")


def test_a_failure_leaves_the_old_output_whole(bundle: Path, tmp_path: Path) -> None:
    out = write(tmp_path / "out", ["what was there before"])
    (tmp_path / "in").write_bytes(b"ba be\n" * 40 + b"bi \xff da\n")
    ran = clearhead("translate", bundle, tmp_path / "in", "-o", out, *OPTIONS, "--window", 8, code=2)
    assert ran.log.splitlines()[-1].startswith(f"error: {tmp_path / 'in'}, line 41: byte 0xff at position 4")
    assert read(out) == ["what was there before"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


# ------------------------------------------------------------------------------------------------------------- training


def few(out: Path, source: Path, target: Path, *more: object, **values: object) -> list[object]:
    """A run of two updates."""
    size = {"model__d_model": 16, "model__d_ff": 16, "model__encoder_layers": 1, "model__attention__heads": 2}
    return train(out, source, target, *more, **(size | {"training__updates": 2} | values))


def weights(run: Path) -> str:
    (last,) = (run / "checkpoints").glob("step-00000002")
    return hashlib.sha256((last / "weights.safetensors").read_bytes()).hexdigest()


def corpus() -> list[str]:
    (lines,) = disjoint(9, (300,))
    return [*lines[:150], *STRANGE, *lines[150:]]


def test_training_reads_lines_by_the_same_contract(tmp_path: Path) -> None:
    """Strange characters, a byte order mark, CRLF and a missing last end change neither pairs nor weights."""
    lines = corpus()
    clean = write(tmp_path / "clean", lines)
    windows = tmp_path / "windows"
    windows.write_bytes(BOM + encoded(lines, "\r\n").removesuffix(b"\r\n"))
    ran = clearhead(*few(tmp_path / "a", clean, clean))
    assert f"{len(lines)} of {len(lines)} pairs kept, 0 dropped" in ran.log
    clearhead(*few(tmp_path / "b", windows, windows))
    tsv = write(tmp_path / "both.tsv", [f"{line}\t{line}\tanother column" for line in lines])
    arguments = [each for each in few(tmp_path / "c", clean, clean) if each not in ("--source", "--target", clean)]
    clearhead(*arguments, "--tsv", tsv)
    (tmp_path / "packed.zst").write_bytes(zstandard.compress(windows.read_bytes()))
    clearhead(*few(tmp_path / "d", tmp_path / "packed.zst", clean))
    assert weights(tmp_path / "a") == weights(tmp_path / "b") == weights(tmp_path / "c") == weights(tmp_path / "d")
    other = write(tmp_path / "other", lines[::-1])
    clearhead(*few(tmp_path / "e", other, clean))
    assert weights(tmp_path / "e") != weights(tmp_path / "a")


def test_empty_and_too_long_pairs_are_dropped_together_counted_and_told(tmp_path: Path) -> None:
    lines = corpus()
    source, target = [*lines, "ba", "be be", LONG, "bi"], [*lines, "ba", "", "da", " \t"]
    ran = clearhead(*few(tmp_path / "a", write(tmp_path / "s", source), write(tmp_path / "t", target)))
    n = len(lines)
    assert f"{n + 1} of {n + 4} pairs kept, 3 dropped" in ran.log
    assert f"empty-target: 2 (line {n + 2}, {n + 4})" in ran.log
    assert f"too-long-source: 1 (line {n + 3})" in ran.log
    assert json.loads(clearhead("info", tmp_path / "a", "--json").out)["training"]["pairs"] == n + 1


def test_unequal_counts_are_refused_with_both(bundle: Path, tmp_path: Path) -> None:
    source, target = write(tmp_path / "s", ["ba be"] * 5), write(tmp_path / "t", ["ba be"] * 7)
    for arguments in (
        few(tmp_path / "run", source, target),
        ["score", bundle, "-s", source, "-t", target],
        ["evaluate", bundle, "-s", source, "-r", target],
        ["evaluate", source, "-r", target, "--languages", "en-de"],
    ):
        ran = clearhead(*arguments, code=2)
        message = ran.log.splitlines()[-1]
        assert message.startswith("error: ")
        assert "5" in message and "7" in message and str(source) in message and str(target) in message
        assert ran.out == b""


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"ba\nbe \xff\xfe\n", "line 2: byte 0xff at position 4 is not UTF-8"),
        (b"ba\nb\xed\xa0\x80\n", "line 2: byte 0xed at position 2 is not UTF-8"),
        ("ba be\n".encode("utf-16"), "line 1: the file is UTF-16"),
        (bytes(range(256)) * 8, "line 2: byte 0x80"),
    ],
    ids=["invalid", "surrogate", "UTF-16", "binary"],
)
def test_what_is_no_text_is_refused_by_file_and_line(bundle: Path, data: bytes, words: str, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.write_bytes(data)
    good.write_bytes(b"ba\n" * data.count(b"\n"))
    for arguments in (
        few(tmp_path / "run", bad, good),
        ["translate", bundle, bad, "-o", tmp_path / "out", *OPTIONS],
        ["score", bundle, "-s", good, "-t", bad],
        ["evaluate", bad, "-r", good, "--languages", "en-de"],
    ):
        assert f"error: {bad}, {words}" in clearhead(*arguments, code=2).log
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------------------------------------------- users' mistakes


def test_an_unknown_key_is_refused_with_what_may_have_been_meant(tmp_path: Path) -> None:
    source = write(tmp_path / "s", ["ba be"])
    arguments = few(tmp_path / "run", source, source)
    ran = clearhead(*arguments, *settings(training__updtes=5, model__dropuot=0.1), code=2)
    assert "training.updtes" in ran.log
    assert "did you mean 'updates'" in ran.log
    ran = clearhead(*arguments, *settings(model__dropuot=0.1), code=2)
    assert "dropuot" in ran.log
    assert "did you mean 'dropout'" in ran.log
    recipe = write(tmp_path / "recipe.toml", ["[trainin]", "updates = 5"])
    ran = clearhead("train", recipe, *arguments[1:], code=2)
    assert str(recipe) in ran.log
    assert "did you mean 'training'" in ran.log
    assert not (tmp_path / "run").exists()


def test_a_bundle_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    file = write(tmp_path / "file", ["ba"])
    for what in (tmp_path / "absent", tmp_path / "empty", file):
        for arguments in (["translate", what], ["score", what, "-s", file, "-t", file], ["info", what]):
            ran = clearhead(*arguments, code=2)
            assert ran.log.splitlines()[-1].startswith("error: ")
            assert str(what) in ran.log
            assert ran.out == b""


def test_one_changed_byte_anywhere_in_a_bundle_is_found(bundle: Path, tmp_path: Path) -> None:
    files = sorted(path.relative_to(bundle) for path in bundle.rglob("*") if path.is_file())
    assert {"bundle.toml", "weights.safetensors", "MANIFEST.json"} < {str(file) for file in files}
    for file in files:
        copy = tmp_path / "copy"
        shutil.copytree(bundle, copy)
        data = bytearray((copy / file).read_bytes())
        data[len(data) // 2] ^= 1
        (copy / file).write_bytes(data)
        ran = clearhead("translate", copy, code=2, stdin=b"ba be\n")
        assert ran.out == b""
        assert f"error: {copy / file}: damaged" in ran.log
        (copy / file).unlink()
        ran = clearhead("translate", copy, code=2, stdin=b"ba be\n")
        assert ran.log.splitlines()[-1].startswith("error: ")
        assert str(copy) in ran.log
        shutil.rmtree(copy)


def test_a_damaged_checkpoint_is_passed_over_when_a_run_goes_on(tmp_path: Path) -> None:
    lines = corpus()
    text = write(tmp_path / "s", lines)
    clearhead(*few(tmp_path / "run", text, text, training__updates=4, training__save_every=2))
    newest = tmp_path / "run" / "checkpoints" / "step-00000004"
    data = bytearray((newest / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    (newest / "weights.safetensors").write_bytes(data)
    assert "weights.safetensors: damaged" in clearhead("translate", newest, code=2, stdin=b"ba be\n").log
    # The run goes on from the last checkpoint that is good.
    assert "going on from step-00000002" in clearhead("train", "--out", tmp_path / "run").log
    clearhead("translate", newest, *OPTIONS, stdin=b"ba be\n")


def test_one_trainer_a_directory(tmp_path: Path) -> None:
    text = write(tmp_path / "s", corpus())
    run = tmp_path / "run"
    arguments = few(run, text, text, training__updates=1_000_000)
    command = [sys.executable, "-m", "clearhead", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        try:
            while not ((run / "LOCK").is_file() and (run / "LOCK").read_text().endswith("\n")):
                assert first.poll() is None, first.stderr and first.stderr.read()
                time.sleep(0.05)
            second = clearhead(*arguments, code=2)
            assert f"{run}: in use by process {first.pid} on " in second.log
            assert first.poll() is None
        finally:
            first.send_signal(signal.SIGKILL)
    # The lock of a dead process holds nobody up.
    clearhead(*few(run, text, text), "--fresh")


def test_usage_from_a_process_of_its_own() -> None:
    ran = process(["train", "--sauce", "x"], code=2)
    assert "--sauce" in ran.log
    assert "Traceback" not in ran.log
    assert ran.out == b""
