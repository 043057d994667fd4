"""How much of the evidence is run: reading alone, what takes seconds, or all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Depth", "Tests"]

Tests = Literal["none", "quick", "full"]
"""none: maps, statistics, roles, readings of attention and the lens. quick: also gradients, occlusion, importance,
ablation, permuted and equal weights. full: 100 shuffles (Jain and Wallace 2019, §4.2.1), and adversarial weights."""


@dataclass(frozen=True)
class Depth:
    """`gradients`: whether token methods that ask the model run; `shuffles`: of each unit, 0 for no test of heads."""

    gradients: bool
    shuffles: int
    adversaries: bool

    @classmethod
    def of(cls, tests: Tests) -> Depth:
        """What the word means."""
        match tests:
            case "none":
                return cls(False, 0, False)
            case "quick":
                return cls(True, 20, False)
            case "full":
                return cls(True, 100, True)
