"""How far a run has come: the numbers that a checkpoint must carry, and what one update did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

from clearhead.base.errors import TrainingError
from clearhead.data.batches import Cursor

__all__ = ["Drawn", "Outcome", "Progress", "Update", "Validated"]

BatchT = TypeVar("BatchT")


@dataclass(frozen=True)
class Drawn(Generic[BatchT]):
    """A batch on its device, the numbers of its pairs, its size in tokens, and the position that follows it.

    `tokens` is what the loss of an update is divided by: gold tokens, EOS included.
    """

    batch: BatchT
    pairs: Sequence[int]
    tokens: int
    source_tokens: int
    cursor: Cursor


@dataclass(frozen=True)
class Update:
    """What one optimizer step did. `loss` and `metrics` are means over `tokens`; `seconds` is its wall-clock time.

    `skipped`: something was not finite, no step was made, and `loss` and `gradient_norm` may be no numbers.
    """

    number: int
    learning_rate: float
    loss: float
    metrics: Mapping[str, float]
    gradient_norm: float
    tokens: int
    source_tokens: int
    pairs: int
    seconds: float
    skipped: bool = False


@dataclass(frozen=True)
class Validated:
    """Scores on the development set after an update: always "nll" (nats a token), at times "bleu" and "chrf"."""

    update: int
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Outcome:
    """Why training returned. `signal` is set when it was asked to stop and will want to go on."""

    reason: str
    signal: int | None = None


@dataclass
class Progress:
    """The run's position at an update boundary. `seconds` is training time over all its lives.

    `skipped` of the updates made no step, the last `skipped_in_row` of them one after the other.
    """

    update: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    tokens: int = 0
    source_tokens: int = 0
    seconds: float = 0.0
    skipped: int = 0
    skipped_in_row: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For `state.json`; floats survive JSON exactly."""
        return asdict(self)

    def restore(self, values: Mapping[str, Any]) -> None:
        """The inverse of `to_dict`, in place. Raises `TrainingError` for anything else."""
        try:
            self.update, self.seconds = int(values["update"]), float(values["seconds"])
            self.tokens, self.source_tokens = int(values["tokens"]), int(values["source_tokens"])
            self.skipped, self.skipped_in_row = (int(values.get(name, 0)) for name in ("skipped", "skipped_in_row"))
            self.cursor = Cursor.from_dict(values["cursor"])
        except (KeyError, TypeError, ValueError) as error:
            raise TrainingError(f"the checkpoint's progress cannot be read ({error!r})") from None
