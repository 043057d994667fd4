"""What the convolutional encoders and decoders are, in figures; every value of a paper is cited in the presets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from clearhead.config.strict import Config
from clearhead.models.bounds import MOST_LAYERS, MOST_TOKENS, MOST_WIDE

__all__ = ["Block", "ByteNetConfig", "ConvS2SConfig", "ConvolutionalEncoderConfig", "DilatedEncoderConfig"]


class Block(Config):
    """`times` layers of one width and kernel."""

    width: int = Field(default=512, ge=1, le=MOST_WIDE)
    kernel: int = Field(default=3, ge=1, le=1024)
    times: int = Field(default=1, ge=1, le=MOST_LAYERS)


class _Gated(Config):
    """What the two halves of ConvS2S have in common."""

    embedding: int = Field(default=512, ge=1, le=MOST_WIDE)
    """Width of the word vectors, of the memory and of the output (f in Gehring et al. 2017, §3.1)."""
    blocks: tuple[Block, ...] = (Block(times=4),)
    """The layers from below; none may change its width without a reason, for each change costs a matrix."""
    max_positions: int = Field(default=1024, ge=1, le=MOST_TOKENS)
    """Positions are learnt (§3.1), so longer text is refused."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """On the word vectors, on what enters a convolution, and before the output (§4.2)."""

    @property
    def layers(self) -> list[tuple[int, int, int]]:
        """The width of what enters each layer, its own, and its kernel, from below."""
        each = [block for block in self.blocks for _ in range(block.times)]
        below = [self.blocks[0].width, *(block.width for block in each)]
        return [(width, block.width, block.kernel) for width, block in zip(below, each, strict=False)]

    @property
    def width(self) -> int:
        """Width of the top layer."""
        return self.blocks[-1].width

    @property
    def memory_width(self) -> int:
        """Width of what a decoder attends to."""
        return self.embedding

    @property
    def output_width(self) -> int:
        """Width of what is projected onto the vocabulary."""
        return self.embedding

    @model_validator(mode="after")
    def _has_layers(self) -> _Gated:
        if not self.blocks:
            raise ValueError("blocks is empty: a convolutional stack needs at least one layer")
        return self


class ConvolutionalEncoderConfig(_Gated):
    """The encoder of ConvS2S: gated convolutions over the source."""

    kind: Literal["convolutional"] = "convolutional"

    @model_validator(mode="after")
    def _has_middles(self) -> ConvolutionalEncoderConfig:
        if even := [block.kernel for block in self.blocks if block.kernel % 2 == 0]:
            raise ValueError(f"an encoder's kernel needs a middle, so an odd number of taps, not {even[0]}")
        return self


class ConvS2SConfig(_Gated):
    """The decoder of ConvS2S: causal gated convolutions, each of which asks the source (Gehring et al. 2017, §3.3)."""

    kind: Literal["convs2s"] = "convs2s"


class _Dilated(Config):
    """What the two halves of ByteNet have in common."""

    width: int = Field(default=512, ge=1, le=MOST_WIDE // 2)
    """d: the convolutions work at this width, and between the blocks it is twice as much."""
    kernel: int = Field(default=3, ge=1, le=1024)
    dilations: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Of the blocks of one set, from below (Kalchbrenner et al. 2016, §3.5)."""
    sets: int = Field(default=1, ge=1, le=MOST_LAYERS)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """On the word vectors and on what a block adds; the paper has none."""

    @property
    def embedding(self) -> int:
        """Width of the word vectors."""
        return 2 * self.width

    @property
    def memory_width(self) -> int:
        """Width of what a decoder reads."""
        return 2 * self.width

    @property
    def output_width(self) -> int:
        """Width of what is projected onto the vocabulary."""
        return 2 * self.width

    @model_validator(mode="after")
    def _has_dilations(self) -> _Dilated:
        if not self.dilations or not all(1 <= each <= 1024 for each in self.dilations):
            raise ValueError(f"dilations {list(self.dilations)}: name at least one, each from 1 to 1024")
        return self


class DilatedEncoderConfig(_Dilated):
    """The source network of ByteNet: dilated convolutions over the source."""

    kind: Literal["dilated"] = "dilated"

    @model_validator(mode="after")
    def _has_a_middle(self) -> DilatedEncoderConfig:
        if self.kernel % 2 == 0:
            raise ValueError(f"an encoder's kernel needs a middle, so an odd number of taps, not {self.kernel}")
        return self


class ByteNetConfig(_Dilated):
    """The target network of ByteNet: causal dilated convolutions over word and source column of each position."""

    kind: Literal["bytenet"] = "bytenet"
