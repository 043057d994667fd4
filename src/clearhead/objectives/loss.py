"""What an objective returns: sums and a count, never a mean."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

__all__ = ["Loss"]


@dataclass(frozen=True)
class Loss:
    """The loss of one batch as a sum over `count` things (target tokens, say).

    Only who sees all parts of an update (accumulated batches, other processes) can divide: by the global count.
    `metrics` holds further sums over the same things, detached; `metrics["nll"]` is the unsmoothed −log p in nats.
    """

    sum: Tensor
    count: int
    metrics: dict[str, Tensor] = field(default_factory=dict)
