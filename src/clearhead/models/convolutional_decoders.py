"""The convolutional decoders: that of ConvS2S, which asks the source in every layer, and ByteNet's, which does not ask.

What they remember of a hypothesis is the last inputs of each causal convolution, as many as it reaches back over. It
stands where a recurrent decoder keeps its states, so all is rearranged, joined and evicted by the same code.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.models.attentive_decoders import AttentiveState
from clearhead.models.convolutional import PlacedInput, dilated_blocks
from clearhead.models.convolutional_config import ByteNetConfig, ConvS2SConfig
from clearhead.models.protocols import Memory
from clearhead.models.recurrent import MemoryShape, RecurrentState, WordInput
from clearhead.nn.cache import Kept
from clearhead.nn.convolution import SQRT_HALF, DilatedBlock, GatedBlock
from clearhead.nn.dropout import Dropout
from clearhead.nn.embedding import Projection
from clearhead.nn.linear import Linear
from clearhead.nn.padding import Padded
from clearhead.nn.residual import LAYER_NORM_EPSILON
from clearhead.nn.scores import Dot
from clearhead.nn.visibility import Visibility
from clearhead.nn.windows import GlobalCore

__all__ = ["AskingBlock", "ByteNetDecoder", "ConvS2SDecoder"]


class AskingBlock(nn.Module):
    """A layer of the decoder of ConvS2S and its attention (Gehring et al. 2017, §3.3).

    d = W_d·h + b_d + g, h the layer's output and g the vector of the word that was read last (equation 1); a =
    softmax(d·z) over the keys z, unscaled; c = Σ a·(z + e) (equation 2), times m·√(1/m) = √m for a source of m
    positions, since a mean of m vectors has 1/m of their variance (§3.4). The layer hands on (h + c)·√½, for this too
    is a sum of two (§3.4). c is mapped to the width of the layer, as in the authors' code; the paper adds it as it is.
    """

    def __init__(self, inputs: int, width: int, kernel: int, embedding: int, dropout: float) -> None:
        super().__init__()
        self.block = GatedBlock(inputs, width, kernel, causal=True, dropout=dropout)
        self.query = Linear(width, embedding)
        self.core = GlobalCore(Dot(embedding, embedding))
        self.context = Linear(embedding, width)

    def forward(
        self,
        x: Float[Tensor, "R T I"],
        word: Float[Tensor, "R T F"],
        lengths: Tensor,
        past: Tensor,
        state: AttentiveState,
        visibility: Visibility,
    ) -> tuple[Float[Tensor, "R T D"], Tensor]:
        """What is handed on, and what comes to be past."""
        hidden, after = self.block.advance(x, lengths, past)
        found = state.ask(self.core, self.query(hidden) + word, visibility)
        sources = state.source_mask.sum(1).repeat_interleave(hidden.shape[0] // state.source_mask.shape[0])
        scale = sources.to(found.dtype).sqrt()[:, None, None]
        return (hidden + self.context(found * scale)) * SQRT_HALF, after


class ConvS2SDecoder(nn.Module):
    """The decoder of ConvS2S: causal gated convolutions with an attention in each (Gehring et al. 2017, §3).

    The paper also scales the gradients of the encoder by the number of attentions, but for the word vectors, since the
    encoder got too much otherwise (§3.4), and normalises weights (§4.2); both are left out here. So is the bias of the
    output (§3.2), which no model of clearhead has.
    """

    def __init__(self, config: ConvS2SConfig, vocab_size: int, memory: MemoryShape) -> None:
        super().__init__()
        width = config.embedding
        self.input = PlacedInput(vocab_size, width, config.max_positions, config.dropout)
        self.keys = nn.Identity() if memory.keys == width else Linear(memory.keys, width)
        self.values = nn.Identity() if memory.keys == width else Linear(memory.keys, width)
        self.enter = Linear(width, config.blocks[0].width)
        self.layers = nn.ModuleList(
            AskingBlock(below, wide, kernel, width, config.dropout) for below, wide, kernel in config.layers
        )
        self.leave = Linear(config.width, width)
        self.dropout = Dropout(config.dropout)
        self.output = Projection(vocab_size, config.output_width)

    def start(self, memory: Memory) -> AttentiveState:
        """Nothing read; the keys and the values, over a map where they are not as wide as the words."""
        keys, values = self.keys(memory.keys), self.values(memory.values)
        own = _unread(keys, [layer.block for layer in self.layers])  # type: ignore[misc]
        return AttentiveState(own, Kept(keys[:, None], values[:, None]), memory.mask)

    def advance(self, tokens: Padded, state: AttentiveState) -> tuple[Float[Tensor, "R T F"], AttentiveState]:
        """The top layer, mapped to the width of a word (see `protocols.Decoder`)."""
        length = tokens.ids.shape[1]
        places = state.positions[:, None] + torch.arange(length, device=tokens.ids.device)
        word = self.input(tokens.ids, places.masked_fill(~tokens.mask, 0))
        visibility = state.visibility(length)
        x, pasts = self.enter(word), []
        for layer, (past,) in zip(self.layers, state.own.layers, strict=True):
            x, after = layer(x, word, tokens.lengths, past, state, visibility)
            pasts.append((after,))
        own = RecurrentState(state.positions + tokens.lengths, tuple(pasts), state.own.fed)
        return self.dropout(self.leave(x)), AttentiveState(own, state.source, state.source_mask)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits of the next token: [..., D] → [..., V or W]."""
        return self.output(hidden, vocabulary)


class ByteNetDecoder(nn.Module):
    """The target network of ByteNet: stacked on the source network, column on column (Kalchbrenner et al. 2016, §3.1).

    Position t reads the words up to its own, and column t of the memory beside its word: no attention, and the time is
    linear in both lengths. Beyond the source's end the column is zero, so any length can be written; in the paper the
    source is padded to a length a·|s| + b beforehand, a = 1.2 and b = 0 for English–German (§3.2, equation 2), and has
    columns up to there. The paper prints nothing of how the two meet: here the column is mapped and added to the word's
    vector.
    """

    def __init__(self, config: ByteNetConfig, vocab_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.input = WordInput(vocab_size, config.embedding, config.dropout)
        self.column = Linear(memory.keys, config.embedding, bias=False)
        self.layers = dilated_blocks(config, causal=True)
        self.norm = nn.LayerNorm(config.output_width, eps=LAYER_NORM_EPSILON)
        self.output = Projection(vocab_size, config.output_width)

    def start(self, memory: Memory) -> AttentiveState:
        """Nothing read; the columns, mapped once a sentence."""
        columns = F.pad(self.column(memory.keys), (0, 0, 0, 1))  # one more, of zeros, stands for all beyond
        own = _unread(columns, list(self.layers))  # type: ignore[arg-type]
        return AttentiveState(own, Kept(columns[:, None], columns[:, None]), F.pad(memory.mask, (0, 1), value=False))

    def advance(self, tokens: Padded, state: AttentiveState) -> tuple[Float[Tensor, "R T D"], AttentiveState]:
        """The top block, normed (see `protocols.Decoder`)."""
        x, pasts = self.input(tokens.ids) + _columns(state, tokens.ids.shape[1]), []
        for layer, (past,) in zip(self.layers, state.own.layers, strict=True):
            x, after = layer.advance(x, tokens.lengths, past)  # type: ignore[operator]
            pasts.append((after,))
        own = RecurrentState(state.positions + tokens.lengths, tuple(pasts), state.own.fed)
        return self.norm(x), AttentiveState(own, state.source, state.source_mask)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits of the next token: [..., D] → [..., V or W]."""
        return self.output(hidden, vocabulary)


def _unread(like: Float[Tensor, "B S D"], blocks: list[GatedBlock | DilatedBlock]) -> RecurrentState:
    rows = like.shape[0]
    positions = torch.zeros(rows, dtype=torch.int64, device=like.device)
    pasts = tuple((block.start(rows, like),) for block in blocks)
    return RecurrentState(positions, pasts, like.new_zeros(rows, 0))


def _columns(state: AttentiveState, length: int) -> Float[Tensor, "R T D"]:
    """The source's column at each of the next `length` positions of each row; zero where the source has ended."""
    sentences, columns = state.source_mask.shape
    rows = torch.arange(state.positions.shape[0], device=state.positions.device)
    sentence = rows // (state.positions.shape[0] // sentences)
    places = state.positions[:, None] + torch.arange(length, device=rows.device)
    places = places.clamp(max=columns - 1)
    found = state.source.keys[sentence[:, None], 0, places]
    return found.masked_fill(~state.source_mask[sentence[:, None], places][:, :, None], 0.0)
