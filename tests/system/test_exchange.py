"""Into other programs and back from the command line: compared before it is kept, and nothing left where it fails."""

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch

from clearhead.bundle.bundle import Bundle, load_bundle, save_bundle
from clearhead.models import build, presets
from tests.system.program import clearhead, write
from tests.unit.recipes.tiny import VOCABULARY, save_tiny, tiny_tokenizers

# One process imports transformers, which takes seconds.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("exchange")]
for name in ("transformers", "ctranslate2"):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)

from tests.opus import SOURCE, write_opus  # noqa: E402

LINES = ["Really, it did!", "the mat  Bert ☃"]


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_opus(tmp_path_factory.mktemp("opus") / "model", codes=(">>deu<<", ">>fra<<"))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sample") / "lines", SOURCE[2:3])


@pytest.fixture(scope="module")
def imported(opus: Path, sample: Path) -> Path:
    bundle = opus.parent / "bundle"
    ran = clearhead("import", opus, "-o", bundle, "--sample", sample)
    assert "languages en→de" in ran.log and "transformers agrees" in ran.log
    return bundle


def test_what_was_imported_translates_and_scores(imported: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "source", [SOURCE[0], "", ">>fra<< The cat", "ﬁsh  " * 200])
    ran = clearhead("translate", imported, source, "--engine", "plain", "--beam", 2, "--json", "--threads", 1)
    assert len(ran.objects) == 4
    assert "split" in ran.objects[-1]["flags"]  # 128 positions, as config.json says
    tagged = clearhead("translate", imported, source, "--engine", "plain", "--tag", ">>deu<<", "--threads", 1)
    assert len(tagged.lines) == 4
    short = write(tmp_path / "short", SOURCE)
    assert len(clearhead("score", imported, "-s", short, "-t", short, "--threads", 1).lines) == len(SOURCE)
    told = json.loads(clearhead("info", imported, "--json").out)
    assert told["model"]["layer_norm_epsilon"] == 1e-5
    assert told["training"]["imported"]["folder"] == "model"
    assert told["training"]["tags"] == [">>deu<<", ">>fra<<"]


def test_there_and_back_is_the_same_model(imported: Path, sample: Path, tmp_path: Path) -> None:
    clearhead("export", imported, "--to", "huggingface", "-o", tmp_path / "there", "--sample", sample)
    clearhead("import", tmp_path / "there", "-o", tmp_path / "back", "--sample", sample)
    before, after = load_bundle(imported), load_bundle(tmp_path / "back")
    assert after.config == before.config
    assert after.tokenizers.fingerprint == before.tokenizers.fingerprint
    theirs = after.model.state_dict()
    assert all(torch.equal(tensor, theirs[key]) for key, tensor in before.model.state_dict().items())


def test_our_own_model_goes_to_both_programs(tmp_path: Path) -> None:
    bundle = save_tiny(tmp_path / "bundle", norm="post")
    sample = write(tmp_path / "sample", LINES)
    for program, name, files in (
        ("ctranslate2", "CTranslate2", {"model.bin", "config.json", "shared_vocabulary.json"}),
        ("huggingface", "transformers", {"model.safetensors", "config.json", "vocab.json", "tokenizer_config.json"}),
    ):
        out = tmp_path / program
        try:
            before = os.umask(0o027)
            ran = clearhead("export", bundle, "--to", program, "-o", out, "--sample", sample, "--threads", 1)
        finally:
            os.umask(before)
        assert f"comparing 2 sentences with {name} (scores, greedy, beam 4)" in ran.log
        assert f"wrote {out}; " in ran.log and "agrees: " in ran.log
        assert {path.name for path in out.iterdir()} >= {*files, "source.spm", "target.spm"}
        assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o640}
        again = clearhead("export", bundle, "--to", program, "-o", out, "--sample", sample, code=2)
        assert "exists already" in again.log


def test_the_default_model_goes_to_ctranslate2_alone(tmp_path: Path) -> None:
    bundle = save_tiny(tmp_path / "bundle")  # pre-norm
    sample = write(tmp_path / "sample", LINES)
    clearhead("export", bundle, "--to", "ctranslate2", "-o", tmp_path / "out", "--sample", sample)
    ran = clearhead("export", bundle, "--to", "huggingface", "-o", tmp_path / "other", code=2)
    assert "model.norm = 'pre' has no counterpart" in ran.log
    assert not (tmp_path / "other").exists()


def test_a_recurrent_model_is_refused_by_name(tmp_path: Path) -> None:
    config = presets.named("rnnsearch-tiny", VOCABULARY)
    save_bundle(tmp_path / "bundle", Bundle(build(config, seed=1), tiny_tokenizers(), ("en", "de"), config))
    for program in ("ctranslate2", "huggingface"):
        ran = clearhead("export", tmp_path / "bundle", "--to", program, "-o", tmp_path / "out", code=2)
        assert "model.kind = 'mixed' (encoder 'recurrent', decoder 'bahdanau') has no counterpart" in ran.log
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle"]


def test_a_difference_leaves_nothing_behind(
    opus: Path, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant of each direction: norms of another epsilon, and an activation that was mistaken."""
    bundle = save_tiny(tmp_path / "bundle")
    before = sorted(tmp_path.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules["clearhead.export.ctranslate"].ACTIVATIONS, "relu", "GELU")
        ran = clearhead("export", bundle, "--to", "ctranslate2", "-o", tmp_path / "out", "--sample", sample, code=1)
        assert "CTranslate2 computes something else: sentence 1" in ran.log
    monkeypatch.setattr("clearhead.export.from_marian.NORM_EPSILON", 1e-3)
    ran = clearhead("import", opus, "-o", tmp_path / "out", "--sample", sample, code=1)
    assert "transformers computes something else" in ran.log
    assert sorted(tmp_path.rglob("*")) == before


def test_without_the_program_the_extra_is_named(opus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = save_tiny(tmp_path / "bundle")
    for program in ("ctranslate2", "transformers"):
        monkeypatch.setitem(sys.modules, program, None)
    for arguments in (
        ("export", bundle, "--to", "ctranslate2"),
        ("export", bundle, "--to", "huggingface"),
        ("import", opus),
    ):
        ran = clearhead(*arguments, "-o", tmp_path / "out", code=2)
        assert "pip install --editable '.[exchange]'" in ran.log
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--languages", "en"], "no language pair"),
        (["--sample", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_told(opus: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    ran = clearhead("import", opus, "-o", tmp_path / "out", *arguments, code=2)
    assert message in ran.log
    assert not (tmp_path / "out").exists()


def test_forbidden_tokens_are_told(opus: Path, sample: Path, tmp_path: Path) -> None:
    shutil.copytree(opus, tmp_path / "model")
    settings = json.loads((opus / "generation_config.json").read_text())
    settings["bad_words_ids"] += [[9], [7, 8]]
    (tmp_path / "model/generation_config.json").write_text(json.dumps(settings))
    ran = clearhead("import", tmp_path / "model", "-o", tmp_path / "out", "--sample", sample)
    assert "forbids 2 tokens beside PAD and UNK" in ran.log
    assert (tmp_path / "out").is_dir()


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    assert "no such folder" in clearhead("import", tmp_path / "none", "-o", tmp_path / "out", code=2).log
    (tmp_path / "config.json").write_text('{"model_type": "bart"}')
    assert "model_type is 'bart'" in clearhead("import", tmp_path, "-o", tmp_path / "out", code=2).log
