"""Kinds of layer side by side: operations, steps that must wait for one another, and how far information travels.

Vaswani et al. 2017, §4 and Table 1 give orders of growth; here are the numbers for one length and width. A path is
counted in hops, layers or steps of a recurrence, between the first position and the last, the farthest pair there is.
"""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.base.errors import InputError

__all__ = ["LayerKind", "dilated_depth", "layer_kinds"]


@dataclass(frozen=True)
class LayerKind:
    """One row of Table 1, in numbers.

    `operations` a layer is the term that the table's order of growth names (n²·d and so on), without the constant in
    front of it; `sequential` steps of one layer wait for one another; `path` is the most hops between two positions;
    `depth` layers are needed before any two positions are joined.
    """

    name: str
    formula: str
    operations: int
    sequential: int
    path: int
    depth: int


def layer_kinds(length: int, width: int, kernel: int = 3, window: int = 33) -> list[LayerKind]:
    """Every kind of layer over `length` positions of `width` numbers.

    Convolutions are `kernel` wide. A causal one reads its own position and the kernel − 1 before it, as in a decoder; a
    centred one, as in an encoder, reaches (kernel − 1)/2 to either side, so its path is up to twice as long. The
    dilations of the dilated one are 1, k, k², …, layer by layer. Restricted attention reads the `window` positions
    around its own.

    Raises InputError unless kernel and window are odd and at least 3.
    """
    for name, value in (("kernel", kernel), ("window", window)):
        if value < 3 or value % 2 == 0:
            raise InputError(f"{name} {value}: it stands centred on a position, so it must be odd and at least 3")
    n, d, farthest = length, width, length - 1
    causal, centred = _ceil(farthest, kernel - 1), _ceil(farthest, (kernel - 1) // 2)
    dilated, restricted = dilated_depth(length, kernel), _ceil(farthest, (window - 1) // 2)
    reach = min(window, n)
    return [
        LayerKind("self-attention", "n²·d", n * n * d, 1, min(1, farthest), min(1, farthest)),
        LayerKind("recurrent", "n·d²", n * d * d, n, farthest, min(1, farthest)),
        LayerKind(f"convolution, causal, k = {kernel}", "k·n·d²", kernel * n * d * d, 1, causal, causal),
        LayerKind(f"convolution, centred, k = {kernel}", "k·n·d²", kernel * n * d * d, 1, centred, centred),
        LayerKind(f"convolution, dilated, k = {kernel}", "k·n·d²", kernel * n * d * d, 1, dilated, dilated),
        LayerKind(f"restricted attention, r = {window}", "r·n·d", reach * n * d, 1, restricted, restricted),
    ]


def dilated_depth(length: int, kernel: int) -> int:
    """Layers of a causal convolution with dilations 1, k, k², … that join the first of `length` positions to the last.

    ⌈log_k n⌉: the hops are the digits of the distance in base k (Kalchbrenner et al. 2016, §3, for the dilation).

    >>> [dilated_depth(n, 3) for n in (1, 3, 4, 9, 10, 243)]
    [0, 1, 2, 2, 3, 5]
    """
    depth, reached = 0, 1
    while reached < length:
        depth, reached = depth + 1, reached * kernel
    return depth


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
