"""What the handbook quotes of our own comparison is what was recorded."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CITED: dict[str, dict[str, Any]] = json.loads((ROOT / "docs/transformer/cited.json").read_text("utf-8"))
MEASURED = {name: entry for name, entry in CITED.items() if entry["source"] == "ourcomparison"}


def recorded(where: str) -> float:
    """The number at `file: key.key.…` of the record; keys are names, or places in a list."""
    file, _, path = where.partition(": ")
    table: Any = json.loads((ROOT / "benchmarks/results" / file).read_text("utf-8"))
    return reduce(lambda at, key: at[int(key)] if isinstance(at, list) else at[key], path.split("."), table)


def test_the_comparison_is_quoted() -> None:
    assert len(MEASURED) > 20


@pytest.mark.parametrize("name", MEASURED)
def test_a_quoted_number_stands_in_the_record(name: str) -> None:
    assert recorded(MEASURED[name]["where"]) == MEASURED[name]["value"]
