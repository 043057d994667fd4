"""How far apart two distributions are: the two measures of Jain and Wallace 2019, §4.

Both compare along the last axis, whose numbers are shares of one whole: they are not negative and sum to 1.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["LARGEST_JSD", "jsd", "tvd"]

LARGEST_JSD = math.log(2)
"""The largest Jensen–Shannon divergence, in nats: that of two distributions that have nothing in common."""


def tvd(p: Float[Tensor, "*rows V"], q: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """Total variation distance, ½·Σ|p − q| (Jain and Wallace 2019, §4), from 0 to 1.

    It is the share of the probability that must be moved to make one of the other.

    >>> float(tvd(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.5, 0.25])))
    0.25
    """
    return 0.5 * (p - q).abs().sum(-1)


def jsd(p: Float[Tensor, "*rows V"], q: Float[Tensor, "*rows V"]) -> Float[Tensor, "*rows"]:
    """Jensen–Shannon divergence, ½·KL(p ‖ m) + ½·KL(q ‖ m) with m = (p + q)/2, in nats: from 0 to ln 2.

    Jain and Wallace 2019, §4. Its derivative is finite also where a share is 0.

    >>> round(float(jsd(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))), 4)
    0.6931
    """
    middle = (p + q) / 2
    return (0.5 * (_towards(p, middle) + _towards(q, middle))).clamp(0.0, LARGEST_JSD)


def _towards(p: Tensor, middle: Tensor) -> Tensor:
    """KL(p ‖ middle); a share of 0 adds nothing."""
    least = torch.finfo(p.dtype).tiny
    return (p * (p.clamp(min=least).log() - middle.clamp(min=least).log())).sum(-1)
