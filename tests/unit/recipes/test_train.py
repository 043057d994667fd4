from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from clearhead.base.errors import BundleError, ClearheadError, ConfigError, InputError, TrainingError
from clearhead.bundle import manifest
from clearhead.bundle.bundle import load_bundle
from clearhead.bundle.resolve import resolve, steps
from clearhead.config.strict import structure
from clearhead.config.toml import load_toml
from clearhead.recipes.average import average, last_checkpoints
from clearhead.recipes.run_config import RunConfig, compose
from clearhead.recipes.train import TrainResult, train
from clearhead.training.trainer import Trainer

Run = Callable[..., TrainResult]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    draw = random.Random(3)
    words = ["red", "green", "blue", "door", "window", "lamp", "light", "garden", "kitchen", "open", "close", "turn"]
    for name, size in (("train", 80), ("dev", 8), ("other", 40)):
        lines = [" ".join(draw.choice(words) for _ in range(draw.randint(1, 6))) for _ in range(size)]
        (directory / f"{name}.en").write_text("".join(line + "\n" for line in lines))
        (directory / f"{name}.de").write_text("".join(line.upper() + "\n" for line in lines))
    return directory


def table(corpus: Path, out: Path, text: str = "train", **training: Any) -> dict[str, Any]:
    return {
        "out": str(out),
        "data": {
            "languages": ["en", "de"],
            "train": {"source": str(corpus / f"{text}.en"), "target": str(corpus / f"{text}.de")},
            "dev": {"source": str(corpus / "dev.en"), "target": str(corpus / "dev.de")},
            "batch_tokens": 200,
            "cache": str(corpus / "cache"),
        },
        "tokenizer": {"vocab_size": 320},
        "model": {
            "preset": "tiny",
            "d_model": 8,
            "d_ff": 16,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "attention": {"heads": 2},
        },
        "training": {
            "updates": 4,
            "precision": "fp32",
            "threads": 1,
            "validate_every": 2,
            "save_every": 2,
            "log_every": 1,
            **training,
        },
    }


@pytest.fixture
def run(corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Run:
    caplog.set_level(logging.INFO, logger="clearhead")

    def run(
        name: str = "run", *, settings: tuple[str, ...] = (), fresh: bool = False, flags: Any = None, **training: Any
    ) -> TrainResult:
        return train(compose(table(corpus, tmp_path / name, **training), flags, settings), fresh=fresh)

    return run


def contents(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_run_directory_has_everything(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    result = run()
    directory = tmp_path / "run"
    assert (result.update, result.exit_code, result.already_finished) == (4, 0, False)
    config = structure(RunConfig, load_toml(directory / "config.toml"))
    assert config.model["vocab_size"] == 320  # resolved: no preset is left to look up
    assert "preset" not in config.model
    assert [step for step, _ in steps(directory)] == [2, 4]
    best = json.loads((directory / "best.json").read_text())
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    dev = {line["update"]: line["dev_nll"] for line in lines if "dev_nll" in line}
    assert set(dev) == {2, 4}
    assert best["value"] == min(dev.values()) == result.best
    assert resolve(directory) == directory / best["path"]
    log = (directory / "train.log").read_text()
    for part in ("device", "parameters", "8^-½ · min(s^-½, s · 4000^-1.5)", "clearhead translate"):
        assert part in log
    bundle = load_bundle(directory)
    assert bundle.training["pairs"] == 80
    assert bundle.languages == ("en", "de")


def test_a_finished_run_is_left_as_it_is(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(average_last=2)
    before = contents(tmp_path / "run")
    caplog.clear()
    result = run(average_last=2)
    assert result.already_finished
    assert result.exit_code == 0
    assert "is finished: 4 updates done" in caplog.text
    assert contents(tmp_path / "run") == before


def test_a_limit_can_be_raised(run: Run, tmp_path: Path) -> None:
    run()
    assert run(updates=6).update == 6
    assert [step for step, _ in steps(tmp_path / "run")] == [2, 4, 6]


def test_another_configuration_cannot_go_on(run: Run, tmp_path: Path) -> None:
    run()
    before = contents(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"seed: 1 → 2\n  training.label_smoothing: 0.1 → 0.3"):
        run(settings=("seed=2",), label_smoothing=0.3)
    with pytest.raises(ConfigError, match="tokenizer.vocab_size: 320 → 330"):
        run(settings=("tokenizer.vocab_size=330",))
    assert contents(tmp_path / "run") == before


def test_other_text_cannot_go_on_but_files_may_move(run: Run, corpus: Path, tmp_path: Path) -> None:
    run()
    with pytest.raises(ConfigError, match=r"data.train: the text is not what .* restore it, or start again with"):
        run(text="other", updates=6)
    (tmp_path / "moved.en").write_bytes((corpus / "train.en").read_bytes())
    assert run(updates=6, settings=(f"data.train.source={tmp_path / 'moved.en'}",)).update == 6


def test_fresh_starts_again(run: Run, tmp_path: Path) -> None:
    run()
    result = run(fresh=True, settings=("seed=5",), updates=2)
    assert (result.update, result.already_finished) == (2, False)
    assert [step for step, _ in steps(tmp_path / "run")] == [2]


def test_fresh_removes_nothing_when_the_new_run_cannot_start(run: Run, tmp_path: Path) -> None:
    run()
    before = contents(tmp_path / "run")
    for setting in ("data.train.source='gone.en'", "training.device='cuda:99'", "data.dev.target='gone.de'"):
        with pytest.raises(ClearheadError):
            run(fresh=True, settings=(setting,))
        assert contents(tmp_path / "run") == before
    base = {key: value for key, value in table(tmp_path, tmp_path / "run").items() if key not in ("model", "tokenizer")}
    with pytest.raises(ConfigError, match="init: .* is inside .*--fresh"):
        train(compose(base, {"init": str(tmp_path / "run" / "checkpoints" / "step-00000004")}), fresh=True)
    assert contents(tmp_path / "run") == before


def test_a_damaged_checkpoint_is_passed_over(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run()
    newest = tmp_path / "run" / "checkpoints" / "step-00000004" / "weights.safetensors"
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    caplog.clear()
    assert run(updates=6).update == 6
    assert "going on from step-00000002" in caplog.text
    assert load_bundle(tmp_path / "run" / "checkpoints" / "step-00000006")


def test_no_usable_checkpoint_is_never_a_silent_new_start(run: Run, tmp_path: Path) -> None:
    run()
    for _, path in steps(tmp_path / "run"):
        (path / "bundle.toml").write_text("")
    with pytest.raises(BundleError, match="no checkpoint is usable"):
        run(updates=6)
    assert run(fresh=True).update == 4


def test_one_trainer_at_a_time(corpus: Path, run: Run, tmp_path: Path) -> None:
    code = "import sys, time; from clearhead.base.files import DirectoryLock\n"
    code += "with DirectoryLock(sys.argv[1]): print('held', flush=True); time.sleep(60)"
    (tmp_path / "run").mkdir()
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "run")], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(InputError, match=f"in use by process {holder.pid}"):
            run()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert run().update == 4  # a killed holder leaves no lock behind


def test_an_interrupted_run_saves_and_says_how_to_go_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    step = Trainer.step

    def interrupted(self: Trainer) -> Any:
        if self.progress.update == 2:
            signal.raise_signal(signal.SIGTERM)
        return step(self)

    monkeypatch.setattr(Trainer, "step", interrupted)
    result = run()
    assert (result.exit_code, result.update) == (143, 3)
    assert f"go on with: clearhead train --out {tmp_path / 'run'}" in caplog.text
    assert steps(tmp_path / "run")[-1][0] == 3
    monkeypatch.setattr(Trainer, "step", step)
    assert run().update == 4


def test_a_signal_in_the_last_validation_is_made_up_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All updates are done, what they led to was not measured: the next start does that, and only that, once."""
    heed = Trainer.heed

    def signalled(self: Trainer, *rest: object) -> None:
        if self.progress.update == 4:
            signal.raise_signal(signal.SIGTERM)
        heed(self, *rest)

    monkeypatch.setattr(Trainer, "heed", signalled)
    result = run(validate_every=0, average_last=2)
    assert (result.exit_code, result.update, result.best) == (143, 4, None)
    monkeypatch.setattr(Trainer, "heed", heed)
    assert not (tmp_path / "run" / "average").exists()
    before = (tmp_path / "run" / "checkpoints" / "step-00000004" / "weights.safetensors").read_bytes()
    result = run(validate_every=0, average_last=2)
    assert (result.exit_code, result.update) == (0, 4)
    assert result.best is not None
    assert (tmp_path / "run" / "average").exists()
    assert (tmp_path / "run" / "checkpoints" / "step-00000004" / "weights.safetensors").read_bytes() == before
    whole = contents(tmp_path / "run")
    again = run(validate_every=0, average_last=2)
    assert again.already_finished
    assert again.best == result.best
    assert contents(tmp_path / "run") == whole


def test_diverging_keeps_the_last_good_checkpoint(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = "{kind='constant', peak=1e30}"
    with pytest.raises(TrainingError, match="not finite"):
        run(settings=(f"training.schedule={schedule}",), updates=50, validate_every=0, save_every=1)
    for _, path in steps(tmp_path / "run"):
        load_bundle(path)  # finite, or it would not load


def test_fine_tuning_starts_from_the_bundle(run: Run, corpus: Path, tmp_path: Path) -> None:
    """Weights and tokenizer of the bundle, a fresh optimizer; only what leaves the shapes alone may change."""
    run()
    origin = load_bundle(tmp_path / "run")
    flags = {"init": str(tmp_path / "run")}
    base = table(corpus, tmp_path / "tuned", text="other", updates=1)
    del base["model"], base["tokenizer"]
    # A rate of nearly nothing: what is saved after one update is what it began with.
    config = compose(base | {"model": {"dropout": 0.0}}, flags, ["training.schedule={kind='constant', peak=1e-30}"])
    train(config)
    tuned = load_bundle(tmp_path / "tuned")
    assert tuned.config.dropout == 0.0
    assert tuned.tokenizers.fingerprint == origin.tokenizers.fingerprint
    for name, tensor in origin.model.state_dict().items():
        torch.testing.assert_close(tuned.model.state_dict()[name], tensor, rtol=0, atol=1e-12)
    moments = load_file(tmp_path / "tuned" / "checkpoints" / "step-00000001" / "training" / "optimizer.safetensors")
    assert {float(t) for name, t in moments.items() if name.startswith("step:")} == {1.0}
    with pytest.raises(ConfigError, match=r"model.d_ff: 16 in .*, 24 asked for"):
        train(compose(base | {"model": {"d_ff": 24}, "out": str(tmp_path / "wider")}, flags))
    assert train(config).already_finished


def test_scores_of_the_development_set_are_those_of_evaluate(run: Run, corpus: Path, tmp_path: Path) -> None:
    """The same translations and the same scores as the saved bundle gives afterwards."""
    from clearhead.metrics.scores import score_corpus
    from clearhead.recipes.translate import load

    result = run(score_every=4, metric="bleu", keep_last=5)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scored = next(line for line in lines if "dev_chrf" in line)
    translator = load(tmp_path / "run" / "checkpoints" / "step-00000004")
    sources = (corpus / "dev.en").read_text().splitlines()
    hypotheses = [translation.text for translation in translator.translate(sources, beam=4)]
    scores = score_corpus(hypotheses, (corpus / "dev.de").read_text().splitlines(), target_language="de")
    assert scored["dev_bleu"] == scores.bleu.value == result.best
    assert scored["dev_chrf"] == scores.chrf.value


def test_averaging_the_last_checkpoints(run: Run, tmp_path: Path) -> None:
    run(updates=6, average_last=2)
    directory = tmp_path / "run"
    names = ["step-00000004", "step-00000006"]
    assert load_bundle(directory / "average").training["averaged"] == names
    mean = load_file(directory / "average" / "weights.safetensors")
    one, two = (load_file(directory / "checkpoints" / name / "weights.safetensors") for name in names)
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, (one[name] + two[name]) / 2, rtol=1e-6, atol=1e-9)
    assert [path.name for path in last_checkpoints(directory, 2)] == names
    with pytest.raises(ConfigError, match="3 valid checkpoints, 9 asked for"):
        average([directory], tmp_path / "mean", last=9)
    with pytest.raises(ConfigError, match="--last K takes one run"):
        average([directory / "average"], tmp_path / "mean", last=2)
    assert average([directory], tmp_path / "mean", last=3).training["averaged"][0] == "step-00000002"


def test_fewer_checkpoints_than_asked_for_are_averaged_all_the_same(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):  # and so it stays when the finished run is started again
        assert run(average_last=3).exit_code == 0
    assert load_bundle(tmp_path / "run" / "average").training["averaged"] == ["step-00000002", "step-00000004"]
    assert "training.average_last is 3, but only 2 checkpoints" in caplog.text
    assert run("single", updates=2, average_last=3).exit_code == 0
    assert not (tmp_path / "single" / "average").exists()


def test_without_development_text(run: Run, corpus: Path, tmp_path: Path) -> None:
    base = table(corpus, tmp_path / "run")
    del base["data"]["dev"]
    assert train(compose(base)).best is None
    assert resolve(tmp_path / "run").name == "step-00000004"


def test_no_dev_but_metric_needs_it(corpus: Path, tmp_path: Path) -> None:
    base = table(corpus, tmp_path / "run", patience=2)
    del base["data"]["dev"]
    with pytest.raises(ConfigError, match=r"training.patience needs a development set .*--dev-source"):
        compose(base)


@pytest.mark.parametrize("lost", ["best.json", "average", "metrics.jsonl"])
def test_a_run_whose_checkpoints_are_gone_is_not_begun_again_in_silence(run: Run, tmp_path: Path, lost: str) -> None:
    """Each of the signs that it was trained is enough."""
    run(average_last=2)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "checkpoints").mkdir()
    for name in {"best.json", "metrics.jsonl", "average"} - {lost}:
        path = tmp_path / "run" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    before = contents(tmp_path / "run")
    with pytest.raises(BundleError, match=f"no checkpoint, but {lost} .*--fresh"):
        run(average_last=2)
    assert {**contents(tmp_path / "run"), "LOCK": ""} == {**before, "LOCK": ""}
    assert run(average_last=2, fresh=True).update == 4


def test_a_run_killed_before_its_first_checkpoint_begins_again(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"update": 1}\n{"update": 2}\n')
    assert run().update == 4


@pytest.mark.parametrize("name", ["best.json", "config.toml", "metrics.jsonl"])
def test_damaged_notes_do_not_keep_a_run_from_going_on(run: Run, tmp_path: Path, name: str) -> None:
    run()
    sound = (tmp_path / "run" / name).read_bytes()
    (tmp_path / "run" / name).write_bytes(b"\xff\xfe" + sound[: len(sound) // 2])
    assert run().already_finished
    result = run(updates=6)
    assert result.update == 6
    assert b"\xff" not in (tmp_path / "run" / name).read_bytes()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["train.log", "metrics.jsonl", "best.json", "config.toml", "curve.png"])
@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_file_is_found_before_the_long_work(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.setattr("clearhead.recipes.train.learn_parts", lambda config: pytest.fail("the tokenizer was learnt"))
    (tmp_path / "run").mkdir()
    (os.mkfifo if kind == "pipe" else os.mkdir)(tmp_path / "run" / name)
    with pytest.raises(InputError, match=f"{name}: not a regular file"):
        run()


def test_nothing_of_a_checkpoint_is_read_that_its_manifest_does_not_list(run: Run, tmp_path: Path) -> None:
    run(ema=0.9)
    newest = tmp_path / "run" / "checkpoints" / "step-00000004"
    files = json.loads((newest / "MANIFEST.json").read_text())["files"]
    for name in files:
        rest = {key: value for key, value in files.items() if key != name}
        (newest / "MANIFEST.json").write_bytes(manifest._canonical(rest))
        with pytest.raises(BundleError, match=f"does not list {name}"):
            run(ema=0.9, updates=6)
