"""Bytes: weights, what the optimizer keeps, what a forward pass saves for the backward pass, caches, score matrices."""

from __future__ import annotations

from clearhead.analysis.parameters import parameters
from clearhead.analysis.sizes import Lengths, attention_widths
from clearhead.models.config import LearnedConfig, TransformerConfig

__all__ = ["DTYPES", "activations", "kv_cache", "optimizer_state", "score_matrices", "weights"]

DTYPES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of one number."""
INDEX = 8
"""Bytes of one token id or position."""


def weights(config: TransformerConfig, size: int) -> int:
    """The parameters, `size` bytes each; gradients take as much again while training."""
    return parameters(config)["total"] * size


def optimizer_state(config: TransformerConfig, size: int) -> int:
    """Adam's two moments of every parameter (Kingma and Ba 2015, algorithm 1).

    Beside them PyTorch keeps a counter of 4 bytes for each tensor, which is not counted here.
    """
    return 2 * weights(config, size)


def kv_cache(config: TransformerConfig, lengths: Lengths, size: int, beam: int = 1) -> dict[str, int]:
    """Keys and values that a decoder keeps: of its own `target` positions, and of the `source`'s.

    2·L·G·E numbers a position. The first part grows by one position a step, and each of the `beam` hypotheses of a
    sentence has its own; the second is written once a sentence, and all its hypotheses read it.
    """
    _, kept = attention_widths(config)
    position = 2 * config.decoder_layers * kept * lengths.batch * size
    return {"self": position * lengths.target * beam, "cross": position * lengths.source}


def score_matrices(config: TransformerConfig, lengths: Lengths, size: int) -> dict[str, int]:
    """One layer's matrix of scores, written out: H·T·S numbers a sentence, for each kind of attention.

    A fused kernel (FlashAttention, Dao et al. 2022) never writes it.
    """
    n, m, number = lengths.source, lengths.target, config.attention.heads * lengths.batch * size
    return {"encoder self": number * n * n, "decoder self": number * m * m, "decoder cross": number * m * n}


def activations(config: TransformerConfig, lengths: Lengths, size: int) -> dict[str, int]:
    """What autograd holds when the loss is computed and nothing has flowed back yet, parameters apart.

    Measured in the tests as the distinct storages that `saved_tensors_hooks` sees in a training step and that are still
    alive at its end: with scores written out (which a CPU does up to 128 × 128 of them a head), without autocast and
    without padding. Buffers that come and go on the way are not in it, nor are gradients. `score matrices` is the part
    that a fused attention kernel would not keep; it is contained in the others.
    """
    n, m, batch = lengths.source, lengths.target, lengths.batch
    encoders, decoders = config.encoder_layers, config.decoder_layers
    encoder, decoder = batch * n, batch * m  # rows of each stack
    final = config.norm == "pre"
    parts = {
        "embedding": _embedding(config, encoder) + _embedding(config, decoder),
        "encoder self-attention": encoders * _attention(config, encoder, encoder, n, size),
        "encoder feed-forward": encoders * _feedforward(config, encoder, size),
        "encoder output": final * _norm(config, encoder, size) + encoder * config.d_model * size,
        "decoder self-attention": decoders * _attention(config, decoder, decoder, m, size),
        "decoder cross-attention": decoders * _attention(config, decoder, encoder, n, size),
        "decoder feed-forward": decoders * _feedforward(config, decoder, size),
        "decoder output": final * _norm(config, decoder, size),
        "vocabulary and loss": _vocabulary(config, decoder, size),
    }
    kept = _scores(config, encoder * n, size) * encoders + _scores(config, decoder * (m + n), size) * decoders
    return {**parts, "total": sum(parts.values()), "score matrices": kept}


def _dropped(config: TransformerConfig, rows: int) -> int:
    """The decisions of one dropout over d_model, a byte each."""
    return rows * config.d_model if config.dropout else 0


def _embedding(config: TransformerConfig, rows: int) -> int:
    learnt = isinstance(config.positions, LearnedConfig)
    return rows * INDEX * (2 if learnt else 1) + _dropped(config, rows)


def _norm(config: TransformerConfig, rows: int, size: int) -> int:
    """What a norm read, and a mean and a deviation a row."""
    return rows * (config.d_model + 2) * size


def _residual(config: TransformerConfig, rows: int, size: int) -> int:
    """What the norm read, what the sub-layer read (before a pre-norm or after the last post-norm), the dropout."""
    return _norm(config, rows, size) + rows * config.d_model * size + _dropped(config, rows)


def _scores(config: TransformerConfig, pairs: int, size: int) -> int:
    """The weights of all heads; with dropout on them also the decisions and what is left."""
    each = 2 * size + 1 if config.attention.dropout else size
    return config.attention.heads * pairs * each


def _attention(config: TransformerConfig, rows: int, key_rows: int, keys: int, size: int) -> int:
    """Scaled queries, keys, values and mixed values at the width of all query heads, and the weights.

    Keys and values of shared heads are copied for each query head before they are multiplied, and the copies kept.
    """
    wide, _ = attention_widths(config)
    vectors = (2 * rows + 2 * key_rows) * wide * size
    return _residual(config, rows, size) + vectors + _scores(config, rows * keys, size)


def _feedforward(config: TransformerConfig, rows: int, size: int) -> int:
    """The inner layer: after relu, before and after gelu or silu, or gate, its silu, the other half and the product."""
    tensors = {"relu": 1, "gelu": 2, "silu": 2, "swiglu": 4}[config.activation]
    return _residual(config, rows, size) + tensors * rows * config.d_ff * size


def _vocabulary(config: TransformerConfig, rows: int, size: int) -> int:
    """The hidden states and where they stood, the probabilities (float32 at least) and the gold tokens."""
    return rows * (config.d_model * size + 1 + config.vocab_size * max(size, 4) + INDEX)
