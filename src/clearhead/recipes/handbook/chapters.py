"""Which module computes which chapter; importing this one registers every fact."""

from __future__ import annotations

from clearhead.recipes.handbook import (
    accounts,
    after,
    ancestors,
    attention,
    block,
    causality,
    changed,
    comparison,
    constants,
    cost,
    deep,
    engine,
    heads,
    learning,
    limits,
    lineage,
    model,
    order,
    projections,
    representation,
    softmax,
    training,
    whole_model,
)
from clearhead.recipes.handbook.registry import Recipe, recipes

__all__ = ["CHAPTERS", "all_recipes"]

CHAPTERS = (
    representation,
    projections,
    attention,
    softmax,
    causality,
    heads,
    order,
    block,
    model,
    deep,
    training,
    constants,
    changed,
    learning,
    after,
    limits,
    cost,
    whole_model,
    accounts,
    comparison,
    ancestors,
    lineage,
    engine,
)
"""In the order of the handbook."""


def all_recipes() -> dict[str, Recipe]:
    """Every recipe by the id of each of its facts, chapter by chapter."""
    order = [chapter.__name__ for chapter in CHAPTERS]
    return dict(sorted(recipes().items(), key=lambda item: order.index(item[1].function.__module__)))
