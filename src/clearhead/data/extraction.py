"""Pairs read out of a package: which are kept, and how many are not."""

from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["RULES", "Extraction"]

MAX_WORDS = 80
RULES = (
    f"left out: pairs with an empty side, with a side of more than {MAX_WORDS} words, with two equal sides (not "
    f"translated), and pairs that came before"
)


def _counts() -> dict[str, int]:
    return dict.fromkeys(("found", "empty", "too long", "untranslated", "duplicate", "kept"), 0)


@dataclass
class Extraction:
    """Aligned pairs and how they came about; each pair found is in exactly one of the other counts.

    A pair is left out when a side is blank, when a side has more than 80 words (parted by white space), when both sides
    are the same, or when the same pair came before, in this order. `packages` are those that text was taken from.
    """

    pairs: list[tuple[str, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=_counts)
    notes: dict[str, int] = field(default_factory=dict)
    packages: list[Path] = field(default_factory=list)
    _seen: set[tuple[str, str]] = field(default_factory=set, repr=False)

    def add(self, source: str, target: str) -> bool:
        """Keep the pair, or count why not."""
        pair = source, target
        self.counts["found"] += 1
        if not source.strip() or not target.strip():
            fate = "empty"
        elif max(len(side.split()) for side in pair) > MAX_WORDS:
            fate = "too long"
        elif source == target:
            fate = "untranslated"
        elif pair in self._seen:
            fate = "duplicate"
        else:
            fate = "kept"
            self._seen.add(pair)
            self.pairs.append(pair)
        self.counts[fate] += 1
        return fate == "kept"
