"""What the handbook and the READMEs quote of our own measurements is what was recorded."""

from __future__ import annotations

import json
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CITED: dict[str, dict[str, Any]] = json.loads((ROOT / "docs/transformer/cited.json").read_text("utf-8"))
OURS = ("ourcomparison", "ourinspection", "ourengine")
MEASURED = {name: entry for name, entry in CITED.items() if entry["source"] in OURS}
SPEEDS = (
    "b4_int8",
    "b1_int8",
    "b4_fp32",
    "b4_transformers",
    "one_b1",
    "one_b4",
    "marian_b1",
    "marian_b4",
    "two_b1",
    "two_b4",
)
"""The rows of the READMEs' table of translation speed, as `engine.base_…` and `engine.tiny_…` of cited.json."""


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


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_the_table_of_translation_speed_is_that_of_the_record(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    table = re.search(r"^\| [^|]+ \| base \| `bench-tiny` \|\n\| --- .*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    shown = [[cell.strip() for cell in row.split("|")[2:4]] for row in table[1].splitlines()]
    assert shown == [[f"{CITED[f'engine.{size}_{row}']['value']:.2f} ×" for size in ("base", "tiny")] for row in SPEEDS]
