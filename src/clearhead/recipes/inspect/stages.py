"""What an inspection is at, and how much of it is done: told to whoever waits, and to nobody if nobody asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "Stage", "Stages", "beyond"]

Progress = Callable[[int], None]
"""Told how many steps of a stage are done."""

Stage = Callable[[str, int | None], Progress | None]
"""Told that a stage begins: its name, and how many steps it has where that is known. What it gives back, unless that is
None, is told how many of them are done."""


@dataclass(frozen=True)
class Stages:
    """`told` hears of every stage; None hears nothing.

    >>> Stages(lambda name, steps: print(name, steps)).begin("probes", 12)(3)
    probes 12
    """

    told: Stage | None = None

    def begin(self, name: str, steps: int | None = None) -> Progress:
        """A stage begins, and the one before has ended."""
        heard = None if self.told is None else self.told(name, steps)
        return heard or _unheard


def beyond(progress: Progress, done: int) -> Progress:
    """For work that begins when `done` steps of its stage are done.

    >>> beyond(print, 5)(2)
    7
    """
    return lambda more: progress(done + more)


def _unheard(done: int) -> None:
    """Nobody asked."""
