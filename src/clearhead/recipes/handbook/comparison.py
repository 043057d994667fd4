"""The chapter's section 1.7: attention beside recurrence and convolution."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

from clearhead.nn.attention import Attention
from clearhead.nn.linear import Linear
from clearhead.recipes.handbook.changed import pairwise, stepwise
from clearhead.recipes.handbook.counting import flops
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


@facts("compare", "receptive_field dilated_receptive_field windows windows_claimed depth dilated_depth")
def convolutions() -> tuple[int, ...]:
    """Five layers of width 3, plain and dilated; windows of width 5 in 100 positions; layers that join all of those.

    What is claimed holds for windows that do not overlap.
    """
    windows, apart = (F.conv1d(torch.ones(1, 1, 100), torch.ones(1, 1, 5), stride=step).shape[-1] for step in (1, 5))
    depth = next(layers for layers in range(1, 100) if receptive_field(5, [1] * layers) >= 100)
    dilated = next(layers for layers in range(1, 100) if receptive_field(3, powers(layers)) >= 100)
    return receptive_field(3, [1] * 5), receptive_field(3, powers(5)), windows, apart, depth, dilated


def powers(layers: int) -> list[int]:
    """Dilations 1, 3, 9 and so on."""
    return [3**layer for layer in range(layers)]


@facts("compare", "convolution_50")
def convolution_50() -> int:
    """Multiplications of a convolution of width 3 over 50 positions of width 512, counted by PyTorch."""
    with torch.device("meta"):
        layer, x = nn.Conv1d(512, 512, 3, padding=1), torch.empty(1, 512, 50)
    return flops(lambda: layer(x)) // 2


@facts("compare", "recurrent_50 attention_50 ratio_50 ratio_4096", by=[Attention, Linear])
def operations() -> tuple[int, int, float, float]:
    """n·d² against n²·d for 50 tokens of width 512; and the other way round for 4096."""
    recurrent, attention = stepwise(50, 512), pairwise(50, 512)
    return recurrent, attention, recurrent / attention, pairwise(4096, 512) / stepwise(4096, 512)
