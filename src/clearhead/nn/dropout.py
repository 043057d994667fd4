"""Dropout that draws four decisions from one 64-bit number.

On a CPU PyTorch draws a float for every element, which takes longer than the layer it regularises when the model
is small. Sixteen bits decide as well: the drop rate is rounded to a multiple of 2⁻¹⁶ and the survivors are scaled
by the exact inverse of the rate that results, so the expectation is kept.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Dropout"]

_STEPS = 1 << 16


class _Dropout16(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, dropped: int) -> Tensor:
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device).random_(-(1 << 63), None)
        keep = words.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - _STEPS // 2
        ctx.save_for_backward(keep)
        ctx.scale = _STEPS / (_STEPS - dropped)  # type: ignore[attr-defined]
        return (x * keep).mul_(ctx.scale)  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return (grad * keep).mul_(ctx.scale), None  # type: ignore[attr-defined]


class Dropout(nn.Module):
    """Sets each element to zero with probability `rate` while training and scales the others by 1/(1 − rate).

    Source: Srivastava et al. 2014, §4. In evaluation it is the identity.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        return _Dropout16.apply(x, min(round(self.rate * _STEPS), _STEPS - 1))

    def extra_repr(self) -> str:
        return f"rate={self.rate}"
