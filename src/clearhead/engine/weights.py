"""A whole Transformer's weights as the engine wants them: matrices that read the same thing fused, every one packed.

Queries, keys and values come from one product, the source's keys and values from another. Nothing of this changes what
the model computes; what rounding a precision brings is the products' affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.engine.arena import Arena
from clearhead.engine.products import NativeProduct, Precision, Product, make_product
from clearhead.models import transformer
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import InputLayer, TransformerDecoder, TransformerEncoder
from clearhead.nn.attention import Attention
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.embedding import Projection
from clearhead.nn.feedforward import Activation, FeedForward
from clearhead.nn.linear import Linear

__all__ = [
    "CrossAttention",
    "DecoderLayer",
    "EncoderLayer",
    "Feedforward",
    "Input",
    "Norm",
    "SelfAttention",
    "Weights",
    "fits",
    "fuse",
]

LANES = 16
"""The width of a head is padded to a multiple of this for the native library (native/kernels.h)."""


@dataclass(frozen=True)
class Norm:
    """(x − mean)/√(variance + epsilon)·weight + bias, with the biased variance.

    `weight` and `bias` [D] are float32, or float64 where the products are, whatever the model's type.
    """

    weight: Tensor
    bias: Tensor
    epsilon: float


@dataclass(frozen=True)
class SelfAttention:
    """`qkv`: heads·width queries, kv_heads·width keys, then as many values. `output` reads heads·width."""

    qkv: Product
    output: Product


@dataclass(frozen=True)
class CrossAttention:
    """`query`: heads·width. `keys_values` reads the memory: kv_heads·width keys, then values. `output` as above."""

    query: Product
    keys_values: Product
    output: Product


@dataclass(frozen=True)
class Feedforward:
    """`gate` is SwiGLU's alone."""

    inner: Product
    gate: Product | None
    outer: Product


@dataclass(frozen=True)
class EncoderLayer:
    """Each norm stands before its sub-layer or after the sum, as `Weights.norm` says."""

    attention: SelfAttention
    attention_norm: Norm
    feedforward: Feedforward
    feedforward_norm: Norm


@dataclass(frozen=True)
class DecoderLayer:
    """An encoder's layer with attention to the source in between."""

    attention: SelfAttention
    attention_norm: Norm
    cross: CrossAttention
    cross_norm: Norm
    feedforward: Feedforward
    feedforward_norm: Norm


@dataclass(frozen=True)
class Input:
    """Rows of `table` times `factor`, plus what `positions` says."""

    table: Product
    factor: float
    positions: nn.Module


@dataclass(frozen=True)
class Weights:
    """All that the engine needs of a model. Nothing in it changes.

    `head_dim` is the model's; `head_width` is what a head takes in the matrices: as much, or more with zeros behind.
    """

    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    head_width: int
    norm: Literal["post", "pre"]
    activation: Activation
    source: Input
    target: Input
    encoder: tuple[EncoderLayer, ...]
    encoder_norm: Norm | None
    decoder: tuple[DecoderLayer, ...]
    decoder_norm: Norm | None
    projection: Product
    max_positions: int | None


def fits(model: nn.Module) -> str | None:
    """None if `model` is a whole Transformer, which the engine runs; else what it is instead, in words for a header."""
    encoder, decoder = getattr(model, "encoder", None), getattr(model, "decoder", None)
    kinds = (type(encoder), type(decoder))
    if kinds != (TransformerEncoder, TransformerDecoder):
        return f"the model is no whole Transformer ({' and '.join(kind.__name__ for kind in kinds)})"
    encoder, decoder = cast("TransformerEncoder", encoder), cast("TransformerDecoder", decoder)
    if decoder.bridge is not None:
        return "the model's decoder has another width than its encoder"
    if len({_figures(layer) for layer in (*encoder.layers, *decoder.layers)}) > 1:
        return "the layers of the model are not of one shape"
    if any(type(each.core) is not ScaledDotProduct for each in model.modules() if isinstance(each, Attention)):
        return "an attention of the model is not softmax(q·kᵀ/√E)"
    return None


def _figures(layer: nn.Module) -> tuple[object, ...]:
    """What must be the same in all layers."""
    attention = [each for each in layer.children() if isinstance(each, Attention)]
    shapes = {(each.heads, each.kv_heads, each.head_dim) for each in attention}
    either = cast("transformer.EncoderLayer | transformer.DecoderLayer", layer)
    feedforward, residual = either.feedforward, either.feedforward_residual
    return (*sorted(shapes), feedforward.inner.weight.shape[1], feedforward.activation, residual.placement)


def fuse(
    model: Seq2Seq,
    precision: Precision,
    *,
    consume: bool = False,
    native: bool | None = None,
    fill: Callable[[nn.Module], None] | None = None,
) -> Weights:
    """The weights of `model`, for which `fits` must be None, in `precision`; those in float64 are never rounded.

    With `consume` every parameter is emptied as soon as it is packed, and the model is of no more use: so loading takes
    little more memory than the file; with `fill`, which is called with each part of the model before its weights are
    looked at, not even that. `native` as in `make_product`. Raises BundleError if a weight is not finite (where
    the road that is taken can tell).
    """
    if (reason := fits(model)) is not None:
        raise ValueError(f"fuse: {reason}")
    encoder, decoder = cast("TransformerEncoder", model.encoder), cast("TransformerDecoder", model.decoder)
    first = cast("transformer.DecoderLayer", decoder.layers[0])
    attention = first.self_attention
    d_model, factors = decoder.output.weight.shape[1], [each.input.embedding.factor for each in (encoder, decoder)]
    packer = _Packer(precision, consume, native, attention.head_dim)
    if fill is not None:
        for part in (decoder.output, encoder.input, decoder.input, encoder.norm, decoder.norm):
            fill(part)
    projection, source, target = packer.tables(decoder.output, encoder.input, decoder.input)
    return Weights(
        d_model=d_model,
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        head_width=packer.head_width,
        norm=first.feedforward_residual.placement,
        activation=first.feedforward.activation,
        source=Input(source, factors[0], encoder.input.positions),
        target=Input(target, factors[1], decoder.input.positions),
        encoder=tuple(packer.encoder_layer(cast("transformer.EncoderLayer", each)) for each in _filled(encoder, fill)),
        encoder_norm=packer.norm(encoder.norm),
        decoder=tuple(packer.decoder_layer(cast("transformer.DecoderLayer", each)) for each in _filled(decoder, fill)),
        decoder_norm=packer.norm(decoder.norm),
        projection=projection,
        max_positions=model.max_positions,
    )


def _filled(
    stack: TransformerEncoder | TransformerDecoder, fill: Callable[[nn.Module], None] | None
) -> Iterator[nn.Module]:
    """The layers, each filled before it is looked at."""
    for layer in stack.layers:
        if fill is not None:
            fill(layer)
        yield layer


class _Packer:
    """Packs the parts of one model; with `consume` it empties each parameter when that is done."""

    def __init__(self, precision: Precision, consume: bool, native: bool | None, head_dim: int) -> None:
        self.precision, self.consume, self.native = precision, consume, native
        self.head_dim = self.head_width = head_dim
        self.arena = Arena()

    def tables(self, output: Projection, *inputs: InputLayer) -> list[Product]:
        """The projection, and what each of `inputs` takes its rows from; a matrix that several share is packed once."""
        packed = {id(output.weight): self._product(output.weight, output.bias)}
        for layer in inputs:
            if id(layer.embedding.weight) not in packed:
                packed[id(layer.embedding.weight)] = self._product(layer.embedding.weight, None)
        parameters = [output.weight, *(layer.embedding.weight for layer in inputs)]
        if isinstance(packed[id(output.weight)], NativeProduct):
            self.head_width = -(-self.head_dim // LANES) * LANES
        products = [packed[id(parameter)] for parameter in parameters]
        self._done(*parameters)
        return products

    def encoder_layer(self, layer: transformer.EncoderLayer) -> EncoderLayer:
        return EncoderLayer(
            self._self_attention(layer.attention),
            self._norm(layer.attention_residual.norm),
            self._feedforward(layer.feedforward),
            self._norm(layer.feedforward_residual.norm),
        )

    def decoder_layer(self, layer: transformer.DecoderLayer) -> DecoderLayer:
        cross = layer.cross_attention
        return DecoderLayer(
            self._self_attention(layer.self_attention),
            self._norm(layer.self_attention_residual.norm),
            CrossAttention(self._heads(cross.query), self._heads(cross.key, cross.value), self._output(cross)),
            self._norm(layer.cross_attention_residual.norm),
            self._feedforward(layer.feedforward),
            self._norm(layer.feedforward_residual.norm),
        )

    def norm(self, module: nn.Module) -> Norm | None:
        """The norm at the end of a stack of pre-norm layers; None for the nothing at the end of others."""
        return self._norm(module) if isinstance(module, nn.LayerNorm) else None

    def _norm(self, module: nn.LayerNorm) -> Norm:
        # Whoever reads them by address, as the native library does, must find numbers of the products' type.
        dtype = torch.float64 if module.weight.dtype == torch.float64 else torch.float32
        weight, bias = (each.detach().to(dtype).contiguous() for each in (module.weight, module.bias))
        return Norm(weight, bias, module.eps)

    def _self_attention(self, attention: Attention) -> SelfAttention:
        return SelfAttention(self._heads(attention.query, attention.key, attention.value), self._output(attention))

    def _feedforward(self, layer: FeedForward) -> Feedforward:
        gate = None if layer.gate is None else self._linear(layer.gate)
        return Feedforward(self._linear(layer.inner), gate, self._linear(layer.outer))

    def _linear(self, layer: Linear) -> Product:
        product = self._product(layer.weight, layer.bias)
        self._done(layer.weight)
        return product

    def _heads(self, *layers: Linear) -> Product:
        """What several layers make of the same input, head beside head, in one product."""
        weight = torch.cat([self._wider(each.weight) for each in layers])
        biases = [self._wider(each.bias[:, None])[:, 0] for each in layers if each.bias is not None]
        product = self._product(weight, torch.cat(biases) if biases else None)
        self._done(*(each.weight for each in layers))
        return product

    def _output(self, attention: Attention) -> Product:
        layer = attention.output
        product = self._product(self._wider(layer.weight.t()).t(), layer.bias)
        self._done(layer.weight)
        return product

    def _wider(self, rows: Tensor) -> Tensor:
        """[heads·head_dim, N] → [heads·head_width, N], zeros behind each head."""
        missing = self.head_width - self.head_dim
        if not missing:
            return rows.detach()
        heads = rows.detach().reshape(-1, self.head_dim, rows.shape[1])
        return F.pad(heads, (0, 0, 0, missing)).flatten(0, 1)

    def _product(self, weight: Tensor, bias: Tensor | None) -> Product:
        return make_product(weight.contiguous(), bias, self.precision, native=self.native, arena=self.arena)

    def _done(self, *parameters: Tensor) -> None:
        if self.consume:
            for parameter in parameters:
                parameter.data = parameter.data.new_empty(0)
