"""A model that learnt its positions, trained, scored and used on text that is longer than they reach."""

import json
from pathlib import Path

import pytest

from tests.system.program import clearhead, disjoint, settings, train, write

# One process trains what these share. Nothing here is about time; the machine may be shared.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("positions")]

POSITIONS = 24


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Source and target to train on, and a development set: its third line is longer than any model here can read."""
    where = tmp_path_factory.mktemp("text")
    training, dev = disjoint(4, (200, 6))
    dev[2] = " ".join([*dev[2].split(), *["ba be bi."] * 40])
    return write(where / "source", training), write(where / "target", training), write(where / "dev", dev)


def arguments(texts: tuple[Path, Path, Path], out: Path, **values: object) -> list[object]:
    source, target, dev = texts
    size = {
        "model__d_model": 16,
        "model__d_ff": 16,
        "model__encoder_layers": 1,
        "model__attention__heads": 2,
        "model__positions": f'{{kind = "learned", max_positions = {POSITIONS}}}',
        "data__max_length": POSITIONS - 1,
        "training__updates": 4,
        "training__validate_every": 4,
        "training__score_every": 4,
    }
    return train(out, source, target, "--dev-source", dev, "--dev-target", dev, **(size | values))


def test_text_beyond_the_last_position(texts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    run, dev = tmp_path / "run", texts[2]
    clearhead(*arguments(texts, run))
    last = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][-1]
    assert last["dev_bleu"] >= 0  # the long line has been translated, in pieces
    found = clearhead("translate", run, dev, "--json", "--threads", 1).objects
    assert ["split" in each["flags"] for each in found] == [n == 2 for n in range(6)]
    assert not any("failed" in each["flags"] for each in found)
    (table,) = clearhead("evaluate", run, "-s", dev, "-r", dev, "--json", "--threads", 1).objects
    assert table["lines"] == 6
    assert table["bleu"]["value"] == pytest.approx(last["dev_bleu"], abs=0.01)
    ran = clearhead("score", run, "-s", dev, "-t", dev, "--threads", 1, code=1)
    assert [line.startswith("nan") for line in ran.lines] == [n == 2 for n in range(6)]
    assert "pair 3 failed" in ran.log
    assert "1 of 6 lines could not be scored" in ran.log


def test_too_few_positions_are_refused_before_training(texts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Also for the model that `--init` brings, which only the bundle knows."""
    ran = clearhead(*arguments(texts, tmp_path / "few", data__max_length=POSITIONS), code=2)
    assert f"data.max_length = {POSITIONS} needs {POSITIONS + 1} positions" in ran.log
    run = tmp_path / "run"
    clearhead(*arguments(texts, run))
    source, target, _ = texts
    start = ["train", "--source", source, "--target", target, "--languages", "en,de", "--init", run]
    limits = settings(training__updates=1, data__max_length=200)
    ran = clearhead(*start, "--out", tmp_path / "again", *limits, code=2)
    assert f"needs 201 positions (EOS is one), but model.positions.max_positions = {POSITIONS}" in ran.log
