from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.base.errors import ConfigError
from clearhead.config.strict import Config, _models, structure, unstructure
from clearhead.config.toml import dump_toml, load_toml
from clearhead.models import presets
from clearhead.recipes.run_config import RESUMABLE, RunConfig, begun_with, changed_keys, compose, resolve_model
from clearhead.recipes.run_setup import run_compute

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
        ("init='  '", "init: empty"),
        ("data.cache=''", "data.cache: empty"),
        ("data.train.source=''", "data.train: 'source' is empty"),
        ("data.languages=['de', 'DE']", "data.languages: source and target are both 'de'"),
        ("data.languages=['de', 'e']", "data.languages: 'e' is no language code"),
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


FULL: dict[str, Any] = {
    **TABLE,
    "model": unstructure(presets.tiny(vocab_size=400, attention={"heads": 4, "kv_heads": 2, "head_dim": 8})),
    "init": "runs/origin",
    "data": {
        **TABLE["data"],
        "dev": {"tsv": "dev.tsv"},
        "batch_pairs": 7,
        "cache": "cache",
    },
    "training": {
        "optimizer": {"kind": "adamw"},
        "schedule": {"kind": "cosine", "peak": 1e-3, "warmup": 3},
        "score_every": 1,
    },
    "decoding": {"sampling": {"top_k": 3, "top_p": 0.5}, "max_length": 9},
}


def leaves(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value of a configuration by its key path."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def declared(model: type[Config], prefix: str = "") -> set[str]:
    """Every key path that a configuration class can have, those of unions included."""
    keys: set[str] = set()
    for name, field in model.model_fields.items():
        inner = _models(field.annotation)
        keys |= {key for each in inner for key in declared(each, f"{prefix}{name}.")} or {prefix + name}
    return keys


def test_every_key_either_may_change_or_is_told_with_both_values() -> None:
    """A run goes on with the same computation or not at all: no key is forgotten."""
    before = unstructure(compose(FULL))
    values = leaves(before)
    free = {key for key in values if any(key == each or key.startswith(f"{each}.") for each in RESUMABLE)}
    for key, value in values.items():
        now = copy.deepcopy(before)
        *path, last = key.split(".")
        table = now
        for part in path:
            table = table[part]
        table[last] = "another"
        assert changed_keys(before, now) == ([] if key in free else [f"{key}: {value!r} → 'another'"])
        del table[last]
        assert changed_keys(before, now) == ([] if key in free else [f"{key}: {value!r} → 'not set'"])
    kinds = {"training.schedule.", "training.optimizer.", "training.initialisation.", "data.dev.", "data.train."}
    # one kind of each is used
    absent = {key for key in declared(RunConfig) - values.keys() if not key.startswith(tuple(kinds))}
    assert absent == {"model"}  # a table without a class of its own
    assert {each.partition(".")[0] for each in RESUMABLE} <= RunConfig.model_fields.keys()
    assert all(any(f"{key}.".startswith(f"{each}.") for key in declared(RunConfig)) for each in RESUMABLE)
    assert len(free) < len(values) / 2


def test_a_command_that_says_less_is_laid_over_the_run_that_it_names(tmp_path: Path) -> None:
    whole = {**TABLE, "out": str(tmp_path)}
    assert begun_with(whole) == ({}, "train")  # nothing there
    (tmp_path / "config.toml").write_text(dump_toml(unstructure(compose(FULL)) | {"out": "elsewhere"}))
    assert begun_with(whole) == ({}, "train")  # it stands alone
    for left_out in ("data", "model"):
        table, where = begun_with({key: value for key, value in whole.items() if key != left_out})
        assert where == str(tmp_path / "config.toml")
        assert table["data"]["batch_pairs"] == 7
    flags = {"out": str(tmp_path)}
    assert "d_model" in begun_with(flags)[0]["model"]
    assert not {"vocab_size", "source_vocab_size"} & begun_with(flags)[0]["model"].keys()
    assert begun_with(flags, ["model.preset=base"])[0]["model"] == {}
    assert begun_with({}, [f"out={tmp_path}"]) == begun_with(flags)
    assert begun_with({"out": ""}) == begun_with({}) == ({}, "train")


def test_a_corpus_is_replaced_by_its_other_form() -> None:
    """A recipe's two files give way to a flag's one, and the other way round; one file of two may be changed alone."""
    tsv = compose(TABLE, {"data": {"train": {"tsv": "both.tsv"}}})
    assert unstructure(tsv.data.train) == {"tsv": "both.tsv", "weight": 1.0}
    back = compose(unstructure(tsv), {"data": {"train": {"source": "b.en", "target": "b.de"}}})
    assert unstructure(back.data.train) == {"source": "b.en", "target": "b.de", "weight": 1.0}
    one = compose(TABLE, {"data": {"train": {"source": "b.en"}}})
    assert unstructure(one.data.train) == {"source": "b.en", "target": "a.de", "weight": 1.0}
    tagged = {"data": {**TABLE["data"], "train": {"file": "a.po", "tag": "<bt>", "weight": 2.0}}}
    moved = compose({**TABLE, **tagged}, {"data": {"train": {"tsv": "both.tsv"}}})
    assert unstructure(moved.data.train) == {"tsv": "both.tsv", "tag": "<bt>", "weight": 2.0}
    with pytest.raises(ConfigError, match="give either both 'source' and 'target', or 'tsv'"):
        compose(TABLE, {"data": {"train": {"source": "b.en", "tsv": "both.tsv"}}})


SEVERAL: list[dict[str, Any]] = [
    {"source": "a.en", "target": "a.de", "weight": 2.0},
    {"file": "b.tmx", "weight": 0.5, "tag": "<bt>"},
]


def several(*corpora: dict[str, Any], **more: Any) -> RunConfig:
    return compose({**TABLE, "data": {"languages": ["en", "de"], "train": list(corpora or SEVERAL)}, **more})


def test_several_corpora_survive_toml_and_one_in_a_list_is_one(tmp_path: Path) -> None:
    config = several()
    (tmp_path / "c.toml").write_text(dump_toml(unstructure(config)))
    assert structure(RunConfig, load_toml(tmp_path / "c.toml")) == config
    assert [corpus.weight for corpus in config.data.corpora] == [2.0, 0.5]
    assert several(TABLE["data"]["train"]) == compose(TABLE)


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        ([], "missing data.train"),
        ([{"source": "a"}], "data.train.0.: 'target' is missing"),
        ([SEVERAL[0], {"tsv": "b", "wieght": 2}], r"data.train\[1\].wieght: unknown key .did you mean 'weight'"),
        ([{"tsv": "b", "weight": 0}], r"data.train\[0\].weight: must be greater than 0.0, got 0"),
        ([{"tsv": "b", "weight": "x"}], r"data.train\[0\].weight: expected a number"),
        ([{"tsv": "b", "tag": "<s>"}], r"data.train\[0\].tag: '<s>' is the name of a reserved piece"),
        ([{"tsv": "b", "tag": "to de"}], r"data.train\[0\].tag: 'to de' contains white space"),
        (["a.tsv"], r"data.train\[0\]: expected a table, got the string 'a.tsv'"),
        ("a.tsv", "data.train: expected a table, got the string 'a.tsv'"),
    ],
)
def test_a_mistake_in_one_of_several_corpora_is_named_with_its_place(corpora: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose({**TABLE, "data": {"languages": ["en", "de"], "train": corpora}})


def test_a_flag_replaces_all_corpora_but_no_key_of_one_can_be_set() -> None:
    table = {**TABLE, "data": {"languages": ["en", "de"], "train": SEVERAL}}
    one = compose(table, {"data": {"train": {"tsv": "c.tsv"}}})
    assert [str(corpus) for corpus in one.data.corpora] == ["c.tsv"]
    with pytest.raises(ConfigError, match="data.train lists 2 corpora; weight cannot be set for one of them"):
        compose(table, {}, ["data.train.weight=2.0"])


def test_tags_become_symbols_of_the_tokenizer_but_not_of_that_of_init() -> None:
    dev = {"tsv": "dev.tsv", "tag": "<dev>"}
    table = {**TABLE, "data": {"languages": ["en", "de"], "train": SEVERAL, "dev": dev}}
    assert compose(table).tokenizer.symbols == ("<bt>", "<dev>")
    own = compose({**table, "tokenizer": {"symbols": ["<x>", "<dev>"]}})
    assert own.tokenizer.symbols == ("<x>", "<dev>", "<bt>")
    assert compose(unstructure(own)) == own
    assert compose({**table, "init": "runs/x", "model": {}}).tokenizer.symbols == ()
    with pytest.raises(ConfigError, match="tokenizer: vocab_size 261 is too small"):
        compose(table, {}, ["tokenizer.vocab_size=261"])


def test_weights_and_tags_are_told_by_their_key_and_older_runs_go_on() -> None:
    before = unstructure(several())
    other = [{**SEVERAL[0], "weight": 3.0}, {**SEVERAL[1], "file": "moved.po", "tag": "<b>"}]
    now = unstructure(several(*other, tokenizer={"vocab_size": 400, "symbols": ["<bt>", "<b>"]}))
    assert [line for line in changed_keys(before, now) if line.startswith("data")] == [
        "data.train[0].weight: 2.0 → 3.0",
        "data.train[1].tag: '<bt>' → '<b>'",
    ]
    one = unstructure(compose(TABLE))
    assert changed_keys(one, before) != []
    assert changed_keys(before, one) != []
    old = copy.deepcopy(one)
    del old["data"]["train"]["weight"]  # as written before there were weights
    assert changed_keys(old, one) == []
    assert changed_keys(old, unstructure(compose(TABLE, {}, ["data.train.weight=2.0"]))) == [
        "data.train.weight: 'not set' → 2.0"
    ]


@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_valid(recipe: Path) -> None:
    config = compose(load_toml(recipe), where=str(recipe))
    resolve_model(config.model, config.tokenizer.vocab_size, config.tokenizer.vocab_size, config.tokenizer.joint)


def test_there_are_recipes() -> None:
    assert RECIPES.is_dir()
    assert list(RECIPES.glob("*.toml"))


def test_a_model_without_preset_is_told_both_ways_to_name_one() -> None:
    with pytest.raises(ConfigError, match=r'model\.preset .*, or model\.kind = "transformer"'):
        compose({**TABLE, "model": {"width": 64}})


def test_a_run_to_go_on_with_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere holds no run to go on with; for a new one missing data.languages"):
        compose({}, {"out": str(tmp_path / "nowhere")})
    with pytest.raises(ConfigError, match=r"^\w+: missing data\.train"):
        compose({}, {"out": "new", "data": {"languages": ["en", "de"]}})


def test_what_is_not_as_it_was_when_a_run_goes_on_is_told_by_name(caplog: pytest.LogCaptureFixture) -> None:
    config = compose(TABLE, {"training": {"device": "cpu", "precision": "fp32", "threads": 1}})
    state = {"device": "cpu", "precision": "fp32", "threads": 1, "versions": {"torch": torch.__version__}}
    run_compute(config, state)
    assert not caplog.records
    run_compute(config, state | {"threads": 2, "precision": "bf16"})
    assert "resumed with precision fp32 (the run had bf16), threads 1 (the run had 2): results" in caplog.text


def test_a_tag_without_end_is_refused_by_its_key_before_anything_is_learnt() -> None:
    train = TABLE["data"]["train"]
    config = compose({**TABLE, "data": {**TABLE["data"], "train": {**train, "tag": "<" + "x" * 63}}})
    assert config.data.tags == ("<" + "x" * 63,)
    with pytest.raises(ConfigError, match=r"data\.train\.tag: 5,000 characters; a tag has at most 64"):
        compose({**TABLE, "data": {**TABLE["data"], "train": {**train, "tag": "x" * 5000}}})
    with pytest.raises(ConfigError, match=r"5,000 characters"):
        compose({**TABLE, "tokenizer": {"symbols": ["x" * 5000]}})


def test_corpora_that_a_flag_replaces_are_told(caplog: pytest.LogCaptureFixture) -> None:
    corpora = [TABLE["data"]["train"], {"tsv": "b.tsv"}]
    table = {**TABLE, "data": {**TABLE["data"], "train": corpora}}
    assert compose(table, {"data": {"train": {"tsv": "t.tsv"}}}, where="r.toml").data.corpora[0].tsv == "t.tsv"
    assert [record.getMessage() for record in caplog.records] == [
        "r.toml: its 2 corpora in data.train are all replaced by the one given outside"
    ]
    caplog.clear()
    compose(table)
    compose(TABLE, {"data": {"train": {"tsv": "t.tsv"}}})
    assert not caplog.records


def test_an_ancestor_keeps_its_own_embeddings_whatever_the_vocabularies() -> None:
    """RNNsearch's words are wider than its output, so nothing can be shared; a Transformer shares the target's."""
    joint = resolve_model({"preset": "rnnsearch"}, 500, 500, joint=True)
    split = resolve_model({"preset": "rnnsearch"}, 400, 500, joint=False)
    assert (joint.embeddings, joint.source_vocab_size) == ("separate", None)
    assert (split.embeddings, split.source_vocab_size, split.vocab_size) == ("separate", 400, 500)
    assert resolve_model(unstructure(split), 400, 500, joint=False) == split
    own = {"kind": "mixed", "encoder": {"kind": "recurrent"}, "decoder": {"kind": "seq2seq"}}
    assert resolve_model(own, 400, 500, joint=False).embeddings == "separate"
    with pytest.raises(ConfigError, match="unknown preset"):
        resolve_model({"preset": ["rnnsearch"]}, 400, 500, joint=False)


def test_too_few_positions_in_one_half_are_refused_before_the_data_is_read() -> None:
    stack = {"kind": "transformer", "d_model": 8, "attention": {"heads": 1}}
    stack["positions"] = {"kind": "learned", "max_positions": 9}
    model = {"kind": "mixed", "encoder": {"kind": "recurrent"}, "decoder": stack}
    with pytest.raises(ConfigError, match=r"model\.decoder\.positions\.max_positions = 9;"):
        compose({**TABLE, "model": model}, {}, [])
    short = {"encoder": {"max_positions": 200}, "decoder": {"max_positions": 100}}
    both = r"model\.encoder\.max_positions = 200 and model\.decoder\.max_positions = 100; .* max_length to at most 99"
    with pytest.raises(ConfigError, match=both):
        compose({**TABLE, "model": {"preset": "convs2s", **short}}, {}, [])
