"""The chapter's section 1.7: attention beside recurrence and convolution."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from clearhead.nn.attention import Attention
from clearhead.nn.linear import Linear
from clearhead.recipes.handbook.changed import pairwise, stepwise
from clearhead.recipes.handbook.registry import facts

__all__ = ["receptive_field"]


def receptive_field(kernel: int, dilations: Sequence[int]) -> int:
    """How many inputs one output depends on after a convolution for each dilation, by the gradient."""
    length = 1 + sum(dilation * (kernel - 1) for dilation in dilations) + 10
    x = torch.ones(1, 1, length, dtype=torch.float64, requires_grad=True)
    y, ones = x, torch.ones(1, 1, kernel, dtype=torch.float64)
    for dilation in dilations:
        y = F.conv1d(y, ones, dilation=dilation)
    (gradient,) = torch.autograd.grad(y[0, 0, 0], x)
    return int((gradient != 0).sum())


@facts("compare", "receptive_field dilated_receptive_field windows depth")
def convolutions() -> tuple[int, int, int, int]:
    """Five layers of width 3, plain and dilated; windows of width 5 in 100 positions, and layers that join those."""
    windows = F.conv1d(torch.ones(1, 1, 100), torch.ones(1, 1, 5)).shape[-1]
    depth = next(layers for layers in range(1, 100) if receptive_field(5, [1] * layers) >= 100)
    return receptive_field(3, [1] * 5), receptive_field(3, [3**layer for layer in range(5)]), windows, depth


@facts("compare", "recurrent_50 attention_50 ratio_50 ratio_4096", by=[Attention, Linear])
def operations() -> tuple[int, int, float, float]:
    """n·d² against n²·d for 50 tokens of width 512; and the other way round for 4096."""
    recurrent, attention = stepwise(50, 512), pairwise(50, 512)
    return recurrent, attention, recurrent / attention, pairwise(4096, 512) / stepwise(4096, 512)
