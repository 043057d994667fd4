"""Whether the numbers of the handbook are what our own modules compute.

The handbook's script (docs/transformer/verify.py, standard library alone) and the modules that train both work out
every fact. The script's values lie beside the recipes as a lock; here they are compared with the modules', in float64.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from clearhead.base.errors import ClearheadError, InputError
from clearhead.recipes.handbook.chapters import all_recipes
from clearhead.recipes.handbook.registry import ARITHMETIC, Recipe, Value

__all__ = ["TOLERANCE", "Check", "Report", "compare", "read_lock", "render", "selected", "verify"]

TOLERANCE = 1e-9
"""How far two values may lie apart: absolute up to 1, relative above."""
LOCK = "facts.lock.json"
WRITE_LOCK = "docs/transformer/verify.py --write-lock"
SHOWN = 60
"""Characters of a value in a line of the report."""


@dataclass(frozen=True)
class Check:
    """One fact, worked out on both roads.

    Attributes:
        fact: its id.
        expected: the value in the lock; None when the lock lacks it.
        got: what the modules gave; None when they gave nothing.
        difference: the largest of any cell, as `TOLERANCE` measures it; NaN where none can be told.
        modules: dotted names of the code that made `got`, or "arithmetic" alone.
        problem: why it fails, in words; empty when it passes.
    """

    fact: str
    expected: Value | None
    got: Value | None
    difference: float
    modules: tuple[str, ...]
    problem: str

    @property
    def chapter(self) -> str:
        """The part of the id before the point."""
        return self.fact.partition(".")[0]


@dataclass(frozen=True)
class Report:
    """All checks, in the order of the chapters."""

    checks: tuple[Check, ...]

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if check.problem)

    @property
    def chapters(self) -> dict[str, tuple[Check, ...]]:
        """The checks of each chapter."""
        names = dict.fromkeys(check.chapter for check in self.checks)
        return {name: tuple(check for check in self.checks if check.chapter == name) for name in names}

    @property
    def recomputed(self) -> tuple[int, int]:
        """How many facts modules made, and how many only arithmetic of their own."""
        return _by_modules(self.checks), sum(check.modules == (ARITHMETIC,) for check in self.checks)

    def table(self) -> dict[str, Any]:
        """The report for JSON; what is no finite number stands as a word."""
        return {
            "agree": not self.failures,
            "tolerance": TOLERANCE,
            "recomputed": dict(zip(("modules", "arithmetic"), self.recomputed, strict=True)),
            "facts": {
                check.fact: {
                    "expected": _for_json(check.expected),
                    "got": _for_json(check.got),
                    "difference": _for_json(check.difference),
                    "modules": list(check.modules),
                    "problem": check.problem or None,
                }
                for check in self.checks
            },
            "chapters": {
                name: {"facts": len(checks), "passed": _passed(checks), "largest": _for_json(_largest(checks))}
                for name, checks in self.chapters.items()
            },
        }


def read_lock() -> dict[str, Value]:
    """The values that the handbook's script wrote. Raises ClearheadError when the package is without them."""
    try:
        text = resources.files("clearhead.recipes.handbook").joinpath(LOCK).read_text(encoding="utf-8")
        facts = json.loads(text)["facts"]
        return {str(name): _from_json(value) for name, value in facts.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClearheadError(
            f"clearhead/recipes/handbook/{LOCK} is missing or damaged ({type(error).__name__}: {error}); "
            f"install clearhead anew, or in its repository run python3 {WRITE_LOCK}"
        ) from error


def selected(only: Sequence[str] = ()) -> list[str]:
    """The ids of all facts of both roads in the order of the handbook, or those that `only` names.

    A cell such as `attn.weights.0.2` stands for its fact, a chapter such as `attn` for all of its facts. Raises
    InputError for what neither road knows.
    """
    known = [*all_recipes(), *read_lock()]
    chapters = list(dict.fromkeys(fact.partition(".")[0] for fact in known))
    known = sorted(dict.fromkeys(known), key=lambda fact: chapters.index(fact.partition(".")[0]))
    wanted = {fact for name in only for fact in _known(name, known, chapters)}
    for name in only:
        _check_cell(name, read_lock())
    return [fact for fact in known if fact in wanted or not only]


def _check_cell(name: str, lock: Mapping[str, Value]) -> None:
    """Raise InputError for a cell that its fact does not have."""
    parts = name.strip().lower().split(".")
    fact, cells = ".".join(parts[:2]), parts[2:]
    value = lock.get(fact)
    for cell in cells if value is not None else []:
        if not isinstance(value, list) or int(cell) >= len(value):
            raise InputError(f"--fact {name}: {fact} has no such cell (they count from 0)")
        value = value[int(cell)]


def _known(fact: str, known: Sequence[str], chapters: Sequence[str]) -> list[str]:
    parts = fact.strip().lower().split(".")
    while len(parts) > 2 and parts[-1].isdigit():
        parts.pop()
    name = ".".join(parts)
    if name in chapters:
        return [fact for fact in known if fact.startswith(f"{name}.")]
    if name in known:
        return [name]
    close = difflib.get_close_matches(name, [*chapters, *known], 1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise InputError(f"--fact {fact}: there is no such fact or chapter{hint}; clearhead verify --json lists them all")


def verify(only: Sequence[str] = (), *, progress: Callable[[int], None] | None = None) -> Report:
    """Recompute every fact, or those that `only` names, and compare with the lock.

    A fact that one road lacks is a failure, and so is whatever goes wrong in a recipe, for each of its facts.
    `progress` is told the number of facts done. Raises InputError for an unknown id, ClearheadError without a lock.
    """
    lock, recipes = read_lock(), all_recipes()
    results: dict[str, Value | Exception] = {}
    checks: list[Check] = []
    for fact in selected(only):
        recipe = recipes.get(fact)
        if recipe is not None and fact not in results:
            results.update(_computed(recipe))
        checks.append(_check(fact, lock, recipe, results.get(fact)))
        if progress is not None:
            progress(len(checks))
    return Report(tuple(checks))


def _computed(recipe: Recipe) -> Mapping[str, Value | Exception]:
    try:
        return recipe.compute()
    except Exception as error:  # noqa: BLE001 (whatever a broken module raises is a finding, and the rest goes on)
        return dict.fromkeys(recipe.ids, error)


def _check(fact: str, lock: Mapping[str, Value], recipe: Recipe | None, result: Value | Exception | None) -> Check:
    expected = lock.get(fact)
    if recipe is None:
        return Check(fact, expected, None, math.nan, (), "no recipe in clearhead/recipes/handbook computes it")
    if result is None or isinstance(result, Exception):
        cause = " ".join(str(result).split())
        return Check(fact, expected, None, math.nan, recipe.modules, f"{type(result).__name__}: {cause}")
    if expected is None:
        problem = f"not in the lock; run python3 {WRITE_LOCK}"
        return Check(fact, None, result, math.nan, recipe.modules, problem)
    difference, problem = compare(expected, result)
    return Check(fact, expected, result, difference, recipe.modules, problem)


def compare(expected: Value, got: Value) -> tuple[float, str]:
    """(largest difference, what is wrong with it); absolute up to 1, relative above, NaN where none can be told.

    >>> compare([1.0, 200.0], [1.0, 201.0])
    (0.005, 'expected 200 got 201 in cell 1')
    >>> compare([1.0], 1.0)
    (nan, 'expected a list of 1, got a number')
    """
    worst, problem = 0.0, ""
    for cell, one, other in _cells(expected, got):
        where = f" in cell {cell}" if cell else ""
        if isinstance(one, list) or isinstance(other, list):
            return math.nan, f"expected {_shape(one)}, got {_shape(other)}{where}"
        if math.isnan(other) or math.isnan(one):
            return math.nan, f"expected {_number(one)} got {_number(other)}{where}"
        difference = 0.0 if one == other else abs(one - other) / max(1.0, abs(one) if math.isfinite(one) else 1.0)
        if difference > worst:
            worst = difference
            if difference > TOLERANCE:
                problem = f"expected {_number(one)} got {_number(other)}{where}"
    return worst, problem


def _cells(expected: Value, got: Value, cell: str = "") -> Iterator[tuple[str, Value, Value]]:
    """Pairs of numbers that stand in the same place; where the shapes differ, the two parts themselves."""
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from _cells(one, other, f"{cell}.{index}" if cell else str(index))
    else:
        yield cell, expected, got


def _shape(value: Value) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else "a number"


def _number(value: float) -> str:
    return f"{value:.12g}"


# --------------------------------------------------------------------------------------------------------- display


def render(report: Report, each: bool = False) -> str:
    """The table of chapters, a line for each failure (with `each` for every fact), and a verdict."""
    lines = [_line(check) for check in (report.checks if each else report.failures)]
    total, failed = len(report.checks), len(report.failures)
    facts = "1 fact" if total == 1 else f"{total} facts"
    made, plainly = report.recomputed
    how = f"{made} recomputed by the modules that train, search and score, {plainly} by separate arithmetic"
    verdict = f"{facts}: {failed} failed" if failed else f"{facts}: both roads agree to {TOLERANCE:g} ({how})"
    return "\n".join([*_table(report), "", *lines, *([""] if lines else []), verdict])


def _table(report: Report) -> list[str]:
    rows = [("chapter", "facts", "by modules", "passed", "largest difference")]
    for name, checks in report.chapters.items():
        rows.append(
            (name, str(len(checks)), str(_by_modules(checks)), str(_passed(checks)), _difference(_largest(checks)))
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def _line(check: Check) -> str:
    made = ", ".join(check.modules) or "nothing"
    if check.problem:
        far = f" difference {_difference(check.difference)}" if math.isfinite(check.difference) else ""
        return f"FAILED {check.fact}: {check.problem}{far} ({made})"
    return f"ok {check.fact} = {_short(check.got)} difference {_difference(check.difference)} ({made})"


def _short(value: Value | None) -> str:
    text = json.dumps(_for_json(value), ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _difference(value: float) -> str:
    return "none" if math.isnan(value) else "0" if value == 0 else f"{value:.1e}"


def _by_modules(checks: Sequence[Check]) -> int:
    return sum(check.modules not in {(), (ARITHMETIC,)} for check in checks)


def _passed(checks: Sequence[Check]) -> int:
    return sum(not check.problem for check in checks)


def _largest(checks: Sequence[Check]) -> float:
    """The largest difference that could be told; NaN when none could."""
    told = [check.difference for check in checks if not math.isnan(check.difference)]
    return max(told, default=math.nan)


def _for_json(value: Value | None) -> Any:
    if isinstance(value, list):
        return [_for_json(part) for part in value]
    return value if value is None or math.isfinite(value) else str(value)


def _from_json(value: Any) -> Value:
    """The lock has minus infinity as a word, JSON having no such number."""
    if isinstance(value, list):
        return [_from_json(part) for part in value]
    return value if isinstance(value, int | float) else float(value)
