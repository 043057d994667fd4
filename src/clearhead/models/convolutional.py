"""The convolutional encoders: gated as in ConvS2S, dilated as in ByteNet.

Neither has a state that has read everything, so `summary` is the mean over the positions, and there are no final states
of layers. A decoder of another kind builds its bridge from that, as it does for a Transformer.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.models.convolutional_config import ByteNetConfig, ConvolutionalEncoderConfig, DilatedEncoderConfig
from clearhead.models.protocols import Memory
from clearhead.models.recurrent import MemoryShape, WordInput
from clearhead.nn.convolution import DilatedBlock, GatedBlock
from clearhead.nn.dropout import Dropout
from clearhead.nn.embedding import Embedding
from clearhead.nn.linear import Linear
from clearhead.nn.padding import Padded
from clearhead.nn.positions import LearnedPositions
from clearhead.nn.residual import LAYER_NORM_EPSILON

__all__ = ["ConvolutionalEncoder", "DilatedEncoder", "PlacedInput", "dilated_blocks"]

VECTORS = 0.1
"""The standard deviation of all that is looked up, words and positions, at first (Gehring et al. 2017, §3.5)."""


class PlacedInput(nn.Module):
    """dropout(word vector + learnt position): w + p of Gehring et al. 2017, §3.1.

    Both enter with a standard deviation of 0.1 (§3.5), and need to: scores are not scaled by the width, and with unit
    variance the attention of an untrained model would be on one word alone.
    """

    def __init__(self, vocab_size: int, width: int, max_positions: int, dropout: float) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size, width, VECTORS)
        self.positions = LearnedPositions(width, max_positions, VECTORS * math.sqrt(width))
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, positions: Tensor) -> Float[Tensor, "R T F"]:
        embedded = self.embedding(ids)
        return self.dropout(embedded + self.positions(positions, embedded))


class ConvolutionalEncoder(nn.Module):
    """The encoder of ConvS2S (Gehring et al. 2017, §3.1 and §3.2).

    Vectors e = w + p are mapped to the width of the first layer, and the top layer back to z, as wide as e (§3.2). The
    memory's keys are z and its values z + e: what is asked is what the context says, and what is read is that and the
    word itself (§3.3, equation 2).
    """

    def __init__(self, config: ConvolutionalEncoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.input = PlacedInput(vocab_size, config.embedding, config.max_positions, config.dropout)
        self.enter = Linear(config.embedding, config.blocks[0].width)
        self.layers = nn.ModuleList(
            GatedBlock(below, width, kernel, causal=False, dropout=config.dropout)
            for below, width, kernel in config.layers
        )
        self.leave = Linear(config.width, config.embedding)
        self.shape = MemoryShape(config.embedding, config.embedding)

    def forward(self, source: Padded) -> Memory:
        """The memory of `source`."""
        mask = source.mask
        places = torch.arange(source.ids.shape[1], device=source.ids.device).expand_as(source.ids)
        embedded = self.input(source.ids, places.masked_fill(~mask, 0))  # padding needs no place of its own
        x = self.enter(embedded)
        for layer in self.layers:
            x = layer(x, mask)
        keys = self.leave(x)
        return Memory(keys, keys + embedded, mask, source.mean(keys))


class DilatedEncoder(nn.Module):
    """The source network of ByteNet (Kalchbrenner et al. 2016, §3): sets of dilated residual blocks, 2d wide.

    The paper runs it on beyond the source, over padding, to the length that the target may have (§3.2); here it reads
    the source alone, and the columns beyond are zero to the decoder.
    """

    def __init__(self, config: DilatedEncoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.input = WordInput(vocab_size, config.embedding, config.dropout)
        self.layers = dilated_blocks(config, causal=False)
        self.norm = nn.LayerNorm(config.memory_width, eps=LAYER_NORM_EPSILON)
        self.shape = MemoryShape(config.memory_width, config.memory_width)

    def forward(self, source: Padded) -> Memory:
        """The memory of `source`: a column a position."""
        mask = source.mask
        x = self.input(source.ids)
        for layer in self.layers:
            x = layer(x, mask)
        keys = self.norm(x)
        return Memory(keys, keys, mask, source.mean(keys))


def dilated_blocks(config: DilatedEncoderConfig | ByteNetConfig, *, causal: bool) -> nn.ModuleList:
    """`sets` times a block of each dilation."""
    return nn.ModuleList(
        DilatedBlock(config.width, config.kernel, dilation, causal=causal, dropout=config.dropout)
        for dilation in config.dilations * config.sets
    )
