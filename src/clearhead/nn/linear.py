"""One linear map, y = x·Wᵀ + b, that takes the fastest exact road the processor offers.

`F.linear` in float32 goes to MKL, which takes a slow path on AMD processors; oneDNN, also inside PyTorch, does not.
Which library multiplies is decided once, by rule and not by a timing: two runs on one machine must agree to the
bit, and a stopwatch does not. Everything but float32 on an AMD CPU (float64, bf16, autocast, other devices) is
plain `F.linear`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Linear", "LinearPath", "linear", "linear_path"]

BY_SHAPE = "by shape"
_MANY_ROWS = 2  # below this oneDNN's set-up costs more than its kernels gain


@dataclass(frozen=True)
class LinearPath:
    """Which library multiplies float32 matrices on this processor: forward, for ∂x and for ∂W.

    `grad_weight` may be `BY_SHAPE`: then the shape of W decides (see `_grad_weight`).
    """

    forward: str
    grad_input: str
    grad_weight: str

    def __str__(self) -> str:
        if self.forward == self.grad_weight:
            return self.forward
        return f"{self.forward} (∂W: {self.grad_weight})"


@functools.cache
def linear_path() -> LinearPath:
    """The road taken on this machine; named in every run header.

    Measured with torch 2.13 and some 1,024 rows: on Zen 4 (family 25) oneDNN gains 1.1–1.25x forward and for ∂x, and
    for ∂W what `_grad_weight` tells; on Zen 5 (family 26) it gains 2x throughout. On Intel MKL is as good.
    """
    default = LinearPath("mkl" if torch.backends.mkl.is_available() else "aten", *(["mkl"] * 2))
    vendor, family = _processor()
    if vendor != "AuthenticAMD" or not _onednn_works():
        return default
    return LinearPath("onednn", "onednn", "onednn" if family >= 26 else BY_SHAPE)


def _processor() -> tuple[str, int]:
    """Vendor and family as Linux tells them; empty where it does not."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", 0
    pairs = (line.partition(":") for line in text.splitlines()[:40])
    fields = {key.strip(): value.strip() for key, _, value in pairs}
    family = fields.get("cpu family", "0")
    return fields.get("vendor_id", ""), int(family) if family.isdigit() else 0


def _onednn_works() -> bool:
    """Whether the operator, which PyTorch does not document, exists here and agrees with `F.linear`."""
    x, weight = torch.linspace(-1, 1, 12).view(3, 4), torch.linspace(-1, 1, 20).view(5, 4)
    try:
        return torch.allclose(_onednn(x, weight, None), F.linear(x, weight), atol=1e-5)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def _grad_weight(grad: Tensor, x: Tensor, library: str) -> Tensor:
    """∂W = gradᵀ·x: [N, out], [N, in] → [out, in].

    By shape, as measured on Zen 4 with in from 128 to 4,096: a square goes to MKL, everything else to oneDNN, which
    is fastest where the rows of the product are its longer side. So with out > in it makes (∂W)ᵀ, whose copy costs
    less than it gains: 1.2x for a vocabulary of 32,000.
    """
    outputs, inputs = grad.shape[1], x.shape[1]
    if library == "onednn" or (library == BY_SHAPE and inputs > outputs):
        return _onednn(grad.t(), x.t(), None)
    if library == BY_SHAPE and outputs > inputs:
        return _onednn(x.t(), grad.t(), None).t().contiguous()
    return grad.t() @ x


class _OneDNNLinear(torch.autograd.Function):
    """`F.linear` on a matrix of rows, each of its three products by the library that `linear_path` names."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None  # type: ignore[attr-defined]
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, grad: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors  # type: ignore[attr-defined]
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad  # type: ignore[attr-defined]
        path, grad = linear_path(), grad.contiguous()
        once = not torch.is_grad_enabled()  # autograd cannot see through oneDNN to a second derivative
        grad_x = grad_weight = None
        if wants_x:
            grad_x = _onednn(grad, weight.t(), None) if once and path.grad_input == "onednn" else grad @ weight
        if wants_weight:
            grad_weight = _grad_weight(grad, x, path.grad_weight if once else "mkl")
        return grad_x, grad_weight, grad.sum(0) if wants_bias else None


def _takes_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.dtype is torch.float32
        and weight.dtype is torch.float32
        and x.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and weight.is_contiguous()  # for some columns of a matrix oneDNN takes a thousand times longer
        and x.numel() >= _MANY_ROWS * x.shape[-1]
        and linear_path().forward == "onednn"
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x·Wᵀ + b over the last axis: [..., in] × [out, in] → [..., out]."""
    if not _takes_onednn(x, weight):
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1]).contiguous()  # one step of many, say: as slow for ∂W as such a weight
    learnt = any(part is not None and part.requires_grad for part in (x, weight, bias))
    if torch.is_grad_enabled() and learnt:
        product = _OneDNNLinear.apply(rows, weight, bias)
    else:
        product = _onednn(rows, weight, bias)
    return product.view(*x.shape[:-1], weight.shape[0])


class Linear(nn.Module):
    """A learnt linear map; `weight` [out, in], `bias` [out] or none. Left unset until `initialise` or a load."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]} → {self.weight.shape[0]}, bias={self.bias is not None}"
