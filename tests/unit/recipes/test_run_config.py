from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure, unstructure
from clearhead.config.toml import dump_toml, load_toml
from clearhead.models import presets
from clearhead.recipes.run_config import RunConfig, changed_keys, compose, resolve_model

RECIPES = Path(__file__).parents[3] / "recipes"

TABLE: dict[str, Any] = {
    "out": "runs/x",
    "data": {"languages": ["en", "de"], "train": {"source": "a.en", "target": "a.de"}},
    "tokenizer": {"vocab_size": 400},
    "model": {"preset": "tiny"},
}


def test_recipe_then_flags_then_settings() -> None:
    flags = {"out": "runs/flag", "model": {"preset": "small"}}
    config = compose(TABLE, flags, ["model.dropout=0.3", "out=runs/set", "training.updates=7"])
    assert config.out == "runs/set"
    assert config.model == {"preset": "small", "dropout": 0.3}
    assert config.training.updates == 7
    assert config.data.languages == ("en", "de")


def test_every_missing_key_is_named_with_its_flag() -> None:
    with pytest.raises(ConfigError) as caught:
        compose({}, {}, [])
    for part in ("data.languages (--languages", "out (--out", "data.train (--source", "model.preset (--preset tiny|"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.updats=5", "training.updats: unknown key .did you mean 'updates'"),
        ("model.heds=5", "heds: unknown key"),
        ("model.preset=tny", "did you mean 'tiny'"),
        ("model.vocab_size=500", "the tokenizer has 400"),
        ("model.d_model=130", "not a multiple of attention.heads"),
        ("data.languages=['en']", "data.languages"),
        ("training.schedule.kind=linar", "did you mean 'linear'"),
        ("init=some/bundle", "model.preset: a fine-tuned model keeps the size of init"),
        ("tokenizer.vocab_size=20", "too small"),
        ("model.positions={kind='learned', max_positions=256}", "data.max_length .* model.positions.max_positions"),
        ("out=''", "out: empty"),
    ],
)
def test_mistakes_are_found_before_any_data_is_read(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(TABLE, {}, [setting])


def test_learnt_positions_that_hold_the_longest_text() -> None:
    """256 tokens and EOS."""
    compose(TABLE, {}, ["model.positions={kind='learned', max_positions=257}"])


def test_two_vocabularies_cannot_be_tied() -> None:
    assert resolve_model({"preset": "tiny"}, 500, 500, joint=True) == presets.tiny(vocab_size=500)
    split = resolve_model({"preset": "tiny"}, 400, 500, joint=False)
    assert (split.embeddings, split.source_vocab_size, split.vocab_size) == ("output", 400, 500)
    with pytest.raises(ConfigError, match="'tied' needs one vocabulary"):
        resolve_model({"preset": "tiny", "embeddings": "tied"}, 500, 500, joint=False)


def test_a_resolved_model_means_itself() -> None:
    model = presets.tiny(vocab_size=500, norm="pre")
    assert resolve_model(unstructure(model), 500, 500, joint=True) == model
    split = resolve_model({"preset": "tiny"}, 400, 500, joint=False)
    assert resolve_model(unstructure(split), 400, 500, joint=False) == split


def test_it_survives_toml(tmp_path: Path) -> None:
    config = compose(TABLE)
    (tmp_path / "c.toml").write_text(dump_toml(unstructure(config)))
    assert structure(RunConfig, load_toml(tmp_path / "c.toml")) == config


def test_what_a_resume_forbids_and_allows() -> None:
    before = unstructure(compose(TABLE))
    assert changed_keys(before, before) == []
    settings = ["training.updates=9", "training.log_every=3", "data.train.source=elsewhere.en", "out=moved"]
    assert changed_keys(before, unstructure(compose(TABLE, {}, settings))) == []
    settings = ["training.label_smoothing=0.2", "seed=2", "training.optimizer.kind=adamw", "data.batch_tokens=10"]
    assert changed_keys(before, unstructure(compose(TABLE, {}, settings))) == [
        "data.batch_tokens: 25000 → 10",
        "seed: 1 → 2",
        "training.label_smoothing: 0.1 → 0.2",
        "training.optimizer.kind: 'adam' → 'adamw'",
        "training.optimizer.weight_decay: 'not set' → 0.01",
    ]


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_valid(recipe: Path) -> None:
    config = compose(load_toml(recipe), where=str(recipe))
    resolve_model(config.model, config.tokenizer.vocab_size, config.tokenizer.vocab_size, config.tokenizer.joint)


def test_there_are_recipes() -> None:
    assert RECIPES.is_dir()
    assert list(RECIPES.glob("*.toml"))
