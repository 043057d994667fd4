"""The average that a run makes of its last checkpoints: which they are, when it is made anew, when it is the best."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from clearhead.base.errors import ConfigError
from clearhead.bundle.bundle import load_bundle
from clearhead.bundle.resolve import resolve, steps
from clearhead.recipes.average import average
from clearhead.recipes.run_config import compose
from clearhead.recipes.train import TrainResult, train
from clearhead.training.events import Validation
from clearhead.training.trainer import Trainer

Run = Callable[..., TrainResult]
Measured = Callable[[float | None], list[str]]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    words = ["red", "green", "blue", "door", "window", "lamp", "light", "garden"]
    for name, shift in (("train", 0), ("dev", 3)):
        lines = [f"{words[i % 8]} {words[(i * 3 + shift) % 8]} {words[i // 8]}" for i in range(48)]
        (directory / f"{name}.en").write_text("".join(line + "\n" for line in lines))
        (directory / f"{name}.de").write_text("".join(line.upper() + "\n" for line in lines))
    return directory


@pytest.fixture
def run(corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Run:
    caplog.set_level(logging.INFO, logger="clearhead")

    def run(**training: Any) -> TrainResult:
        table: dict[str, Any] = {
            "out": str(tmp_path / "run"),
            "data": {
                "languages": ["en", "de"],
                "train": {"source": str(corpus / "train.en"), "target": str(corpus / "train.de")},
                "dev": {"source": str(corpus / "dev.en"), "target": str(corpus / "dev.de")},
                "batch_tokens": 100,
                "cache": str(corpus / "cache"),
            },
            "tokenizer": {"vocab_size": 300},
            "model": {"preset": "tiny", "d_model": 8, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1},
            "training": {
                **{"updates": 4, "precision": "fp32", "threads": 1, "validate_every": 2, "save_every": 2},
                **training,
            },
        }
        table["model"]["attention"] = {"heads": 2}
        return train(compose(table))

    return run


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """From a call of it on, an average has this development NLL (None: killed instead); returns what was measured."""
    measure = Validation.measure

    def measured(value: float | None) -> list[str]:
        told: list[str] = []

        def instead(self: Validation, trainer: Trainer, model: Any, scored: bool) -> dict[str, float]:
            told.append("model" if model is trainer.model else "average")
            if told[-1] == "model":
                return measure(self, trainer, model, scored)
            if value is None:
                raise KeyboardInterrupt
            return {"nll": value}

        monkeypatch.setattr(Validation, "measure", instead)
        return told

    return measured


def averaged(run: Path) -> list[str]:
    return [str(name)[-2:] for name in load_bundle(run / "average").training["averaged"]]


def best(run: Path) -> Any:
    return json.loads((run / "best.json").read_text())


def test_the_command_and_the_run_choose_the_same_checkpoints(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that was saved because it was the best (update 5) or at an interruption is left out by both."""
    measure = Validation.measure

    def best_at_five(self: Validation, trainer: Trainer, model: Any, scored: bool) -> dict[str, float]:
        return measure(self, trainer, model, scored) | {"nll": 1.0 if trainer.progress.update == 5 else 9.0}

    monkeypatch.setattr(Validation, "measure", best_at_five)
    run(updates=6, average_last=3, validate_every=5)
    directory = tmp_path / "run"
    assert [update for update, _ in steps(directory)] == [2, 4, 5, 6]
    average([directory], tmp_path / "mean", last=3)
    mean, ours = (load_file(path / "weights.safetensors") for path in (tmp_path / "mean", directory / "average"))
    assert averaged(directory) == ["02", "04", "06"]
    assert all(torch.equal(mean[name], tensor) for name, tensor in ours.items())
    # Only when too few are left does the extra one count, and then for both again.
    average([directory], tmp_path / "all", last=4)
    assert [name[-2:] for name in load_bundle(tmp_path / "all").training["averaged"]] == ["02", "04", "05", "06"]


def test_one_bundle_is_no_average(run: Run, tmp_path: Path) -> None:
    run()
    for paths, last in (([tmp_path / "run"], 0), ([tmp_path / "run"], 1)):
        with pytest.raises(ConfigError, match="at least two.*--last"):
            average(paths, tmp_path / "mean", last=last)
    assert not (tmp_path / "mean").exists()


def test_an_average_of_earlier_checkpoints_is_not_judged_again(run: Run, tmp_path: Path, measured: Measured) -> None:
    """Extended, and killed after the last checkpoint of the extension: `average/` is still that of the short run."""
    measured(0.5)
    assert run(average_last=2).best == 0.5
    short = tmp_path / "short"
    shutil.copytree(tmp_path / "run" / "average", short)
    run(average_last=2, updates=6)
    shutil.rmtree(tmp_path / "run" / "average")
    shutil.copytree(short, tmp_path / "run" / "average")  # as if the kill had come before it was taken away
    told = measured(0.75)
    result = run(average_last=2, updates=6)
    assert result.already_finished
    assert told == ["average"]
    assert averaged(tmp_path / "run") == ["04", "06"]
    assert result.best == 0.75


def test_a_stale_average_that_was_the_best_is_so_no_longer(run: Run, tmp_path: Path, measured: Measured) -> None:
    measured(0.5)
    run(average_last=2)
    assert resolve(tmp_path / "run").name == "average"
    measured(99.0)
    result = run(average_last=2, updates=6)
    assert best(tmp_path / "run")["value"] == result.best
    assert resolve(tmp_path / "run").parent.name == "checkpoints"


@pytest.mark.parametrize("value", [0.5, 99.0], ids=["better", "worse"])
def test_an_average_is_measured_once(run: Run, tmp_path: Path, measured: Measured, value: float) -> None:
    measured(value)
    first = run(average_last=2).best
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    told = measured(None)  # would be killed
    assert run(average_last=2).best == first
    assert told == []
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_a_kill_while_it_is_measured_leaves_nothing_half_done(run: Run, tmp_path: Path, measured: Measured) -> None:
    measured(None)
    with pytest.raises(KeyboardInterrupt):
        run(average_last=2)
    assert resolve(tmp_path / "run").parent.name == "checkpoints"
    measured(0.5)
    assert run(average_last=2).best == 0.5
    assert resolve(tmp_path / "run") == tmp_path / "run" / "average"
    (tmp_path / "run" / "best.json").unlink()  # or killed before this was written
    measured(None)
    assert run(average_last=2).best == 0.5
    assert resolve(tmp_path / "run") == tmp_path / "run" / "average"


@pytest.mark.parametrize("damage", ["a bit", "no manifest", "a file"])
def test_a_damaged_average_is_made_anew(run: Run, tmp_path: Path, damage: str) -> None:
    run(average_last=2)
    where = tmp_path / "run" / "average"
    whole = (where / "weights.safetensors").read_bytes()
    if damage == "a bit":
        (where / "weights.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif damage == "no manifest":
        (where / "MANIFEST.json").unlink()
    else:
        shutil.rmtree(where)
        where.write_text("in the way")
    run(average_last=2)
    assert (where / "weights.safetensors").read_bytes() == whole
    load_bundle(where)


def test_it_follows_what_is_asked_for(run: Run, tmp_path: Path) -> None:
    """Another number on a finished run: made anew of so many. None: what is there stays, unless it is of other ones."""
    run(updates=6, average_last=2)
    run(updates=6, average_last=3)
    assert averaged(tmp_path / "run") == ["02", "04", "06"]
    run(updates=6, average_last=0)
    assert averaged(tmp_path / "run") == ["02", "04", "06"]
    run(updates=8, average_last=0)
    assert not (tmp_path / "run" / "average").exists()


def test_surplus_checkpoints_go_at_the_next_start(run: Run, tmp_path: Path) -> None:
    """A kill in the last removal leaves them; the run is finished, and nothing else would take them away."""
    run(keep_last=1, validate_every=0, updates=6)
    newest = tmp_path / "run" / "checkpoints" / "step-00000006"
    for name in ("step-00000002", "step-00000004"):
        shutil.copytree(newest, newest.with_name(name))
    (newest.with_name("step-00000002") / "MANIFEST.json").unlink()  # cut short in the middle
    run(keep_last=1, validate_every=0, updates=6)
    assert [update for update, _ in steps(tmp_path / "run")] == [6]
