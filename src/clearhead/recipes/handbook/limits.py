"""Chapter 15: what grows with the length."""

from __future__ import annotations

from clearhead.nn.attention import Attention
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.feedforward import FeedForward
from clearhead.recipes.handbook.counting import attention_cost, feed_forward_cost, layer_cost, score_matrix
from clearhead.recipes.handbook.registry import facts

__all__: list[str] = []


@facts("limits", "elements factor", by=[ScaledDotProduct])
def elements() -> tuple[list[int], float]:
    """Scores of one head for 100 and 1000 positions."""
    short, long = score_matrix(100).numel(), score_matrix(1000).numel()
    return [short, long], long / short


@facts("limits", "layer_growth feedforward_share", by=[Attention, FeedForward])
def layer() -> tuple[float, float]:
    """An encoder layer for ten times the length; and what part of it is the feed-forward layer's, in per cent."""
    feed_forward = feed_forward_cost(100, 512)
    growth = layer_cost(1000, 512) / layer_cost(100, 512)
    return growth, 100 * feed_forward / (attention_cost(100, 512).total + feed_forward)
