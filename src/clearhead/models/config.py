"""What a model is, in figures; every value of the paper is cited in `presets`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from clearhead.config.strict import Config
from clearhead.nn.attention import AttentionConfig
from clearhead.nn.feedforward import Activation
from clearhead.nn.residual import NormPlacement

__all__ = ["LearnedConfig", "ModelConfig", "SinusoidalConfig", "TransformerConfig"]

# Far above any real model: a configuration out of a bundle must not be able to fill the memory before it is checked.
MOST_TOKENS, MOST_WIDE, MOST_LAYERS = 1 << 24, 1 << 16, 1 << 10


class SinusoidalConfig(Config):
    """Fixed sinusoids, for any length."""

    kind: Literal["sinusoidal"] = "sinusoidal"


class LearnedConfig(Config):
    """A learnt vector for each of the first `max_positions` positions; longer text is refused."""

    kind: Literal["learned"] = "learned"
    max_positions: int = Field(default=1024, ge=1, le=MOST_TOKENS)


class TransformerConfig(Config):
    """An encoder–decoder Transformer; the defaults are the paper's base model."""

    kind: Literal["transformer"] = "transformer"
    vocab_size: int = Field(ge=5, le=MOST_TOKENS)
    """Size of the target vocabulary, and of the source's unless `source_vocab_size` says otherwise."""
    source_vocab_size: int | None = Field(default=None, ge=5, le=MOST_TOKENS)
    """Only with `embeddings` "output" or "separate"."""
    embeddings: Literal["tied", "output", "separate"] = "tied"
    """tied: one matrix for source, target and output (§3.4); output: target and output share; separate: three."""
    d_model: int = Field(default=512, ge=1, le=MOST_WIDE)
    d_ff: int = Field(default=2048, ge=1, le=4 * MOST_WIDE)
    encoder_layers: int = Field(default=6, ge=1, le=MOST_LAYERS)
    decoder_layers: int = Field(default=6, ge=1, le=MOST_LAYERS)
    attention: AttentionConfig = AttentionConfig()
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """P_drop: on the sum of embedding and position, and on each sub-layer's output before the residual (§5.4)."""
    norm: NormPlacement = "post"
    activation: Activation = "relu"
    positions: Annotated[SinusoidalConfig | LearnedConfig, Field(discriminator="kind")] = SinusoidalConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.embeddings == "tied" and self.source_vocab_size not in (None, self.vocab_size):
            raise ValueError(
                f"embeddings = 'tied' needs one vocabulary, not source_vocab_size {self.source_vocab_size} beside "
                f"vocab_size {self.vocab_size}; use a joint tokenizer or embeddings = 'output'"
            )
        heads, kv_heads = self.attention.heads, self.attention.kv_heads or self.attention.heads
        if self.attention.head_dim is None and self.d_model % heads:
            raise ValueError(f"d_model {self.d_model} is not a multiple of attention.heads {heads}")
        if heads % kv_heads:
            raise ValueError(f"attention.heads {heads} is not a multiple of attention.kv_heads {kv_heads}")
        return self


ModelConfig = TransformerConfig
"""The union of all architectures, told apart by `kind`; the type is the registry."""
