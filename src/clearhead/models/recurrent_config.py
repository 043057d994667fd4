"""What the recurrent encoders and decoders are, in figures; every value of a paper is cited in `presets`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clearhead.config.strict import Config
from clearhead.models.bounds import MOST_LAYERS, MOST_TOKENS, MOST_WIDE
from clearhead.nn.recurrent import CellKind
from clearhead.nn.scores import ScoreKind

__all__ = [
    "BahdanauConfig",
    "EncDecConfig",
    "LuongConfig",
    "RecurrentEncoderConfig",
    "Seq2SeqConfig",
    "Window",
]

Window = Literal["global", "local-m", "local-p"]
"""Which positions attention reads: all, those about the step's own, those about a place that is predicted."""


class RecurrentEncoderConfig(Config):
    """A stack of recurrent layers over the source."""

    kind: Literal["recurrent"] = "recurrent"
    embedding: int = Field(default=512, ge=1, le=MOST_WIDE)
    """Width of the word vectors (m in Bahdanau et al. 2015)."""
    cell: CellKind = "lstm"
    layers: int = Field(default=1, ge=1, le=MOST_LAYERS)
    width: int = Field(default=512, ge=1, le=MOST_WIDE)
    """Units a layer and direction."""
    bidirectional: bool = False
    reverse: bool = False
    """Read each source backwards, EOS last: c b a EOS (Sutskever et al. 2014, §3.3)."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """On the word vectors and between layers, never from step to step (Zaremba et al. 2014, §3.1)."""

    @property
    def memory_width(self) -> int:
        """Width of what a decoder attends to: both directions side by side."""
        return 2 * self.width if self.bidirectional else self.width


class Seq2SeqConfig(Config):
    """A decoder that has nothing of the source but its first state (Sutskever et al. 2014)."""

    kind: Literal["seq2seq"] = "seq2seq"
    embedding: int = Field(default=512, ge=1, le=MOST_WIDE)
    cell: CellKind = "lstm"
    layers: int = Field(default=1, ge=1, le=MOST_LAYERS)
    width: int = Field(default=512, ge=1, le=MOST_WIDE)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)

    @property
    def output_width(self) -> int:
        """Width of what is projected onto the vocabulary."""
        return self.width


class EncDecConfig(Config):
    """A decoder that reads one fixed vector of the source at every step: RNNencdec (Cho et al. 2014)."""

    kind: Literal["encdec"] = "encdec"
    embedding: int = Field(default=512, ge=1, le=MOST_WIDE)
    cell: CellKind = "gru-before"
    layers: int = Field(default=1, ge=1, le=MOST_LAYERS)
    width: int = Field(default=512, ge=1, le=MOST_WIDE)
    readout: int = Field(default=256, ge=1, le=MOST_WIDE)
    """Maxout units before the output (l)."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)

    @property
    def output_width(self) -> int:
        """Width of what is projected onto the vocabulary."""
        return self.readout


class BahdanauConfig(Config):
    """A decoder that asks the source with its last state, s_{i−1}: RNNsearch (Bahdanau et al. 2015)."""

    kind: Literal["bahdanau"] = "bahdanau"
    embedding: int = Field(default=512, ge=1, le=MOST_WIDE)
    cell: CellKind = "gru-before"
    width: int = Field(default=512, ge=1, le=MOST_WIDE)
    attention: int = Field(default=512, ge=1, le=MOST_WIDE)
    """Hidden units of the alignment model (n′)."""
    readout: int = Field(default=256, ge=1, le=MOST_WIDE)
    """Maxout units before the output (l)."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)

    @property
    def output_width(self) -> int:
        """Width of what is projected onto the vocabulary."""
        return self.readout


class LuongConfig(Config):
    """A decoder that asks the source with its present state, h_t (Luong et al. 2015)."""

    kind: Literal["luong"] = "luong"
    embedding: int = Field(default=512, ge=1, le=MOST_WIDE)
    cell: CellKind = "lstm"
    layers: int = Field(default=1, ge=1, le=MOST_LAYERS)
    width: int = Field(default=512, ge=1, le=MOST_WIDE)
    score: ScoreKind = "general"
    """dot needs an encoder as wide as the decoder (§3.1, equations 7 and 8)."""
    window: Window = "global"
    half_width: int = Field(default=10, ge=1, le=MOST_TOKENS)
    """D: local attention reads the positions from p_t − D to p_t + D (§3.2)."""
    location_positions: int = Field(default=512, ge=1, le=MOST_TOKENS)
    """Only with score location: positions that it knows of (equation 8); those beyond are never read."""
    input_feeding: bool = True
    """Feed h̃_{t−1} beside the word (§3.3): better, but teacher forcing must go step by step."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)

    @property
    def output_width(self) -> int:
        """Width of what is projected onto the vocabulary."""
        return self.width
