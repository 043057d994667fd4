"""Named sizes. A preset is a function; what it is given beside the vocabulary overrides its figures.

>>> big(vocab_size=37000).d_model
1024
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure
from clearhead.config.toml import merge
from clearhead.models.config import ModelConfig, TransformerConfig
from clearhead.models.convolutional_presets import bytenet, bytenet_tiny, convs2s, convs2s_tiny
from clearhead.models.recurrent_presets import (
    luong_local_p,
    luong_local_p_tiny,
    rnnsearch,
    rnnsearch_tiny,
    seq2seq,
    seq2seq_tiny,
)

__all__ = ["PRESETS", "TRANSFORMERS", "base", "bench_tiny", "big", "named", "small", "tiny"]


def _preset(figures: dict[str, Any], vocab_size: int, overrides: dict[str, Any]) -> TransformerConfig:
    table = merge(figures | {"vocab_size": vocab_size}, overrides)
    return structure(TransformerConfig, table, under="model")


def tiny(vocab_size: int, **overrides: Any) -> TransformerConfig:
    """Trains in minutes on two cores: for a first try, for tests and for corpora of some 20,000 short pairs.

    Pre-norm, unlike the paper's models: with so few updates post-norm is still at the start when pre-norm is done (the
    demo's corpus, 600 updates with a peak rate of 0.003: perplexity 369 against 44).
    """
    figures: dict[str, Any] = {
        "d_model": 128,
        "d_ff": 512,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "attention": {"heads": 4},
        "dropout": 0.1,
        "norm": "pre",
    }
    return _preset(figures, vocab_size, overrides)


def small(vocab_size: int, **overrides: Any) -> TransformerConfig:
    """For a few hundred thousand pairs, or a patient CPU: half the base model's width, pre-norm, more dropout."""
    figures: dict[str, Any] = {
        "d_model": 256,
        "d_ff": 1024,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "attention": {"heads": 4},
        "dropout": 0.2,
        "norm": "pre",
    }
    return _preset(figures, vocab_size, overrides)


def base(vocab_size: int, **overrides: Any) -> TransformerConfig:
    """The paper's base model: N 6, d_model 512, d_ff 2048, h 8, P_drop 0.1 (Vaswani et al. 2017, Table 3, "base")."""
    figures: dict[str, Any] = {
        "d_model": 512,
        "d_ff": 2048,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "attention": {"heads": 8},
        "dropout": 0.1,
    }
    return _preset(figures, vocab_size, overrides)


def big(vocab_size: int, **overrides: Any) -> TransformerConfig:
    """The paper's big model: N 6, d_model 1024, d_ff 4096, h 16, P_drop 0.3 (Table 3, "big").

    0.3 is the rate for English–German; the English–French model used 0.1 (§6.1).
    """
    figures: dict[str, Any] = {
        "d_model": 1024,
        "d_ff": 4096,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "attention": {"heads": 16},
        "dropout": 0.3,
    }
    return _preset(figures, vocab_size, overrides)


def bench_tiny(vocab_size: int = 8000, **overrides: Any) -> TransformerConfig:
    """The small model of our speed benchmarks: 4+4 layers, d_model 256, d_ff 1024, 4 heads, 8k vocabulary."""
    figures: dict[str, Any] = {
        "d_model": 256,
        "d_ff": 1024,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "attention": {"heads": 4},
        "dropout": 0.1,
    }
    return _preset(figures, vocab_size, overrides)


TRANSFORMERS: dict[str, Callable[..., TransformerConfig]] = {
    "tiny": tiny,
    "small": small,
    "base": base,
    "big": big,
    "bench-tiny": bench_tiny,
}

PRESETS: dict[str, Callable[..., ModelConfig]] = {
    **TRANSFORMERS,
    "seq2seq": seq2seq,
    "rnnsearch": rnnsearch,
    "luong-local-p": luong_local_p,
    "convs2s": convs2s,
    "bytenet": bytenet,
    "seq2seq-tiny": seq2seq_tiny,
    "rnnsearch-tiny": rnnsearch_tiny,
    "luong-local-p-tiny": luong_local_p_tiny,
    "convs2s-tiny": convs2s_tiny,
    "bytenet-tiny": bytenet_tiny,
}


def named(name: str, vocab_size: int, overrides: dict[str, Any] | None = None) -> ModelConfig:
    """The preset called `name`; `ConfigError` with the list of names otherwise."""
    if name not in PRESETS:
        from difflib import get_close_matches

        close = get_close_matches(name, PRESETS, 1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ConfigError(f"model.preset: unknown preset {name!r}{hint}; there are {', '.join(PRESETS)}")
    return PRESETS[name](vocab_size=vocab_size, **(overrides or {}))
