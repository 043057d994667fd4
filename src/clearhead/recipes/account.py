"""What a model costs: parameters, operations, bytes, paths and crossovers, exactly, for a preset or a saved model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from clearhead.analysis import flops, memory
from clearhead.analysis.crossover import layer_cost
from clearhead.analysis.parameters import parameters
from clearhead.analysis.paths import layer_kinds
from clearhead.analysis.plot import draw_crossovers
from clearhead.analysis.printed import PRINTED, common_vocabularies, printed
from clearhead.analysis.sizes import Lengths, check_lengths
from clearhead.base.errors import ConfigError, InputError
from clearhead.bundle.bundle import read_info
from clearhead.config.strict import suggestion, unstructure
from clearhead.config.toml import apply_settings
from clearhead.models.config import ModelConfig, TransformerConfig
from clearhead.models.presets import PRESETS
from clearhead.recipes.info import locate

__all__ = ["VOCABULARY", "Question", "Subject", "account", "find", "plot"]

VOCABULARY = 37000
"""Of a preset, when nothing else is said: about that of Vaswani et al. 2017, §5.1."""


@dataclass(frozen=True)
class Question:
    """What an account is to be made for.

    `cache`: decoding with (True) or without (False) a cache of keys and values; None for both. `table` holds lengths n
    to be put side by side; `beam` is how many hypotheses of a sentence have a cache. Raises InputError for an unknown
    `dtype`, or a length or a beam below one.
    """

    lengths: Lengths
    dtype: str = "float32"
    cache: bool | None = None
    table: tuple[int, ...] = ()
    kernel: int = 3
    window: int = 33
    beam: int = 1

    def __post_init__(self) -> None:
        if self.dtype not in memory.DTYPES:
            hint = suggestion(self.dtype, list(memory.DTYPES))
            raise InputError(f"dtype {self.dtype!r}: unknown{hint}; there are {', '.join(memory.DTYPES)}")
        if short := [length for length in self.table if length < 1]:
            raise InputError(f"lengths: {short[0]} is below 1")
        if self.beam < 1:
            raise InputError(f"beam {self.beam}: a search keeps at least 1 hypothesis")


@dataclass(frozen=True)
class Subject:
    """A model that an account is made of.

    `preset` is its name if it is one whose figures nothing has changed. `assumed`: nobody chose its vocabulary.
    """

    name: str
    config: TransformerConfig
    kind: str
    preset: str | None
    assumed: bool = False


def find(name: str, vocab_size: int | None = None, settings: Sequence[str] = ()) -> Subject:
    """The preset called `name` with a vocabulary of `vocab_size` and with `settings`, else the bundle or run there.

    No tensor is read. Raises InputError if `name` is neither, or a bundle is given a vocabulary or settings;
    ConfigError for a setting that fits no model, and for a model that is no Transformer.
    """
    directory = locate(name)
    if directory is None:
        config = PRESETS[name](vocab_size=vocab_size or VOCABULARY, **_overrides(settings))
        return Subject(name, _covered(name, config), "preset", None if settings else name, vocab_size is None)
    if vocab_size is not None or settings:
        given = "--vocab-size" if vocab_size is not None else "--set"
        raise InputError(f"{given} is for a preset; {name} is a model as it was trained")
    return Subject(str(directory), _covered(str(directory), read_info(directory).config), "bundle", None)


def _covered(name: str, config: ModelConfig) -> TransformerConfig:
    """The configuration, if the formulas of `analysis` are about such a model."""
    if isinstance(config, TransformerConfig):
        return config
    raise ConfigError(
        f"{name}: an account covers the Transformer (model.kind = 'transformer'), and this model's encoder is "
        f"{config.encoder.kind}, its decoder {config.decoder.kind}; `clearhead info` counts the parameters of any model"
    )


def account(subject: Subject, question: Question) -> dict[str, Any]:
    """Every figure of `subject`, as a table fit for JSON: whole numbers are exact.

    Raises InputError if the model cannot read text of the lengths asked for.
    """
    config, lengths = subject.config, question.lengths
    check_lengths(config, lengths.source, lengths.target, *question.table)
    table: dict[str, Any] = {
        "title": _title(subject),
        subject.kind: subject.name,
        "shape": {
            "source_length": lengths.source,
            "target_length": lengths.target,
            "batch": lengths.batch,
            "beam": question.beam,
            "dtype": question.dtype,
        },
        "vocabulary_assumed": subject.assumed,
        "parameters": parameters(config),
    }
    if subject.preset in PRINTED:
        table["printed"] = _printed(subject.preset, config)
    table |= {
        "operations": _operations(config, question),
        "bytes": _bytes(config, question),
        "crossovers": {
            stack: {
                name: _number(length) if length > 0 else None  # None: from the first token on
                for name, length in layer_cost(config, stack).crossovers().items()
            }
            for stack in ("encoder", "decoder")
        },
        "layer_kinds": [
            asdict(kind) for kind in layer_kinds(lengths.source, config.d_model, question.kernel, question.window)
        ],
    }
    if question.table:
        table["lengths"] = [_line(config, length, question) for length in question.table]
    return table | {"model": unstructure(config)}


def plot(subject: Subject, image: Path) -> None:
    """Draw the terms of an encoder and a decoder layer and where they cross; see `draw_crossovers` for its errors."""
    costs = {stack: layer_cost(subject.config, stack) for stack in ("encoder", "decoder")}
    name = subject.name if subject.kind == "preset" else Path(subject.name).name
    draw_crossovers(costs, subject.config.d_model, image, f"{name}: what a layer costs over n tokens")


def _overrides(settings: Sequence[str]) -> dict[str, Any]:
    """The figures of a model that `--set model.…` changes."""
    for setting in settings:
        key, equals, _ = setting.partition("=")
        if not equals or not all(name.strip() for name in key.split(".")):
            raise ConfigError(f"--set {setting}: expected KEY=VALUE, such as model.attention.heads=4")
    table = apply_settings({}, settings)
    if others := sorted(table.keys() - {"model"}):
        hint = suggestion(others[0], [f"model.{name}" for name in TransformerConfig.model_fields])
        raise ConfigError(
            f"--set {others[0]}: an account knows only keys of the model, such as model.attention.heads=4{hint}"
        )
    model: Any = table.get("model", {})
    if not isinstance(model, dict):
        raise ConfigError("--set model: expected a key of it, such as model.attention.heads=4")
    if "vocab_size" in model:
        raise ConfigError("--set model.vocab_size: say --vocab-size instead")
    return model


def _title(subject: Subject) -> str:
    config = subject.config
    heads, kv_heads, head_dim = config.attention.widths(config.d_model)
    shared = "" if kv_heads == heads else f" sharing {kv_heads} of keys and values"
    source = config.source_vocab_size
    sizes = f"{config.vocab_size:,}" if source in (None, config.vocab_size) else f"{source:,} to {config.vocab_size:,}"
    return (
        f"{subject.name}: vocabulary {sizes}, d_model {config.d_model:,}, d_ff {config.d_ff:,}, {heads} heads of "
        f"{head_dim}{shared}, {config.encoder_layers} + {config.decoder_layers} layers, {config.norm}-norm"
    )


def _printed(name: str, config: TransformerConfig) -> dict[str, Any]:
    found = printed(name, config)
    return {
        "printed": found.printed,
        "exact": found.exact,
        "implied_vocabulary": _number(found.implied),
        "vocabulary_between": found.between,
        "vocabularies_that_explain_base_and_big": common_vocabularies(),
        "source": "Vaswani et al. 2017, Table 3",
    }


def _operations(config: TransformerConfig, question: Question) -> dict[str, Any]:
    lengths = question.lengths
    found: dict[str, Any] = {
        "forward": _summed(flops.forward(config, lengths)),
        "backward": _summed(flops.backward(config, lengths)),
    }
    for cache, name in ((True, "with_cache"), (False, "without_cache")):
        if question.cache in (None, cache):
            found[name] = {
                "last_token": _summed(flops.step(config, lengths, cache=cache)),
                "translation": _summed(flops.greedy(config, lengths, cache=cache)),
            }
    return found


def _bytes(config: TransformerConfig, question: Question) -> dict[str, Any]:
    lengths, size = question.lengths, memory.DTYPES[question.dtype]
    weights, moments = memory.weights(config, size), memory.optimizer_state(config, size)
    saved, cache = memory.activations(config, lengths, size), memory.kv_cache(config, lengths, size, question.beam)
    return {
        "weights": weights,
        "gradients": weights,
        "adam_moments": moments,
        "activations": saved,
        "training": weights + weights + moments + saved["total"],
        "kv_cache": cache,
        "translating": weights + sum(cache.values()),
        "score_matrices": memory.score_matrices(config, lengths, size),
    }


def _summed(parts: dict[str, int]) -> dict[str, int]:
    return {**parts, "total": flops.in_all(parts)}


def _line(config: TransformerConfig, length: int, question: Question) -> dict[str, Any]:
    """One encoder layer over `length` tokens, and how much more that is than over the first length of the table."""
    cost, both, size = layer_cost(config), Lengths(length, length), memory.DTYPES[question.dtype]
    terms, start = cost.at(length), cost.at(question.table[0])
    sublayer, before = (each["attention"] + each["projections"] for each in (terms, start))
    return {
        "length": length,
        **terms,
        "attention_over_feedforward": sublayer / terms["feed-forward"],
        "attention_growth": _number(Fraction(terms["attention"], start["attention"])),
        "sublayer_growth": _number(Fraction(sublayer, before)),
        "layer_growth": _number(Fraction(terms["layer"], start["layer"])),
        "score_matrix_bytes": memory.score_matrices(config, both, size)["encoder self"],
        "kv_cache_bytes": memory.kv_cache(config, both, size, question.beam)["self"],
    }


def _number(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)
