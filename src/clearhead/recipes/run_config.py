"""The root configuration of a training run, put together from a recipe, flags and `--set`, in that order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from clearhead.base.errors import ConfigError
from clearhead.base.log import logger
from clearhead.config.strict import Config, structure, unstructure
from clearhead.config.toml import apply_settings, load_toml, merge
from clearhead.data.config import FORMS, DataConfig
from clearhead.decoding.config import DecodingConfig
from clearhead.models import presets
from clearhead.models.config import ModelConfig
from clearhead.text.tokenizer import TokenizerConfig, Tokenizers
from clearhead.training.config import EXTENDABLE, TrainingConfig

__all__ = [
    "CONFIG",
    "RESUMABLE",
    "RunConfig",
    "begun_with",
    "changed_keys",
    "compose",
    "differences",
    "resolve_model",
    "resolved",
]

CONFIG = "config.toml"
"""The file in a run directory that says what the run is made of."""

FILES = {f"data.{part}.{key}" for part in ("train", "dev") for form in FORMS for key in form}
RESUMABLE = EXTENDABLE | FILES | {"out", "data.cache", "training.threads", "training.device"}
"""May differ when a run goes on. The text itself is compared by content, so its files may move; so may `init`."""

ADDED: dict[str, Any] = {
    "data.train.weight": 1.0,
    "decoding.reproducible": False,
    "training.initialisation.kind": "default",
}
"""Keys that runs of an earlier version do not have, each with what it was in effect."""


UNSET = "not set"


class RunConfig(Config):
    """Everything that a run is made of.

    `model` is a table: `preset = "tiny"` and whatever overrides it, or a whole model configuration; its vocabulary
    follows from the tokenizer. `init` names a bundle (or run) to fine-tune: weights and tokenizer come from it, the
    optimizer starts fresh, and `model` may then change only what leaves the weights alone (dropout). `decoding` is how
    the development set is translated for its scores.
    """

    out: str
    seed: int = Field(default=1, ge=0)
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: dict[str, Any] = {}
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()
    init: str | None = None


REQUIRED = (
    ("data.languages", "--languages SOURCE,TARGET"),
    ("out", "--out DIR"),
)


def compose(
    table: Mapping[str, Any],
    flags: Mapping[str, Any] | None = None,
    settings: Iterable[str] = (),
    where: str = "config",
) -> RunConfig:
    """A checked configuration from a recipe's table, the command line's flags (a table as well) and its settings.

    Raises `ConfigError` naming every missing key with its flag, and every wrong one; also for a model that cannot be
    built, long before the data is read.
    """
    merged = apply_settings(merge(_without_other_forms(table, flags or {}), flags or {}), settings)
    several, train = _at(table, "data.train"), _at(merged, "data.train")
    if isinstance(several, list) and isinstance(train, Mapping) and not any(train.keys() & set(form) for form in FORMS):
        raise ConfigError(
            f"{where}: data.train lists {len(several)} corpora; {', '.join(train)} cannot be set for one of them from "
            "outside: change the recipe, or give the whole list"
        )
    if isinstance(several, list) and len(several) > 1 and isinstance(train, Mapping):
        logger.warning(
            "%s: its %d corpora in data.train are all replaced by the one given outside", where, len(several)
        )
    for key, remedy in (
        ("out", "name the directory of the run (--out DIR)"),
        ("init", "name a bundle or run (--init), or leave it out"),
    ):
        if isinstance(value := _at(merged, key), str) and not value.strip():
            raise ConfigError(f"{where}: {key}: empty; {remedy}")
    missing = [f"{key} ({flag})" for key, flag in REQUIRED if _at(merged, key) is None]
    if not _at(merged, "data.train"):
        missing.append("data.train (--source FILE --target FILE, or --tsv FILE)")
    if not _at(merged, "init") and not _at(merged, "model.preset") and not _at(merged, "model.kind"):
        own = ', or model.kind = "transformer" with sizes of its own' if _at(merged, "model") else ""
        missing.append(f"model.preset (--preset {'|'.join(presets.PRESETS)}, or --init BUNDLE{own})")
    if missing:
        alone = merged.keys() == {"out"}  # as when a run is to go on; one that exists has brought its recipe
        no_run = f"{_at(merged, 'out')} holds no run to go on with; for a new one " if alone else ""
        raise ConfigError(f"{where}: {no_run}missing {'; '.join(missing)}")
    config = structure(RunConfig, merged, where=where)
    if config.data.dev is None:
        for key, value in (("patience", config.training.patience), ("score_every", config.training.score_every)):
            if value:
                raise ConfigError(
                    f"{where}: training.{key} needs a development set (data.dev; --dev-source and --dev-target)"
                )
    _refuse_what_cannot_be(config)
    resolved_training = config.training.resolved()
    return config.model_copy(update={"training": resolved_training, "tokenizer": _with_tags(config, where)})


def _refuse_what_cannot_be(config: RunConfig) -> None:
    """Raises `ConfigError` for a new model that cannot be built, and for a choice that the weights of `init` settle."""
    if config.init is None:
        size, joint = config.tokenizer.vocab_size, config.tokenizer.joint
        _refuse_short_positions(config.data, resolve_model(config.model, size, size, joint))
    elif config.training.initialisation.kind != "default":
        raise ConfigError("training.initialisation: the weights come from init (--init); leave the table out")
    elif "preset" in config.model:
        raise ConfigError("model.preset: a fine-tuned model keeps the size of init; leave the preset out (--init)")


def _with_tags(config: RunConfig, where: str) -> TokenizerConfig:
    """The tokenizer that is asked for, with every tag of the corpora among its symbols.

    That of `init` has the symbols that it has. Raises `ConfigError` when there is no room for them.
    """
    tokenizer = config.tokenizer
    more = [tag for tag in config.data.tags if tag not in tokenizer.symbols]
    if config.init is not None or not more:
        return tokenizer
    table = unstructure(tokenizer) | {"symbols": [*tokenizer.symbols, *more]}
    return structure(TokenizerConfig, table, where=where, under="tokenizer")


def begun_with(flags: Mapping[str, Any], settings: Iterable[str] = ()) -> tuple[dict[str, Any], str]:
    """The table that a command without a recipe is laid over, and the name of where it comes from.

    A command that says all that a run needs (text, languages, model) stands alone, as it did when the run was begun.
    One that says less goes on with the run in its `out`: the table is that run's configuration, but for what follows
    from what the command does say: the figures of a model from its preset, its vocabulary from the tokenizer.

    Raises `ConfigError` for a run whose configuration is gone.
    """
    given = apply_settings(flags, settings)
    whole = _at(given, "data.train") and _at(given, "data.languages")
    out = _at(given, "out")
    if not isinstance(out, str) or not out.strip():
        return {}, "train"
    if whole and (_at(given, "model.preset") or _at(given, "model.kind") or _at(given, "init")):
        return {}, "train"
    where = Path(out) / CONFIG
    if not where.exists():
        if (Path(out) / "checkpoints").is_dir():
            raise ConfigError(f"{out} has no {CONFIG}; give the recipe, or all the flags, that the run was begun with")
        return {}, "train"
    table = load_toml(where)
    follows = {"vocab_size", "source_vocab_size"} | (
        {"embeddings"} if _at(given, "tokenizer.joint") is not None else set()
    )
    if isinstance(model := table.get("model"), dict):
        kept = {} if _at(given, "model.preset") else {key: model[key] for key in model if key not in follows}
        table = table | {"model": kept}
    return table, str(where)


def resolve_model(table: Mapping[str, Any], source_vocab: int, target_vocab: int, joint: bool) -> ModelConfig:
    """The model that a table means, for the vocabulary sizes at hand. Raises `ConfigError`."""
    given = dict(table)
    preset = given.pop("preset", None)
    ancestors = presets.PRESETS.keys() - presets.TRANSFORMERS.keys()
    mixed = given.get("kind") == "mixed" or str(preset) in ancestors
    if not joint:
        if given.get("embeddings", "output") == "tied":
            raise ConfigError(
                "model.embeddings: 'tied' needs one vocabulary for both languages; set tokenizer.joint = true, or "
                "embeddings = 'output'"
            )
        default = {} if mixed else {"embeddings": "output"}  # the ancestors' own default serves two vocabularies
        given = default | {"source_vocab_size": source_vocab} | given
    for key, size in (("vocab_size", target_vocab), ("source_vocab_size", source_vocab)):
        if key in given and given[key] != size:
            raise ConfigError(f"model.{key}: {given[key]!r}, but the tokenizer has {size}; leave the key out")
    if preset is not None:
        given.pop("vocab_size", None)
        return presets.named(str(preset), target_vocab, given)
    table = {"kind": "transformer"} | given | {"vocab_size": target_vocab}
    config: ModelConfig = structure(ModelConfig, table, under="model")
    return config


def resolved(config: RunConfig, model: ModelConfig, tokenizers: Tokenizers) -> RunConfig:
    """The configuration with nothing left open: no preset, and the tokenizer that is really used.

    Raises `ConfigError` when the model has fewer positions than the text may have tokens.
    """
    _refuse_short_positions(config.data, model)
    tokenizer = tokenizers.config.model_copy(update={"sampling": config.tokenizer.sampling})
    return config.model_copy(update={"model": unstructure(model), "tokenizer": tokenizer})


def _refuse_short_positions(data: DataConfig, model: ModelConfig) -> None:
    needed = data.max_length + 1  # EOS, or BOS on the side that the decoder reads
    short = {f"model.{key}": have for key, have in model.position_limits.items() if have < needed}
    if short:
        have = min(short.values())
        raise ConfigError(
            f"data.max_length = {data.max_length} needs {needed} positions (EOS is one), but "
            f"{' and '.join(f'{key} = {each}' for key, each in short.items())}; "
            f"set max_positions to at least {needed}" + (f", or max_length to at most {have - 1}" if have > 1 else "")
        )


def changed_keys(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Differences that forbid going on, as "key: old → new" lines; empty if the run may be resumed."""
    lines = []
    for key, old, new in differences(before, now):
        plain = re.sub(r"\[\d+\]", "", key)
        free = any(plain == each or plain.startswith(each + ".") for each in RESUMABLE)
        if not free and not (old == UNSET and new == ADDED.get(plain)):
            lines.append(f"{key}: {old!r} → {new!r}")
    return lines


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(key path, old value, new value) wherever two tables differ, in order; "not set" stands for no value."""
    old, new = dict(_leaves(before)), dict(_leaves(now))
    return [
        (key, old.get(key, UNSET), new.get(key, UNSET))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple) and value and all(isinstance(each, Mapping) for each in value):
            for place, each in enumerate(value):
                yield from _leaves(each, f"{prefix}{key}[{place}].")
        else:
            yield prefix + key, value


def _without_other_forms(table: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """`table` without the files of a corpus that the flags name in another form (two files, or one): its tag stays."""
    data = table.get("data")
    if not isinstance(data, Mapping):
        return dict(table)
    kept = dict(data)
    for part in ("train", "dev"):
        old, new = _at(table, f"data.{part}"), _at(flags, f"data.{part}")
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            given = [set(form) for form in FORMS if not new.keys().isdisjoint(form)]
            others = {key for form in FORMS if given and set(form) not in given for key in form}
            kept[part] = {key: value for key, value in old.items() if key not in others}
    return {**table, "data": kept}


def _at(table: Mapping[str, Any], key: str) -> Any:
    value: Any = table
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
