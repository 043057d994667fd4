"""The recurrent encoder, and what every recurrent decoder remembers and how it begins.

A memory of a recurrent encoder stands in the order of the source, whichever way the source was read, so an alignment
needs no turning and a window that moves with the target moves along the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.models.protocols import Memory
from clearhead.models.recurrent_config import RecurrentEncoderConfig
from clearhead.nn.cells import Cell, CellState
from clearhead.nn.dropout import Dropout
from clearhead.nn.embedding import Embedding
from clearhead.nn.kernels import reverse_within
from clearhead.nn.linear import Linear
from clearhead.nn.padding import Padded
from clearhead.nn.recurrent import BidirectionalRecurrent, Recurrent

__all__ = [
    "MemoryShape",
    "RecurrentEncoder",
    "RecurrentState",
    "StateBridge",
    "WordInput",
    "after_each_row",
    "full_precision",
    "parts_of",
]


class WordInput(nn.Module):
    """dropout(word vector): what enters a recurrent stack (Zaremba et al. 2014, §3.1)."""

    def __init__(self, vocab_size: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size, width)
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor) -> Float[Tensor, "R T M"]:
        return self.dropout(self.embedding(ids))


@dataclass(frozen=True)
class MemoryShape:
    """The widths of what an encoder hands over, for the decoder that must bridge to them.

    `keys` and `summary` are those of the `Memory`; `layers` gives the number of tensors in the state of each recurrent
    layer (1, or 2 for an LSTM) and their width.
    """

    keys: int
    summary: int
    layers: tuple[tuple[int, int], ...] = ()


class RecurrentEncoder(nn.Module):
    """A stack of recurrent layers over the source, one way or both.

    The memory's keys are the states of the top layer, both directions side by side: h_j = [→h_j; ←h_j] (Bahdanau et
    al. 2015, §3.2). Its `summary` [B, H] is the state that has read all: →h_S one way, ←h_1 with two directions, which
    is what RNNsearch starts from (A.2.2). Its `layers` hold the final states, [B, P, D] a layer: h, and with an LSTM
    also c; with two directions each is [→; ←].

    `reverse` feeds the source backwards with EOS left at its end, c b a EOS for a b c EOS, within the true length of
    each (Sutskever et al. 2014, §3.3); the states are put back into the order of the source.
    """

    def __init__(self, config: RecurrentEncoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.input = WordInput(vocab_size, config.embedding, config.dropout)
        stack = BidirectionalRecurrent if config.bidirectional else Recurrent
        self.stack = stack(config.cell, config.embedding, config.width, config.layers, dropout=config.dropout)
        self.reverse = config.reverse
        layers = ((parts_of(self.stack), config.memory_width),) * config.layers
        self.shape = MemoryShape(config.memory_width, config.width, layers)

    @property
    def path(self) -> str:
        """The road taken over the source: "fused" (PyTorch's kernel), "swept" or "loop" (see `nn.recurrent`)."""
        return self.stack.path

    def forward(self, source: Padded) -> Memory:
        """The memory of `source`."""
        before_eos = (source.lengths - 1).clamp(min=0)
        ids = reverse_within(source.ids, before_eos) if self.reverse else source.ids
        read = self.stack.run(self.input(ids), source.lengths)
        keys = reverse_within(read.outputs, before_eos) if self.reverse else read.outputs
        directions = [read.final, read.backward] if read.backward else [read.final]
        layers = []
        for states in zip(*directions, strict=True):  # one layer, in each direction
            parts = [torch.cat(part, -1) for part in zip(*states, strict=True)]
            layers.append(torch.stack(parts, 1))
        summary = directions[-1][-1][0]
        return Memory(keys, keys, source.mask, summary, tuple(layers))


class StateBridge(nn.Module):
    """From a memory to the first state of a recurrent decoder, [B, H] a layer and part.

    Where the encoder's final states have the decoder's shape they are the decoder's first, h and c of every layer, and
    the bridge has no parameters (Sutskever et al. 2014, §2). Elsewhere, or where `learnt` asks for it, each layer
    starts from tanh(W_s · summary) (Bahdanau et al. 2015, A.2.2: s₀ = tanh(W_s ←h₁)), of width P·H for P parts.
    """

    def __init__(self, memory: MemoryShape, parts: int, width: int, layers: int, *, learnt: bool = False) -> None:
        super().__init__()
        self.parts = parts
        fits = memory.layers == ((parts, width),) * layers
        learnt = learnt or not fits
        self.maps = nn.ModuleList(Linear(memory.summary, parts * width) for _ in range(layers)) if learnt else None

    def forward(self, memory: Memory) -> tuple[CellState, ...]:
        """One state a layer, the lowest first."""
        if self.maps is None:
            return tuple(tuple(layer.unbind(1)) for layer in memory.layers)
        return self.learnt(memory.summary)

    def learnt(self, summary: Float[Tensor, "B D"]) -> tuple[CellState, ...]:
        """tanh(W_s · summary) for every layer."""
        assert self.maps is not None, "this bridge copies"
        with full_precision(summary):
            summary = summary.to(next(self.maps.parameters()).dtype)
            return tuple(tuple(torch.tanh(each(summary)).chunk(self.parts, -1)) for each in self.maps)


@dataclass(frozen=True)
class RecurrentState:
    """What a recurrent decoder remembers of each hypothesis.

    Shapes: `positions` [R]; `layers` h, or h and c, [R, H] each, a layer; `fed` [R, F], what stands beside the next
    word: c of an RNNencdec, h̃ with input feeding, else nothing (F = 0).
    """

    positions: Tensor
    layers: tuple[CellState, ...]
    fed: Tensor

    def rows(self, index: Tensor) -> RecurrentState:
        """Rearrange hypotheses, every part of each alike (see `protocols.State`)."""
        flat = index.reshape(-1)
        return RecurrentState(
            self.positions.index_select(0, flat),
            tuple(tuple(part.index_select(0, flat) for part in layer) for layer in self.layers),
            self.fed.index_select(0, flat),
        )

    def join(self, other: RecurrentState) -> RecurrentState:
        """The hypotheses of both."""
        return RecurrentState(
            torch.cat([self.positions, other.positions]),
            tuple(
                tuple(torch.cat(parts) for parts in zip(mine, theirs, strict=True))
                for mine, theirs in zip(self.layers, other.layers, strict=True)
            ),
            torch.cat([self.fed, other.fed]),
        )


def parts_of(stack: Recurrent | BidirectionalRecurrent) -> int:
    """How many tensors the state of a layer has: h, or h and c."""
    cells = stack.forwards if isinstance(stack, BidirectionalRecurrent) else stack.cells
    return cast("Cell", cells[0]).parts


def full_precision(like: Tensor) -> torch.autocast:
    """No autocast on the device of `like`: what goes from step to step would add up the errors of 8 bits."""
    return torch.autocast(like.device.type, enabled=False)


def after_each_row(steps: Sequence[Tensor], lengths: Tensor) -> Tensor:
    """Of what stood before the first step and after each, what each row had when it was through.

    `steps` are T + 1 tensors [R, H], `lengths` [R] from 0 to T. A row that is through goes on being computed with the
    others, to no effect.
    """
    rows = torch.arange(lengths.shape[0], device=lengths.device)
    return torch.stack(list(steps))[lengths, rows]
