"""Chapter 12: what changed with attention: paths, operations, memory."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from clearhead.nn.attention import Attention
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.linear import Linear
from clearhead.recipes.handbook.attention import head_weights
from clearhead.recipes.handbook.counting import attention_cost, projection_cost, score_matrix
from clearhead.recipes.handbook.registry import facts

__all__ = ["layers_until", "pairwise", "stepwise"]


def pairwise(length: int, d_model: int) -> int:
    """n²d: multiplications of all queries with all keys, a quarter of the operations of scoring and mixing."""
    return attention_cost(length, d_model).attention // 4


def stepwise(length: int, d_model: int) -> int:
    """nd²: multiplications of one square map at every position."""
    return projection_cost(length, d_model, d_model) // 2


def layers_until(left: int, right: int, distance: int) -> int:
    """Layers until news has come `distance` far, each a convolution over `left` positions before and `right` after."""
    kernel = torch.ones(1, 1, left + right + 1, dtype=torch.float64)
    news = torch.zeros(1, 1, distance + 1, dtype=torch.float64)
    news[..., 0] = 1.0
    layers = 0
    while not news[..., distance]:
        news = F.conv1d(F.pad(news, (left, right)), kernel).clamp(max=1.0)
        layers += 1
    return layers


@facts("changed", "states_before_8 path_recurrent path_convolution path_causal_convolution")
def paths() -> tuple[int, int, int, int]:
    """Steps of a recurrence and layers of convolutions of width 3, centred and causal, from position 0 to 99."""
    return layers_until(1, 0, 7), layers_until(1, 0, 99), layers_until(1, 1, 99), layers_until(2, 0, 99)


@facts("changed", "path_attention", by=[ScaledDotProduct])
def path_attention() -> int:
    """Layers of attention from position 0 to 99, by what one layer's last output depends on."""
    reads = head_weights(*[torch.ones(100, 1, dtype=torch.float64)] * 2)
    news, layers = torch.eye(100, dtype=torch.float64)[0], 0
    while not news[99]:
        news, layers = reads @ news, layers + 1
    return layers


@facts("changed", "n2d nd2 ratio n2d_8192", by=[Attention, Linear])
def operations() -> tuple[int, int, float, int]:
    """Both products for 128 tokens of width 512, their ratio, and the first for 8192 tokens."""
    n2d, nd2 = pairwise(128, 512), stepwise(128, 512)
    return n2d, nd2, nd2 / n2d, pairwise(8192, 512)


@facts("changed", "score_elements score_mib score_gib score_mib_4096", by=[ScaledDotProduct])
def scores() -> tuple[int, float, float, float]:
    """Weights of 8192 positions: elements of one head, MiB of it and GiB of eight in half precision; of 4096, MiB."""
    return (
        score_matrix(8192).numel(),
        _bytes(score_matrix(8192, 1, torch.float16)) / 2**20,
        _bytes(score_matrix(8192, 8, torch.float16)) / 2**30,
        _bytes(score_matrix(4096, 1, torch.float16)) / 2**20,
    )


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
