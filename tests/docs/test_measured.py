"""What the handbook quotes of our own measurements is what was recorded."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CITED: dict[str, dict[str, Any]] = json.loads((ROOT / "docs/transformer/cited.json").read_text("utf-8"))
OURS = ("ourcomparison", "ourinspection")
MEASURED = {name: entry for name, entry in CITED.items() if entry["source"] in OURS}


def recorded(where: str) -> float:
    """The number at `file: key.key.…` of the record; keys are names, or places in a list."""
    file, _, path = where.partition(": ")
    table: Any = json.loads((ROOT / "benchmarks/results" / file).read_text("utf-8"))
    return reduce(lambda at, key: at[int(key)] if isinstance(at, list) else at[key], path.split("."), table)


@pytest.mark.parametrize("source", OURS)
def test_it_is_quoted(source: str) -> None:
    assert sum(entry["source"] == source for entry in MEASURED.values()) > 20


@pytest.mark.parametrize("name", MEASURED)
def test_a_quoted_number_stands_in_the_record(name: str) -> None:
    assert recorded(MEASURED[name]["where"]) == MEASURED[name]["value"]
