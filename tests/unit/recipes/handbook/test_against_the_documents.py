"""Our modules against the numbers that the source documents print, and against figures known from elsewhere.

The lock is written by a script of ours; these values are not ours: the handbook's print (six decimals), and counts that
anybody can redo on paper.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from clearhead.recipes.handbook.chapters import CHAPTERS, all_recipes
from clearhead.recipes.handbook.registry import ARITHMETIC, RecipeError, facts, plain

PRINTED: dict[str, Any] = {
    "attn.weights": [
        [0.401112, 0.197776, 0.401112],
        [0.197776, 0.401112, 0.401112],
        [0.248255, 0.248255, 0.503490],
    ],
    "attn.output": [[1.604448, 0.598888], [1.197776, 0.802224], [1.503490, 0.751745]],
    "causal.weights": [[1, 0, 0], [0.330238, 0.669762, 0], [0.248255, 0.248255, 0.503490]],
    "soft.weights_0_10": [0.000045, 0.999955],
    "heads.result": [[0.844638, 1.511304], [0.666667, 1.511304], [0.844638, 1.689275]],
    "pos.sum": [1.841471, 0.540302, 1.01, 0.99995],
    "block.norm": [1, -1],
    "model.vocabulary_softmax": [0.665241, 0.244728, 0.090031],
    "train.nll": 0.458145,
    "train.rate_peak": 0.000699,
    "learn.gradient": [0.6, -0.7, 0.1],
    "params.base_total": 63_045_632,
    "params.big_total": 214_171_648,
    "params.table3_millions": [55.97, 58.33, 33.64, 48.35, 77.75, 26.82, 163.82, 50.45, 88.24],
    "cost.mha": 8 * 7 * 16**2 + 4 * 7**2 * 16,
    "cost.ffn": 16 * 7 * 16**2,
    "cost.crossovers": [1024, 2048, 3072],
    "compare.receptive_field": 11,
    "train.cache_rows": [36, 8],
}


@pytest.mark.parametrize("fact", PRINTED)
def test_printed_numbers(fact: str) -> None:
    tolerance = 0.005 if fact == "params.table3_millions" else 5e-7
    found = _flat(all_recipes()[fact].compute()[fact])
    assert found == pytest.approx(_flat(PRINTED[fact]), abs=tolerance)


def _flat(value: Any) -> list[float]:
    return [each for part in value for each in _flat(part)] if isinstance(value, list) else [value]


def test_the_chapters_of_attention_and_training_are_made_by_modules() -> None:
    """Arithmetic is for what no module computes: inputs, wrong variants, quotients of cited numbers, the lineage."""
    chapters = ("rep", "proj", "attn", "heads", "pos", "cross", "model", "search", "bleu", "learn", "limits")
    not_made = {fact for fact, recipe in all_recipes().items() if recipe.modules == (ARITHMETIC,)}
    inputs = {"rep.exercise_row", "attn.exercise_query", "pos.embedding", "heads.split_input", "learn.probabilities"}
    inputs |= {"cross.queries", "cross.memory"}
    assert {fact for fact in not_made if fact.startswith(chapters)} == inputs | {"heads.split_wrong"}


def test_every_module_name_leads_to_code() -> None:
    names = {name for recipe in all_recipes().values() for name in recipe.modules if name != ARITHMETIC}
    assert len(names) > 20
    for name in names:
        module, _, thing = name.rpartition(".")
        inside = module.split(".")[0] in {
            "nn",
            "models",
            "data",
            "objectives",
            "decoding",
            "training",
            "metrics",
            "engine",
        }
        assert hasattr(importlib.import_module(f"clearhead.{module}" if inside else module), thing), name


def test_a_fact_has_one_recipe() -> None:
    with pytest.raises(RecipeError, match=r"attn\.weights has two recipes"):
        facts("attn", "weights")(lambda: 1.0)
    assert {recipe.function.__module__ for recipe in all_recipes().values()} == {each.__name__ for each in CHAPTERS}


@pytest.mark.parametrize("value", [None, True, "1", {"a": 1}, [1, None]])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(RecipeError, match="is no number"):
        plain(value)
