"""A Transformer of clearhead as a model of CTranslate2, written from its own weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.export.extra import program
from clearhead.models.config import TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.attention import Attention
from clearhead.nn.embedding import Projection
from clearhead.nn.feedforward import FeedForward
from clearhead.nn.linear import Linear
from clearhead.nn.positions import SinusoidalPositions
from clearhead.text.symbols import BOS, EOS, UNK

__all__ = ["MOST_POSITIONS", "ctranslate2_spec", "to_ctranslate2"]

MOST_POSITIONS = 2048
"""For how many tokens of a text the other program gets positions, where the model itself sets no limit."""

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}


def ctranslate2_spec(model: Seq2Seq, config: TransformerConfig, source: Sequence[str], target: Sequence[str]) -> Any:
    """The `ctranslate2.specs.TransformerSpec` of `model`, in float32; `source` and `target` are the pieces by id.

    Sources come without EOS, which it adds itself. Raises InputError if ctranslate2 is missing, or a piece stands for
    two ids.
    """
    specs = program("ctranslate2").specs
    heads, kv_heads, head_dim = config.attention.widths(config.d_model)
    common = {
        "num_heads": heads,
        "pre_norm": config.norm == "pre",
        "activation": getattr(specs.Activation, ACTIVATIONS[config.activation]),
        "ffn_glu": config.activation == "swiglu",
        "num_heads_kv": kv_heads if kv_heads != heads else None,
        "head_dim": head_dim if head_dim * heads != config.d_model else None,
    }
    encoder = specs.TransformerEncoderSpec(config.encoder_layers, **common)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, **common)
    spec = specs.TransformerSpec(encoder, decoder)
    _fill_encoder(encoder, model.encoder, config)
    _fill_decoder(decoder, model.decoder, config)
    for side, pieces in (("source", source), ("target", target)):
        if len(set(pieces)) != len(pieces):
            twice = next(piece for piece in pieces if list(pieces).count(piece) > 1)
            raise InputError(f"the {side} piece {twice!r} stands for two ids, and CTranslate2 knows pieces by name")
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = target[UNK], target[BOS], target[EOS]
    spec.config.decoder_start_token = target[BOS]
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    return spec


def to_ctranslate2(
    model: Seq2Seq, config: TransformerConfig, source: Sequence[str], target: Sequence[str], directory: Path
) -> None:
    """Write `ctranslate2_spec` into `directory`, which exists: model.bin, config.json and the vocabularies.

    The weights are float32; whoever loads them chooses how they are computed with (`compute_type="int8"`).
    """
    spec = ctranslate2_spec(model, config, source, target)
    spec.validate()
    spec.optimize()
    spec.save(str(directory))


def _fill_encoder(spec: Any, encoder: Any, config: TransformerConfig) -> None:
    _fill_input(spec, spec.embeddings[0], encoder.input, config)
    for layer, into in zip(encoder.layers, spec.layer, strict=True):
        _fill_attention(into.self_attention, layer.attention, layer.attention_residual, crossing=False)
        _fill_feedforward(into.ffn, layer.feedforward, layer.feedforward_residual)
    if config.norm == "pre":
        _fill_norm(spec.layer_norm, encoder.norm)


def _fill_decoder(spec: Any, decoder: Any, config: TransformerConfig) -> None:
    _fill_input(spec, spec.embeddings, decoder.input, config)
    for layer, into in zip(decoder.layers, spec.layer, strict=True):
        _fill_attention(into.self_attention, layer.self_attention, layer.self_attention_residual, crossing=False)
        _fill_attention(into.attention, layer.cross_attention, layer.cross_attention_residual, crossing=True)
        _fill_feedforward(into.ffn, layer.feedforward, layer.feedforward_residual)
    if config.norm == "pre":
        _fill_norm(spec.layer_norm, decoder.norm)
    _fill_linear(spec.projection, decoder.output)


def _fill_input(spec: Any, embeddings: Any, layer: Any, config: TransformerConfig) -> None:
    embeddings.weight = _array(layer.embedding.weight)
    spec.scale_embeddings = float(layer.embedding.factor)
    count = layer.positions.max_positions or MOST_POSITIONS
    like = torch.zeros(1, count, config.d_model)
    positions: nn.Module = layer.positions
    if isinstance(positions, SinusoidalPositions):  # a table of their own, not grown in the model
        positions = SinusoidalPositions(config.d_model)
    spec.position_encodings.encodings = _array(positions(torch.arange(count)[None], like)[0])


def _fill_attention(spec: Any, attention: Attention, residual: Any, *, crossing: bool) -> None:
    """Self-attention has queries, keys and values in one matrix, cross-attention the queries apart."""
    maps = [attention.query, attention.key, attention.value]
    if crossing:
        _fill_fused(spec.linear[0], maps[:1])
        _fill_fused(spec.linear[1], maps[1:])
    else:
        _fill_fused(spec.linear[0], maps)
    _fill_linear(spec.linear[-1], attention.output)
    _fill_norm(spec.layer_norm, residual.norm)


def _fill_feedforward(spec: Any, feedforward: FeedForward, residual: Any) -> None:
    if feedforward.gate is None:
        _fill_linear(spec.linear_0, feedforward.inner)
    else:
        _fill_linear(spec.linear_0, feedforward.gate)
        _fill_linear(spec.linear_0_noact, feedforward.inner)
    _fill_linear(spec.linear_1, feedforward.outer)
    _fill_norm(spec.layer_norm, residual.norm)


def _fill_fused(spec: Any, maps: Sequence[Linear]) -> None:
    spec.weight = _array(torch.cat([each.weight for each in maps]))
    biases: list[Tensor] = [each.bias for each in maps if each.bias is not None]
    if biases:
        spec.bias = _array(torch.cat(biases))


def _fill_linear(spec: Any, linear: Linear | Projection) -> None:
    spec.weight = _array(linear.weight)
    if linear.bias is not None:
        spec.bias = _array(linear.bias)


def _fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().to("cpu", torch.float32).contiguous().numpy()
