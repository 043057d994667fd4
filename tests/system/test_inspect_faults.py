"""`clearhead inspect` for the unlucky: what is in the way is told before the work, and nothing is left behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from clearhead.base.errors import InputError
from clearhead.inspection.record_files import load_records
from clearhead.inspection.records import Unit
from clearhead.recipes.inspect import sentence
from clearhead.recipes.translate import load
from tests.faults import DiskFault
from tests.system.program import clearhead, write
from tests.system.test_inspect import MODEL, PAIRS, SENTENCE, sample


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a mistake should be told before: the attention of the pair is read."""

    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(sentence, "capture_pair", work)


def test_the_guard_of_these_tests_can_fail(tmp_path: Path, no_work: None) -> None:
    with pytest.raises(AssertionError, match="begun"):
        clearhead("inspect", MODEL, SENTENCE, "-o", tmp_path / "r.html")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-o", "missing/r.html"], "there is no folder"),
        (["-o", "folder"], "give the report a file name"),
        (["-o", ""], "--output: the name is empty"),
        (["--save", ""], "--save: the name is empty"),
        (["--save", "folder"], "holds other files (kept.txt)"),
        (["--save", "folder/kept.txt"], "no folder"),
        (["--export", "folder/kept.txt"], "no folder"),
        (["--export", "folder/kept.txt/deeper"], "no folder"),
        (["--save", "new", "--export", "new"], "in the folder of --save"),
        (["--save", "new", "-o", "new/r.html"], "in the folder of --save"),
        (["--export", "new", "--layer", 9], "layer 9 is not there"),
        (["--export", "new", "--head", 9], "head 9 is not there"),
        (["--tests", "none", "--seed", 3], "--seed"),
    ],
)
def test_what_is_in_the_way_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_work: None, arguments: list[object], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "kept.txt", ["kept"])
    named = arguments if "-o" in arguments else [*arguments, "-o", "r.html"]
    assert told in clearhead("inspect", MODEL, SENTENCE, *named, code=2).log
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["folder", "folder/kept.txt"]


def test_the_report_may_stand_among_the_exports(tmp_path: Path) -> None:
    out = tmp_path / "out"
    clearhead("inspect", MODEL, SENTENCE, "--tests", "none", "--export", out, "--format", "csv", "-o", out / "r.html")
    assert (out / "r.html").is_file() and (out / "findings.csv").is_file()


def test_another_seed_must_be_of_the_same_shape_and_is_named(tmp_path: Path) -> None:
    from tests.unit.explorer.test_page import hostile_translator

    translator, same, other = load(MODEL, device="cpu"), load(MODEL, device="cpu"), hostile_translator()
    with torch.no_grad():
        next(same.model.parameters()).add_(0.1)  # what another seed would have made of it
    with pytest.raises(InputError, match=r"OTHER: its tokenizer is not that of the model that is inspected"):
        sentence.check_others(translator, [same, other], ["SAME", "OTHER"])
    smaller = load(MODEL, device="cpu")
    smaller.model.decoder.layers = smaller.model.decoder.layers[:0]  # type: ignore[union-attr,operator,index]
    with pytest.raises(
        Exception, match=r"SMALL: has heads encoder 2 by layer; .* has heads encoder 2, decoder 2, cross 2 by layer"
    ):
        sentence.check_others(translator, [smaller], ["SMALL"])
    sentence.check_others(translator, [same])
    with pytest.raises(InputError, match=r"ITSELF: is the very model"):
        sentence.check_others(translator, [translator], ["ITSELF"])


def test_a_link_to_no_word_is_refused(tmp_path: Path) -> None:
    links = write(tmp_path / "links", ["0-0 1-1 2-2", "0-0 9-1", *["0-0"] * 8])
    log = clearhead(
        "inspect", MODEL, "--sample", *sample(tmp_path), "--links", links, "-o", tmp_path / "r.html", code=2
    ).log
    assert "pair 2: the link 9-1 is to a word that is not there: the pair has 4 and 4 words" in log
    last = write(tmp_path / "links", ["0-0 2-2", "3-3", *["0-0"] * 8])
    clearhead("inspect", MODEL, "--sample", *sample(tmp_path), "--links", last, "--tests", "none",
              "-o", tmp_path / "r.html")  # fmt: skip


def test_unknown_tokens_and_what_is_no_text_are_told(tmp_path: Path) -> None:
    out = ["--tests", "none", "-o", tmp_path / "r.html"]
    log = clearhead("inspect", MODEL, "Hello 他", "--target", "Ü cats", *out).log
    told = [line for line in log.splitlines() if line.startswith("warning")]
    assert len(told) == 2 and "the text" in told[0] and "'H'" in told[0] and "the translation" in told[1]
    assert "warning" not in clearhead("inspect", MODEL, SENTENCE, *out).log
    log = clearhead("inspect", MODEL, SENTENCE, "--target", "he\udcff", *out, code=2).log
    assert "--target is not UTF-8, at character 3" in log


def test_the_last_line_stays_a_line(tmp_path: Path) -> None:
    out = ["--tests", "none", "-o", tmp_path / "r.html"]
    last = clearhead("inspect", MODEL, SENTENCE, "--target", "cats " * 60, *out).log.splitlines()[-1]
    assert last.endswith("cats…") or last.endswith("…")
    assert len(last) <= len(f"{tmp_path / 'r.html'}: ") + 120
    assert "(an empty translation)" in clearhead("inspect", MODEL, SENTENCE, "--target", "", *out).log


def test_the_same_command_gives_the_same_bytes_and_the_seed_changes_what_is_drawn(tmp_path: Path) -> None:
    made = []
    for number, seed in enumerate((1, 1, 2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        clearhead("inspect", MODEL, SENTENCE, "--seed", seed, "-o", folder / "r.html", "--save", folder / "records",
                  "--export", folder / "out", "--format", "csv", "--format", "npz")  # fmt: skip
        made.append({str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()})
    assert made[0] == made[1]
    values: list[dict[tuple[str, Unit], dict[str, float]]] = []
    for number in (0, 2):
        evidence = load_records(tmp_path / str(number) / "records").evidence
        assert evidence is not None
        values.append({(each.method, each.unit): dict(each.values) for each in evidence.findings})
    assert {key[0] for key in values[0] if values[0][key] != values[1][key]} == {"permutation"}


def test_ablation_and_uniform_weights_by_hand(tmp_path: Path) -> None:
    """Closing a head is the model with the columns of its output projection at 0, written out without the twin."""
    clearhead("inspect", MODEL, SENTENCE, "-o", tmp_path / "r.html", "--save", tmp_path / "records")
    found = load_records(tmp_path / "records")
    assert found.attention is not None and found.evidence is not None
    from clearhead.inspection.sites import attention_sites
    from clearhead.inspection.teaching import Pairs, gold_log_probs

    translator = load(MODEL, device="cpu")
    model = translator.model
    ids = [[token.id for token in side[:-1]] for side in (found.attention.source, found.attention.gold)]
    pairs = Pairs.of([ids[0]], [ids[1]])
    with torch.no_grad():
        before = gold_log_probs(model, pairs)[0]
        torch.testing.assert_close(before, found.attention.log_probs.to(before), rtol=1e-4, atol=1e-5)
        for site in attention_sites(model):
            projection = model.get_submodule(str(site.attention)).output.weight
            width = projection.shape[1] // site.heads
            for head in range(site.heads):
                kept = projection.clone()
                projection[:, head * width : (head + 1) * width] = 0
                cost = float((before - gold_log_probs(model, pairs)[0]).mean())
                projection.copy_(kept)
                unit = Unit(site.stack, site.layer, head + 1)
                told = next(
                    each.values["delta_nll"]
                    for each in found.evidence.findings
                    if each.unit == unit and each.method == "ablation-zero"
                )
                assert told == pytest.approx(cost, abs=2e-5) and abs(cost) > 1e-4


def test_a_full_disk_leaves_the_old_report_and_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["inspect", MODEL, SENTENCE, "--tests", "none", "-o", tmp_path / "r.html", "--save", tmp_path / "rec"]
    clearhead(*arguments)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for call, where in (("write", "rec"), ("fsync", "rec"), ("fsync", "r.html")):
        with monkeypatch.context() as patch:
            fault = DiskFault(patch, call, errno.ENOSPC, where=where)  # type: ignore[arg-type]
            fault.on = True
            log = clearhead(*arguments, code=1).log
            assert fault.calls and "No space left" in log
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("missing", ["matplotlib", "pyarrow"])
def test_a_missing_package_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_work: None, missing: str
) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)  # type: ignore[arg-type]
    chosen = "parquet" if missing == "pyarrow" else "png"
    log = clearhead("inspect", MODEL, SENTENCE, "--export", tmp_path / "out", "--format", chosen,
                    "-o", tmp_path / "r.html", code=2).log  # fmt: skip
    assert "pip install" in log and not list(tmp_path.iterdir())


def test_a_signal_ends_it_without_a_trace(tmp_path: Path) -> None:
    source, target = sample(tmp_path, PAIRS * 10)
    before = sorted(tmp_path.rglob("*"))
    command = [sys.executable, "-m", "clearhead", "inspect", MODEL, "--sample", source, target, "--threads", "1"]
    command += ["--tests", "full", "-o", tmp_path / "r.html", "--save", tmp_path / "rec", "--export", tmp_path / "out"]
    with subprocess.Popen(
        [str(each) for each in command], stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": ""}
    ) as running:
        assert running.stderr is not None
        heard = ""
        while "adversarial" not in heard:
            assert (line := running.stderr.readline()), heard
            heard += line
        time.sleep(0.2)
        running.send_signal(signal.SIGTERM)
        heard += running.stderr.read()
    assert running.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in heard and "passes through the decoder" in heard
    assert sorted(tmp_path.rglob("*")) == before


def test_a_sidecar_says_only_what_is_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    clearhead("inspect", MODEL, SENTENCE, "--tests", "none", "--export", out, "--format", "csv",
              "--stack", "cross", "-o", tmp_path / "r.html")  # fmt: skip
    for about in out.glob("*.meta.json"):
        told = json.loads(about.read_text("utf-8"))
        assert told["files"] and all((out / name).is_file() for name in told["files"])
