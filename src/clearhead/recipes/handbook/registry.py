"""The register of facts: which function computes which, and out of which modules of ours.

A chapter's module decorates a function with the ids of the facts that it returns, in their order. Values may be
numbers, fractions, nested sequences of them, tensors, or a mixture; `plain` makes numbers and lists of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from torch import Tensor

__all__ = ["ARITHMETIC", "Recipe", "RecipeError", "Value", "facts", "name_of", "plain", "recipes"]

Value: TypeAlias = "float | int | list[Value]"
Function = TypeVar("Function", bound=Callable[[], Any])

ARITHMETIC = "arithmetic"
"""What stands for the modules of a fact that no module of ours computes."""


class RecipeError(Exception):
    """A recipe returned something else than it promised. A fault of ours; the comparison reports it as a failure."""


@dataclass(frozen=True)
class Recipe:
    """One function and the facts that it computes.

    Attributes:
        ids: full ids, in the order of what `function` returns.
        modules: dotted names of the code that made them, or `ARITHMETIC` alone.
        function: takes nothing; returns one value for one id, else as many values as there are ids.
    """

    ids: tuple[str, ...]
    modules: tuple[str, ...]
    function: Callable[[], Any]

    def compute(self) -> dict[str, Value]:
        """The facts by id. Raises `RecipeError` for a wrong number of values, and whatever the code does."""
        found = self.function()
        values = (found,) if len(self.ids) == 1 else tuple(found)
        if len(values) != len(self.ids):
            raise RecipeError(f"{self.function.__qualname__} gave {len(values)} values for {len(self.ids)} ids")
        return {fact: plain(value) for fact, value in zip(self.ids, values, strict=True)}


_RECIPES: dict[str, Recipe] = {}


def facts(chapter: str, names: str, *, by: Iterable[Any] = (), given: str = "") -> Callable[[Function], Function]:
    """Register a function as the recipe of `chapter.name` for each of the blank-separated `names`.

    `by` lists the classes and functions of ours that it runs; without them the facts are marked `ARITHMETIC`. So are
    the names in `given`, which the function only hands on: an input, or a variant that no module of ours is.
    """
    ids = tuple(f"{chapter}.{name}" for name in names.split())
    handed_on = {f"{chapter}.{name}" for name in given.split()}
    modules = tuple(name_of(each) for each in by) or (ARITHMETIC,)
    if not handed_on <= set(ids):
        raise RecipeError(f"{sorted(handed_on - set(ids))} given, and not among the names")

    def register(function: Function) -> Function:
        recipe, plainly = Recipe(ids, modules, function), Recipe(ids, (ARITHMETIC,), function)
        for fact in ids:
            if fact in _RECIPES:
                raise RecipeError(f"{fact} has two recipes")
            _RECIPES[fact] = plainly if fact in handed_on else recipe
        return function

    return register


def name_of(thing: Any) -> str:
    """`nn.cores.ScaledDotProduct` for what lies in clearhead; the full dotted name of anything else.

    >>> from fractions import Fraction
    >>> name_of(Fraction), name_of(facts)
    ('fractions.Fraction', 'recipes.handbook.registry.facts')
    """
    return f"{thing.__module__}.{thing.__qualname__}".removeprefix("clearhead.")


def recipes() -> dict[str, Recipe]:
    """Every registered recipe by fact id; only chapters that have been imported are in it."""
    return dict(_RECIPES)


def plain(value: Any) -> Value:
    """Numbers and nested lists of numbers. Raises `RecipeError` for anything else.

    >>> import torch
    >>> plain((torch.tensor([[1, 2]]), 3.5))
    [[[1, 2]], 3.5]
    """
    if isinstance(value, Tensor):
        listed: Value = value.detach().cpu().tolist()
        return listed
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, Fraction):
        return float(value)
    raise RecipeError(f"{value!r} is no number")
