"""The guide to a recipe's keys lists every key that there is, with its default, in both languages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clearhead.config.strict import Config, _models
from clearhead.config.toml import dump_toml
from clearhead.models.config import ModelConfig
from clearhead.recipes.run_config import RunConfig

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("configuration*.md"))
ROW = re.compile(r"^\| `([\w.]+)` \| (.*?) \| (.*) \|$", re.MULTILINE)


def keys(model: type[Config], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(full key, its default, None, or `...` where it is required) for every leaf below `model`, kind by kind."""
    for name, field in model.model_fields.items():
        inner = _models(ModelConfig if prefix + name == "model" else field.annotation)
        for each in inner:
            yield from keys(each, f"{prefix}{name}.")
        if not inner:
            yield prefix + name, ... if field.is_required() else field.default


def written(value: Any) -> str:
    """A default as the guide writes it."""
    return "–" if value is None else f"`{literal(value)}`"


def literal(value: Any) -> str:
    """A value as TOML has it, on one line."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, Config):
        return f"{{{', '.join(f'{key} = {literal(each)}' for key, each in value)}}}"
    return dump_toml({"x": value})[4:-1]


def expected() -> dict[str, str]:
    found: dict[str, list[str]] = {"model.preset": ["–"]}
    kinds: dict[str, str] = {}
    for key, default in keys(RunConfig):
        if key.endswith(".kind"):
            kinds.setdefault(key, written(default))  # the first of a union is its default
        elif default is ...:
            found[key] = ["required"]
        else:
            found.setdefault(key, []).append(written(default))
    # A schedule has a default for each of its kinds, in their order; a part of a model has too many kinds for that.
    by_kind = {key: len(set(values)) > 1 and not key.startswith("model.") for key, values in found.items()}
    return kinds | {key: ", ".join(v if by_kind[key] else dict.fromkeys(v)) for key, v in found.items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_key_is_there_with_its_default(page: Path) -> None:
    shown = {key: default.replace("必填", "required") for key, default, _ in ROW.findall(page.read_text("utf-8"))}
    assert shown == expected()


def test_both_languages_say_the_same() -> None:
    assert [page.name for page in PAGES] == ["configuration.md", "configuration.zh.md"]
    english, chinese = ([row[::2] for row in ROW.findall(page.read_text("utf-8"))] for page in PAGES)
    assert [key for key, _ in english] == [key for key, _ in chinese]
    for (key, ours), (_, theirs) in zip(english, chinese):
        assert bool(ours) == bool(theirs), key
        assert re.findall(r"`[^`]+`|§[\d.]+", ours) == re.findall(r"`[^`]+`|§[\d.]+", theirs), key
