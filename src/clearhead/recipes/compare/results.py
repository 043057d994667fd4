"""What a comparison found, as plain values and as the JSON files in DIR/results."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from clearhead.base.errors import DataError
from clearhead.base.files import atomic_write, file_error

__all__ = [
    "AlignmentError",
    "AlignmentMatrix",
    "Alignments",
    "CurvePoint",
    "Interval",
    "LengthScore",
    "ModelResult",
    "Setting",
    "read_alignments",
    "read_models",
    "read_result",
    "read_setting",
    "write_result",
]

T = TypeVar("T")

SETTING, ALIGNMENTS = "setting.json", "alignments.json"
OTHERS = {SETTING, ALIGNMENTS, "gradients.json", "layers.json"}
"""The files of DIR/results that do not belong to one model."""


@dataclass(frozen=True)
class Interval:
    """A score, and the middle 95 % of it over bootstrap resamples of the sentences."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LengthScore:
    """The score of the sentences whose sources have `low` to `high` words, both counted; `high` None: any more.

    `available` is False where the model cannot read such lengths (learned positions end); its scores are then 0.
    """

    low: int
    high: int | None
    sentences: int
    bleu: Interval
    chrf: float
    available: bool = True


@dataclass(frozen=True)
class CurvePoint:
    """Nats a token of the development set after so many updates and seconds of training."""

    update: int
    seconds: float
    dev_nll: float


@dataclass(frozen=True)
class ModelResult:
    """One model of the line-up, trained and measured.

    Attributes:
        family: fixed-vector, attention, convolution or transformer.
        parameters: distinct trainable numbers; a shared matrix counts once.
        planned_updates: what was asked for; `updates` is less where the time ran out (`stopped_by` then says so).
        train_tokens_per_second: source and target tokens over the time of the updates alone, `jobs` at once.
        translate_tokens_per_second: target tokens of the test translations, one model after another.
        bleu_p, chrf_p: paired bootstrap against the model `transformer`; None for itself, and where it is missing.
        by_length, long_by_length: the test set, and the one of joined captions.
        path: the road that a recurrent model's training took; empty elsewhere.
        fingerprint: of all that the numbers depend on; a result with another one is refused.
    """

    name: str
    label: str
    family: str
    parameters: int
    planned_updates: int
    updates: int
    stopped_by: str
    peak_rate: float
    train_seconds: float
    train_tokens_per_second: float
    translate_tokens_per_second: float
    dev_nll: float
    bleu: Interval
    chrf: Interval
    bleu_p: float | None
    chrf_p: float | None
    by_length: list[LengthScore]
    long_by_length: list[LengthScore]
    curve: list[CurvePoint]
    path: str
    beam: int
    signature: str
    fingerprint: str


@dataclass(frozen=True)
class Setting:
    """What all models had in common."""

    corpus: str
    languages: tuple[str, str]
    pairs: int
    dev: int
    test: int
    vocab_size: int
    updates: int
    minutes: float
    batch_tokens: int
    threads: int
    jobs: int
    resamples: int
    quick: bool
    machine: str
    versions: dict[str, str]
    command: str


@dataclass(frozen=True)
class AlignmentMatrix:
    """What one attention saw of one sentence: `weights[t][s]` for target word t and source word s, rows as recorded."""

    model: str
    attention: str
    source: list[str]
    target: list[str]
    weights: list[list[float]]


@dataclass(frozen=True)
class AlignmentError:
    """Links against gold on the synthetic task. `attention` says where they were read, `note` how that was chosen."""

    model: str
    attention: str
    precision: float
    recall: float
    error_rate: float
    sentences: int
    note: str = ""


@dataclass(frozen=True)
class Alignments:
    """Section 6: matrices of test sentences, and the error rates of the synthetic task."""

    matrices: list[AlignmentMatrix] = field(default_factory=list)
    errors: list[AlignmentError] = field(default_factory=list)


def write_result(path: Path, value: Any) -> None:
    """Write a dataclass (or a table, or a list of either) as readable JSON; whole or not at all."""
    table = dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(path.parent, "made", error) from None
    atomic_write(path, json.dumps(table, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def read_result(path: Path) -> ModelResult:
    """One model's result. Raises DataError for a file that holds something else, InputError for none."""
    return _read(path, TypeAdapter(ModelResult))


def read_models(results: Path) -> dict[str, ModelResult]:
    """All models that are finished, by name, in no order that means anything."""
    found = (path for path in sorted(results.glob("*.json")) if path.name not in OTHERS)
    return {path.stem: read_result(path) for path in found}


def read_setting(results: Path) -> Setting:
    """What the models had in common. Raises as `read_result` does."""
    return _read(results / SETTING, TypeAdapter(Setting))


def read_alignments(results: Path) -> Alignments | None:
    """Section 6, or None while it has not been made."""
    path = results / ALIGNMENTS
    return _read(path, TypeAdapter(Alignments)) if path.is_file() else None


def _read(path: Path, kind: TypeAdapter[T]) -> T:
    try:
        return kind.validate_json(path.read_bytes())
    except OSError as error:
        raise file_error(path, "read", error) from None
    except ValidationError as error:
        first: Mapping[str, Any] = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(
            f"{path}: {where}: {first['msg']}; it is no result of this version: remove it and compare again"
        ) from None
