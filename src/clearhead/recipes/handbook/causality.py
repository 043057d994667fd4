"""Chapter 6: who may read whom."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.visibility import Visibility
from clearhead.recipes.handbook.attention import head_weights
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import KEYS, QUERIES, VALUES, causal, vector

__all__: list[str] = []


@facts("causal", "mask", by=[Visibility])
def mask() -> Tensor:
    """0 where a query may read, −∞ where it may not."""
    visible = causal(3).mask.expand(1, 1, 3, 3)[0, 0]
    return torch.zeros(3, 3, dtype=torch.float64).masked_fill(~visible, -math.inf)


@facts("causal", "weights output", by=[Visibility, ScaledDotProduct])
def weights() -> tuple[Tensor, Tensor]:
    """The teaching attention under the causal mask."""
    core = ScaledDotProduct().eval()
    query, key, value = QUERIES[None, None], KEYS[None, None], VALUES[None, None]
    return core.weights(query, key, causal(3))[0, 0], core(query, key, value, causal(3))[0, 0]


@facts("causal", "posthoc posthoc_sums renormalised", by=[ScaledDotProduct])
def zeroed_afterwards() -> tuple[Tensor, Tensor, Tensor]:
    """Weights taken over all keys, then the later ones set to zero: they no longer sum to one."""
    zeroed = head_weights(QUERIES, KEYS).tril()
    sums = zeroed.sum(-1)
    return zeroed, sums, zeroed / sums[:, None]


@facts("causal", "blank_row", by=[Visibility, ScaledDotProduct])
def blank_row() -> Tensor:
    """What a query reads that may read nothing."""
    nothing = Visibility.of_keys(torch.zeros(1, 3, dtype=torch.bool))
    core = ScaledDotProduct().eval()
    read: Tensor = core(QUERIES[None, None, :1], KEYS[None, None], VALUES[None, None], nothing)
    return read[0, 0, 0]


@facts("causal", "minus_1e9_weights")
def large_negative_number() -> Tensor:
    """A row hidden throughout by a large negative number instead: everything is read."""
    return (vector(0, 0, 0) - 1e9).softmax(-1)


@facts("causal", "float16_max")
def largest_half() -> float:
    """The largest number of float16."""
    return torch.finfo(torch.float16).max


@facts("causal", "pairs cache_offset", by=[Visibility])
def pairs() -> tuple[list[Tensor], Tensor]:
    """How many pairs of five positions are allowed, of how many; and how many keys the fifth reads out of a cache."""
    visible = causal(5).mask.expand(1, 1, 5, 5)
    return [visible.sum(), torch.tensor(visible.numel())], causal(1, 5).mask.expand(1, 1, 1, 5).sum()


@facts("causal", "exercise_weights", by=[Visibility, ScaledDotProduct])
def exercise() -> Tensor:
    """The second of three positions with scores 0 and 1, whatever the third key holds."""
    second = Visibility.causal(torch.tensor([[1]]), torch.arange(3)[None])
    keys = vector(0, 1, 7)[None, None, :, None]
    return ScaledDotProduct().weights(torch.ones(1, 1, 1, 1, dtype=torch.float64), keys, second)[0, 0, 0]
