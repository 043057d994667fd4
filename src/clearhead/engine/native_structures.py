"""The structures of native/api.h, and what fills them: a model's matrices and norms as the library reads them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_void_p

from torch import Tensor

from clearhead.engine.products import KINDS, NativeProduct, Product
from clearhead.engine.weights import DecoderLayer, EncoderLayer, Norm, Weights

__all__ = ["STRUCTURES", "Search", "Shape", "declare", "is_double", "shape_of"]

BEND_ORDER = ("relu", "gelu", "swiglu", "silu")  # in the order of Bend in native/kernels.h


class _Matrix(Structure):
    _fields_ = (
        *((name, c_int32) for name in ("kind", "out", "inputs")),
        *((name, c_void_p) for name in ("words", "scales", "offsets", "bias")),
    )


class _Norm(Structure):
    _fields_ = (("gain", c_void_p), ("bias", c_void_p), ("epsilon", c_double))


class _EncoderLayer(Structure):
    _fields_ = (
        *((name, _Matrix) for name in ("qkv", "output", "inner", "gate", "outer")),
        *((name, _Norm) for name in ("attention_norm", "feedforward_norm")),
    )


class _DecoderLayer(Structure):
    _fields_ = (
        *((name, _Matrix) for name in ("qkv", "self_output", "query", "keys_values", "cross_output")),
        *((name, _Matrix) for name in ("inner", "gate", "outer")),
        *((name, _Norm) for name in ("attention_norm", "cross_norm", "feedforward_norm")),
    )


class Shape(Structure):
    """`ch_shape`: a model. It points into the tensors of the `Weights` that it was made of."""

    _fields_ = (
        *((name, c_int32) for name in ("is_double", "d_model", "heads", "kv_heads", "head_width", "pre_norm", "bend")),
        *((name, c_int32) for name in ("encoder_layers", "decoder_layers")),
        *((name, c_double) for name in ("scale", "source_factor", "target_factor")),
        *((name, _Matrix) for name in ("source", "target", "projection")),
        *((name, _Norm) for name in ("encoder_norm", "decoder_norm")),
        ("encoder", POINTER(_EncoderLayer)),
        ("decoder", POINTER(_DecoderLayer)),
    )


class Search(Structure):
    """`ch_search`: sentences, and what is asked for."""

    _fields_ = (
        *((name, c_int32) for name in ("beam", "n_best", "penalty")),
        ("alpha", c_double),
        ("threads", c_int32),
        ("team", c_int32),
        ("budget", c_int64),
        ("sentences", c_int32),
        *((name, c_void_p) for name in ("sources", "source_ends", "prefixes", "prefix_ends", "shortest", "longest")),
        *((name, c_void_p) for name in ("source_positions", "target_positions")),
    )


STRUCTURES: tuple[type[Structure], ...] = (_Matrix, _Norm, _EncoderLayer, _DecoderLayer, Shape, Search)
"""In the order in which `ch_sizes` tells their bytes."""


def declare(handle: ctypes.CDLL) -> None:
    """Tell ctypes what the functions of models and sessions take and return."""
    types: dict[str, tuple[type | None, tuple[type, ...]]] = {
        "ch_sizes": (None, (c_void_p,)),
        "ch_model_new": (c_void_p, (POINTER(Shape),)),
        "ch_model_free": (None, (c_void_p,)),
        "ch_session_new": (c_void_p, (c_void_p, POINTER(Search))),
        "ch_session_run": (c_int32, (c_void_p, c_int32)),
        "ch_session_counts": (c_int64, (c_void_p, c_void_p, c_void_p)),
        "ch_session_read": (None, (c_void_p,) * 5),
        "ch_session_free": (None, (c_void_p,)),
    }
    for name, (result, arguments) in types.items():
        function = getattr(handle, name)
        function.restype, function.argtypes = result, arguments


def is_double(weights: Weights) -> bool:
    """Whether the library is to calculate in float64."""
    return isinstance(weights.projection, NativeProduct) and weights.projection.kind == KINDS["f64"]


def shape_of(weights: Weights) -> Shape:
    """The model of `weights`, all of whose products must be native; it holds pointers into them, so keep them alive."""
    encoder = [_encoder_layer(layer) for layer in weights.encoder]
    decoder = [_decoder_layer(layer) for layer in weights.decoder]
    return Shape(
        is_double=is_double(weights),
        d_model=weights.d_model,
        heads=weights.heads,
        kv_heads=weights.kv_heads,
        head_width=weights.head_width,
        pre_norm=weights.norm == "pre",
        bend=BEND_ORDER.index(weights.activation),
        encoder_layers=len(encoder),
        decoder_layers=len(decoder),
        scale=1.0 / math.sqrt(weights.head_dim),
        source_factor=weights.source.factor,
        target_factor=weights.target.factor,
        source=_matrix(weights.source.table),
        target=_matrix(weights.target.table),
        projection=_matrix(weights.projection),
        encoder_norm=_norm(weights.encoder_norm),
        decoder_norm=_norm(weights.decoder_norm),
        encoder=_array(_EncoderLayer, encoder),
        decoder=_array(_DecoderLayer, decoder),
    )


def _array(kind: type[Structure], items: Sequence[Structure]) -> ctypes.Array[Structure]:
    return (kind * len(items))(*items)


def _encoder_layer(layer: EncoderLayer) -> _EncoderLayer:
    return _EncoderLayer(
        qkv=_matrix(layer.attention.qkv),
        output=_matrix(layer.attention.output),
        inner=_matrix(layer.feedforward.inner),
        gate=_matrix(layer.feedforward.gate),
        outer=_matrix(layer.feedforward.outer),
        attention_norm=_norm(layer.attention_norm),
        feedforward_norm=_norm(layer.feedforward_norm),
    )


def _decoder_layer(layer: DecoderLayer) -> _DecoderLayer:
    return _DecoderLayer(
        qkv=_matrix(layer.attention.qkv),
        self_output=_matrix(layer.attention.output),
        query=_matrix(layer.cross.query),
        keys_values=_matrix(layer.cross.keys_values),
        cross_output=_matrix(layer.cross.output),
        inner=_matrix(layer.feedforward.inner),
        gate=_matrix(layer.feedforward.gate),
        outer=_matrix(layer.feedforward.outer),
        attention_norm=_norm(layer.attention_norm),
        cross_norm=_norm(layer.cross_norm),
        feedforward_norm=_norm(layer.feedforward_norm),
    )


def _matrix(product: Product | None) -> _Matrix:
    if product is None:
        return _Matrix()
    if not isinstance(product, NativeProduct):
        raise TypeError(f"a product of the native library is needed, not {type(product).__name__}")
    return _Matrix(
        product.kind,
        product.outputs,
        product.inputs,
        _pointer(product.words),
        _pointer(product.scales),
        _pointer(product.offsets),
        _pointer(product.bias),
    )


def _norm(norm: Norm | None) -> _Norm:
    return _Norm() if norm is None else _Norm(_pointer(norm.weight), _pointer(norm.bias), norm.epsilon)


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
