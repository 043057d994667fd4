"""`clearhead inspect` from the command line: what it reads, what it writes, and what it refuses."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.base.errors import InputError
from clearhead.base.seeds import mix
from clearhead.bundle.bundle import load_bundle, read_info, save_bundle
from clearhead.explorer.inspection import inspect
from clearhead.inspection.record_files import load_records
from clearhead.inspection.records import Unit
from clearhead.models.build import build
from clearhead.recipes.inspect import sample as sample_module
from clearhead.recipes.translate import load
from tests.system.program import clearhead, write

MODEL = Path(__file__).parents[2] / "docs" / "transformer" / "site" / "model"
SENTENCE = "他 每天 爱 小 猫"
PAIRS = [("他 爱 猫", "he loves cats"), ("我 爱 小 猫", "I love small cats")] * 5


def sample(folder: Path, pairs: list[tuple[str, str]] = PAIRS) -> list[Path]:
    return [write(folder / f"pairs.{side}", [pair[side] for pair in pairs]) for side in (0, 1)]


def test_what_is_read_is_what_translate_finds(tmp_path: Path) -> None:
    for rank in (1, 3):
        clearhead("inspect", MODEL, SENTENCE, "--hypothesis", rank, "--tests", "none", "-o", tmp_path / "r.html",
                  "--save", tmp_path / "records")  # fmt: skip
        told = clearhead("translate", MODEL, "--n-best", rank, "--json", stdin=f"{SENTENCE}\n".encode()).objects[0]
        best = told if rank == 1 else told["alternatives"][rank - 2]
        found = load_records(tmp_path / "records").attention
        assert found is not None
        assert (found.origin, found.rank, found.source_text) == ("search", rank, SENTENCE)
        assert found.target_text == best["text"]
        assert found.score == pytest.approx(best["score"], rel=1e-5)
        assert float(found.log_probs.sum()) == pytest.approx(best["log_prob"], rel=1e-5)
        assert [token.text for token in found.gold[:-1]] == list(best["tokens"])
        for layer in found.layers:
            torch.testing.assert_close(layer.weights.sum(-1), torch.ones(layer.weights.shape[:-1]))
            assert not layer.weights[:, ~layer.visible].any()


def test_a_given_target_is_another_record(tmp_path: Path) -> None:
    clearhead("inspect", MODEL, SENTENCE, "--target", "she sees old fish", "--tests", "none",
              "-o", tmp_path / "r.html", "--save", tmp_path / "records")  # fmt: skip
    found = load_records(tmp_path / "records").attention
    assert found is not None
    assert (found.origin, found.rank, found.score, found.target_text) == ("given", None, None, "she sees old fish")
    files = write(tmp_path / "s", [SENTENCE]), write(tmp_path / "t", ["she sees old fish"])
    told = clearhead("score", MODEL, "-s", files[0], "-t", files[1])
    assert float(found.log_probs.sum()) == pytest.approx(float(told.lines[0].split("\t")[0]), rel=1e-4)


def test_quick_tests_leave_nothing_of_a_head_untested_but_adversaries(tmp_path: Path) -> None:
    clearhead("inspect", MODEL, SENTENCE, "-o", tmp_path / "r.html", "--save", tmp_path / "records")
    found = load_records(tmp_path / "records")
    assert found.attention is not None and found.evidence is not None and found.sample is None
    for layer in found.attention.layers:
        unit = Unit(layer.stack, layer.layer, 1)
        methods = {each.method for each in found.evidence.findings if each.unit == unit}
        expected = {"statistics", "role", "importance", "ablation-zero", "ablation-mean", "permutation", "uniform"}
        assert methods >= expected and "adversarial" not in methods
    scored = {each.method for each in found.evidence.scores}
    assert scored == {
        "attention", "value-norms", "rollout", "gradient-input", "gradient-norm", "integrated-gradients", "occlusion",
    }  # fmt: skip
    assert found.evidence.lens and {each.method for each in found.evidence.curves} == {"temperature"}


def test_a_sample_stands_beside_the_sentence(tmp_path: Path) -> None:
    links = write(tmp_path / "links", ["0-0 1-1 2-2"] * len(PAIRS) * 4)
    ran = clearhead("inspect", MODEL, "--sample", *sample(tmp_path, PAIRS * 4), "--pairs", 36, "--links", links,
                    "-o", tmp_path / "r.html", "--save", tmp_path / "records")  # fmt: skip
    assert "pruning" in ran.log and "━" not in ran.log  # bars are for a terminal
    found = load_records(tmp_path / "records")
    assert found.attention is not None and found.sample is not None
    assert found.attention.target_text == PAIRS[0][1] and found.attention.origin == "given"
    assert found.sample.pairs == 36
    assert {each.name.rsplit("/")[-1] for each in found.sample.curves if each.method == "pruning"} == {
        "encoder", "decoder", "cross", "all",
    }  # fmt: skip
    assert all("score" in each.series for each in found.sample.curves if each.method == "pruning")
    assert found.sample.probes and all(each.untrained is not None for each in found.sample.probes)
    assert "untrained model of this configuration, seed 2" in ran.log  # the bundle tells no seed, so it is 1
    cross = next(each for each in found.sample.findings if each.method == "role" and each.unit.stack == "cross")
    assert "aligned_score" in cross.values


def test_exports_name_the_model_and_the_place(tmp_path: Path) -> None:
    out = tmp_path / "out"
    clearhead("inspect", MODEL, SENTENCE, "--tests", "none", "-o", tmp_path / "r.html", "--export", out,
              "--format", "svg", "--format", "csv", "--format", "parquet", "--format", "npz",
              "--stack", "cross", "--layer", 1, "--head", 2, "--scale", "log", "--language", "zh")  # fmt: skip
    names = {path.name for path in out.iterdir()}
    assert {"attention-weights.csv", "attention-weights.parquet", "attention-weights.npz", "findings.csv"} <= names
    assert len([name for name in names if name.endswith(".svg")]) == 1
    about: dict[str, Any] = json.loads((out / "attention-weights.meta.json").read_text("utf-8"))
    assert "softmax" in json.dumps(about) and len(json.dumps(about)) > 200


@pytest.mark.parametrize(("folder", "name"), [("x", "x"), ("x/average", "x/average"), ("x/checkpoints/s", "x/s")])
def test_a_model_is_called_by_its_run(tmp_path: Path, folder: str, name: str) -> None:
    shutil.copytree(MODEL, tmp_path / folder)
    clearhead("inspect", tmp_path / folder, SENTENCE, "--tests", "none", "-o", tmp_path / "r.html",
              "--save", tmp_path / "records", "--export", tmp_path / "out", "--format", "csv")  # fmt: skip
    found = load_records(tmp_path / "records")
    assert found.attention is not None and found.evidence is not None
    assert found.attention.provenance.model == found.evidence.provenance.model == name


def test_the_untrained_model_beside_the_probes_is_of_the_seed_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def probed(*_: object, untrained: object, **__: object) -> list[object]:
        given.append(untrained)
        return []

    monkeypatch.setattr(sample_module, "probe", probed)
    for dear in ("pruning_curve", "permutation", "uniform"):
        monkeypatch.setattr(sample_module, dear, lambda *_, **__: [])
    for more in (["--seed", 5], []):
        clearhead("inspect", MODEL, "--sample", *sample(tmp_path), "-o", tmp_path / "r.html", *more)
    clearhead("inspect", MODEL, "--sample", *sample(tmp_path), "--pairs", 7, "-o", tmp_path / "r.html")
    assert len(given) == 2  # 7 pairs are too few to probe
    for seed, model in zip((5, 2), given, strict=True):
        expected = build(read_info(MODEL).config, seed=mix(seed, 1))
        assert all(torch.equal(*each) for each in zip(model.parameters(), expected.parameters(), strict=True))


def test_on_a_terminal_a_bar_shows_how_far_it_is_and_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "clearhead", "inspect", MODEL, SENTENCE, "--threads", "1", "--tests", "full"]
    command += ["-o", tmp_path / "r.html", "--save", tmp_path / "records", "--export", tmp_path / "out"]
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": "", "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen([str(each) for each in command], stderr=theirs, env=environment) as running:
        os.close(theirs)
        heard = ""
        while not re.search(r"adversarial weights [^a-z]*[1-9]\d*/", heard):
            heard += terminal(ours)
        running.send_signal(signal.SIGINT)
        while more := terminal(ours):
            heard += more
    os.close(ours)
    assert running.returncode == 130 and "Traceback" not in heard
    assert "integrated gradients: 32 to 2016 gradients for each of" in heard
    assert "passes through the decoder, forwards and back" in heard and "error: interrupted" in heard
    assert not list(tmp_path.iterdir())


def terminal(handle: int) -> str:
    """What comes next; nothing once the other end is closed, which Linux tells as an error."""
    try:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(handle, 1 << 16).decode("utf-8", "replace"))
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "nothing to look at"),
        ([" "], "nothing to translate"),
        (["我\n爱"], "line break"),
        ([SENTENCE, "-o", "-"], "not to standard output"),
        ([SENTENCE, "--hypothesis", 9], "beam"),
        ([SENTENCE, "--target", "she", "--hypothesis", 2], "--hypothesis"),
        ([SENTENCE, "--target", "she", "--beam", 2], "--beam"),
        ([SENTENCE, "--pairs", 3], "--sample"),
        ([SENTENCE, "--layer", 1], "--export"),
        ([SENTENCE, "--export", "OUT", "--format", "gif"], "gif"),
        ([SENTENCE, "--export", "OUT", "--stack", "middle"], "middle"),
        (["--target", "she", "--sample", "A", "B"], "--target"),
    ],
)
def test_mistakes_are_told_without_a_traceback(tmp_path: Path, arguments: list[object], told: str) -> None:
    named = [tmp_path / each if each in ("OUT", "A", "B") else each for each in arguments]
    if "-o" not in named:
        named += ["-o", tmp_path / "r.html"]
    assert told in clearhead("inspect", MODEL, *named, code=2).log
    assert not list(tmp_path.iterdir())


def test_samples_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    source, target = sample(tmp_path)
    short = write(tmp_path / "short", ["he"])
    log = clearhead("inspect", MODEL, "--sample", source, short, "-o", tmp_path / "r.html", code=2).log
    assert "10" in log and "1" in log and "short" in log
    links = write(tmp_path / "links", ["0-0"])
    log = clearhead(
        "inspect", MODEL, "--sample", source, target, "--links", links, "-o", tmp_path / "r.html", code=2
    ).log
    assert "links has 1 lines" in log
    blank = [write(tmp_path / name, ["", " "]) for name in ("b.src", "b.trg")]
    assert "no pair" in clearhead("inspect", MODEL, "--sample", *blank, "-o", tmp_path / "r.html", code=2).log
    assert not (tmp_path / "r.html").exists()


def test_another_seed_is_the_measure_of_a_difference(tmp_path: Path) -> None:
    bundle = load_bundle(MODEL)
    other = build(bundle.config, seed=5)
    save_bundle(tmp_path / "other", replace(bundle, model=other))
    clearhead("inspect", MODEL, SENTENCE, "--tests", "none", "--other-seed", tmp_path / "other",
              "-o", tmp_path / "r.html", "--save", tmp_path / "records")  # fmt: skip
    found = load_records(tmp_path / "records").evidence
    assert found is not None
    null = [each for each in found.findings if each.method == "seed-null"]
    assert null and all(0 < each.values["matched"] < 0.7 for each in null)
    log = clearhead("inspect", MODEL, SENTENCE, "--other-seed", MODEL, "-o", tmp_path / "s.html", code=2).log
    assert "the very model" in log


def test_python_is_as_careful_as_the_command_line() -> None:
    translator = load(MODEL, device="cpu")
    wrong: list[dict[str, Any]] = [
        {"text": [SENTENCE]}, {"tests": "nothing"}, {"language": "de"}, {"pairs": 0}, {"sample": "x"},
        {"sample": [("one",)]}, {"translator": str(MODEL)},
    ]  # fmt: skip
    for each in wrong:
        with pytest.raises(InputError):
            inspect(**{"translator": translator, "text": SENTENCE} | each)
