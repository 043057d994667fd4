"""Chapter 13: how a gradient flows back, by autograd."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clearhead.nn.cores import ScaledDotProduct
from clearhead.objectives.cross_entropy import CrossEntropy
from clearhead.recipes.handbook.attention import head_weights
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import EVERYTHING, KEYS, QUERIES, VALUES, matrix, vector
from clearhead.recipes.handbook.training import losses

__all__: list[str] = []

PROBABILITIES = vector(0.6, 0.3, 0.1)
GRADIENT = vector(1, -1)
"""∂L/∂O of the first query's output."""


@facts("learn", "probabilities gradient update smoothed_gradient", by=[CrossEntropy], given="probabilities")
def logits() -> tuple[Tensor, ...]:
    """The gradient of the loss with respect to the logits is what is said minus what should be."""
    given = PROBABILITIES.log()[None]
    plain, smoothed = losses(given, [1]).gradient[0], losses(given, [1], 0.1).gradient[0]
    return PROBABILITIES, plain, -plain, smoothed


@facts("learn", "weight_gradient query_gradient value_gradient", by=[ScaledDotProduct])
def attention() -> tuple[Tensor, ...]:
    """Through one head, for its first query."""
    core = ScaledDotProduct().eval()
    query, value = QUERIES[:1].clone().requires_grad_(), VALUES.clone().requires_grad_()
    read = core.weights(query[None, None], KEYS[None, None], EVERYTHING)
    (to_weights,) = torch.autograd.grad((read @ VALUES)[0, 0, 0] @ GRADIENT, read)
    context = core(query[None, None], KEYS[None, None], value[None, None], EVERYTHING)[0, 0, 0]
    to_query, to_value = torch.autograd.grad(context @ GRADIENT, (query, value))
    return to_weights[0, 0, 0], to_query[0], to_value


@facts("learn", "score_gradient same_values_gradient", by=[ScaledDotProduct])
def scores() -> tuple[Tensor, Tensor]:
    """With respect to the scaled scores; nothing flows where all values agree."""
    return _to_scores(VALUES), _to_scores(matrix([[2, 1]] * 3))


def _to_scores(values: Tensor) -> Tensor:
    """A head of width one whose query is 1 has its keys for scores; the values of both components ride along."""
    keys = (vector(1, 0, 1) / math.sqrt(2)).requires_grad_()
    read = head_weights(torch.ones(1, 1, dtype=torch.float64), keys[:, None])
    (gradient,) = torch.autograd.grad((read @ values)[0] @ GRADIENT, keys)
    return gradient
