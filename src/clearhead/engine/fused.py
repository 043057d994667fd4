"""The Transformer of `models/transformer.py` once more, arranged for speed: the native engine's plain PyTorch twin.

It computes the same function by fewer and larger products, and its state moves nothing (`pool.py`). It fulfils the
contract of `models/protocols.py`, so every search runs on it, on any device and in float64 too; it cannot be trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.engine.pool import FusedState, Pool, Sources, bias_of
from clearhead.engine.weights import CrossAttention, Feedforward, Input, Norm, SelfAttention, Weights
from clearhead.models.protocols import Memory
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded

__all__ = ["FusedDecoder", "FusedEncoder", "FusedModel", "attend"]

EXPLICIT_UP_TO = 128 * 128
"""Scores a head up to which products are taken on a CPU, and PyTorch's fused attention above (as in `nn/cores.py`)."""
BEND_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu_, "gelu": F.gelu, "silu": F.silu}


class FusedModel(Seq2Seq):
    """`weights` behind the contract of a model. Its only parameters are those of the norms."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(FusedEncoder(weights), FusedDecoder(weights), weights.max_positions)
        self.weights = weights
        norms = [each for layer in (*weights.encoder, *weights.decoder) for each in vars(layer).values()]
        # So that whoever asks a model for its parameters learns its type and its device.
        self.norms = nn.ParameterList(
            nn.Parameter(each.weight, requires_grad=False) for each in norms if isinstance(each, Norm)
        )


def attend(
    query: Float[Tensor, "B N H E"], kept: Float[Tensor, "2 B G C E"], bias: Tensor, scale: float
) -> Float[Tensor, "B N W"]:
    """softmax(scale·q·kᵀ + bias)·v with the heads side by side, W = H·E; `bias` [B, N or 1, C]."""
    sentences, queries, heads, width = query.shape
    groups, columns = kept.shape[2:4]
    if query.device.type != "cpu" or queries * columns > EXPLICIT_UP_TO:
        context = F.scaled_dot_product_attention(
            query.transpose(1, 2), kept[0], kept[1], bias[:, None], scale=scale, enable_gqa=groups != heads
        )
        return context.transpose(1, 2).reshape(sentences, queries, heads * width)
    rows = (
        query.view(sentences, queries, groups, -1, width).permute(0, 2, 3, 1, 4).reshape(sentences * groups, -1, width)
    )
    keys = kept[0].flatten(0, 1).transpose(1, 2)
    scores = torch.baddbmm(rows.new_empty(()), rows, keys, beta=0.0, alpha=scale)  # with beta 0 nothing is added
    each = scores.view(sentences, heads, queries, columns).add_(bias[:, None])
    weights = torch.softmax(each, -1).view(sentences * groups, -1, columns)
    context = torch.bmm(weights, kept[1].flatten(0, 1)).view(sentences, heads, queries, width)
    return context.transpose(1, 2).reshape(sentences, queries, heads * width)


def _enter(layer: Input, ids: Tensor, positions: Tensor) -> Float[Tensor, "R T D"]:
    embedded = layer.table.rows(ids) * layer.factor
    return embedded.add_(layer.positions(positions, embedded))


class _Stack:
    """What both stacks have."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.scale = 1.0 / math.sqrt(weights.head_dim)

    def residual(self, x: Tensor, norm: Norm, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """As `nn.residual.Residual`."""
        if self.weights.norm == "pre":
            return sublayer(normed(x, norm)).add_(x)
        return normed(sublayer(x).add_(x), norm)

    def feedforward(self, layer: Feedforward, x: Tensor) -> Tensor:
        """As `nn.feedforward.FeedForward`."""
        inner = layer.inner(x)
        if layer.gate is not None:
            return layer.outer(F.silu(layer.gate(x)).mul_(inner))
        return layer.outer(BEND_FUNCTIONS[self.weights.activation](inner))

    def heads(self, product: Tensor) -> Tensor:
        """[B, N, heads·E] → [B, N, heads, E]."""
        return product.view(*product.shape[:2], -1, self.weights.head_width)

    def parts(self, product: Tensor) -> tuple[Tensor, Tensor]:
        """[B, N, (H + 2·G)·E] → queries [B, N, H, E]; keys and values [B, N, 2·G, E]."""
        heads = self.heads(product)
        return heads[:, :, : self.weights.heads], heads[:, :, self.weights.heads :]

    def kept(self, keys_values: Tensor) -> Tensor:
        """[B, N, 2·G, E], keys then values → [2, B, G, N, E], a view."""
        sentences, count, _, width = keys_values.shape
        return keys_values.view(sentences, count, 2, -1, width).permute(2, 0, 3, 1, 4)


def normed(x: Tensor, norm: Norm | None) -> Tensor:
    """LayerNorm, or nothing."""
    return x if norm is None else F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.epsilon)


class FusedEncoder(_Stack):
    """As `TransformerEncoder`."""

    @torch.no_grad()
    def __call__(self, source: Padded) -> Memory:
        """The memory of `source`; `summary` is the mean over its real positions."""
        mask = source.mask
        positions = torch.arange(source.ids.shape[1], device=source.ids.device).expand_as(source.ids)
        x = _enter(self.weights.source, source.ids, positions.masked_fill(~mask, 0))
        bias = bias_of(mask[:, None], x.dtype)
        for layer in self.weights.encoder:
            x = self.residual(x, layer.attention_norm, partial(self._attention, layer.attention, bias))
            x = self.residual(x, layer.feedforward_norm, partial(self.feedforward, layer.feedforward))
        x = normed(x, self.weights.encoder_norm)
        return Memory(x, x, mask, source.mean(x))

    def _attention(self, layer: SelfAttention, bias: Tensor, x: Tensor) -> Tensor:
        query, keys_values = self.parts(layer.qkv(x))
        return layer.output(attend(query, self.kept(keys_values).contiguous(), bias, self.scale))


class FusedDecoder(_Stack):
    """As `TransformerDecoder`."""

    @torch.no_grad()
    def start(self, memory: Memory) -> FusedState:
        """Keys and values of the source are worked out here, once a sentence."""
        weights, sentences = self.weights, memory.keys.shape[0]
        sources = tuple(
            self.kept(self.heads(layer.cross.keys_values(memory.keys))).contiguous() for layer in weights.decoder
        )
        device = memory.keys.device
        return FusedState(
            torch.zeros(sentences, dtype=torch.int64, device=device),
            torch.zeros(sentences, 1, 0, dtype=torch.bool, device=device),
            Pool.empty(len(weights.decoder), sentences, weights.kv_heads, weights.head_width, memory.keys),
            Sources(sources, memory.mask),
        )

    @torch.no_grad()
    def advance(self, tokens: Padded, state: FusedState) -> tuple[Float[Tensor, "R T D"], FusedState]:
        """Hidden states of `tokens` read after the past in `state` (see `protocols.Decoder`)."""
        rows, length = tokens.ids.shape
        sentences, beams, _ = state.visible.shape
        written = beams * length
        state = state.claimed(written)
        columns = state.visible.shape[2] + written
        positions = state.positions[:, None] + torch.arange(length, device=tokens.ids.device)
        x = _enter(self.weights.target, tokens.ids, positions.masked_fill(~tokens.mask, 0))
        x = x.view(sentences, written, -1)  # the hypotheses of a sentence are queries of one row
        seen, after = _visible(tokens, state)
        kept = [layer[:, :, :, :columns] for layer in state.pool.layers]
        hidden = self.stack(x, kept, slice(columns - written, columns), bias_of(seen, x.dtype), state.sources)
        hidden = hidden.view(rows, length, -1)
        return hidden, replace(state, positions=state.positions + tokens.lengths, visible=after)

    def stack(
        self, x: Float[Tensor, "B N D"], kept: Sequence[Tensor], place: slice | Tensor, bias: Tensor, sources: Sources
    ) -> Float[Tensor, "B N D"]:
        """All layers, for N queries of each sentence.

        `kept` [2, B, G, C, E] of each layer takes their keys and values in the columns `place`; `bias` [B, N, C].
        """
        for layer, own, source in zip(self.weights.decoder, kept, sources.layers, strict=True):
            x = self.residual(x, layer.attention_norm, partial(self._attention, layer.attention, own, place, bias))
            x = self.residual(x, layer.cross_norm, partial(self._cross, layer.cross, source, sources))
            x = self.residual(x, layer.feedforward_norm, partial(self.feedforward, layer.feedforward))
        return normed(x, self.weights.decoder_norm)

    def _attention(self, layer: SelfAttention, kept: Tensor, place: slice | Tensor, bias: Tensor, x: Tensor) -> Tensor:
        query, keys_values = self.parts(layer.qkv(x))
        if isinstance(place, slice):
            kept[:, :, :, place] = self.kept(keys_values)
        else:
            kept.index_copy_(3, place, self.kept(keys_values))
        return layer.output(attend(query, kept, bias, self.scale))

    def _cross(self, layer: CrossAttention, kept: Tensor, sources: Sources, x: Tensor) -> Tensor:
        context = attend(self.heads(layer.query(x)), kept, sources.bias, self.scale)
        if sources.blank is not None:
            context.masked_fill_(sources.blank, 0.0)
        return layer.output(context)

    @torch.no_grad()
    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits of the next token: [..., D] → [..., V or W]."""
        logits = self.weights.projection(hidden)
        return logits if vocabulary is None else logits.index_select(-1, vocabulary)


def _visible(tokens: Padded, state: FusedState) -> tuple[Tensor, Tensor]:
    """What each of the K·T queries of a sentence sees, [B, K·T, C + K·T], and each hypothesis after them.

    A query sees its own hypothesis up to itself: what is padding comes behind all that is real.
    """
    length = tokens.ids.shape[1]
    sentences, beams, columns = state.visible.shape
    device = tokens.ids.device
    own = torch.eye(beams, dtype=torch.bool, device=device)
    if length == 1:
        here, past = own.expand(sentences, -1, -1), state.visible
    else:
        order = torch.ones(length, length, dtype=torch.bool, device=device).tril()
        here = (
            (own[:, None, :, None] & order[None, :, None, :])
            .view(1, beams * length, beams * length)
            .expand(sentences, -1, -1)
        )
        past = state.visible[:, :, None].expand(-1, -1, length, -1).reshape(sentences, beams * length, columns)
    seen = torch.cat([past, here], 2)
    real = tokens.mask.view(sentences, 1, beams, length) & own[None, :, :, None]
    return seen, torch.cat([state.visible, real.view(sentences, beams, beams * length)], 2)
