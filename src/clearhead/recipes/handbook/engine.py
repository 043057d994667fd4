"""What a decoder step of the fast engine reads, and one product in integers of eight bits, run and counted."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from clearhead.engine.pool import Pool
from clearhead.engine.products import PlainProduct, Product
from clearhead.engine.products_int8 import Int8Product, quantise, quantise_weight
from clearhead.engine.weights import DecoderLayer, Weights, fuse
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.config import TransformerConfig
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import matrix

__all__: list[str] = []

BASE, SMALL = presets.base(vocab_size=32000), presets.bench_tiny(vocab_size=8000)
BEAM, LENGTH = 4, 25
READING, IN_FP32, IN_INT8 = 30e9, 100e9, 400e9
"""Bytes and operations a second that the page reckons with."""
ROW, COLUMN = matrix([[25, -63.5, 8.6, 0.6]]), matrix([[31.75, 5.6, -15, 10.2]])
NEIGHBOUR = 635.0


def packed(config: TransformerConfig) -> Weights:
    """The matrices of the engine, without numbers."""
    return fuse(build(config, device="meta").eval(), "fp32", native=False)


def numbers(products: Iterable[Product]) -> int:
    """How many numbers the matrices hold together."""
    return sum(product.inputs * product.outputs for product in products)


def parts(layer: DecoderLayer) -> list[int]:
    """What a step reads of a layer: its attention to the past, to the source, its feed-forward network."""
    own, cross, inner = layer.attention, layer.cross, layer.feedforward
    return [numbers([own.qkv, own.output]), numbers([cross.query, cross.output]), numbers([inner.inner, inner.outer])]


def read(weights: Weights) -> list[int]:
    """What a step reads: the layers, the vocabulary, both."""
    stack = sum(sum(parts(layer)) for layer in weights.decoder)
    words = numbers([weights.projection])
    return [stack, words, stack + words]


@facts("step", "layer weights vocabulary_share", by=[fuse, build])
def what_a_step_reads() -> tuple[list[int], list[int], float]:
    """Numbers of a layer of base and of the whole, and the part of the vocabulary in per cent."""
    weights = packed(BASE)
    whole = read(weights)
    return parts(weights.decoder[0]), whole, 100 * whole[1] / whole[2]


@facts("step", "bytes small_bytes milliseconds most_steps rows_even", by=[fuse, build], given="rows_even")
def what_that_takes() -> tuple[list[int] | list[float], ...]:
    """Bytes in fp32, bf16 and int8, of both sizes; base's time, steps a second, and rows that even out the reading."""
    base, small = (read(packed(config))[2] for config in (BASE, SMALL))
    sizes = [[element_size * count for element_size in (4, 2, 1)] for count in (base, small)]
    even = [size * speed / (2 * READING) for size, speed in ((4, IN_FP32), (1, IN_INT8))]
    times = [1000 * size / READING for size in sizes[0]]
    return sizes[0], sizes[1], times, [1000 / milliseconds for milliseconds in times], even


@facts("step", "position_bytes cache_25 moved_25 source_25", by=[fuse, Pool])
def keys_and_values() -> tuple[int, int, int, list[int]]:
    """Of one token; of four hypotheses of 25; what copying them moves in 25 steps; of a source, once and four times."""
    weights = packed(BASE)
    pool = Pool.empty(len(weights.decoder), 1, weights.kv_heads, weights.head_width, torch.empty(0, device="meta"))
    token = sum(layer[:, :, :, 0].nbytes for layer in pool.layers)
    moved = sum(BEAM * length * token for length in range(1, LENGTH + 1))
    return token, BEAM * LENGTH * token, moved, [LENGTH * token, BEAM * LENGTH * token]


@facts("int8", "x w scales x_integers w_integers", by=[quantise, quantise_weight], given="x w")
def in_eight_bits() -> tuple[Tensor, Tensor, list[Tensor], Tensor, Tensor]:
    """A row and a column, their scales, and the integers that stand for them."""
    (row, row_scale), (column, column_scale) = quantise(ROW.float()), quantise_weight(COLUMN.float())
    return ROW[0], COLUMN[0], [row_scale[0, 0], column_scale[0]], row[0].int() - 128, column[0]


@facts("int8", "sum result exact", by=[Int8Product, PlainProduct])
def one_product() -> tuple[Tensor, Tensor, Tensor]:
    """The sum of integers; what it stands for; and the product without rounding."""
    product = Int8Product.pack(COLUMN.float(), None, "exact float arithmetic")
    rows, _ = quantise(ROW.float())
    exact = PlainProduct(COLUMN, None)
    return product.sums(rows)[0, 0] / product.scales[0], product(ROW.float())[0, 0], exact(ROW)[0, 0]


@facts("int8", "shared_scale shared_integers shared_result")
def one_scale_for_all() -> tuple[float, Tensor, Tensor]:
    """The same row beside one with a larger number, both with that number's scale: no module of ours does so."""
    scale = NEIGHBOUR / 127
    coarse = (ROW[0] / scale).round()
    column = (COLUMN[0] / (COLUMN.abs().max() / 127)).round()
    return scale, coarse, torch.dot(coarse, column) * scale * COLUMN.abs().max() / 127
