"""The goals of `translate_speed.py`, and what of its results speaks to each. They are printed, never asserted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness import table

__all__ = ["GOALS", "Goal", "goal_table", "value_at"]


@dataclass(frozen=True)
class Goal:
    """A row of the table: what is measured, where its figure stands in the results, and the goal for it.

    `at` is a path of keys; a figure is a number, or a ratio with its spread. `most` turns the comparison round.
    """

    row: str
    at: tuple[str, ...]
    goal: float
    aim: float | None = None
    most: bool = False

    def met(self, value: float) -> bool:
        """Whether `value` reaches the goal."""
        return value <= self.goal if self.most else value >= self.goal


def _batches(
    size: str, greedy: float, int8: float, fp32: float, others: float, aims: tuple[float, float]
) -> list[Goal]:
    def at(beam: str, *keys: str) -> tuple[str, ...]:
        return ("batches", size, beam, keys[0], "ratios", keys[1])

    return [
        Goal(f"{size}, batches, beam 4, int8", at("beam 4", "int8", "ctranslate2"), int8, aims[0]),
        Goal(f"{size}, batches, beam 4, fp32", at("beam 4", "fp32", "ctranslate2"), fp32),
        Goal(f"{size}, batches, greedy, int8", at("beam 1", "int8", "ctranslate2"), greedy, aims[1]),
        Goal(
            f"{size}, batches, beam 4, int8 to transformers fp32",
            at("beam 4", "others", "transformers fp32"),
            others,
        ),
    ]


def _latency(size: str, one: tuple[float, float], two: float, marian: tuple[float, float] | None) -> list[Goal]:
    goals = []
    for place, beam in enumerate(("beam 1", "beam 4")):
        at = ("latency", size, beam)
        goals.append(
            Goal(f"{size}, one sentence, one core, {beam}", (*at, "one core", "ratios", "ctranslate2"), one[place])
        )
        if marian is not None:
            row = f"{size}, one sentence, one core, {beam}, to Marian"
            goals.append(Goal(row, (*at, "one core", "ratios", "marian"), marian[place]))
        row = f"{size}, one sentence, two threads, {beam}"
        goals.append(Goal(row, (*at, "all threads", "ratios", "ctranslate2"), two))
    return goals


GOALS: tuple[Goal, ...] = (
    *_batches("base", greedy=1.05, int8=1.1, fp32=1.2, others=5.0, aims=(1.3, 1.3)),
    *_batches("bench-tiny", greedy=0.9, int8=1.05, fp32=1.1, others=4.0, aims=(1.2, 1.1)),
    *_latency("base", one=(2.3, 1.8), two=3.0, marian=(1.2, 1.15)),
    *_latency("bench-tiny", one=(1.4, 1.3), two=1.6, marian=None),
    Goal("trained, BLEU lost by int8", ("trained", "int8 loses"), 0.2, most=True),
    Goal("trained, same text by int8", ("trained", "quality", "fast int8", "same text"), 0.97),
    Goal("trained, fp32 texts that differ without a near-tie", ("trained", "near ties", "unproved"), 0, most=True),
    Goal("file to file to the bare engine, bench-tiny", ("files", "bench-tiny, beam 4", "ratios", "bare engine"), 0.9),
    Goal("file to file to the bare engine, trained", ("files", "trained, beam 4", "ratios", "bare engine"), 0.9),
    Goal("loading int8 base, seconds", ("loading", "fast int8", "median", "seconds"), 1.0, most=True),
    Goal("loading int8 base, peak / fp32 file", ("loading", "fast int8", "median", "peak / file"), 1.1, most=True),
    Goal("loading int8 base, after / fp32 file", ("loading", "fast int8", "median", "after / file"), 0.6, most=True),
    Goal("base, batches, beam 4, int8, no library", ("without", "all threads", "ratios", "ctranslate2"), 0.85),
    Goal("the same on one core", ("without", "one core", "ratios", "ctranslate2"), 0.85),
)
"""Ratios are to CTranslate2 at the same precision where the row names nobody else."""


def value_at(results: Mapping[str, Any], at: tuple[str, ...]) -> Any:
    """What stands at the path `at`, None if it was not measured.

    >>> value_at({"a": {"b": 2.0}}, ("a", "b")), value_at({"a": {}}, ("a", "b"))
    (2.0, None)
    """
    found: Any = results
    for key in at:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def goal_table(results: Mapping[str, Any]) -> str:
    """Every goal with its figure, the spread of a ratio, and whether it is met."""
    rows = []
    for goal in GOALS:
        found = value_at(results, goal.at)
        sign = "≤" if goal.most else "≥"
        wanted = f"{sign} {goal.goal:g}" + (f" (aim {goal.aim:g})" if goal.aim else "")
        if found is None:
            rows.append([goal.row, wanted, "not measured", "–"])
            continue
        value = found["median"] if isinstance(found, Mapping) else found
        spread = f" ({found['low']:.2f}–{found['high']:.2f})" if isinstance(found, Mapping) else ""
        rows.append([goal.row, wanted, f"{value:.2f}{spread}", "met" if goal.met(value) else "not met"])
    return table(["row", "goal", "measured", "goal is"], rows)
