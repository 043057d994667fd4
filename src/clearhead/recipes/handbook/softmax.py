"""Chapter 5: from scores to weights, and why the scores are scaled."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import torch
from torch import Tensor

from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.visibility import Visibility
from clearhead.recipes.handbook.attention import head_weights, scaled_scores_of
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import KEYS, QUERIES, distance, vector

__all__ = ["softmax"]


def softmax(scores: Tensor) -> Tensor:
    """The core's weights for the given scores [S]: a query 1 of width one on keys that are the scores."""
    return head_weights(scores.new_ones(1, 1), scores[:, None])[0]


@facts("soft", "scores exp sum stable_exp", by=[ScaledDotProduct])
def exponentials() -> tuple[Tensor, ...]:
    """The first row of scores, step by step."""
    scores = scaled_scores_of(QUERIES, KEYS)[0]
    return scores, scores.exp(), scores.exp().sum(), (scores - scores.max()).exp()


@facts("soft", "weights shift_change", by=[ScaledDotProduct])
def weights() -> tuple[Tensor, float]:
    """The first row of weights, and what adding 100 to every score changes."""
    scores = vector(1, 0, 1) / math.sqrt(2)
    return softmax(scores), distance(softmax(scores), softmax(scores + 100))


@facts("soft", "weights_0_10 weights_0_1 exercise temperature_2 unscaled_64", by=[ScaledDotProduct])
def other_scores() -> tuple[Tensor, ...]:
    """Distant scores, near ones, equal ones, distant ones divided by a temperature; a lead of √64, not divided."""
    scores = vector(0, 10), vector(0, 1), vector(1, 1, 0), vector(0, 10) / 2, vector(0, 8)
    return tuple(softmax(each) for each in scores)


@facts("soft", "hidden_weight", by=[Visibility, ScaledDotProduct])
def hidden() -> Tensor:
    """The weight of a hidden key beside a visible one."""
    visible = Visibility.of_keys(torch.tensor([[True, False]]))
    ones = torch.ones(1, 1, 2, 1, dtype=torch.float64)
    return ScaledDotProduct().weights(ones[:, :, :1], ones, visible)[0, 0, 0, 1]


@facts("soft", "slope_0_1 slope_0_10", by=[ScaledDotProduct])
def slopes() -> tuple[Tensor, Tensor]:
    """How the second weight answers to its own score, by autograd."""
    return _slope(vector(0, 1)), _slope(vector(0, 10))


def _slope(scores: Tensor) -> Tensor:
    scores.requires_grad_()
    (gradient,) = torch.autograd.grad(softmax(scores)[1], scores)
    return gradient[1]


@facts("soft", "variance_raw_4 variance_scaled_4", by=[ScaledDotProduct])
def variances() -> tuple[Tensor, Tensor]:
    """All queries and keys of four signs: the variance of their products, and of what the core makes of them."""
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4)), dtype=torch.float64)
    return (signs @ signs.T).var(correction=0), scaled_scores_of(signs, signs).var(correction=0)


@facts("soft", "variance_raw_64 deviation_raw_64")
def variance_of_64() -> tuple[Fraction, float]:
    """The sum of 64 signs is 2k − 64 with k binomial."""
    ways = [math.comb(64, count) for count in range(65)]
    variance = Fraction(sum(way * (2 * count - 64) ** 2 for count, way in enumerate(ways)), sum(ways))
    return variance, math.sqrt(variance)


@facts("soft", "largest_exp_float32")
def largest_exponent() -> float:
    """Beyond this the exponential leaves float32."""
    return math.log(torch.finfo(torch.float32).max)
