"""What was left out of a corpus on its way to the model, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["REASONS", "DropReport", "DroppedPair"]

REASONS = ("empty-source", "empty-target", "too-long-source", "too-long-target")
EXAMPLES = 5
EXCERPT = 80


@dataclass(frozen=True)
class DroppedPair:
    """A pair left out: its line (the first is 1), and the beginnings of its two sides."""

    line: int
    source: str
    target: str


@dataclass
class DropReport:
    """How many pairs were read and kept, and how many dropped for which reason, with the first examples of each.

    A pair is dropped whole and counted once, under the first of `REASONS` that holds: so
    `read == kept + sum(counts.values())`.
    """

    read: int = 0
    kept: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    examples: dict[str, list[DroppedPair]] = field(default_factory=lambda: {reason: [] for reason in REASONS})

    @property
    def dropped(self) -> int:
        """Pairs read but not kept."""
        return self.read - self.kept

    def drop(self, reason: str, source: str, target: str) -> None:
        """Count the pair that was just read as dropped."""
        self.counts[reason] += 1
        if len(self.examples[reason]) < EXAMPLES:
            self.examples[reason].append(DroppedPair(self.read, _excerpt(source), _excerpt(target)))

    def summary(self) -> str:
        """A line on the whole, then for each reason a line with the count and the lines of the first examples."""
        lines = [f"{self.kept:,} of {self.read:,} pairs kept, {self.dropped:,} dropped"]
        for reason, count in self.counts.items():
            if count:
                where = ", ".join(str(example.line) for example in self.examples[reason])
                more = ", …" if count > len(self.examples[reason]) else ""
                lines.append(f"  {reason}: {count:,} (line {where}{more})")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        examples = {
            reason: [[e.line, e.source, e.target] for e in pairs] for reason, pairs in self.examples.items() if pairs
        }
        return {"read": self.read, "kept": self.kept, "counts": dict(self.counts), "examples": examples}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "DropReport":
        """The inverse of `to_dict`; KeyError, TypeError or ValueError if it is not one."""
        report = cls(int(values["read"]), int(values["kept"]))
        report.counts.update({reason: int(values["counts"][reason]) for reason in REASONS})
        for reason, rows in values["examples"].items():
            report.examples[reason] = [DroppedPair(int(line), str(s), str(t)) for line, s, t in rows]
        return report


def _excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"
