"""Recurrent cells: one step of a network that reads a sequence. The contract, and the two without gates.

A cell splits its step in two. `drive` is what the input contributes, W·x + b; it knows no past, so a whole sequence is
one matrix product. `recur` is the rest, which must wait for the state before it. The gated cells are in `lstm.py` and
`gru.py`, what runs cells over sequences is in `recurrent.py`.

**Parameters.** The matrices of all G gates stand in one, gate after gate in the order of `gates`: rows g·H … (g+1)·H of
`input_weight` [G·H, I], `hidden_weight` [G·H, H] and `bias` [G·H] are those of `gates[g]`. There is one bias a gate, as
in the papers; PyTorch's cells have two, which are added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.nn.linear import linear

__all__ = ["Cell", "CellState", "ElmanCell", "Kernel", "LinearCell"]

CellState = tuple[Tensor, ...]
"""What a cell hands from step to step: (h,) or, for an LSTM, (h, c), each [R, H]. The first is also its output."""

Kernel = Literal["lstm", "gru", "rnn_tanh"]
"""PyTorch's fused kernels, by the names of the functions."""


class Cell(nn.Module, ABC):
    """One step of a recurrent network; `inputs` I and `width` H are the sizes of x and of the state.

    The parameters are unset until `initialise` or a load.
    """

    gates: ClassVar[tuple[str, ...]]
    parts: ClassVar[int] = 1
    """How many tensors a state has."""
    kernel: ClassVar[Kernel | None] = None
    """The fused kernel that computes exactly this cell; None where PyTorch has none."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.width = width
        rows = len(self.gates) * width
        self.input_weight = nn.Parameter(torch.empty(rows, inputs))
        self.hidden_weight = nn.Parameter(torch.empty(rows, width))
        self.bias = nn.Parameter(torch.empty(rows))

    def start(self, rows: int, like: Tensor) -> CellState:
        """A state of zeros, [rows, H] a part, in the type and on the device of `like`."""
        return tuple(like.new_zeros(rows, self.width) for _ in range(self.parts))

    def drive(self, x: Float[Tensor, "... inputs"], at: int = 0) -> Float[Tensor, "... gates"]:
        """The share of the input columns `at` … `at` + width of x: W·x, with the bias when `at` is 0.

        An input of several parts may be driven part by part, and the drives be added: the embeddings of a whole target
        at once, and the context, which must wait for the state before it, a step at a time. That is the C·c of
        Bahdanau et al. 2015, A.1.1, with W and C side by side in `input_weight`.
        """
        whole = at == 0 and x.shape[-1] == self.inputs
        weight = self.input_weight if whole else self.input_weight[:, at : at + x.shape[-1]]
        return linear(x, weight, self.bias if at == 0 else None)

    @abstractmethod
    def recur(self, drive: Float[Tensor, "R gates"], state: CellState) -> CellState:
        """The state after a step whose input contributes `drive`."""

    def step(self, x: Float[Tensor, "R inputs"], state: CellState) -> CellState:
        """The state after reading x: `recur(drive(x), state)`."""
        return self.recur(self.drive(x), state)

    def gate(self, parameter: Tensor, name: str) -> Tensor:
        """The rows of `input_weight`, `hidden_weight` or `bias` that belong to the gate `name`; a view."""
        place = self.gates.index(name)
        return parameter[place * self.width : (place + 1) * self.width]

    def kernel_weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The parameters as PyTorch's kernels take them: W [G·H, I], U [G·H, H] and a bias for each of the two."""
        return self.input_weight, self.hidden_weight, self.bias, torch.zeros_like(self.bias)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator | None = None) -> None:
        """Xavier-uniform W (Glorot and Bengio 2010), orthogonal U, zero biases, each gate drawn by itself.

        Orthogonal recurrent matrices are those of Bahdanau et al. 2015, B.1 (Saxe et al. 2014): all singular values are
        one, so that at first no direction of the state grows or fades by U. For gates drawn as one matrix the fan-out
        would be G times too large.
        """
        for name in self.gates:
            nn.init.xavier_uniform_(self.gate(self.input_weight, name), generator=generator)
            nn.init.orthogonal_(self.gate(self.hidden_weight, name), generator=generator)
        nn.init.zeros_(self.bias)

    def extra_repr(self) -> str:
        return f"{self.inputs} → {self.width}"


class LinearCell(Cell):
    """h = W·x + U·h₋₁ + b: no squashing, so that ∂h_T/∂h_t is U to the power T − t and nothing else.

    It is not for translation. On it the argument about vanishing and exploding gradients is exact: in the long run they
    go as powers of the spectral radius of U (Pascanu et al. 2013, §2.1).
    """

    gates = ("state",)

    def recur(self, drive: Float[Tensor, "R gates"], state: CellState) -> CellState:
        """W·x + b + U·h₋₁."""
        return (drive + linear(state[0], self.hidden_weight),)


class ElmanCell(Cell):
    """h = tanh(W·x + U·h₋₁ + b): the simple recurrent network (Elman 1990, figure 2).

    Elman's units are logistic; tanh is the form in which the network came to be used. (Pascanu et al. 2013, equation 2,
    squash the old state instead of the sum: x_t = W·σ(x_{t−1}) + …; the two differ in what is called the state.)
    """

    gates = ("state",)
    kernel = "rnn_tanh"

    def recur(self, drive: Float[Tensor, "R gates"], state: CellState) -> CellState:
        """tanh(W·x + b + U·h₋₁)."""
        return ((drive + linear(state[0], self.hidden_weight)).tanh(),)
