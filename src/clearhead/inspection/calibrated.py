"""How right each method of inspection was where the truth is known: the scores that stand beside a method's name.

`calibration.json` is what `benchmarks/calibration.py --record` measured: small models of every family that attends,
trained on copying, reversing, sorting and a made-up language, of which every link between words is known. A method
that has no entry may not be shown: `score_of` refuses it. A method that only describes, so that there is nothing it
could be wrong about, has an entry that says so.

A score tells how a method did on those tasks, with those models. It is no promise for other text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from clearhead.base.errors import DataError, InputError

__all__ = [
    "FORMAT",
    "VERSION",
    "Baseline",
    "CalibratedModel",
    "Calibration",
    "Family",
    "Measure",
    "Score",
    "calibration",
    "calibration_table",
    "score_of",
]

FORMAT = "clearhead calibration"
VERSION = 1
_FILE = "calibration.json"

Family = Literal["transformer", "recurrent", "convolution"]
Measure = Literal[
    "links", "links-with-end", "links-untrained", "rank-correlation", "area", "named", "precision", "recall"
]
"""links: share of the target words for which the source word with the largest score is linked to them;
links-with-end: the same if the end of the source may have the largest score, too, which is then wrong; links-untrained:
the first, of the model as it was before training. rank-correlation: Spearman's ρ between a method's number for each
cross-attention head and the share of target words whose largest weight, by that head, lies on a gold link (and not on
the end); area: how often a head for which that is true of more than half of the words has the larger number than one
for which it is not (the area under the ROC curve). named: share of the heads that are given the role that they have;
precision and recall: of those called aligned."""


@dataclass(frozen=True)
class CalibratedModel:
    """A model that was trained on a task: its name, and how many held-out target words it gets right.

    `accuracy` is the share of gold tokens, EOS among them, that are its likeliest by teacher forcing; below `needed` it
    has not solved the task, and no method was scored on it.
    """

    task: str
    model: str
    family: Family
    accuracy: float
    needed: float
    tokens: int
    parameters: int
    updates: int
    seed: int

    @property
    def solved(self) -> bool:
        """Whether its scores mean anything."""
        return self.accuracy >= self.needed


@dataclass(frozen=True)
class Score:
    """How a method did on one model: `value` over `count` target words, or heads.

    `part` is what was read where there are several, such as `cross 2`; empty otherwise. None where the measure is not
    defined, as when all heads are aligned.
    """

    method: str
    task: str
    model: str
    part: str
    measure: Measure
    value: float | None
    count: int


@dataclass(frozen=True)
class Baseline:
    """The share of target words that `name` links rightly without looking: diagonal, random or uniform."""

    task: str
    name: str
    value: float
    count: int


R = TypeVar("R", CalibratedModel, Score, Baseline)


@dataclass(frozen=True)
class Calibration:
    """All that was measured.

    `measures` names the measure by which each method is summed up, `descriptive` the methods that have none, each with
    the reason. `settings` and `versions` describe the run.
    """

    date: str
    versions: dict[str, str]
    settings: dict[str, str]
    models: tuple[CalibratedModel, ...]
    baselines: tuple[Baseline, ...]
    scores: tuple[Score, ...]
    measures: dict[str, Measure]
    descriptive: dict[str, str]

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method that has an entry."""
        return (*self.measures, *self.descriptive)

    def score_of(self, method: str, family: Family | None = None) -> dict[str, float] | None:
        """Task → the mean of the method's measure over the models, and the layers that it read; None if it describes.

        With `family` only models of that family count. Empty where the method does not apply to it. Raises InputError
        for a method without an entry, which must not be shown.
        """
        if method in self.descriptive:
            return None
        if method not in self.measures:
            known = ", ".join(sorted(self.methods))
            raise InputError(
                f"the method {method!r} was not tried on a task whose answer is known, so it is not shown; "
                f"calibrate it first (benchmarks/calibration.py). Calibrated are {known}"
            )
        others = {each.model for each in self.models if family not in (None, each.family)}
        found: dict[str, list[float]] = {}
        for each in self.scores:
            wanted = each.method == method and each.measure == self.measures[method] and each.model not in others
            if wanted and each.value is not None:
                found.setdefault(each.task, []).append(each.value)
        return {task: fmean(values) for task, values in found.items()}

    def table(self, family: Family | None = None) -> dict[str, dict[str, float]]:
        """Method → task → score; an empty one of a method that describes. A method that was not tried on `family` is
        not in it, such as those that compare heads in models of one."""
        found = {method: self.score_of(method, family) for method in self.methods}
        return {method: scores or {} for method, scores in found.items() if scores != {}}

    def to_json(self) -> str:
        """The text of the file: one score a line, so that two runs can be compared."""
        table: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        lists: dict[str, tuple[CalibratedModel | Baseline | Score, ...]] = {
            "models": self.models,
            "baselines": self.baselines,
            "scores": self.scores,
        }
        for field in fields(self):
            if field.name not in lists:
                table[field.name] = getattr(self, field.name)
        lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()]
        for key, rows in lists.items():
            written = ",\n  ".join(json.dumps(asdict(row), ensure_ascii=False, allow_nan=False) for row in rows)
            lines.append(f"{json.dumps(key)}: [\n  {written}\n ]")
        return "{\n " + ",\n ".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str, where: str = _FILE) -> Calibration:
        """What `to_json` wrote. Raises DataError for anything else, and for what a later version wrote."""
        try:
            table = json.loads(text)
        except ValueError as error:
            raise DataError(f"{where}: no JSON ({error}); write it anew with benchmarks/calibration.py") from None
        if not isinstance(table, dict) or table.get("format") != FORMAT:
            raise DataError(f'{where}: "format" is not {FORMAT!r}; this is no calibration')
        if table.get("version") != VERSION:
            raise DataError(
                f'{where}: "version" is {table.get("version")!r}, this clearhead reads {VERSION}; write it anew with '
                "benchmarks/calibration.py, or use the clearhead that wrote it"
            )
        wanted = {field.name for field in fields(cls)}
        if missing := wanted - table.keys():
            raise DataError(f'{where}: "{min(missing)}" is missing; write it anew with benchmarks/calibration.py')
        return cls(
            str(table["date"]),
            _words(table["versions"], f"{where}: versions"),
            _words(table["settings"], f"{where}: settings"),
            _rows(CalibratedModel, table["models"], f"{where}: models"),
            _rows(Baseline, table["baselines"], f"{where}: baselines"),
            _rows(Score, table["scores"], f"{where}: scores"),
            _measures(table["measures"], f"{where}: measures"),
            _words(table["descriptive"], f"{where}: descriptive"),
        )


def _rows(kind: type[R], rows: object, where: str) -> tuple[R, ...]:
    types = get_type_hints(kind)
    if not isinstance(rows, list):
        raise DataError(f"{where}: not a list")
    found = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or row.keys() != types.keys():
            raise DataError(f"{where}: entry {number} must have the keys {', '.join(types)}")
        for key, value in row.items():
            if not _fits(value, types[key]):
                raise DataError(f"{where}: entry {number}: {key} cannot be {value!r}")
        found.append(kind(**row))
    return tuple(found)


def _fits(value: object, kind: Any) -> bool:
    if kind is str:
        return isinstance(value, str)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == float | None:
        return value is None or _fits(value, float)
    return value in get_args(kind)


def _words(table: object, where: str) -> dict[str, str]:
    if not isinstance(table, Mapping) or not all(isinstance(value, str) for value in table.values()):
        raise DataError(f"{where}: not a table of texts")
    return dict(table)


def _measures(table: object, where: str) -> dict[str, Measure]:
    known: Iterable[Measure] = get_args(Measure)
    words = _words(table, where)
    if wrong := set(words.values()) - set(known):
        raise DataError(f"{where}: {min(wrong)!r} is no measure; there are {', '.join(known)}")
    return {method: measure for method, name in words.items() for measure in known if measure == name}


@cache
def calibration() -> Calibration:
    """What was recorded with this version of clearhead."""
    path = resources.files("clearhead.inspection").joinpath(_FILE)
    return Calibration.from_json(path.read_text(encoding="utf-8"))


def score_of(method: str, family: Family | None = None) -> dict[str, float] | None:
    """Of the recorded calibration: see `Calibration.score_of`."""
    return calibration().score_of(method, family)


def calibration_table(family: Family | None = None) -> dict[str, dict[str, float]]:
    """Of the recorded calibration, for a report: see `Calibration.table`."""
    return calibration().table(family)
