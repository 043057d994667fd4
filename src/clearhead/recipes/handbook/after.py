"""Chapter 14: what came after 2017."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from torch import Tensor
from torch.nn import functional as F

from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import vector

__all__: list[str] = []


@facts("after", "years tokens_per_parameter orders loss_factor chinchilla_tokens chinchilla_operations glue_before")
def scale() -> tuple[float | Fraction, ...]:
    """Quotients and powers of figures that papers report."""
    return (
        2022 - 2017,
        Fraction(10**12, 13 * 10**9),
        math.log10(1_500_000_000) - math.log10(768),
        vector(10).pow(-0.05).item(),
        20 * 70 * 10**9,
        6 * (70 * 10**9) * (20 * 70 * 10**9),  # six operations a parameter and token, forward and backward
        Fraction("80.5") - Fraction("7.7"),
    )


@facts("after", "reward_kl optimum")
def reward() -> tuple[Tensor, Tensor]:
    """A reward less what the policy has moved away; and the policy that is best then."""
    moved = 0.1 * (vector(0.5).log() - vector(0.25).log())
    reference, rewards = vector(0.5, 0.3, 0.2), vector(0, 1, 0)
    return 1 - moved[0], (reference.log() + rewards / 1.0).softmax(-1)


@facts("after", "pairs preference preference_loss")
def preferences() -> tuple[int, Tensor, Tensor]:
    """Comparisons among nine ranked answers; the probability that the better wins, and its loss."""
    lead = vector(1.5) - vector(0.5)
    loss = F.binary_cross_entropy_with_logits(lead, vector(1.0))
    return len(list(itertools.combinations(range(9), 2))), lead.sigmoid()[0], loss
