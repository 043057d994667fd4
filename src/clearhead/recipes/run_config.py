"""The root configuration of a training run, put together from a recipe, flags and `--set`, in that order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from clearhead.base.errors import ConfigError
from clearhead.config.strict import Config, structure, unstructure
from clearhead.config.toml import apply_settings, merge
from clearhead.data.config import DataConfig
from clearhead.decoding.config import DecodingConfig
from clearhead.models import presets
from clearhead.models.config import LearnedConfig, ModelConfig
from clearhead.text.tokenizer import TokenizerConfig, Tokenizers
from clearhead.training.config import EXTENDABLE, TrainingConfig

__all__ = ["RunConfig", "changed_keys", "compose", "resolve_model"]

RESUMABLE = EXTENDABLE | {"out", "data.cache", "data.train", "data.dev", "training.threads", "training.device", "init"}
"""May differ when a run goes on. The text itself is compared by content, so its files may move."""


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
    merged = apply_settings(merge(table, flags or {}), settings)
    missing = [f"{key} ({flag})" for key, flag in REQUIRED if _at(merged, key) is None]
    if not _at(merged, "data.train"):
        missing.append("data.train (--source FILE --target FILE, or --tsv FILE)")
    if not _at(merged, "init") and not _at(merged, "model.preset") and not _at(merged, "model.kind"):
        missing.append(f"model.preset (--preset {'|'.join(presets.PRESETS)}, or --init BUNDLE)")
    if missing:
        raise ConfigError(f"{where}: missing {'; '.join(missing)}")
    config = structure(RunConfig, merged, where=where)
    if not config.out.strip():
        raise ConfigError(f"{where}: out: empty; name the directory of the run (--out DIR)")
    if config.data.dev is None:
        for key, value in (("patience", config.training.patience), ("score_every", config.training.score_every)):
            if value:
                raise ConfigError(
                    f"{where}: training.{key} needs a development set (data.dev; --dev-source and --dev-target)"
                )
    if config.init is None:
        size, joint = config.tokenizer.vocab_size, config.tokenizer.joint
        _refuse_short_positions(config.data, resolve_model(config.model, size, size, joint))
    elif "preset" in config.model:
        raise ConfigError("model.preset: a fine-tuned model keeps the size of init; leave the preset out (--init)")
    return config.model_copy(update={"training": config.training.resolved()})


def resolve_model(table: Mapping[str, Any], source_vocab: int, target_vocab: int, joint: bool) -> ModelConfig:
    """The model that a table means, for the vocabulary sizes at hand. Raises `ConfigError`."""
    given = dict(table)
    preset = given.pop("preset", None)
    if not joint:
        if given.get("embeddings", "output") == "tied":
            raise ConfigError(
                "model.embeddings: 'tied' needs one vocabulary for both languages; set tokenizer.joint = true, or "
                "embeddings = 'output'"
            )
        given = {"embeddings": "output", "source_vocab_size": source_vocab} | given
    for key, size in (("vocab_size", target_vocab), ("source_vocab_size", source_vocab)):
        if key in given and given[key] != size:
            raise ConfigError(f"model.{key}: {given[key]!r}, but the tokenizer has {size}; leave the key out")
    if preset is not None:
        given.pop("vocab_size", None)
        return presets.named(str(preset), target_vocab, given)
    return structure(ModelConfig, given | {"vocab_size": target_vocab}, under="model")


def resolved(config: RunConfig, model: ModelConfig, tokenizers: Tokenizers) -> RunConfig:
    """The configuration with nothing left open: no preset, and the tokenizer that is really used.

    Raises `ConfigError` when the model has fewer positions than the text may have tokens.
    """
    _refuse_short_positions(config.data, model)
    tokenizer = tokenizers.config.model_copy(update={"sampling": config.tokenizer.sampling})
    return config.model_copy(update={"model": unstructure(model), "tokenizer": tokenizer})


def _refuse_short_positions(data: DataConfig, model: ModelConfig) -> None:
    needed = data.max_length + 1  # EOS, or BOS on the side that the decoder reads
    if isinstance(model.positions, LearnedConfig) and model.positions.max_positions < needed:
        have = model.positions.max_positions
        raise ConfigError(
            f"data.max_length = {data.max_length} needs {needed} positions (EOS is one), but "
            f"model.positions.max_positions = {have}; set max_positions to at least {needed}"
            + (f", or max_length to at most {have - 1}" if have > 1 else "")
        )


def changed_keys(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Differences that forbid going on, as "key: old → new" lines; empty if the run may be resumed."""
    old, new = dict(_leaves(before)), dict(_leaves(now))
    changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return [
        f"{key}: {old.get(key, 'not set')!r} → {new.get(key, 'not set')!r}"
        for key in changed
        if not any(key == free or key.startswith(free + ".") for free in RESUMABLE)
    ]


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _at(table: Mapping[str, Any], key: str) -> Any:
    value: Any = table
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
