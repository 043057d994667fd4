"""Learning rates as pure functions of the update's number, which counts from 1, and of the place in the data.

Nothing is stepped and nothing is stored: the trainer asks for the rate of update s, so a resumed run cannot be
off by one, and accumulation cannot advance a schedule too often. The place is the share of epochs that is consumed
before the update; it follows from the data cursor, which a checkpoint keeps.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from clearhead.config.strict import Config

__all__ = ["Constant", "Cosine", "Halving", "InverseSqrt", "Linear", "Schedule", "describe", "rate"]


class InverseSqrt(Config):
    """Linear warm-up, then the inverse square root (Vaswani et al. 2017, §5.3, equation 3).

    lr(s) = factor · d_model^-½ · min(s^-½, s · warmup^-1.5). With the paper's constants the peak, at s = 4000, is
    6.988e-4 for the base model and 4.941e-4 for the big one.
    """

    kind: Literal["noam"] = "noam"
    factor: float = Field(default=1.0, gt=0)
    warmup: int = Field(default=4000, ge=1)


class Cosine(Config):
    """Linear warm-up to `peak`, then half a cosine down to `floor` at update `total` (0: the run's `updates`)."""

    kind: Literal["cosine"] = "cosine"
    peak: float = Field(default=1e-3, gt=0)
    floor: float = Field(default=0.0, ge=0)
    warmup: int = Field(default=1000, ge=0)
    total: int = Field(default=0, ge=0)


class Linear(Config):
    """Linear warm-up to `peak`, then a straight line to zero at update `total` (0: the run's `updates`)."""

    kind: Literal["linear"] = "linear"
    peak: float = Field(default=1e-3, gt=0)
    warmup: int = Field(default=1000, ge=0)
    total: int = Field(default=0, ge=0)


class Constant(Config):
    """Linear warm-up to `peak`, which then stays."""

    kind: Literal["constant"] = "constant"
    peak: float = Field(default=3e-4, gt=0)
    warmup: int = Field(default=0, ge=0)


class Halving(Config):
    """`peak`, then times `factor` (½) at `after` and again at every `every` from there; both in `unit`, completed.

    Sutskever et al. 2014, §3.4: 0.7, after 5 epochs, every half epoch, for 7.5 epochs. Luong et al. 2015, §4.1: 1,
    after 5 epochs, every epoch, for 10; with dropout after 8, for 12. That halving begins "after 5 epochs" is read as:
    the first update of the sixth epoch has half the rate. Their rates are for gradients summed over a sentence; ours
    are means over target tokens.
    """

    kind: Literal["halving"] = "halving"
    peak: float = Field(default=1.0, gt=0)
    factor: float = Field(default=0.5, gt=0, lt=1)
    after: float = Field(default=5.0, ge=0)
    every: float = Field(default=1.0, gt=0)
    unit: Literal["epochs", "updates"] = "epochs"

    @property
    def by_epochs(self) -> bool:
        """Whether the rate follows the data and not the count of updates."""
        return self.unit == "epochs"


_MOST_CUTS = 1e9
"""More leave nothing of a rate; and an `every` near 0 would ask for more than a number can hold."""

Schedule = Annotated[InverseSqrt | Cosine | Linear | Constant | Halving, Field(discriminator="kind")]


def rate(
    schedule: InverseSqrt | Cosine | Linear | Constant | Halving,
    update: int,
    *,
    d_model: int,
    updates: int,
    epochs: float | None = None,
) -> float:
    """The learning rate of update number `update` ≥ 1 of a run of `updates`.

    `epochs` of the data, whole ones and a share, were consumed before it; only `Halving` by epochs needs to know.
    """
    if update < 1:
        raise ValueError(f"updates count from 1, got {update}")
    match schedule:
        case InverseSqrt(factor=factor, warmup=warmup):
            return factor / math.sqrt(d_model) * min(1 / math.sqrt(update), update / math.sqrt(warmup) ** 3)
        case Constant(peak=peak, warmup=warmup):
            return peak * _warm(update, warmup)
        case Halving(peak=peak, factor=factor):
            return peak * factor ** _halvings(schedule, update, epochs)
        case Linear(peak=peak, warmup=warmup, total=total):
            return peak * min(_warm(update, warmup), 1 - _progress(update, warmup, total or updates))
        case Cosine(peak=peak, floor=floor, warmup=warmup, total=total):
            if update <= warmup:
                return peak * _warm(update, warmup)
            descent = (1 + math.cos(math.pi * _progress(update, warmup, total or updates))) / 2
            return floor + (peak - floor) * descent


def describe(schedule: InverseSqrt | Cosine | Linear | Constant | Halving, *, d_model: int, updates: int) -> str:
    """The formula with its numbers, for the run header."""
    match schedule:
        case InverseSqrt(factor=factor, warmup=warmup):
            peak = rate(schedule, warmup, d_model=d_model, updates=updates)
            return f"{factor:g} · {d_model}^-½ · min(s^-½, s · {warmup}^-1.5), peak {peak:.3e} at s = {warmup}"
        case Constant(peak=peak, warmup=warmup):
            return f"{peak:g} · min(1, s / {warmup})" if warmup else f"{peak:g}"
        case Halving(peak=peak, factor=factor, after=after, every=every, unit=unit):
            often = "halved" if factor == 0.5 else f"times {factor:g}"
            return f"{peak:g}, {often} after {after:g} {unit} and every {every:g} from there"
        case Linear(peak=peak, warmup=warmup, total=total):
            return f"warm-up over {warmup} to {peak:g}, then linear to 0 at s = {total or updates}"
        case Cosine(peak=peak, floor=floor, warmup=warmup, total=total):
            return f"warm-up over {warmup} to {peak:g}, then cosine to {floor:g} at s = {total or updates}"


def _warm(update: int, warmup: int) -> float:
    return min(1.0, update / warmup) if warmup else 1.0


def _progress(update: int, warmup: int, total: int) -> float:
    """How far the descent has come: 0 at the end of the warm-up, 1 from `total` on."""
    return min(1.0, max(0.0, (update - warmup) / max(1, total - warmup)))


def _halvings(schedule: Halving, update: int, epochs: float | None) -> int:
    """How often the rate was cut before this update."""
    if not schedule.by_epochs:
        done = float(update - 1)
    elif epochs is None:
        raise ValueError("a schedule by epochs must be told how many of them are over")
    else:
        done = epochs
    # 0.1 and 0.3 are no binary fractions: a place that is exactly on an edge must not fall short of it by rounding.
    beyond = (done - schedule.after) / schedule.every + 1e-9
    return 1 + math.floor(min(beyond, _MOST_CUTS)) if beyond >= 0 else 0
