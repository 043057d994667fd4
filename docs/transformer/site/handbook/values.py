"""The exact values behind the numbers of the pages: computed facts and numbers that papers print."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["REPOSITORY", "cited", "describe", "fact", "has_facts"]

REPOSITORY = Path(__file__).resolve().parents[4]
_LOCK = REPOSITORY / "src/clearhead/recipes/handbook/facts.lock.json"
_CITED = REPOSITORY / "docs/transformer/cited.json"


@cache
def _facts() -> dict[str, Any]:
    if not _LOCK.exists():
        return {}
    facts: dict[str, Any] = json.loads(_LOCK.read_text(encoding="utf-8"))["facts"]
    return facts


@cache
def _cited() -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = json.loads(_CITED.read_text(encoding="utf-8"))
    return entries


def has_facts() -> bool:
    """Whether the lock file is there at all."""
    return bool(_facts())


def fact(identifier: str) -> Any:
    """The value of `chapter.name`, or of a part of it (`chapter.name.0.2`); None where there is none."""
    chapter, _, rest = identifier.partition(".")
    name, *path = rest.split(".")
    value = _facts().get(f"{chapter}.{name}")
    for part in path:
        if not isinstance(value, list) or not part.isdigit() or int(part) >= len(value):
            return None
        value = value[int(part)]
    return value


def cited(identifier: str) -> dict[str, Any] | None:
    """The entry of `cited.json`: value, source and where; None where there is none."""
    return _cited().get(identifier)


def describe(value: Any) -> str:
    """An exact value in at most twelve digits, for a tooltip."""
    if value in ("-inf", float("-inf")):
        return "−∞"
    if isinstance(value, list):
        return "[" + ", ".join(describe(part) for part in value) + "]"
    if isinstance(value, float):
        return f"{value:.12g}".replace("-", "−")
    return str(value).replace("-", "−")
