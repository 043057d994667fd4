"""The Transformer's encoder and decoder (Vaswani et al. 2017, §3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.models.config import LearnedConfig, NoPositionsConfig, Positions, TransformerConfig
from clearhead.models.protocols import Memory
from clearhead.nn.attention import Attention
from clearhead.nn.cache import Kept
from clearhead.nn.dropout import Dropout
from clearhead.nn.embedding import Embedding, Projection
from clearhead.nn.feedforward import FeedForward
from clearhead.nn.linear import Linear
from clearhead.nn.padding import Padded
from clearhead.nn.positions import LearnedPositions, NoPositions, SinusoidalPositions
from clearhead.nn.residual import Residual, narrowed
from clearhead.nn.visibility import HIDDEN, Visibility

__all__ = ["TransformerDecoder", "TransformerEncoder", "TransformerState"]


class InputLayer(nn.Module):
    """dropout(√D · embedding + position): what enters a stack (§3.4, §3.5, §5.4); without the √D if so configured."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        spread = 1.0 if config.scale_embeddings else 1.0 / math.sqrt(config.d_model)
        self.embedding = Embedding(vocab_size, config.d_model, spread)
        self.positions = make_positions(config.positions, config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, positions: Tensor) -> Float[Tensor, "R T D"]:
        embedded = self.embedding(ids)
        return self.dropout(embedded + self.positions(positions, embedded))


def make_positions(config: Positions, d_model: int) -> LearnedPositions | NoPositions | SinusoidalPositions:
    """The module that `config` means."""
    match config:
        case LearnedConfig():
            return LearnedPositions(d_model, config.max_positions)
        case NoPositionsConfig():
            return NoPositions()
        case _:
            return SinusoidalPositions(d_model, config.max_positions)


def final_norm(config: TransformerConfig) -> nn.Module:
    """A stack of pre-norm layers ends on a norm; one of post-norm layers must not have another."""
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_epsilon) if config.norm == "pre" else nn.Identity()


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in its residual (§3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config.attention, config.d_model)
        self.attention_residual = Residual(config.norm, config.d_model, config.dropout, config.layer_norm_epsilon)
        self.feedforward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.feedforward_residual = Residual(config.norm, config.d_model, config.dropout, config.layer_norm_epsilon)

    def forward(self, x: Float[Tensor, "B S D"], visibility: Visibility) -> Float[Tensor, "B S D"]:
        x = self.attention_residual(x, lambda y: self.attention(y, self.attention.remember(y, y), visibility))
        return self.feedforward_residual(x, self.feedforward)


class TransformerEncoder(nn.Module):
    """A stack of N layers over the source; every position reads every real position."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.input = InputLayer(config, config.source_vocab_size or config.vocab_size)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = final_norm(config)

    def forward(self, source: Padded) -> Memory:
        """The memory of `source`; `summary` is the mean over its real positions."""
        mask = source.mask
        positions = torch.arange(source.ids.shape[1], device=source.ids.device).expand_as(source.ids)
        visibility = Visibility.of_keys(mask)
        x = self.input(source.ids, positions.masked_fill(~mask, 0))  # padding needs no place of its own
        for layer in self.layers:
            x = layer(x, visibility)
        x = self.norm(x)
        return Memory(x, x, mask, source.mean(x))


@dataclass(frozen=True)
class TransformerState:
    """What the decoder remembers: its own keys and values by hypothesis, the source's by sentence.

    Shapes: `positions` [R]; `key_positions` [R, S], `HIDDEN` where padding stands; `layers` one `Kept` [R, G, S, E] a
    layer; `sources` one `Kept` [B, G, S', E] a layer, R = B·K; `source_mask` [B, S'].
    """

    positions: Tensor
    key_positions: Tensor
    layers: tuple[Kept, ...]
    sources: tuple[Kept, ...]
    source_mask: Tensor

    def rows(self, index: Tensor) -> TransformerState:
        """Rearrange hypotheses (see `protocols.State`); a source is copied only when its sentence moves."""
        flat = index.reshape(-1)
        sentences, beams = self.source_mask.shape[0], self.positions.shape[0] // self.source_mask.shape[0]
        sentence = index[:, 0] // beams
        sources, source_mask = self.sources, self.source_mask
        if not torch.equal(sentence, torch.arange(sentences, device=index.device)):
            sources = tuple(kept.rows(sentence) for kept in sources)
            source_mask = source_mask.index_select(0, sentence)
        return TransformerState(
            self.positions.index_select(0, flat),
            self.key_positions.index_select(0, flat),
            tuple(kept.rows(flat) for kept in self.layers),
            sources,
            source_mask,
        )

    def join(self, other: TransformerState) -> TransformerState:
        """The sentences of both, the shorter caches padded with positions that nobody may see."""

        def both(mine: Tensor, theirs: Tensor, fill: int) -> Tensor:
            length = max(mine.shape[1], theirs.shape[1])
            return torch.cat([F.pad(side, (0, length - side.shape[1]), value=fill) for side in (mine, theirs)])

        return TransformerState(
            torch.cat([self.positions, other.positions]),
            both(self.key_positions, other.key_positions, HIDDEN),
            tuple(mine.join(theirs) for mine, theirs in zip(self.layers, other.layers, strict=True)),
            tuple(mine.join(theirs) for mine, theirs in zip(self.sources, other.sources, strict=True)),
            both(self.source_mask, other.source_mask, False),
        )


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the source, feed-forward, each in its residual (§3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = Attention(config.attention, config.d_model)
        self.self_attention_residual = Residual(config.norm, config.d_model, config.dropout, config.layer_norm_epsilon)
        self.cross_attention = Attention(config.attention, config.d_model)
        self.cross_attention_residual = Residual(config.norm, config.d_model, config.dropout, config.layer_norm_epsilon)
        self.feedforward = FeedForward(config.d_model, config.d_ff, config.activation)
        self.feedforward_residual = Residual(config.norm, config.d_model, config.dropout, config.layer_norm_epsilon)

    def forward(
        self, x: Float[Tensor, "R T D"], past: Kept, source: Kept, visible: Visibility, visible_source: Visibility
    ) -> tuple[Float[Tensor, "R T D"], Kept]:
        """Hidden states, and the past with the positions of `x` appended."""
        grown = past

        def attend(y: Tensor) -> Tensor:
            nonlocal grown
            grown = past.append(self.self_attention.remember(y, y))
            return self.self_attention(y, grown, visible)

        x = self.self_attention_residual(x, attend)
        x = self.cross_attention_residual(x, lambda y: self.cross_attention(y, source, visible_source))
        return self.feedforward_residual(x, self.feedforward), grown


class TransformerDecoder(nn.Module):
    """A stack of N layers over the target, each reading the encoder's output (§3.1).

    A memory of another width, `memory_width`, comes over a bridge: one linear map to d_model.
    """

    def __init__(self, config: TransformerConfig, memory_width: int | None = None) -> None:
        super().__init__()
        self.input = InputLayer(config, config.vocab_size)
        fits = memory_width in (None, config.d_model)
        self.bridge = None if memory_width is None or fits else Linear(memory_width, config.d_model)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.norm = final_norm(config)
        self.output = Projection(config.vocab_size, config.d_model, config.output_bias)

    def start(self, memory: Memory) -> TransformerState:
        """Keys and values of the source are worked out here, once a sentence."""
        layers = [cast("DecoderLayer", layer) for layer in self.layers]
        keys = self._over_the_bridge(memory.keys)
        values = keys if memory.values is memory.keys else self._over_the_bridge(memory.values)
        sources = tuple(layer.cross_attention.remember(keys, values) for layer in layers)
        sentences = memory.keys.shape[0]
        attention = layers[0].self_attention
        nothing = memory.keys.new_empty(sentences, attention.kv_heads, 0, attention.head_dim)
        positions = torch.zeros(sentences, dtype=torch.int64, device=memory.keys.device)
        return TransformerState(
            positions, positions[:, None][:, :0], (Kept(nothing, nothing),) * len(self.layers), sources, memory.mask
        )

    def _over_the_bridge(self, states: Tensor) -> Tensor:
        states = narrowed(states)
        return states if self.bridge is None else self.bridge(states)

    def advance(self, tokens: Padded, state: TransformerState) -> tuple[Float[Tensor, "R T D"], TransformerState]:
        """Hidden states of `tokens` read after the past in `state` (see `protocols.Decoder`)."""
        steps = torch.arange(tokens.ids.shape[1], device=tokens.ids.device)
        positions = state.positions[:, None] + steps  # [R, T]
        padding = ~tokens.mask
        key_positions = torch.cat([state.key_positions, positions.masked_fill(padding, HIDDEN)], 1)
        visible = Visibility.causal(positions, key_positions)
        visible_source = Visibility.of_keys(state.source_mask)
        x = self.input(tokens.ids, positions.masked_fill(padding, 0))
        layers = []
        for layer, past, source in zip(self.layers, state.layers, state.sources, strict=True):
            x, grown = layer(x, past, source, visible, visible_source)
            layers.append(grown)
        after = TransformerState(
            state.positions + tokens.lengths, key_positions, tuple(layers), state.sources, state.source_mask
        )
        return self.norm(x), after

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits of the next token: [..., D] → [..., V or W]."""
        return self.output(hidden, vocabulary)
