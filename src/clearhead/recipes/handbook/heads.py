"""Chapter 7: several heads side by side."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.models import presets
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.linear import Linear
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import EVERYTHING, IDENTITY, X, attention_of, matrix, two_heads

__all__ = ["Watched", "watch"]


@dataclass(frozen=True)
class Watched:
    """What passed through an attention layer.

    Shapes: `weights` [H, T, S]; `heads` [H, T, E]; `joined` [T, H·E]; `result` [T, D].
    """

    weights: Tensor
    heads: Tensor
    joined: Tensor
    result: Tensor


def watch(layer: Attention, x: Tensor, memory: Tensor) -> Watched:
    """Run `layer` on queries from `x` [T, D] and keys and values from `memory` [S, D], nothing hidden."""
    seen: dict[str, Tensor] = {}

    def at_core(_: torch.nn.Module, inputs: tuple[Tensor, ...], context: Tensor) -> None:
        query, key = inputs[0], inputs[1]
        seen["weights"], seen["heads"] = layer.core.weights(query, key, EVERYTHING)[0], context[0]

    def at_output(_: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen["joined"] = inputs[0][0]

    handles = (layer.core.register_forward_hook(at_core), layer.output.register_forward_pre_hook(at_output))
    result = layer(x[None], layer.remember(memory[None], memory[None]), EVERYTHING)[0]
    for handle in handles:
        handle.remove()
    return Watched(seen["weights"], seen["heads"], seen["joined"], result)


@facts(
    "heads",
    "weights_1_row_0 output_1_row_0 weights_2_row_0 output_2_row_0 weights_1 weights_2 average_row_0",
    by=[Attention],
)
def each_head() -> tuple[Tensor, ...]:
    """Each head has weights of its own."""
    seen = watch(two_heads(), X, X)
    first, second = seen.heads[0, 0, 0], seen.heads[1, 0, 0]
    weights_1, weights_2 = seen.weights
    return weights_1[0], first, weights_2[0], second, weights_1, weights_2, (first + second) / 2


@facts("heads", "concat result shape", by=[Attention])
def joined() -> tuple[Tensor, Tensor, list[int]]:
    """The heads side by side, and mixed."""
    seen = watch(two_heads(), X, X)
    return seen.joined, seen.result, list(seen.result.shape)


@facts("heads", "values_1 values_2 w_o average_rows", by=[Attention])
def in_columns() -> tuple[Tensor, ...]:
    """The values of each head as columns, the mixing matrix, and for each row what a mean of the heads would keep."""
    layer = two_heads()
    values = layer.remember(X[None], X[None]).values[0]
    return values[0], values[1], layer.output(IDENTITY), watch(layer, X, X).heads[:, :, 0].mean(0)


@facts("heads", "head_dim", by=[presets.base, AttentionConfig])
def head_dim() -> int:
    """The width of a head of the base model."""
    config = presets.base(vocab_size=37000)
    return config.attention.widths(config.d_model)[2]


@facts("heads", "split_input split_right split_wrong", by=[Attention], given="split_input split_wrong")
def split() -> tuple[Tensor, Tensor, Tensor]:
    """Head h owns column h; cutting the numbers up in their order in memory mixes positions instead."""
    x = matrix([[1, 2], [3, 4], [5, 6]])
    layer = attention_of(2, IDENTITY, IDENTITY, IDENTITY, IDENTITY)
    return x, layer.remember(x[None], x[None]).keys[0, :, :, 0], x.reshape(2, 3)


@facts("heads", "parameters_q parameters_one", by=[Attention, Linear])
def parameters() -> tuple[int, int]:
    """Eight narrow projections are as large as one wide one."""
    with torch.device("meta"):
        narrow = Attention(AttentionConfig(heads=1, head_dim=64), 512)
        wide = Linear(512, 512, bias=False)
    return 8 * narrow.query.weight.numel(), wide.weight.numel()
