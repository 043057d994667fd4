"""Engines and precisions through the command line: as many lines out as in, whoever runs the model."""

import re
from pathlib import Path

import pytest

from clearhead.bundle.bundle import Bundle, save_bundle
from clearhead.engine import arena
from clearhead.engine import library as native
from clearhead.models import build, presets
from tests.system.program import Ran, clearhead, read, write
from tests.unit.recipes.tiny import VOCABULARY, save_tiny, tiny_tokenizers

ODD = ["the cat sat on the mat. Really!", "", "Anna", "   ", "x\u2028y\x0cz", "the cat. " * 300, "\u4f60\u597d", "mat"]
NATIVE = pytest.mark.skipif(native.library() is None, reason="no native library")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("engine") / "tiny")


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = presets.rnnsearch_tiny(vocab_size=VOCABULARY)
    path = tmp_path_factory.mktemp("engine") / "rnnsearch"
    save_bundle(path, Bundle(build(config, seed=1).eval(), tiny_tokenizers(), ("en", "de"), config))
    return path


def translated(bundle: Path, source: Path, *options: object) -> Ran:
    return clearhead("translate", bundle, source, "--max-length", 9, *options)


@NATIVE
def test_every_engine_gives_as_many_lines_as_it_got(bundle: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "odd", ODD)
    plain = translated(bundle, source, "--engine", "plain", "--threads", 1)
    assert "; plain engine; " in plain.log
    assert "decoder steps" not in plain.log
    for options in (("--threads", 1), ("--threads", 2), ("--window", 2, "--batch-tokens", 1), ("--reproducible",)):
        fast = translated(bundle, source, *options)
        assert "; fast engine, fp32, native library (" in fast.log
        assert " decoder steps a sentence" in fast.log
        assert fast.out == plain.out
    for precision, word in (("int8", "int8 rows × channels"), ("bf16", "bf16")):
        found = [
            translated(bundle, source, "--precision", precision, "--threads", threads, "--window", window, "--json")
            for threads, window in ((1, 3), (2, 100))
        ]
        assert word in found[0].log
        assert found[0].out == found[1].out  # to the last bit of every score
        assert len(found[0].lines) == len(ODD)
        assert [bool(each["text"]) for each in found[0].objects] == [bool(line.strip()) for line in ODD]


def test_the_absence_of_the_library_changes_the_header_alone(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path / "odd", ODD)
    plain = translated(bundle, source, "--engine", "plain")
    monkeypatch.setenv(native.VARIABLE, "0")
    native._load_once.cache_clear()
    try:
        auto, fast = translated(bundle, source), translated(bundle, source, "--engine", "fast")
    finally:
        native._load_once.cache_clear()
    assert f"; plain engine (no native library: turned off by {native.VARIABLE}=0); " in auto.log
    assert "fast engine, fp32, PyTorch (no native library" in fast.log
    assert auto.out == fast.out == plain.out


def test_evaluate_names_the_engine_and_refuses_it_for_texts(bundle: Path, tmp_path: Path) -> None:
    source, reference = write(tmp_path / "in", ["the cat", "Anna"]), write(tmp_path / "ref", ["die Katze", "Anna"])
    start = ("evaluate", bundle, "-s", source, "-r", reference, "--max-length", 5, "--precision", "int8")
    assert "fast engine, int8, " in clearhead(*start, "-o", tmp_path / "out").log
    assert len(read(tmp_path / "out")) == 2
    refused = clearhead("evaluate", source, "-r", reference, "--languages", "en-de", "--engine", "fast", code=2)
    assert "--engine: for a BUNDLE only" in refused.log


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--engine", "plain", "--precision", "int8"), "precision int8 needs the fast engine"),
        (("--precision", "bf16", "--alignments", "links"), "--alignments reads the weights as they were trained"),
        (("--precision", "int8", "--replace-unknown"), "--replace-unknown reads the weights as they were trained"),
        (("--precision", "int8", "--reproducible", "--sample"), "reproducible in precision int8"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    options: tuple[str, ...], told: str, bundle: Path, tmp_path: Path
) -> None:
    source = write(tmp_path / "in", ["the cat"])
    refused = clearhead("translate", bundle, source, "-o", tmp_path / "out", *options, code=2)
    assert f"error: {told}" in refused.log
    assert " parameters" not in refused.log  # nothing was said to run
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [(), ("--precision", "int8")])
def test_a_wish_for_what_there_is_not_is_refused(
    options: tuple[str, ...], bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(native.VARIABLE, "sse")
    source = write(tmp_path / "in", ["the cat"])
    refused = clearhead("translate", bundle, source, "-o", tmp_path / "out", *options, code=2)
    assert refused.log == "error: CLEARHEAD_NATIVE is 'sse', but must be one of: 0, avx512, avx2, portable\n"
    assert clearhead("translate", bundle, source, "--engine", "plain", "--max-length", 2).lines


def test_a_library_that_does_not_load_is_warned_of(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_native.so").write_bytes(b"no library\n" * 100)
    monkeypatch.setattr(native, "_FILE", tmp_path / "_native.so")
    monkeypatch.delenv(native.VARIABLE, raising=False)
    native._load_once.cache_clear()
    try:
        ran = translated(bundle, write(tmp_path / "in", ["the cat"]), "--engine", "fast")
    finally:
        native._load_once.cache_clear()
    assert f"warning: the native library is not used: {tmp_path / '_native.so'} cannot be loaded" in ran.log
    assert "warning: no native library" in ran.log and "quicker on the plain engine" in ran.log
    assert len(ran.lines) == 1


TORCH = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8"
)


@NATIVE
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(12, "Cannot allocate memory"), r"memory ran out \(no memory for \d+ bytes of weights\): free some"),
        (MemoryError(), "memory ran out: free some"),
        (RuntimeError(TORCH), "memory ran out: free some"),
    ],
    ids=["the system's", "Python's", "PyTorch's"],
)
def test_memory_that_ran_out_is_told_in_a_line(
    error: Exception, told: str, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(_: int) -> None:
        raise error

    monkeypatch.setattr(arena, "_mapping", exhausted)
    source = write(tmp_path / "in", ["the cat"])
    refused = clearhead("translate", bundle, source, "-o", tmp_path / "out", "--engine", "fast", code=1)
    assert re.match(f"error: {told}", refused.log)
    assert len(refused.log.splitlines()) == 1
    assert "Traceback" not in refused.log
    assert not (tmp_path / "out").exists()


def test_other_architectures_stay_plain_and_say_why(recurrent: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "odd", ODD)
    ran = translated(recurrent, source)
    assert "plain engine (the model is no whole Transformer" in ran.log
    assert len(ran.lines) == len(ODD)
    for options in (("--engine", "fast"), ("--precision", "int8")):
        name = " ".join(options).removeprefix("--")
        refused = clearhead("translate", recurrent, source, *options, code=2)
        assert f"error: {name}: the model is no whole Transformer" in refused.log
        assert "choose the engine plain in precision fp32" in refused.log


@NATIVE
def test_an_ensemble_votes_in_the_fast_engine(bundle: Path, tmp_path: Path) -> None:
    other = save_tiny(tmp_path / "other", seed=2)
    source = write(tmp_path / "in", ["the cat sat", "Anna"])
    fast, plain = (translated(bundle, source, "--ensemble", other, "--engine", engine) for engine in ("auto", "plain"))
    assert "an ensemble in PyTorch" in fast.log
    assert fast.out == plain.out


@NATIVE
def test_files_that_are_no_text_are_refused_and_nothing_is_written(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"the cat\n\xff\xfe\n")
    refused = clearhead("translate", bundle, tmp_path / "bad", "-o", tmp_path / "out", code=2)
    assert "line 2" in refused.log
    assert not (tmp_path / "out").exists()
