"""Small models that differ in everything an account depends on."""

from clearhead.models import presets
from clearhead.models.config import ModelConfig

__all__ = ["CONFIGURATIONS"]

FIGURES = {"vocab_size": 50, "d_model": 16, "d_ff": 40, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.1}

CONFIGURATIONS: dict[str, ModelConfig] = {
    name: presets.tiny(**{**FIGURES, "attention": {"heads": 4}, "norm": "post", **changed})
    for name, changed in {
        "post-norm": {},
        "pre-norm": {"norm": "pre"},
        "no dropout": {"dropout": 0.0},
        "gelu": {"activation": "gelu"},
        "swiglu": {"activation": "swiglu", "norm": "pre"},
        "biases": {"attention": {"heads": 4, "bias": True}},
        "one key head": {"attention": {"heads": 4, "kv_heads": 1, "bias": True}},
        "two key heads": {"attention": {"heads": 4, "kv_heads": 2}},
        "wide heads": {"attention": {"heads": 3, "head_dim": 7}},
        "attention dropout": {"attention": {"heads": 2, "dropout": 0.2}},
        "learned positions": {"positions": {"kind": "learned", "max_positions": 33}},
        "no positions": {"positions": {"kind": "none"}},
        "separate": {"embeddings": "separate"},
        "two vocabularies": {"embeddings": "output", "source_vocab_size": 70},
        "shared output": {"embeddings": "output"},
    }.items()
}
