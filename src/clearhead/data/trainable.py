"""How many pairs training would use, counted before it starts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from clearhead.data.report import DropReport

__all__ = ["TrainCount", "TrainLimits"]

CHUNK = 2000


class Encoding(Protocol):
    """What is needed of a tokenizer."""

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]: ...


class Encodings(Protocol):
    """The tokenizers of both sides."""

    @property
    def source(self) -> Encoding: ...
    @property
    def target(self) -> Encoding: ...


@dataclass(frozen=True)
class TrainLimits:
    """Training drops a pair with a side of more than `max_length` tokens; `name` says whose tokens they are.

    A `tag`, which training puts before every source, is one of its tokens.
    """

    tokenizers: Encodings
    max_length: int
    name: str
    tag: str | None = None


@dataclass
class TrainCount:
    """Counts what `data/store.py` keeps and drops, for the same reasons in the same order.

    Without `limits` nothing is known of tokens, and only blank sides are counted. Entries that need review are none
    that training reads; `review` counts them.
    """

    limits: TrainLimits | None = None
    review: int = 0
    report: DropReport = field(default_factory=DropReport)
    _waiting: list[tuple[str, str]] = field(default_factory=list)

    def add(self, source: str, target: str, *, review: bool = False) -> None:
        """One more entry."""
        if review:
            self.review += 1
            return
        self.report.read += 1
        if not source.strip():
            self.report.drop("empty-source", source, target)
        elif not target.strip():
            self.report.drop("empty-target", source, target)
        elif self.limits is None:
            self.report.kept += 1
        else:
            self._waiting.append((source, target))
            if len(self._waiting) == CHUNK:
                self._measure()

    def to_dict(self) -> dict[str, Any]:
        """For JSON; to be called once, after the last pair."""
        self._measure()
        limits = self.limits
        by = f"blank sides, more than {limits.max_length} tokens of {limits.name}" if limits else "blank sides only"
        by += f", the tag {limits.tag} being one" if limits and limits.tag else ""
        counts = {reason: count for reason, count in self.report.counts.items() if limits or "empty" in reason}
        return {"by": by, "kept": self.report.kept, "dropped": counts | {"needs-review": self.review}}

    def _measure(self) -> None:
        if self.limits is None or not self._waiting:
            return
        encoders = self.limits.tokenizers
        sources = encoders.source.encode_all([source for source, _ in self._waiting])
        targets = encoders.target.encode_all([target for _, target in self._waiting])
        for texts, source, target in zip(self._waiting, sources, targets, strict=True):
            if len(source) + (self.limits.tag is not None) > self.limits.max_length:
                self.report.drop("too-long-source", *texts)
            elif len(target) > self.limits.max_length:
                self.report.drop("too-long-target", *texts)
            else:
                self.report.kept += 1
        self._waiting = []
