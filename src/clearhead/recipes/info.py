"""What a saved model or a preset is: configuration, parameters by part, versions, training summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clearhead.base.errors import BundleError, InputError
from clearhead.bundle.bundle import read_info, versions
from clearhead.bundle.resolve import resolve
from clearhead.config.strict import suggestion, unstructure
from clearhead.config.toml import dump_toml
from clearhead.models.build import build, count_parameters
from clearhead.models.config import ModelConfig
from clearhead.models.presets import PRESETS

__all__ = ["describe", "describe_bundle", "describe_preset", "locate", "parameters_by_part", "render"]

PARTS = {
    "encoder.input.": "embeddings",
    "decoder.input.": "embeddings",
    "decoder.output.": "output projection",
    "encoder.": "encoder",
    "decoder.": "decoder",
}
"""A parameter belongs to the first of these beginnings that its name has; a tied one to the first place it is used."""


def parameters_by_part(config: ModelConfig) -> dict[str, int]:
    """How many distinct parameters each part has, and in all; nothing is allocated.

    A matrix that source, target and output share counts once, among the embeddings.
    """
    model = build(config, device="meta")
    counts = dict.fromkeys(("embeddings", "encoder", "decoder", "output projection"), 0)
    for name, parameter in model.named_parameters():
        part = next((part for start, part in PARTS.items() if name.startswith(start)), "other")
        counts[part] = counts.get(part, 0) + parameter.numel()
    return {**counts, "total": count_parameters(model)}


def locate(name: str) -> Path | None:
    """The bundle that `name` stands for, a run's best; None where it is a preset and no such file is there.

    Raises InputError if it is neither.
    """
    if name in PRESETS and not Path(name).exists():
        return None
    try:
        return resolve(name)
    except BundleError:
        if Path(name).exists():
            raise
        hint = suggestion(name, list(PRESETS))
        raise InputError(
            f"{name}: there is no such bundle or run directory, and no such preset{hint}; presets: {', '.join(PRESETS)}"
        ) from None


def describe(name: str, vocab_size: int) -> dict[str, Any]:
    """The table of a preset called `name`, else of the bundle or run directory there.

    Raises InputError if it is neither.
    """
    directory = locate(name)
    return describe_preset(name, vocab_size) if directory is None else describe_bundle(directory)


def describe_preset(name: str, vocab_size: int) -> dict[str, Any]:
    """The table of a preset with a joint vocabulary of `vocab_size`."""
    config = PRESETS[name](vocab_size=vocab_size)
    return {
        "preset": name,
        "parameters": parameters_by_part(config),
        "model": unstructure(config),
        "versions": versions(),
    }


def describe_bundle(path: str | Path) -> dict[str, Any]:
    """The table of a bundle, from its description alone: no tensor is read, no checksum compared."""
    directory = resolve(path)
    info = read_info(directory)
    return {
        "bundle": str(directory),
        "languages": list(info.languages),
        "weights": info.weights,
        "parameters": parameters_by_part(info.config),
        "tokenizer": info.tokenizer,
        "model": unstructure(info.config),
        "training": info.training,
        "versions": info.versions,
    }


def render(table: dict[str, Any]) -> str:
    """The table for people: the counts with separators, everything else as TOML."""
    counts = table["parameters"]
    width = max(len(name) for name in counts)
    lines = [f"  {name:<{width}}  {count:>15,}" for name, count in counts.items()]
    head = {name: value for name, value in table.items() if not isinstance(value, dict)}
    rest = {name: value for name, value in table.items() if isinstance(value, dict) and name != "parameters"}
    return "\n".join([dump_toml(head).rstrip(), "", "parameters", *lines, "", dump_toml(rest).rstrip()])
