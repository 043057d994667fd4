"""Multiplications counted by PyTorch while our modules run on tensors that hold no numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from clearhead.models.config import TransformerConfig
from clearhead.models.transformer import EncoderLayer
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.feedforward import FeedForward
from clearhead.nn.linear import Linear
from clearhead.recipes.handbook.setting import EVERYTHING

__all__ = ["Cost", "attention_cost", "feed_forward_cost", "flops", "layer_cost", "projection_cost", "score_matrix"]


def flops(run: Callable[[], Any]) -> int:
    """Floating-point operations of the matrix products in `run`; a multiplication and an addition count as two."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return int(counter.get_total_flops())


@dataclass(frozen=True)
class Cost:
    """Operations of one attention layer: the three projections, scores and mixing, the output projection."""

    projections: int
    attention: int
    output: int

    @property
    def total(self) -> int:
        """The whole layer."""
        return self.projections + self.attention + self.output

    @property
    def linear(self) -> int:
        """What grows with n and not with its square."""
        return self.projections + self.output


def attention_cost(length: int, d_model: int, heads: int = 8, head_dim: int | None = None) -> Cost:
    """Self-attention over `length` positions; scoring and mixing are what the layer spends beside its maps."""
    with torch.device("meta"):
        layer = Attention(AttentionConfig(heads=heads, head_dim=head_dim), d_model).double().eval()
        x = torch.empty(1, length, d_model, dtype=torch.float64)
        kept = layer.requires_grad_(False).remember(x, x)
    query, output = flops(lambda: layer.query(x)), flops(lambda: layer.output(kept.keys.transpose(1, 2).flatten(2)))
    mixing = flops(lambda: layer(x, kept, EVERYTHING)) - query - output
    return Cost(flops(lambda: layer.remember(x, x)) + query, mixing, output)


def feed_forward_cost(length: int, d_model: int, d_ff: int | None = None) -> int:
    """The feed-forward layer over `length` positions; its inner width is four times the outer unless given."""
    with torch.device("meta"):
        layer = FeedForward(d_model, d_ff or 4 * d_model).double()
        x = torch.empty(1, length, d_model, dtype=torch.float64)
    return flops(lambda: layer(x))


def layer_cost(length: int, d_model: int) -> int:
    """A whole encoder layer, as the model has it."""
    config = TransformerConfig(vocab_size=5, d_model=d_model, d_ff=4 * d_model)
    with torch.device("meta"):
        layer = EncoderLayer(config).double().eval()
        x = torch.empty(1, length, d_model, dtype=torch.float64)
    attention, feed_forward = layer.attention, layer.feedforward  # residual and norm multiply no matrices
    return flops(lambda: feed_forward(attention(x, attention.remember(x, x), EVERYTHING)))


def projection_cost(length: int, inputs: int, outputs: int) -> int:
    """One linear map over `length` positions."""
    with torch.device("meta"):
        layer = Linear(inputs, outputs, bias=False).double()
        x = torch.empty(1, length, inputs, dtype=torch.float64)
    return flops(lambda: layer(x))


def score_matrix(length: int, heads: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    """The weights of `heads` heads over `length` positions: a tensor with a shape and a type, and no memory."""
    query = torch.empty(1, heads, length, 64, dtype=dtype, device="meta")
    return ScaledDotProduct().eval().weights(query, query, EVERYTHING)
