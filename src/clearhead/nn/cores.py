"""How queries score keys and mix values: the meaning (`weights`) and the method (`forward`).

Every kind of attention is a `Core`, so that every architecture is inspected in the same way.
Law: `forward(q, k, v, visibility) == weights(q, k, visibility) @ v` in evaluation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.nn.dropout import Dropout
from clearhead.nn.visibility import Visibility

__all__ = ["Core", "ScaledDotProduct"]

_EXPLICIT_UP_TO = 128 * 128  # scores a head; measured: fused kernels lose below it on CPUs


class Core(nn.Module, ABC):
    """Scoring and mixing for all heads at once."""

    def remember(self, keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S E"]:
        """What a core without heads of its own keeps of the keys, once a sentence: here one head, as they are.

        For recurrent decoders, whose scores have matrices of their own; `nn/attention.py` projects and splits itself.
        """
        return keys[:, None]

    @abstractmethod
    def weights(
        self, query: Float[Tensor, "R H T E"], key: Float[Tensor, "R G S E"], visibility: Visibility
    ) -> Float[Tensor, "R H T S"]:
        """How much each query reads of each key: rows sum to one, or to zero where nothing may be read.

        A core that damps its weights afterwards (local-p, in `windows.py`) has rows that sum to less than one.
        """

    def forward(
        self,
        query: Float[Tensor, "R H T E"],
        key: Float[Tensor, "R G S E"],
        value: Float[Tensor, "R G S E"],
        visibility: Visibility,
    ) -> Float[Tensor, "R H T E"]:
        """The values mixed by the weights."""
        return self.weights(query, key, visibility) @ spread(value, query.shape[1])


def spread(shared: Tensor, heads: int) -> Tensor:
    """Give each query head the key/value head of its group: [R, G, S, E] → [R, H, S, E], neighbours together."""
    groups = shared.shape[1]
    return shared if groups == heads else shared.repeat_interleave(heads // groups, dim=1)


class ScaledDotProduct(Core):
    """softmax(q·kᵀ/√E + mask): Vaswani et al. 2017, §3.2.1, equation 1.

    `dropout` acts on the weights while training; the paper's base model has none there.
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def weights(
        self, query: Float[Tensor, "R H T E"], key: Float[Tensor, "R G S E"], visibility: Visibility
    ) -> Float[Tensor, "R H T S"]:
        """softmax(q·kᵀ/√E + mask) over the keys, before any dropout."""
        scores = (query * (1.0 / math.sqrt(query.shape[-1]))) @ spread(key, query.shape[1]).transpose(-2, -1)
        bias = visibility.float32_bias if scores.dtype is not torch.float16 else visibility.bias(torch.float16)
        weights = (scores + bias.to(scores.dtype)).softmax(-1)
        return weights if visibility.blank is None else weights.masked_fill(visibility.blank, 0.0)

    def forward(
        self,
        query: Float[Tensor, "R H T E"],
        key: Float[Tensor, "R G S E"],
        value: Float[Tensor, "R G S E"],
        visibility: Visibility,
    ) -> Float[Tensor, "R H T E"]:
        """The same by PyTorch's fused kernel where that is faster: long sequences, and every GPU."""
        if query.device.type == "cpu" and query.shape[-2] * key.shape[-2] <= _EXPLICIT_UP_TO:
            return self.dropout(self.weights(query, key, visibility)) @ spread(value, query.shape[1])
        context = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=visibility.mask,
            dropout_p=self.dropout.rate if self.training else 0.0,
            enable_gqa=key.shape[1] != query.shape[1],
        )
        return context if visibility.blank is None else context.masked_fill(visibility.blank, 0.0)
