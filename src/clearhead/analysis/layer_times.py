"""Kinds of layer over n positions: steps that wait for one another, path lengths and operations counted, time measured.

Vaswani et al. 2017, Table 1, counts; here each count stands beside what one layer takes on this machine, batch 1. The
counts say what no machine can better: a layer whose steps wait for one another is slow on any. They do not say who wins
at a given n: that is what the constants decide, how large the products are and how well a processor does them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import quantiles
from typing import Any, Literal, Self, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.analysis.paths import dilated_depth, layer_kinds
from clearhead.base.errors import InputError
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.cache import Kept
from clearhead.nn.linear import Linear
from clearhead.nn.recurrent import Recurrent
from clearhead.nn.visibility import Visibility

__all__ = ["LENGTHS", "Crossover", "Layer", "LayerTime", "crossovers", "layer_flops", "make_layer", "measure_layers"]

Layer = Literal[
    "elman", "gru-before", "gru-after", "lstm", "convolution", "dilated", "restricted-attention", "self-attention"
]
"""`convolution` is one causal layer, `dilated` as many as join the first position to the last, dilations 1, k, k², …"""

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
KERNEL, WINDOW, HEADS = 3, 33, 8
"""k, r and the heads of both attentions. r is odd: a position reads (r − 1)/2 to either side of its own."""

_ROW = {"convolution": "convolution, causal", "dilated": "convolution, dilated", "restricted-attention": "restricted"}
_GATES = {"elman": 1, "gru-before": 3, "gru-after": 3, "lstm": 4}


@dataclass(frozen=True)
class LayerTime:
    """One kind of layer over `length` positions of `width` numbers.

    Attributes:
        sequential: steps that wait for one another in all that was timed: n of a recurrence, the layers of a dilated
            stack, 1 otherwise.
        path: hops between the two farthest positions (see `paths.LayerKind`), over as many layers as that takes.
        operations: what Table 1's order of growth gives for one layer, without the constant.
        flops: of the matrix products of all that was timed, two for a multiplication and its addition.
        training: whether the backward pass was timed too.
        seconds, low, high: median and quartiles of the repetitions.
        threads: of PyTorch while it was measured.
    """

    layer: Layer
    length: int
    width: int
    sequential: int
    path: int
    operations: int
    flops: int
    training: bool
    seconds: float
    low: float
    high: float
    threads: int

    def to_json(self) -> dict[str, Any]:
        """Everything, as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Self:
        """What `to_json` wrote. Raises InputError for anything else."""
        try:
            return cls(**table)
        except TypeError as error:
            raise InputError(f"this is no time of a layer ({error}); measure it anew") from error


@dataclass(frozen=True)
class Crossover:
    """From which length on self-attention costs as much as `other`, or more.

    Attributes:
        table: by the orders of growth of Table 1, one layer each: n²·d is n·d² at n = d, k·n·d² at k·d, r·n·d at r.
        counted: by the operations of the products, constants and all; None if attention costs more at every length.
        measured: by the medians, interpolated between two lengths on logarithmic scales; None where the same layer is
            faster at both ends, so that a crossing between, if any, was not for good. Of several the last.
        faster_short, faster_long: which of the two took less time at the shortest and the longest length measured.
    """

    other: Layer
    table: int
    counted: int | None
    measured: float | None
    faster_short: Layer
    faster_long: Layer

    def to_json(self) -> dict[str, Any]:
        """Everything, as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Self:
        """What `to_json` wrote. Raises InputError for anything else."""
        try:
            return cls(**table)
        except TypeError as error:
            raise InputError(f"this is no crossover ({error}); measure it anew") from error


def layer_flops(layer: Layer, length: int, width: int) -> int:
    """Operations of the matrix products, two for a multiplication and its addition.

    A recurrence with G gates: 4·G·n·d², half for the input and half for the state before. A convolution of kernel k
    (d channels in and out): 2·k·n·d², and the dilated stack ⌈log_k n⌉ of them. Self-attention: 8·n·d² for its four
    projections and 4·n²·d for scores and mixing (Vaswani et al. 2017, §3.2.2 and equation 1); restricted: 8·n·d² +
    4·r·n·d.
    """
    n, d = length, width
    match layer:
        case "self-attention":
            return 8 * n * d * d + 4 * n * n * d
        case "restricted-attention":
            return 8 * n * d * d + 4 * WINDOW * n * d
        case "convolution":
            return 2 * KERNEL * n * d * d
        case "dilated":
            return dilated_depth(n, KERNEL) * 2 * KERNEL * n * d * d
        case _:
            return 4 * _GATES[layer] * n * d * d


def make_layer(layer: Layer, width: int, length: int, seed: int = 0) -> nn.Module:
    """The module that is timed, [1, n, d] → [1, n, d], of clearhead's own parts; `length` matters to `dilated`.

    Raises InputError for a width that is no multiple of the heads, where there are heads.
    """
    generator = torch.Generator().manual_seed(seed)
    match layer:
        case "self-attention" | "restricted-attention":
            if width % HEADS:
                raise InputError(f"width {width}: attention with {HEADS} heads needs a multiple of {HEADS}")
            module: nn.Module = _SelfAttention(width, WINDOW if layer == "restricted-attention" else None)
        case "convolution":
            module = _Convolutions(width, 1)
        case "dilated":
            module = _Convolutions(width, dilated_depth(length, KERNEL))
        case _:
            module = _Recurrence(layer, width)
    for part in module.modules():
        if isinstance(part, Linear):
            nn.init.xavier_uniform_(part.weight, generator=generator)
    return module.initialise(generator) if isinstance(module, _Recurrence | _Convolutions) else module


class _Recurrence(nn.Module):
    """One recurrent layer by the fastest road that it has (see `nn.recurrent`)."""

    def __init__(self, cell: Literal["elman", "gru-before", "gru-after", "lstm"], width: int) -> None:
        super().__init__()
        self.stack = Recurrent(cell, width, width)

    def initialise(self, generator: torch.Generator) -> Self:
        for cell in self.stack.cells:
            cell.initialise(generator)  # type: ignore[operator]
        return self

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.stack.run(x, torch.full((x.shape[0],), x.shape[1])).outputs


class _Convolutions(nn.Module):
    """Causal convolutions with dilations 1, k, k², …, as in a decoder: no gate, no residual, the product alone."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, KERNEL, dilation=KERNEL**depth, bias=False) for depth in range(layers)
        )

    def initialise(self, generator: torch.Generator) -> Self:
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.weight, generator=generator)  # type: ignore[arg-type]
        return self

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        y = x.transpose(1, 2)
        for depth, layer in enumerate(self.layers):
            y = layer(F.pad(y, ((KERNEL - 1) * KERNEL**depth, 0)))
        return y.transpose(1, 2)


class _SelfAttention(nn.Module):
    """`Attention` over every position, or over the `window` about each (Vaswani et al. 2017, §4, "restricted").

    Restricted, each position is a sentence of its own whose keys are those of its window: r·n scores are worked out,
    and no n² that a mask would hide.
    """

    def __init__(self, width: int, window: int | None) -> None:
        super().__init__()
        self.attention = Attention(AttentionConfig(heads=HEADS), width)
        self.window = window

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        kept, length = self.attention.remember(x, x), x.shape[1]
        if self.window is None:
            whole: Tensor = self.attention(x, kept, Visibility.of_keys(x.new_ones(x.shape[:2], dtype=torch.bool)))
            return whole
        side = (self.window - 1) // 2
        places = torch.arange(length, device=x.device)[:, None] + torch.arange(-side, side + 1, device=x.device)
        visible = Visibility.of_keys((places >= 0) & (places < length))  # [T, r]
        windows = Kept(_windows(kept.keys, self.window), _windows(kept.values, self.window))
        read: Tensor = self.attention(x.transpose(0, 1), windows, visible)
        return read.transpose(0, 1)


def _windows(x: Float[Tensor, "1 H T E"], window: int) -> Float[Tensor, "T H R E"]:
    """What stands about each position, zeros beyond the ends; a view of the padded tensor, nothing is copied."""
    side = (window - 1) // 2
    return F.pad(x, (0, 0, side, side))[0].unfold(1, window, 1).permute(1, 0, 3, 2)


def measure_layers(  # noqa: PLR0913 (what an experiment is made of)
    width: int = 256,
    lengths: Sequence[int] = LENGTHS,
    layers: Sequence[Layer] = get_args(Layer),
    *,
    repeats: int = 7,
    training: bool = False,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[LayerTime]:
    """Every layer at every length, in that order of loops: the median of `repeats`, after one to warm up.

    The layers of one length take turns, so that what slows the machine for a while slows them all. Timed is the
    forward pass without gradients, or with `training` the forward and the backward pass. CPU, float32, batch 1.
    """
    if not lengths or min(lengths) < 1 or repeats < 1:
        raise InputError(f"lengths {list(lengths)}, repeats {repeats}: one length of at least 1, and one repetition")
    found = []
    for length in lengths:
        if progress is not None:
            progress(f"n = {length}")
        modules = {layer: make_layer(layer, width, length, seed).train(training) for layer in layers}
        x = torch.randn(1, length, width, generator=torch.Generator().manual_seed(seed))
        times: dict[Layer, list[float]] = {layer: [] for layer in layers}
        for turn in range(repeats + 1):
            for layer, module in modules.items():
                seconds = _timed(module, x, training)
                if turn:
                    times[layer].append(seconds)
        found += [_described(layer, length, width, training, times[layer]) for layer in layers]
    return found


def _timed(module: nn.Module, x: Float[Tensor, "B T D"], training: bool) -> float:
    x = x.clone().requires_grad_(training)
    begin = time.perf_counter()
    with torch.set_grad_enabled(training):
        y = module(x)
        if training:
            y.sum().backward()
    seconds = time.perf_counter() - begin
    module.zero_grad()
    return seconds


def _described(layer: Layer, length: int, width: int, training: bool, times: Sequence[float]) -> LayerTime:
    row = next(
        kind
        for kind in layer_kinds(length, width, KERNEL, WINDOW)
        if kind.name.startswith(_ROW.get(layer, "recurrent" if layer in _GATES else layer))
    )
    low, middle, high = quantiles(times, n=4, method="inclusive") if len(times) > 1 else (times[0],) * 3
    return LayerTime(
        layer,
        length,
        width,
        sequential=max(1, row.depth) if layer == "dilated" else row.sequential,
        path=row.path,
        operations=row.operations,
        flops=layer_flops(layer, length, width) * (3 if training else 1),  # backward: two products for one
        training=training,
        seconds=middle,
        low=low,
        high=high,
        threads=torch.get_num_threads(),
    )


def crossovers(times: Sequence[LayerTime]) -> list[Crossover]:
    """Self-attention against each other layer of one measurement; none where it was not measured itself."""
    seconds: dict[Layer, dict[int, float]] = {}
    for one in times:
        seconds.setdefault(one.layer, {})[one.length] = one.seconds
    own = seconds.get("self-attention", {})
    return [
        _crossover(layer, times[0].width, [(n, own[n], taken) for n, taken in sorted(theirs.items()) if n in own])
        for layer, theirs in seconds.items()
        if layer != "self-attention" and own.keys() & theirs.keys()
    ]


def _crossover(layer: Layer, width: int, points: Sequence[tuple[int, float, float]]) -> Crossover:
    """`points`: (length, seconds of self-attention, seconds of the other), by length."""

    def faster(point: tuple[int, float, float]) -> Layer:
        return "self-attention" if point[1] < point[2] else layer

    measured = None
    for before, after in zip(points, points[1:], strict=False):
        if faster(before) != faster(after) and faster(points[0]) != faster(points[-1]):
            start, end = (math.log(own / other) for _, own, other in (before, after))
            share = start / (start - end)
            measured = math.exp(math.log(before[0]) * (1 - share) + math.log(after[0]) * share)
    table = {"convolution": KERNEL * width, "dilated": KERNEL * width, "restricted-attention": WINDOW}
    return Crossover(
        layer,
        table.get(layer, width),
        _from_there_on(lambda n: layer_flops("self-attention", n, width) - layer_flops(layer, n, width), width),
        measured,
        faster(points[0]),
        faster(points[-1]),
    )


def _from_there_on(excess: Callable[[int], int], width: int) -> int | None:
    """The least length from which on `excess` is never negative again; None if it never is.

    Looked at up to 64·d: what is compared grows as n times a constant, or a logarithm, and crosses n²·d before that.
    """
    negative = [n for n in range(1, 64 * width) if excess(n) < 0]
    return negative[-1] + 1 if negative else None
