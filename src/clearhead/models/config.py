"""What a model is, in figures; every value of the paper is cited in `presets`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from clearhead.config.strict import Config
from clearhead.models.bounds import MOST_LAYERS, MOST_TOKENS, MOST_WIDE
from clearhead.models.convolutional_config import (
    ByteNetConfig,
    ConvolutionalEncoderConfig,
    ConvS2SConfig,
    DilatedEncoderConfig,
)
from clearhead.models.recurrent_config import (
    BahdanauConfig,
    EncDecConfig,
    LuongConfig,
    RecurrentEncoderConfig,
    Seq2SeqConfig,
)
from clearhead.nn.attention import AttentionConfig
from clearhead.nn.feedforward import Activation
from clearhead.nn.residual import LAYER_NORM_EPSILON, NormPlacement

__all__ = [
    "Embeddings",
    "LearnedConfig",
    "MixedConfig",
    "ModelConfig",
    "NoPositionsConfig",
    "Positions",
    "SinusoidalConfig",
    "TransformerConfig",
    "TransformerStackConfig",
]

Embeddings = Literal["tied", "output", "separate"]


class SinusoidalConfig(Config):
    """Fixed sinusoids, for any length, or with `max_positions` for so many positions: longer text is refused."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    max_positions: int | None = Field(default=None, ge=1, le=MOST_TOKENS)


class LearnedConfig(Config):
    """A learnt vector for each of the first `max_positions` positions; longer text is refused."""

    kind: Literal["learned"] = "learned"
    max_positions: int = Field(default=1024, ge=1, le=MOST_TOKENS)


class NoPositionsConfig(Config):
    """No positions at all: what the order of the words is worth shows in what is lost without it."""

    kind: Literal["none"] = "none"


Positions = Annotated[SinusoidalConfig | LearnedConfig | NoPositionsConfig, Field(discriminator="kind")]
"""What tells a Transformer the order of its input."""


class TransformerConfig(Config):
    """An encoder–decoder Transformer; the defaults are the paper's base model."""

    kind: Literal["transformer"] = "transformer"
    vocab_size: int = Field(ge=5, le=MOST_TOKENS)
    """Size of the target vocabulary, and of the source's unless `source_vocab_size` says otherwise."""
    source_vocab_size: int | None = Field(default=None, ge=5, le=MOST_TOKENS)
    """Only with `embeddings` "output" or "separate"."""
    embeddings: Embeddings = "tied"
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
    positions: Positions = SinusoidalConfig()
    layer_norm_epsilon: float = Field(default=LAYER_NORM_EPSILON, gt=0.0, le=0.01)
    """Inside the root of every norm; others' models have 1e-5."""
    scale_embeddings: bool = True
    """Word vectors enter times √D (§3.4)."""
    output_bias: bool = False
    """A bias on the logits, as models of Marian may have; the paper's has none."""

    @property
    def max_positions(self) -> int | None:
        """The longest text that it can read, in tokens with the specials; None where nothing limits it."""
        return min(self.position_limits.values(), default=None)

    @property
    def position_limits(self) -> dict[str, int]:
        """The keys that limit the length of a text, each with its limit."""
        return _limited("", self.positions)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.embeddings == "tied" and self.source_vocab_size not in (None, self.vocab_size):
            raise ValueError(
                f"embeddings = 'tied' needs one vocabulary, not source_vocab_size {self.source_vocab_size} beside "
                f"vocab_size {self.vocab_size}; use a joint tokenizer or embeddings = 'output'"
            )
        _check_heads(self.attention, self.d_model)
        return self


def _limited(where: str, positions: SinusoidalConfig | LearnedConfig | NoPositionsConfig) -> dict[str, int]:
    limit = None if isinstance(positions, NoPositionsConfig) else positions.max_positions
    return {} if limit is None else {f"{where}positions.max_positions": limit}


def _check_heads(attention: AttentionConfig, d_model: int) -> None:
    heads, kv_heads = attention.heads, attention.kv_heads or attention.heads
    if attention.head_dim is None and d_model % heads:
        raise ValueError(f"d_model {d_model} is not a multiple of attention.heads {heads}")
    if heads % kv_heads:
        raise ValueError(f"attention.heads {heads} is not a multiple of attention.kv_heads {kv_heads}")


class TransformerStackConfig(Config):
    """The Transformer's encoder, or its decoder, beside a part of another kind."""

    kind: Literal["transformer"] = "transformer"
    d_model: int = Field(default=512, ge=1, le=MOST_WIDE)
    d_ff: int = Field(default=2048, ge=1, le=4 * MOST_WIDE)
    layers: int = Field(default=6, ge=1, le=MOST_LAYERS)
    attention: AttentionConfig = AttentionConfig()
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    norm: NormPlacement = "post"
    activation: Activation = "relu"
    positions: Positions = SinusoidalConfig()

    @property
    def embedding(self) -> int:
        """Width of the word vectors."""
        return self.d_model

    @property
    def width(self) -> int:
        """Width of the stack."""
        return self.d_model

    @property
    def memory_width(self) -> int:
        """Width of what a decoder attends to."""
        return self.d_model

    @property
    def output_width(self) -> int:
        """Width of what is projected onto the vocabulary."""
        return self.d_model

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _check_heads(self.attention, self.d_model)
        return self

    def whole(self, vocab_size: int) -> TransformerConfig:
        """The Transformer of which this is a half."""
        return TransformerConfig(
            vocab_size=vocab_size,
            d_model=self.d_model,
            d_ff=self.d_ff,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            attention=self.attention,
            dropout=self.dropout,
            norm=self.norm,
            activation=self.activation,
            positions=self.positions,
        )


EncoderConfig = Annotated[
    RecurrentEncoderConfig | ConvolutionalEncoderConfig | DilatedEncoderConfig | TransformerStackConfig,
    Field(discriminator="kind"),
]
DecoderConfig = Annotated[
    LuongConfig
    | BahdanauConfig
    | Seq2SeqConfig
    | EncDecConfig
    | ConvS2SConfig
    | ByteNetConfig
    | TransformerStackConfig,
    Field(discriminator="kind"),
]


class MixedConfig(Config):
    """An encoder and a decoder chosen separately: the ancestors, and their mixtures with the Transformer."""

    kind: Literal["mixed"] = "mixed"
    vocab_size: int = Field(ge=5, le=MOST_TOKENS)
    """Size of the target vocabulary, and of the source's unless `source_vocab_size` says otherwise."""
    source_vocab_size: int | None = Field(default=None, ge=5, le=MOST_TOKENS)
    """Only with `embeddings` "output" or "separate"."""
    embeddings: Embeddings = "separate"
    """separate: three matrices, as the ancestors had; output: target and output share; tied: all three do."""
    encoder: EncoderConfig = RecurrentEncoderConfig()
    decoder: DecoderConfig = LuongConfig()

    @property
    def d_model(self) -> int:
        """The decoder's width, for a schedule that goes by the width (Vaswani et al. 2017, §5.3)."""
        return self.decoder.width

    @property
    def max_positions(self) -> int | None:
        """The longest text that both parts can read, in tokens with the specials; None where nothing limits it."""
        return min(self.position_limits.values(), default=None)

    @property
    def position_limits(self) -> dict[str, int]:
        """The keys that limit the length of a text, each with its limit."""
        limits: dict[str, int] = {}
        for name, part in (("encoder", self.encoder), ("decoder", self.decoder)):
            if isinstance(part, ConvolutionalEncoderConfig | ConvS2SConfig):
                limits[f"{name}.max_positions"] = part.max_positions
            elif isinstance(part, TransformerStackConfig):
                limits |= _limited(f"{name}.", part.positions)
        return limits

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        encoder, decoder = self.encoder, self.decoder
        if self.embeddings == "tied" and self.source_vocab_size not in (None, self.vocab_size):
            raise ValueError(
                f"embeddings = 'tied' needs one vocabulary, not source_vocab_size {self.source_vocab_size} beside "
                f"vocab_size {self.vocab_size}; use a joint tokenizer or embeddings = 'separate'"
            )
        if self.embeddings != "separate" and decoder.embedding != decoder.output_width:
            raise ValueError(
                f"embeddings = {self.embeddings!r} needs target vectors as wide as the output, not {decoder.embedding} "
                f"beside {decoder.output_width}; change one of them or set embeddings = 'separate'"
            )
        if self.embeddings == "tied" and encoder.embedding != decoder.embedding:
            raise ValueError(
                f"embeddings = 'tied' needs word vectors of one width, not {encoder.embedding} in the encoder beside "
                f"{decoder.embedding} in the decoder; change one of them or set embeddings = 'separate'"
            )
        if isinstance(decoder, LuongConfig) and decoder.score == "dot" and encoder.memory_width != decoder.width:
            raise ValueError(
                f"decoder.score = 'dot' multiplies states of one width, not {encoder.memory_width} of the encoder and "
                f"{decoder.width} of the decoder; change one of them or set decoder.score = 'general'"
            )
        return self


ModelConfig = Annotated[TransformerConfig | MixedConfig, Field(discriminator="kind")]
"""The union of all architectures, told apart by `kind`; the type is the registry."""
