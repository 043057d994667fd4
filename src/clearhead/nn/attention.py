"""Multi-head attention: one class for self-attention, masked self-attention and cross-attention.

Source: Vaswani et al. 2017, §3.2.2–3.2.3; shared key/value heads: Shazeer 2019, Ainslie et al. 2023 §2.2.
"""

from __future__ import annotations

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from clearhead.base.errors import ConfigError
from clearhead.config.strict import Config
from clearhead.nn.cache import Kept
from clearhead.nn.cores import Core, ScaledDotProduct
from clearhead.nn.linear import Linear
from clearhead.nn.visibility import Visibility

__all__ = ["Attention", "AttentionConfig"]


class AttentionConfig(Config):
    """The shape of one attention layer."""

    heads: int = Field(default=8, ge=1)
    """Query heads h."""
    kv_heads: int | None = Field(default=None, ge=1)
    """Key/value heads; None = as many as `heads` (MHA), 1 = MQA, between = GQA."""
    head_dim: int | None = Field(default=None, ge=1)
    """Width of a head d_k = d_v; None = d_model / heads."""
    bias: bool = False
    """Biases in the four projections; the paper's formulas have none."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on the attention weights; not among the paper's (§5.4)."""

    def widths(self, d_model: int) -> tuple[int, int, int]:
        """(query heads, key/value heads, head width), checked against `d_model`."""
        kv_heads = self.kv_heads or self.heads
        if self.head_dim is None and d_model % self.heads:
            raise ConfigError(
                f"model: d_model {d_model} is not a multiple of attention.heads {self.heads}; "
                "change one of them or set attention.head_dim"
            )
        if self.heads % kv_heads:
            raise ConfigError(f"model.attention: heads {self.heads} is not a multiple of kv_heads {kv_heads}")
        return self.heads, kv_heads, self.head_dim or d_model // self.heads


class Attention(nn.Module):
    """Queries read what keys offer, in several subspaces at once.

    `remember` makes what a cache stores; `forward` reads it. Heads lie side by side in the projections: head h owns
    rows h·E … (h+1)·E of `query.weight` and the same columns of `output.weight`.
    """

    def __init__(self, config: AttentionConfig, d_model: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.widths(d_model)
        self.query = Linear(d_model, self.heads * self.head_dim, config.bias)
        self.key = Linear(d_model, self.kv_heads * self.head_dim, config.bias)
        self.value = Linear(d_model, self.kv_heads * self.head_dim, config.bias)
        self.output = Linear(self.heads * self.head_dim, d_model, config.bias)
        self.core: Core = ScaledDotProduct(config.dropout)

    def remember(self, keys: Float[Tensor, "R S D"], values: Float[Tensor, "R S D"]) -> Kept:
        """Keys and values of the positions to be read; both inputs are the same but for ConvS2S."""
        return Kept(self._split(self.key(keys), self.kv_heads), self._split(self.value(values), self.kv_heads))

    def forward(self, x: Float[Tensor, "R T D"], kept: Kept, visibility: Visibility) -> Float[Tensor, "R T D"]:
        """What each position of `x` reads.

        `kept` has R rows, or one row a sentence when R = B·K hypotheses read the same source: then the K
        hypotheses of a sentence are queries of one row, and nothing is copied K times.
        """
        rows, length, _ = x.shape
        query = self._split(self.query(x), self.heads)  # [R, H, T, E]
        sentences = kept.keys.shape[0]
        if sentences != rows:
            query = self._fold(query, sentences)  # [B, H, K·T, E]
        context = self.core(query, kept.keys, kept.values, visibility)
        if sentences != rows:
            context = self._unfold(context, rows, length)  # [R, H, T, E]
        merged = context.transpose(1, 2).reshape(rows, length, self.heads * self.head_dim)  # [R, T, H·E]
        return self.output(merged)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], heads, self.head_dim).transpose(1, 2)  # [R, heads, T, E]

    def _fold(self, query: Tensor, sentences: int) -> Tensor:
        beams, length = query.shape[0] // sentences, query.shape[2]
        query = query.view(sentences, beams, self.heads, length, self.head_dim).transpose(1, 2)
        return query.reshape(sentences, self.heads, beams * length, self.head_dim)

    def _unfold(self, context: Tensor, rows: int, length: int) -> Tensor:
        sentences = context.shape[0]
        context = context.view(sentences, self.heads, rows // sentences, length, self.head_dim).transpose(1, 2)
        return context.reshape(rows, self.heads, length, self.head_dim)
