"""Recurrent layers above one another, over sequences of unequal length; one-way and bidirectional.

`Recurrent` reads from left to right, a whole sequence (`run`) or a token (`step`): an encoder, or a decoder.
`BidirectionalRecurrent` reads both ways and therefore only whole sequences.

Dropout stands between the layers and never on the connection from step to step (Zaremba et al. 2014, §3.2). Before the
first layer and after the last it is the model's to place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.base.errors import ConfigError
from clearhead.nn.cells import Cell, CellState, ElmanCell, LinearCell
from clearhead.nn.dropout import Dropout
from clearhead.nn.gru import GruAfterCell, GruBeforeCell
from clearhead.nn.kernels import are_apart, fused, loop, reverse_within
from clearhead.nn.lstm import Lstm1997Cell, LstmCell
from clearhead.nn.sweep import swept

__all__ = ["BidirectionalRecurrent", "CellKind", "Path", "PathChoice", "Read", "Recurrent", "make_cell"]

CellKind = Literal["linear", "elman", "lstm-1997", "lstm", "gru-before", "gru-after"]
"""The cells by name: `lstm` is that of 2000 with forget gate; `gru-before` that of the papers, `gru-after` cuDNN's."""

Path = Literal["fused", "swept", "loop"]
"""Who runs a sequence: PyTorch's kernel, one pass with the gradient by hand (`sweep.py`), or a loop over the steps."""

PathChoice = Literal["auto", "fused", "swept", "loop"]
"""`auto` takes the first of the three that the cell has."""

_CELLS: dict[CellKind, type[Cell]] = {
    "linear": LinearCell,
    "elman": ElmanCell,
    "lstm-1997": Lstm1997Cell,
    "lstm": LstmCell,
    "gru-before": GruBeforeCell,
    "gru-after": GruAfterCell,
}


def make_cell(kind: CellKind, inputs: int, width: int, *, forget_bias: float = 1.0) -> Cell:
    """The cell of that name; `forget_bias` matters to `lstm` alone."""
    return LstmCell(inputs, width, forget_bias) if kind == "lstm" else _CELLS[kind](inputs, width)


@dataclass(frozen=True)
class Read:
    """What came of reading a batch of sequences.

    `outputs` [R, T, H], or [R, T, 2H] of both directions, the forward half first: those of the top layer, exactly 0 in
    the padding. `final`: one state a layer, after the last real token of each row. `backward`: the same for the
    backward direction, which ends on the *first* token; empty for a one-way stack. Bahdanau's ←h₁ is
    `backward[-1][0]`.
    """

    outputs: Tensor
    final: tuple[CellState, ...]
    backward: tuple[CellState, ...] = ()


def _choose(kind: CellKind, wanted: PathChoice) -> Path:
    """The road that `wanted` means for this cell; `ConfigError` where the cell has no such road."""
    roads = _roads(kind)
    if wanted == "auto":
        return roads[0]
    if wanted not in roads:
        having = ", ".join(name for name in _CELLS if wanted in _roads(name))
        raise ConfigError(f'the cell "{kind}" cannot run "{wanted}"; take path "{roads[0]}", or one of: {having}')
    return wanted


def _roads(kind: CellKind) -> tuple[Path, ...]:
    """The roads that a cell has, the fastest first."""
    if _CELLS[kind].kernel is not None:
        return ("fused", "loop")
    return ("swept", "loop") if kind == "gru-before" else ("loop",)


class _Stack(nn.Module):
    """What one-way and bidirectional stacks share: the sizes, the road, and one direction of one layer."""

    def __init__(self, kind: CellKind, inputs: int, width: int, layers: int, dropout: float, path: PathChoice) -> None:
        super().__init__()
        if min(inputs, width, layers) < 1:
            raise ConfigError(
                f"a recurrent stack needs sizes of at least 1: inputs {inputs}, width {width}, layers {layers}"
            )
        self.kind = kind
        self.inputs = inputs
        self.width = width
        self.layers = layers
        self.path: Path = _choose(kind, path)
        self.dropout = Dropout(dropout)

    def _direction(
        self, cell: nn.Module, x: Tensor, lengths: Tensor, state: CellState | None
    ) -> tuple[Tensor, CellState]:
        """One cell over the sequence, in full precision: autocast's 8 bits would add up over the steps."""
        cell = cast("Cell", cell)
        roads: dict[Path, Callable[..., tuple[Tensor, CellState]]] = {"fused": fused, "swept": swept, "loop": loop}
        run = loop if self.path == "fused" and are_apart() else roads[self.path]
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(cell.bias.dtype)
            state = cell.start(x.shape[0], x) if state is None else tuple(part.to(x.dtype) for part in state)
            return run(cell, x, lengths, state)

    def extra_repr(self) -> str:
        return f"{self.kind}, {self.inputs} → {self.width}, layers={self.layers}, path={self.path}"


class Recurrent(_Stack):
    """Layers of one cell from left to right; layer l reads the outputs of layer l − 1.

    `cells[l]` is the cell of layer l. `path` tells which road `run` takes.
    """

    def __init__(
        self,
        kind: CellKind,
        inputs: int,
        width: int,
        layers: int = 1,
        *,
        dropout: float = 0.0,
        forget_bias: float = 1.0,
        path: PathChoice = "auto",
    ) -> None:
        super().__init__(kind, inputs, width, layers, dropout, path)
        sizes = [inputs, *[width] * (layers - 1)]
        self.cells = nn.ModuleList(make_cell(kind, size, width, forget_bias=forget_bias) for size in sizes)

    def start(self, rows: int, like: Tensor) -> tuple[CellState, ...]:
        """A state of zeros for each layer."""
        return tuple(cast("Cell", cell).start(rows, like) for cell in self.cells)

    def run(
        self,
        x: Float[Tensor, "R T I"],
        lengths: Tensor,
        states: Sequence[CellState] | None = None,
    ) -> Read:
        """Read whole sequences after `states` (None: zeros), each row up to its own length [R]."""
        final = []
        for depth, cell in enumerate(self.cells):
            x = self.dropout(x) if depth else x
            x, state = self._direction(cell, x, lengths, states[depth] if states is not None else None)
            final.append(state)
        return Read(x, tuple(final))

    def step(
        self, x: Float[Tensor, "R I"], states: Sequence[CellState]
    ) -> tuple[Float[Tensor, "R H"], tuple[CellState, ...]]:
        """Read one token more: the top layer's output and the states after it.

        Equal to `run` over one token but for the random draws of dropout.
        """
        after = []
        for depth, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            grown: CellState = cast("Cell", cell).step(self.dropout(x) if depth else x, state)
            after.append(grown)
            x = grown[0]
        return x, tuple(after)


class BidirectionalRecurrent(_Stack):
    """In each layer one cell reads from the left and one from the right; the next layer reads both outputs.

    Schuster and Paliwal 1997; for translation Bahdanau et al. 2015, §3.2 and A.2.1. The cell from the right begins at
    the last *real* token of each row. `forwards[l]` and `backwards[l]` are the cells of layer l.
    """

    def __init__(
        self,
        kind: CellKind,
        inputs: int,
        width: int,
        layers: int = 1,
        *,
        dropout: float = 0.0,
        forget_bias: float = 1.0,
        path: PathChoice = "auto",
    ) -> None:
        super().__init__(kind, inputs, width, layers, dropout, path)
        sizes = [inputs, *[2 * width] * (layers - 1)]
        self.forwards = nn.ModuleList(make_cell(kind, size, width, forget_bias=forget_bias) for size in sizes)
        self.backwards = nn.ModuleList(make_cell(kind, size, width, forget_bias=forget_bias) for size in sizes)

    def run(self, x: Float[Tensor, "R T I"], lengths: Tensor) -> Read:
        """Read whole sequences, each row up to its own length [R]; both directions start from zeros."""
        final, backward = [], []
        for depth, (ahead, back) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            x = self.dropout(x) if depth else x
            from_left, left_state = self._direction(ahead, x, lengths, None)
            from_right, right_state = self._direction(back, reverse_within(x, lengths), lengths, None)
            x = torch.cat([from_left, reverse_within(from_right, lengths)], -1)  # [R, T, 2H]
            final.append(left_state)
            backward.append(right_state)
        return Read(x, tuple(final), tuple(backward))
