"""`clearhead compare --quick`, whole, and what a stop in the middle leaves."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.system.program import WORDS, clearhead, process

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("compare")]


def corpus(directory: Path) -> Path:
    """Sentences of made-up words, each translated by itself in capitals."""
    directory.mkdir()
    rng = random.Random(1)
    words = ["".join(rng.choices(WORDS, k=3)) for _ in range(400)]
    for part, count in (("train", 600), ("dev", 20), ("test", 40)):
        lines = [" ".join(rng.choices(words, k=rng.randint(4, 14))) for _ in range(count)]
        (directory / f"{part}.en").write_text("".join(f"{line}\n" for line in lines))
        (directory / f"{part}.de").write_text("".join(f"{line.upper()}\n" for line in lines))
    return directory


def test_the_whole_at_reduced_size_and_the_same_again(tmp_path: Path) -> None:
    text, out = corpus(tmp_path / "c"), tmp_path / "out"
    command = ["compare", "--out", out, "--corpus", text, "--quick", "--updates", 12]
    process(command)
    results = {path.stem for path in (out / "results").glob("*.json")}
    assert {"setting", "gradients", "layers", "alignments"} < results
    assert {"transformer", "seq2seq", "seq2seq-reversed", "encdec", "rnnsearch", "luong"} < results
    found = json.loads((out / "results" / "rnnsearch.json").read_text())
    assert found["updates"] == found["planned_updates"] == 12
    assert found["bleu"]["low"] <= found["bleu"]["value"] <= found["bleu"]["high"]
    assert 0 < found["bleu_p"] <= 1
    assert sum(each["sentences"] for each in found["by_length"]) == 40
    assert json.loads((out / "results" / "transformer.json").read_text())["bleu_p"] is None
    learned = json.loads((out / "results" / "transformer-learned.json").read_text())
    assert learned["long_by_length"]
    errors = json.loads((out / "results" / "alignments.json").read_text())["errors"]
    assert {"rnnsearch", "luong", "transformer", "HMM"} <= {each["model"] for each in errors}
    page = (out / "report" / "index.html").read_text()
    assert "rnnsearch" in page.lower()

    # The same again trains and measures nothing: what it would have to write is as old as before.
    before = {path: path.stat().st_mtime_ns for path in (out / "results").iterdir()}
    process(command)
    assert {path: path.stat().st_mtime_ns for path in (out / "results").iterdir()} == before

    ran = clearhead(*command[:-1], 13, code=2)
    assert "updates: 12 → 13" in ran.log


def test_a_signal_stops_the_models_which_save_and_go_on(tmp_path: Path) -> None:
    text, out = corpus(tmp_path / "c"), tmp_path / "out"
    command = [sys.executable, "-m", "clearhead", "compare", "--out", str(out), "--corpus", str(text), "--quick"]
    command += ["--only", "transformer", "--updates", "500000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"}) as running:
        metrics = out / "models" / "transformer" / "metrics.jsonl"
        until = time.monotonic() + 120
        while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < until:
            assert running.poll() is None
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        _, log = running.communicate(timeout=120)
    assert running.returncode == 143, log.decode()
    assert "goes on" in log.decode()
    assert "Traceback" not in log.decode()
    saved = list((out / "models" / "transformer" / "checkpoints").glob("step-*"))
    assert saved
    assert not (out / "results" / "transformer.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nobody"], "--only nobody: no model of the line-up"),
        (["--minutes", "0"], "--minutes 0.0: must be more than 0"),
        (["--languages", "en"], "en"),
        (["--corpus", "nowhere"], "--corpus nowhere: not a directory"),
    ],
)
def test_mistakes_are_told_before_anything_is_done(tmp_path: Path, arguments: list[str], message: str) -> None:
    given = [] if "--corpus" in arguments else ["--corpus", corpus(tmp_path / "c")]
    ran = clearhead("compare", "--out", tmp_path / "out", "--quick", *given, *arguments, code=2)
    assert message in ran.log
    assert not (tmp_path / "out" / "models").exists()
