"""Chapter 9: feed-forward layer, residual connection, layer normalisation."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.nn.feedforward import FeedForward
from clearhead.nn.residual import LAYER_NORM_EPSILON, Residual
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import feed_forward, vector

__all__: list[str] = []

INPUT = vector(1, -2)


def nothing(x: Tensor) -> Tensor:
    """A sub-layer that adds nothing."""
    return torch.zeros_like(x)


def normalised(x: Tensor) -> Tensor:
    """`x` through the norm of a post-norm residual connection around nothing."""
    normal: Tensor = Residual("post", x.shape[-1], 0.0).double().eval()(x, nothing)
    return normal


def moments(y: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance that turned `y` into `normal`: the norm is a straight line through both."""
    low, high = y.argmin(), y.argmax()
    deviation = (y[high] - y[low]) / (normal[high] - normal[low])
    return y[high] - normal[high] * deviation, deviation**2 - LAYER_NORM_EPSILON


@facts("block", "hidden relu ffn no_relu", by=[FeedForward])
def feed_forward_layer() -> tuple[Tensor, ...]:
    """Widened, bent, narrowed; and without the bend."""
    layer = feed_forward()
    bent: list[Tensor] = []
    handle = layer.outer.register_forward_pre_hook(lambda _, inputs: bent.append(inputs[0]))
    result = layer(INPUT)
    handle.remove()
    return layer.inner(INPUT), bent[0], result, layer.outer(layer.inner(INPUT))


@facts("block", "x w1 w2", by=[FeedForward], given="x")
def inputs() -> tuple[Tensor, ...]:
    """The input, and the two maps as x·W: what they make of unit vectors."""
    layer = feed_forward()
    return INPUT, layer.inner(torch.eye(2).double()), layer.outer(torch.eye(3).double())


@facts("block", "residual mean variance norm", by=[Residual, FeedForward])
def post_norm() -> tuple[Tensor, ...]:
    """Input and sub-layer summed, then normalised."""
    block = Residual("post", 2, 0.0).double().eval()
    before: list[Tensor] = []
    handle = block.norm.register_forward_pre_hook(lambda _, inputs: before.append(inputs[0]))
    normal = block(INPUT, feed_forward())
    handle.remove()
    return before[0], *moments(before[0], normal), normal


@facts("block", "pre_norm", by=[Residual, FeedForward])
def pre_norm() -> Tensor:
    """The norm on the way into the sub-layer, and none on the sum."""
    summed: Tensor = Residual("pre", 2, 0.0).double().eval()(INPUT, feed_forward())
    return summed


@facts("block", "unbiased_norm epsilon_outside")
def other_norms() -> tuple[Tensor, Tensor]:
    """Divided by n − 1 instead of n; and ε added to the deviation instead of the variance."""
    y = INPUT + vector(1, 0)
    centred = y - y.mean()
    return centred / y.std(correction=1), centred / (y.std(correction=0) + 1e-6)


@facts("block", "exercise_norm exercise_mean exercise_variance", by=[Residual])
def exercise() -> tuple[Tensor, ...]:
    """Four numbers through the norm."""
    y = vector(1, 2, 3, 6)
    normal = normalised(y)
    return normal, *moments(y, normal)


@facts("block", "ffn_parameters", by=[FeedForward])
def parameters() -> int:
    """Of the base model's feed-forward layer."""
    with torch.device("meta"):
        layer = FeedForward(512, 2048)
    return sum(parameter.numel() for parameter in layer.parameters())
