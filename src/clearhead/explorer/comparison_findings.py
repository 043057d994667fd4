"""What `clearhead compare` left in DIR/results, read for the report; what is missing stays missing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from clearhead.analysis.gradients import GradientCurve
from clearhead.analysis.layer_times import LayerTime
from clearhead.base.errors import DataError, InputError
from clearhead.base.files import file_error
from clearhead.recipes.compare.lineup import LINE_UP
from clearhead.recipes.compare.results import (
    Alignments,
    Interval,
    ModelResult,
    Setting,
    read_alignments,
    read_models,
    read_setting,
)

__all__ = ["Findings", "difference", "read_findings"]

T = TypeVar("T")


@dataclass(frozen=True)
class Findings:
    """Everything that was measured, in the order of the line-up."""

    setting: Setting
    models: dict[str, ModelResult]
    gradients: tuple[GradientCurve, ...]
    layers: tuple[LayerTime, ...]
    alignments: Alignments | None


def read_findings(results: Path) -> Findings:
    """Read a results directory. Raises InputError if it has no setting, DataError for a file that holds else."""
    setting = read_setting(results)
    order = {entry.name: place for place, entry in enumerate(LINE_UP)}
    models = dict(sorted(read_models(results).items(), key=lambda each: (order.get(each[0], len(order)), each[0])))
    return Findings(
        setting,
        models,
        _listed(results / "gradients.json", "curves", GradientCurve.from_json),
        _listed(results / "layers.json", "times", LayerTime.from_json),
        read_alignments(results),
    )


def difference(first: Interval, second: Interval) -> Interval:
    """`first` − `second`, with the interval that two independent scores would have.

    Both come from the same sentences, so the true interval is narrower as a rule: what it decides is decided, and some
    that it leaves open a paired test would decide.

    >>> difference(Interval(30, 27, 33), Interval(20, 16, 24))
    Interval(value=10, low=5.0, high=15.0)
    """
    value = first.value - second.value
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    return Interval(value, value - below, value + above)


def _listed(path: Path, key: str, read: Callable[[dict[str, Any]], T]) -> tuple[T, ...]:
    """The entries of a file that is a list, or a table that has one under `key`; none if there is no file."""
    if not path.is_file():
        return ()
    try:
        found = json.loads(path.read_bytes())
        return tuple(read(each) for each in (found[key] if isinstance(found, dict) else found))
    except OSError as error:
        raise file_error(path, "read", error) from None
    except (InputError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path}: {error}; it is no result of this version's compare: remove it and run it again"
        ) from None
