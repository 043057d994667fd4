"""Products in int8 by PyTorch's operators: a scale for each output of a weight, and one for each row that comes in.

q = round(x·(127/amax)), ties to even, scale = amax/127, for rows of weights and of activations alike; the sums of
products are exact integers, and a row's result depends on that row alone. Three roads give the same sums: oneDNN's
int8 kernels, `torch._int_mm`, and float arithmetic in which no sum is rounded. The first that works here is taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.base.errors import BundleError, ConfigError
from clearhead.base.log import logger

__all__ = ["NOT_FINITE", "ROADS", "Int8Product", "check_inputs", "int8_road", "quantise", "quantise_weight"]

NOT_FINITE = "the model's weights hold a number that is not finite: they are damaged; train or copy anew"

LEAST = 1e-36
"""A row whose largest number is below this counts as one of zeros: 127/amax would not be finite."""
SHIFT = 1.5 * 2**23
"""Added to a float32 of at most 2^22 it leaves, in the low bits, the number rounded to an integer, ties to even."""
EXACT = 1024
"""So many products of two bytes, each at most 127², add up below 2^24, where float32 still holds every integer."""
MOST_INPUTS = (2**31 - 1) // (255 * 127)
"""So many products of an activation, which is stored as 0 … 255, and a weight add up in 32 bits, whatever they are."""
_TOP = torch.tensor(127.0)  # not a number of Python's: PyTorch would multiply it by a reciprocal, which is rounded


def check_inputs(inputs: int) -> None:
    """Raises ConfigError for a matrix so wide that a sum might not hold in 32 bits."""
    if inputs > MOST_INPUTS:
        raise ConfigError(
            f"a matrix of {inputs:,} inputs: in int8 {MOST_INPUTS:,} can be added up; choose the precision fp32 or bf16"
        )


def quantise(x: Float[Tensor, "N inputs"]) -> tuple[Int[Tensor, "N inputs"], Float[Tensor, "N 1"]]:
    """128 + q as uint8, and the scale of each row. A row with a NaN or an infinity has a scale that is not finite.

    Unsigned because oneDNN's kernels for signed activations are not there on every processor: where they are missing
    it takes a thousand times longer (Zen 4, torch 2.13).
    """
    most = x.abs().amax(-1, keepdim=True)
    shifted = x.mul(_TOP / most.clamp(min=LEAST)).add_(SHIFT + 128.0)
    return shifted.view(torch.int32).to(torch.uint8), most.div_(127.0)


def quantise_weight(weight: Float[Tensor, "out inputs"]) -> tuple[Int[Tensor, "out inputs"], Tensor]:
    """q as int8 and the scale of each output; BundleError if a weight is not finite."""
    most = weight.abs().amax(-1)
    if not bool(most.isfinite().all()):
        raise BundleError(NOT_FINITE)
    quantised = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    step = max(1, (1 << 20) // weight.shape[1])  # in blocks: a copy in float32 would double what loading takes
    for first in range(0, len(weight), step):
        part = slice(first, first + step)
        quantised[part] = weight[part].mul(_TOP / most[part, None].clamp(min=LEAST)).round_().to(torch.int8)
    return quantised, most / 127.0


Sums = Callable[[Tensor], Tensor]
"""From 128 + q of rows, uint8 [N, inputs], to Σ q·w in float32 times the scale of each output: [N, outputs]."""


def _onednn(quantised: Tensor, scales: Tensor) -> Sums:
    packed = torch.ops.onednn.qlinear_prepack(quantised, None)
    zeros = torch.zeros(len(quantised), dtype=torch.int64)
    multiply = torch.ops.onednn.qlinear_pointwise.default

    def sums(rows: Tensor) -> Tensor:
        product: Tensor = multiply(rows, 1.0, 128, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], "")
        return product

    return sums


def _signed(rows: Tensor) -> Tensor:
    return rows.bitwise_xor(128).view(torch.int8)


def _int_mm(quantised: Tensor, scales: Tensor) -> Sums:
    transposed = quantised.t()
    # CUDA's kernel takes more than 16 rows, and multiples of 8.
    missing = 24 if quantised.device.type == "cuda" else 0

    def sums(rows: Tensor) -> Tensor:
        count = len(rows)
        whole = F.pad(_signed(rows), (0, 0, 0, missing + -(count + missing) % 8)) if missing else _signed(rows)
        return torch._int_mm(whole, transposed)[:count] * scales

    return sums


def _in_floats(quantised: Tensor, scales: Tensor) -> Sums:
    def sums(rows: Tensor) -> Tensor:
        signed, total = _signed(rows), None
        for first in range(0, quantised.shape[1], EXACT):
            part = slice(first, first + EXACT)
            exact = (signed[:, part].float() @ quantised[:, part].float().t()).double()
            total = exact if total is None else total.add_(exact)
        assert total is not None, "a matrix without inputs"
        return total.float() * scales

    return sums


ROADS: dict[str, Callable[[Tensor, Tensor], Sums]] = {
    "oneDNN": _onednn,
    "PyTorch's integer product": _int_mm,
    "exact float arithmetic": _in_floats,
}
"""By name, in the order in which they are tried."""


@functools.cache
def int8_road(device: str) -> str:
    """The first of `ROADS` that agrees with integer arithmetic here; one log line for each that does not."""
    for name in ROADS:
        if device != "cpu" and name == "oneDNN":
            continue
        if _agrees(name, device):
            return name
        logger.info("int8: %s does not work on this machine (%s); the next way is taken", name, device)
    raise AssertionError("float arithmetic disagrees with integer arithmetic")


def _agrees(name: str, device: str) -> bool:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(1, 256, (5, 2048), generator=generator)
    weight = torch.randint(-127, 128, (72, 2048), generator=generator)
    rows[0], weight[0] = 255, 127  # the largest sum there is
    weight[1] = -127
    scales = torch.full((72,), 0.5)
    expected = ((rows - 128) @ weight.t()).float() * 0.5
    try:
        ours = ROADS[name](weight.to(device, torch.int8), scales.to(device))(rows.to(device, torch.uint8))
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return torch.equal(ours.cpu(), expected)


@dataclass(frozen=True)
class Int8Product:
    """A weight as int8 with a scale an output; rows are quantised as they come."""

    quantised: Tensor
    scales: Tensor
    bias: Tensor | None
    road: str
    sums: Sums

    @classmethod
    def pack(cls, weight: Float[Tensor, "out inputs"], bias: Tensor | None, road: str | None = None) -> Int8Product:
        """Quantises `weight`; BundleError if one of its numbers is not finite. `road` is one of `ROADS`.

        ConfigError for more inputs than can be added up.
        """
        check_inputs(weight.shape[1])
        quantised, scales = quantise_weight(weight)
        road = road or int8_road(weight.device.type)
        if road == "PyTorch's integer product" and weight.device.type == "cuda" and any(n % 8 for n in weight.shape):
            road = "exact float arithmetic"
        return cls(quantised, scales, bias, road, ROADS[road](quantised, scales))

    @property
    def inputs(self) -> int:
        return self.quantised.shape[1]

    @property
    def outputs(self) -> int:
        return self.quantised.shape[0]

    @property
    def description(self) -> str:
        return f"int8 products by {self.road}"

    def __call__(self, x: Float[Tensor, "... inputs"]) -> Float[Tensor, "... outputs"]:
        rows, scales = quantise(x.reshape(-1, self.inputs))
        y = self.sums(rows).mul_(scales)
        return (y if self.bias is None else y.add_(self.bias)).view(*x.shape[:-1], self.outputs)

    def rows(self, ids: Int[Tensor, "... N"]) -> Float[Tensor, "... N inputs"]:
        return self.quantised[ids].float().mul_(self.scales[ids][..., None])
