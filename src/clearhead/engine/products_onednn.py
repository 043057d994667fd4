"""Products in float32 by oneDNN, the weight laid out once in the order in which its kernels read it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.base.log import logger

__all__ = ["OneDNNProduct", "onednn_works"]


def _laid_out(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    return packed


def _multiply(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, packed, bias, "none", [], "")
    return product


@functools.cache
def onednn_works() -> bool:
    """Whether these undocumented operators exist here and agree with `F.linear`; one log line if they do not."""
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(40, 24, generator=generator), torch.randn(40, generator=generator)
    try:
        packed = _laid_out(weight)
        agree = all(
            torch.allclose(_multiply(x, packed, bias), F.linear(x, weight, bias), atol=1e-4)
            for x in (torch.randn(rows, 24, generator=generator) for rows in (1, 3, 70))
        )
    except (AttributeError, RuntimeError, NotImplementedError):
        agree = False
    if not agree:
        logger.info("fp32: oneDNN's prepared weights do not work on this machine; PyTorch's own product is taken")
    return agree


@dataclass(frozen=True)
class OneDNNProduct:
    """A weight in oneDNN's own layout."""

    packed: Tensor
    bias: Tensor | None
    outputs: int
    inputs: int

    @classmethod
    def pack(cls, weight: Float[Tensor, "out inputs"], bias: Tensor | None) -> OneDNNProduct:
        """Lays `weight` out."""
        return cls(_laid_out(weight), bias, *weight.shape)

    @property
    def description(self) -> str:
        return "fp32 products by oneDNN"

    def __call__(self, x: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        return _multiply(x.reshape(-1, self.inputs), self.packed, self.bias).view(*x.shape[:-1], self.outputs)

    def rows(self, ids: Int[Tensor, "... N"]) -> Float[Tensor, "... N inputs"]:
        return F.embedding(ids, self._plain)

    @functools.cached_property
    def _plain(self) -> Tensor:
        """The weight as it was, for the one or two matrices whose rows are asked for."""
        return self.packed.to_dense()
