"""One matrix of a finished model, made ready to multiply: y = x·Wᵀ + b in fp32, bf16 or int8.

Which road multiplies is decided once, when the matrix is made ready: the native library where there is one, else
oneDNN, else PyTorch's own. In int8 a weight has one scale an output and an activation one a row, so that no row sees
another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.base.errors import BundleError
from clearhead.engine.arena import Arena
from clearhead.engine.library import Library, library
from clearhead.engine.products_int8 import NOT_FINITE, Int8Product, check_inputs
from clearhead.engine.products_onednn import OneDNNProduct, onednn_works
from clearhead.nn.linear import linear

__all__ = [
    "KINDS",
    "Bfloat16Product",
    "NativeProduct",
    "PlainProduct",
    "Precision",
    "Product",
    "RoundedProduct",
    "make_product",
]

Precision = Literal["fp32", "bf16", "int8"]
KINDS: dict[str, int] = {"fp32": 0, "bf16": 1, "int8": 2, "f64": 3}
"""As native/kernels.h numbers them."""
PANEL = 64
"""Outputs that the native library pads to (native/kernels.h)."""


@runtime_checkable
class Product(Protocol):
    """A linear map that is ready to be used; nothing in it changes, so threads may share one."""

    @property
    def inputs(self) -> int:
        """Width of what it reads."""
        ...

    @property
    def outputs(self) -> int:
        """Width of what it writes."""
        ...

    @property
    def description(self) -> str:
        """How it multiplies, in words for the header of a run."""
        ...

    def __call__(self, x: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        """x·Wᵀ + b in a tensor of its own."""
        ...

    def rows(self, ids: Int[Tensor, "... N"]) -> Float[Tensor, "... N inputs"]:
        """The rows of W that `ids` name, as the product sees them (rounded, if it rounds), without any bias."""
        ...


@dataclass(frozen=True)
class _Unpacked:
    """A weight [out, in] as PyTorch has it, and its bias."""

    weight: Tensor
    bias: Tensor | None

    @property
    def inputs(self) -> int:
        return self.weight.shape[1]

    @property
    def outputs(self) -> int:
        return self.weight.shape[0]


@dataclass(frozen=True)
class PlainProduct(_Unpacked):
    """By `F.linear` or what `nn.linear` puts in its place: any type, any device."""

    @property
    def description(self) -> str:
        return f"{str(self.weight.dtype).removeprefix('torch.')} products by PyTorch"

    def __call__(self, x: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        return linear(x, self.weight, self.bias)

    def rows(self, ids: Int[Tensor, "... N"]) -> Float[Tensor, "... N inputs"]:
        return F.embedding(ids, self.weight)


@dataclass(frozen=True)
class Bfloat16Product(_Unpacked):
    """bf16 by the device's own units, with the sums in fp32; results come back in fp32 and the bias is added there."""

    @property
    def description(self) -> str:
        return "bf16 products by PyTorch"

    def __call__(self, x: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        y = F.linear(x.to(torch.bfloat16), self.weight).float()
        return y if self.bias is None else y.add_(self.bias)

    def rows(self, ids: Int[Tensor, "... N"]) -> Float[Tensor, "... N inputs"]:
        return F.embedding(ids, self.weight).float()


@dataclass(frozen=True)
class RoundedProduct:
    """What bf16 means, without units for it: both operands rounded to bf16, products and sums in fp32."""

    exact: Product

    @property
    def inputs(self) -> int:
        return self.exact.inputs

    @property
    def outputs(self) -> int:
        return self.exact.outputs

    @property
    def description(self) -> str:
        return "bf16 operands multiplied in fp32 (as accurate as bf16, no quicker than fp32)"

    def __call__(self, x: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        return self.exact(x.to(torch.bfloat16).float())

    def rows(self, ids: Int[Tensor, "... N"]) -> Float[Tensor, "... N inputs"]:
        return self.exact.rows(ids)


@dataclass(frozen=True)
class NativeProduct:
    """By the native library (native/kernels.h says what the arrays hold).

    `kind` is 0 for fp32, 1 for bf16, 2 for int8, 3 for float64. `words` are the packed panels; `scales` and `offsets`
    [outputs padded to 64] are int8's alone; `bias` [outputs padded to 64]. All begin at multiples of 64 bytes.
    """

    library: Library
    kind: int
    outputs: int
    inputs: int
    words: Tensor
    scales: Tensor | None
    offsets: Tensor | None
    bias: Tensor | None

    @classmethod
    def pack(
        cls, found: Library, kind: int, weight: Tensor, bias: Tensor | None, arena: Arena | None = None
    ) -> NativeProduct:
        """Packs `weight` [out, in], into `arena` if one is given; BundleError if a number of it is not finite.

        ConfigError for more inputs than int8 can add up.
        """
        dtype = torch.float64 if kind == KINDS["f64"] else torch.float32
        weight = weight.detach().to("cpu", dtype).contiguous()
        outputs, inputs = weight.shape
        if kind == KINDS["int8"]:
            check_inputs(inputs)
        width = -(-outputs // PANEL) * PANEL
        size = found.packed_bytes(kind, outputs, inputs)
        words = torch.empty(size, dtype=torch.uint8) if arena is None else arena.take(size)
        scales = torch.zeros(width) if kind == KINDS["int8"] else None
        offsets = torch.zeros(width, dtype=torch.int32) if kind == KINDS["int8"] else None
        if not found.pack(kind, weight.data_ptr(), outputs, inputs, words.data_ptr(), _at(scales), _at(offsets)):
            raise BundleError(NOT_FINITE)
        padded = None
        if bias is not None:
            padded = torch.zeros(width, dtype=dtype)
            padded[:outputs] = bias.detach()
        return cls(found, kind, outputs, inputs, words, scales, offsets, padded)

    @property
    def description(self) -> str:
        names = {number: name for name, number in KINDS.items()}
        return f"{names[self.kind]} products by the native library ({self.library.level})"

    @property
    def _dtype(self) -> torch.dtype:
        return torch.float64 if self.kind == KINDS["f64"] else torch.float32

    def __call__(self, x: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        rows = x.reshape(-1, self.inputs).to(self._dtype).contiguous()
        y = torch.empty(len(rows), -(-self.outputs // PANEL) * PANEL, dtype=self._dtype)
        if len(rows) and not self.library.product(
            self.kind,
            self.words.data_ptr(),
            _at(self.scales),
            _at(self.offsets),
            _at(self.bias),
            self.outputs,
            self.inputs,
            rows.data_ptr(),
            len(rows),
            y.data_ptr(),
            torch.get_num_threads(),
        ):
            raise MemoryError("no memory for a product")
        return y[:, : self.outputs].view(*x.shape[:-1], self.outputs)

    def rows(self, ids: Int[Tensor, "... N"]) -> Float[Tensor, "... N inputs"]:
        wanted = ids.reshape(-1).to(torch.int32).contiguous()
        if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < self.outputs:
            raise IndexError(f"an id outside 0 … {self.outputs - 1}")
        y = torch.empty(len(wanted), self.inputs, dtype=self._dtype)
        if len(wanted):
            self.library.embed(
                self.kind,
                self.words.data_ptr(),
                _at(self.scales),
                _at(self.offsets),
                self.outputs,
                self.inputs,
                wanted.data_ptr(),
                len(wanted),
                y.data_ptr(),
            )
        return y.view(*ids.shape, self.inputs)


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def make_product(
    weight: Float[Tensor, "out in"],
    bias: Tensor | None,
    precision: Precision,
    *,
    native: bool | None = None,
    arena: Arena | None = None,
) -> Product:
    """`weight` and `bias` made ready, by the first road that this machine has: native library, oneDNN, PyTorch.

    `native` True asks for the native library and False does without; float64 weights are multiplied by PyTorch unless
    it is True, and are never rounded. `arena` is where the native library's matrices come to lie. Raises BundleError
    if the native library is given a weight that is not finite.
    """
    weight, bias = weight.detach(), None if bias is None else bias.detach()
    double = weight.dtype == torch.float64
    found = library() if native or (native is None and not double and weight.device.type == "cpu") else None
    if found is not None:
        return NativeProduct.pack(found, KINDS["f64" if double else precision], weight, bias, arena)
    if native:
        raise BundleError("there is no native library on this machine")
    return PlainProduct(weight, bias) if double else _in_pytorch(weight, bias, precision)


def _in_pytorch(weight: Tensor, bias: Tensor | None, precision: Precision) -> Product:
    on_cpu = weight.device.type == "cpu"
    weight, bias = weight.float(), None if bias is None else bias.float()
    if precision == "int8":
        return Int8Product.pack(weight, bias)
    if precision == "bf16":
        if not on_cpu:
            return Bfloat16Product(weight.to(torch.bfloat16), bias)
        return RoundedProduct(_in_pytorch(weight.to(torch.bfloat16).float(), bias, "fp32"))
    if on_cpu and onednn_works():
        return OneDNNProduct.pack(weight, bias)
    return PlainProduct(weight, bias)
