"""How a run begins, goes on by its name, and is refused: early, naming the key, and with everything left as it was."""

import fcntl
import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.system.program import Ran, clearhead, disjoint, process, settings, train, write

# One process trains what these share. Nothing here is about time; the machine may be shared.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("begin")]

LEARNING = "learning the tokenizer"
DEATH = """
import os, signal
from clearhead.{module} import {owner}
def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
{owner}.{name} = killed
from clearhead.cli.main import main
main()
"""
PLAIN: dict[str, object] = {
    "tokenizer__vocab_size": 300,
    "data__batch_tokens": 1024,
    "training__threads": 1,
    "training__precision": "fp32",
    "training__updates": 1,
}
# While the tokenizer is learnt; when half a token store is on disk.
MOMENTS = [("text.tokenizer", "Tokenizers", "train"), ("data.store", "_Writer", "finish")]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("text")
    lines, dev = disjoint(9, (160, 12))
    write(where / "train.en", lines)
    write(where / "train.de", lines[::-1])
    write(where / "train.tsv", [f"{one}\t{other}" for one, other in zip(lines, lines[::-1], strict=True)])
    write(where / "dev.en", dev)
    write(where / "dev.de", dev)
    write(where / "short.de", dev[:-1])
    return where


def command(text: Path, out: Path, *more: object, **values: object) -> list[object]:
    """The whole command of a run of two updates."""
    dev = ("--dev-source", text / "dev.en", "--dev-target", text / "dev.de")
    small = {
        "model__d_model": 16,
        "model__d_ff": 16,
        "model__encoder_layers": 1,
        "model__attention__heads": 2,
        "training__updates": 2,
    }
    return train(out, text / "train.en", text / "train.de", *dev, *more, **(small | values))


@pytest.fixture(scope="module")
def run(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; whoever changes it takes a copy."""
    out = tmp_path_factory.mktemp("runs") / "run"
    clearhead(*command(text, out))
    return out


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


def contents(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def weights(run: Path, update: int = 2) -> bytes:
    return (run / "checkpoints" / f"step-{update:08d}" / "weights.safetensors").read_bytes()


def refused(*arguments: object) -> Ran:
    """A command that is a user's mistake, found before anything long was begun."""
    ran = clearhead(*arguments, code=2)
    assert LEARNING not in ran.log
    return ran


# ------------------------------------------------------------------------------------------------- going on by its name


@pytest.mark.parametrize(("module", "owner", "name"), MOMENTS)
def test_a_run_that_was_killed_before_its_first_update_goes_on_by_its_name(
    text: Path, run: Path, tmp_path: Path, module: str, owner: str, name: str
) -> None:
    out = tmp_path / "run"
    program = DEATH.format(module=module, owner=owner, name=name)
    process(command(text, out), code=-9, start=("-c", program))
    assert not (out / "checkpoints").exists()
    assert name != "finish" or list((out / "cache").glob(".*.tmp.*"))  # or the sweep would have nothing to do
    clearhead("train", "--out", out)
    assert weights(out) == weights(run)
    assert [path for path in out.rglob(".*") if path.name != ".gitignore"] == []
    assert (out / "config.toml").read_text() == (run / "config.toml").read_text().replace(str(run), str(out))


def test_a_run_without_its_configuration_says_so(copy: Path, text: Path) -> None:
    (copy / "config.toml").unlink()
    assert f"{copy} has no config.toml" in refused("train", "--out", copy).log
    clearhead(*command(text, copy, training__updates=3))  # the whole command needs none
    assert (copy / "config.toml").is_file()


def test_text_may_move_into_another_form(copy: Path, text: Path) -> None:
    """One flag is laid over what the run was begun with; two files give way to one."""
    ran = clearhead("train", "--out", copy, "--tsv", text / "train.tsv", *settings(training__updates=3))
    assert "going on from step-00000002" in ran.log


def test_a_preset_is_compared_with_the_model_of_the_run(copy: Path, text: Path, tmp_path: Path) -> None:
    before = contents(copy)
    ran = refused("train", "--out", copy, "--preset", "small")
    assert "model.preset: 'small' is another model than the run was begun with; leave it out (--preset)" in ran.log
    assert "model.d_model: 16 → 256" in ran.log
    assert contents(copy) == before
    # The same preset, said again with what it was changed by, or where nothing was changed, is the same model.
    again = settings(model__d_model=16, model__d_ff=16, model__encoder_layers=1, model__decoder_layers=1)
    clearhead("train", "--out", copy, "--preset", "tiny", *again, *settings(model__attention__heads=2))
    ran = refused("train", "--out", copy, "--preset", "tiny", *settings(model__dropout=0.3))
    assert "model.dropout: 0.1 → 0.3" in ran.log
    plain = ("--preset", "tiny", *settings(**PLAIN))
    corpus = ("--source", text / "train.en", "--target", text / "train.de", "--languages", "en,de")
    clearhead("train", *corpus, "--out", tmp_path / "plain", *plain)
    assert "is finished" in clearhead("train", "--out", tmp_path / "plain", "--preset", "tiny").log


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"tokenizer__vocab_size": 330}, "tokenizer.vocab_size: 300 → 330"),
        ({"tokenizer__kind": "unigram"}, "tokenizer.kind: 'bpe' → 'unigram'"),
        ({"tokenizer__joint": "false"}, "tokenizer.joint: True → False"),
        ({"tokenizer__sampling": 0.1}, "tokenizer.sampling: 0.0 → 0.1"),
        ({"data__batch_tokens": 99}, "data.batch_tokens: 1024 → 99"),
        ({"training__accumulate": 2}, "training.accumulate: 1 → 2"),
        ({"model__dropout": 0.5}, "model.dropout: 0.1 → 0.5"),
        ({"seed": 7}, "seed: 1 → 7"),
        ({"decoding__beam": 2}, "decoding.beam: 4 → 2"),
        ({"data__languages": '["en", "fr"]'}, "data.languages: ['en', 'de'] → ['en', 'fr']"),
    ],
)
@pytest.mark.parametrize("whole", [False, True], ids=["by its name", "whole command"])
def test_what_may_not_change_is_refused_with_key_old_and_new(
    text: Path, run: Path, values: dict[str, object], said: str, whole: bool
) -> None:
    before = contents(run)
    start = command(text, run) if whole else ["train", "--out", run]
    log = refused(*start, *settings(**values)).log
    assert said in log
    assert "model.vocab_size" not in log  # it follows from the tokenizer
    assert contents(run) == before


def test_a_new_start_with_another_model_takes_the_rest_from_the_run(copy: Path) -> None:
    clearhead("train", "--out", copy, "--fresh", *settings(seed=9, training__updates=1))
    assert [path.name for path in (copy / "checkpoints").iterdir()] == ["step-00000001"]
    assert "seed = 9" in (copy / "config.toml").read_text()


def test_leftovers_in_a_shared_cache_are_swept_but_for_those_of_living_writers(copy: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (copy / "cache").rename(cache)
    left, held = (cache / f".{'a' * 32}.tmp.{number:016x}" for number in (1, 2))
    for path in (left, held):
        write(path / "source.values", ["half"])
    descriptor = os.open(held, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # as a writer does, in base/files.py
        clearhead("train", "--out", copy, *settings(data__cache=cache))
        assert (left.exists(), held.exists()) == (False, True)
    finally:
        os.close(descriptor)
    clearhead("train", "--out", copy, *settings(data__cache=cache))
    assert not held.exists()


# --------------------------------------------------------------------------------------- mistakes are found beforehand


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("data.dev.target", "{text}/gone.de", "gone.de: cannot be read: No such file"),
        ("data.dev.target", "{text}/short.de", "dev.en has 12 lines but {text}/short.de has 11"),
        ("data.dev.source", "{text}", "{text}: cannot be read: Is a directory"),
        ("data.train.source", "{text}/gone.en", "gone.en: cannot be read: No such file"),
        ("data.train.source", "{tmp}/pipe", "data.train: {tmp}/pipe can be read only once"),
        ("data.dev.source", "-", "data.dev: standard input can be read only once"),
        ("data.cache", "{text}/dev.en", "data.cache: {text}/dev.en: cannot be written"),
        ("data.cache", "{text}/dev.en/below", "data.cache: {text}/dev.en/below: cannot be written"),
        ("data.cache", "", "data.cache: empty"),
        ("data.train.source", "", "data.train: 'source' is empty"),
        ("training.device", "cuda:99", "training.device 'cuda:99': not there"),
        ("training.device", "gpu", "training.device 'gpu': there is no such device"),
        ("training.tensorboard", "true", "training.tensorboard: not installed"),
        ("init", "", "init: empty"),
    ],
)
def test_what_cannot_work_is_found_before_the_tokenizer_is_learnt(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    os.mkfifo(tmp_path / "pipe")
    value = value.format(text=text, tmp=tmp_path) if value != "true" else value
    written = value if value == "true" else f'"{value}"'
    ran = refused(*command(text, tmp_path / "run"), "--set", f"{key}={written}")
    assert said.format(text=text, tmp=tmp_path) in ran.log


@pytest.mark.parametrize("how", [("--out", ""), ("--out", "  "), ("--set", 'out=""')])
def test_an_empty_name_is_not_the_current_directory(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: tuple[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "out: empty; name the directory of the run (--out DIR)" in refused(*command(text, Path("x")), *how).log
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "config.toml", ["seed = 1"])
    assert "out" in refused("train", *how).log


def test_a_run_directory_that_is_a_file(text: Path) -> None:
    assert f"{text / 'dev.en'}: cannot be" in refused(*command(text, text / "dev.en")).log


@pytest.mark.parametrize(
    ("languages", "said"),
    [
        ('["en", "en"]', "data.languages: source and target are both 'en'"),
        ('["EN", "en"]', "data.languages: source and target are both 'en'"),
        ('["en", "d e"]', "data.languages: 'd e' is no language code"),
        ('["", "de"]', "data.languages: '' is no language code"),
        ('["en"]', "data.languages"),
    ],
)
def test_languages_that_are_none(text: Path, tmp_path: Path, languages: str, said: str) -> None:
    assert said in refused(*command(text, tmp_path / "run"), "--set", f"data.languages={languages}").log
    assert not (tmp_path / "run").exists()
    if languages == '["en", "en"]':
        assert said in refused(*command(text, tmp_path / "run"), "--languages", "en,en").log


def test_an_unknown_language_is_told_once(text: Path, tmp_path: Path) -> None:
    ran = clearhead(*command(text, tmp_path / "run", training__updates=1), "--languages", "xx,jp")
    (line,) = [line for line in ran.log.splitlines() if "'xx'" in line]
    assert line.startswith("warning: data.languages: clearhead does not know 'xx'")
    (line,) = [line for line in ran.log.splitlines() if "'jp'" in line]
    assert "did you mean 'ja'?" in line
    assert (
        "does not know"
        not in clearhead(*command(text, tmp_path / "other", training__updates=1), "--languages", "EN,zh_hant").log
    )


# ------------------------------------------------------------------------------------------------------- fine-tuning


def tuned(text: Path, out: Path, init: Path | str, **values: object) -> list[object]:
    start = ["train", "--init", init, "--languages", "en,de", "--out", out]
    more = {key: value for key, value in PLAIN.items() if "tokenizer" not in key}
    return [*start, "--source", text / "train.en", "--target", text / "train.de", *settings(**(more | values))]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"model__d_model": 32}, "model.d_model: 16 in {init}, 32 asked for"),
        ({"model__attention__heads": 4}, "model.attention.heads: 2 in {init}, 4 asked for"),
        ({"model__norm": "post"}, "model.norm: 'pre' in {init}, 'post' asked for"),
        (
            {"tokenizer__vocab_size": 400, "tokenizer__kind": "unigram", "tokenizer__joint": "true"},
            "tokenizer.kind: 'bpe' in {init}, 'unigram' asked for\n  tokenizer.vocab_size: 300 in {init}, 400 asked",
        ),
    ],
)
def test_fine_tuning_cannot_change_what_init_brings(
    text: Path, run: Path, tmp_path: Path, values: dict[str, object], said: str
) -> None:
    """Said before the text is read: there is none here."""
    values |= {"data__train__source": tmp_path / "gone"}
    log = refused(*tuned(text, tmp_path / "out", run, **values)).log
    assert said.format(init=run) in log
    assert "tokenizer.joint" not in log


def test_a_damaged_init_is_found_before_the_text_is_read(text: Path, copy: Path, tmp_path: Path) -> None:
    for path in copy.rglob("weights.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    log = refused(*tuned(text, tmp_path / "out", copy, data__train__source=tmp_path / "gone")).log
    assert "weights.safetensors: damaged" in log


def test_init_of_a_run_that_goes_on(text: Path, run: Path, copy: Path, tmp_path: Path) -> None:
    """Dropout and sampling may differ from the origin; the path may move or go, the content may not change."""
    out = tmp_path / "tuned"
    clearhead(*tuned(text, out, copy, model__dropout=0.0, tokenizer__sampling=0.1))
    moved = copy.rename(tmp_path / "moved")
    longer = settings(training__updates=2)
    clearhead("train", "--out", out, *longer)  # its own words; nobody looks whether the origin is still there
    assert "is finished" in clearhead("train", "--out", out, "--init", moved, *longer).log
    other = tmp_path / "other"
    clearhead(*command(text, other, seed=5))
    before = contents(out)
    log = refused("train", "--out", out, "--init", other, *longer).log
    assert f"init: '{copy}' → '{other}' (another model)" in log
    assert f"init: '{copy}' → '{tmp_path / 'gone'}'" in refused("train", "--out", out, "--init", tmp_path / "gone").log
    assert contents(out) == before
    log = refused("train", "--out", run, "--set", f"init={other}").log
    assert f"init: 'not set' → '{other}'" in log


def test_the_presets_in_the_help_are_the_presets() -> None:
    from clearhead.models.presets import PRESETS

    shown = " ".join(clearhead("train", "--help").out.decode().split())
    assert f"Size of the model: {', '.join(PRESETS)}." in shown
