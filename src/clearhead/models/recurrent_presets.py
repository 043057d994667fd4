"""The ancestors as printed, and a small one of each that trains in minutes on two cores.

>>> rnnsearch(vocab_size=30000).decoder.readout
500
"""

from __future__ import annotations

from typing import Any

from clearhead.config.strict import structure
from clearhead.config.toml import merge
from clearhead.models.config import MixedConfig

__all__ = [
    "luong_local_p",
    "luong_local_p_tiny",
    "mixed_preset",
    "rnnsearch",
    "rnnsearch_tiny",
    "seq2seq",
    "seq2seq_tiny",
]


def mixed_preset(
    encoder: dict[str, Any], decoder: dict[str, Any], vocab_size: int, given: dict[str, Any]
) -> MixedConfig:
    """The mixed model of these two parts, with what was `given` laid over their figures."""
    figures = {"kind": "mixed", "encoder": encoder, "decoder": decoder, "vocab_size": vocab_size}
    return structure(MixedConfig, merge(figures, given), under="model")


def seq2seq(vocab_size: int, **overrides: Any) -> MixedConfig:
    """Four layers of 1000 LSTM cells, 1000-dimensional words, the source reversed (Sutskever et al. 2014, §3.3, §3.4).

    Vocabularies there: 160,000 and 80,000. No dropout is named.
    """
    figures = {"embedding": 1000, "cell": "lstm", "layers": 4, "width": 1000}
    return mixed_preset(
        {"kind": "recurrent", "reverse": True, **figures}, {"kind": "seq2seq", **figures}, vocab_size, overrides
    )


def rnnsearch(vocab_size: int, **overrides: Any) -> MixedConfig:
    """n 1000, m 620, l 500, n′ 1000 (Bahdanau et al. 2015, §4.2, A.2.3): RNNsearch; 30,000 words a side there."""
    figures = {"embedding": 620, "cell": "gru-before", "width": 1000}
    return mixed_preset(
        {"kind": "recurrent", "layers": 1, "bidirectional": True, **figures},
        {"kind": "bahdanau", "attention": 1000, "readout": 500, **figures},
        vocab_size,
        overrides,
    )


def luong_local_p(vocab_size: int, **overrides: Any) -> MixedConfig:
    """Four layers of 1000 LSTM cells, local-p with general, D 10, input feeding, source reversed, dropout 0.2.

    Luong et al. 2015, §4.1 (D too) and Table 1, its best single model; 50,000 words a side there.
    """
    figures = {"embedding": 1000, "cell": "lstm", "layers": 4, "width": 1000, "dropout": 0.2}
    attention = {"score": "general", "window": "local-p", "half_width": 10, "input_feeding": True}
    return mixed_preset(
        {"kind": "recurrent", "reverse": True, **figures},
        {"kind": "luong", **attention, **figures},
        vocab_size,
        overrides,
    )


def _parts(decoder: str, in_encoder: dict[str, Any], in_decoder: dict[str, Any]) -> dict[str, Any]:
    """Both parts at a width of 128. Each names its kind, so that an override of another kind replaces it whole."""
    small = {"embedding": 128, "width": 128, "dropout": 0.1}
    return {
        "encoder": {"kind": "recurrent", **small, **in_encoder},
        "decoder": {"kind": decoder, **small, **in_decoder},
    }


def seq2seq_tiny(vocab_size: int, **overrides: Any) -> MixedConfig:
    """`seq2seq` with two layers of 128."""
    return seq2seq(vocab_size, **merge(_parts("seq2seq", {"layers": 2}, {"layers": 2}), overrides))


def rnnsearch_tiny(vocab_size: int, **overrides: Any) -> MixedConfig:
    """`rnnsearch` with n, m, l and n′ of 128."""
    return rnnsearch(vocab_size, **merge(_parts("bahdanau", {}, {"attention": 128, "readout": 128}), overrides))


def luong_local_p_tiny(vocab_size: int, **overrides: Any) -> MixedConfig:
    """`luong-local-p` with two layers of 128."""
    return luong_local_p(vocab_size, **merge(_parts("luong", {"layers": 2}, {"layers": 2}), overrides))
