"""Long short-term memory in two forms: of 1997, without a forget gate, and of 2000, with one.

Their weights are not interchangeable: the cell of 1997 has no gate to which the rows of the forget gate could go, and
only a forget gate that is open for every input (bias → ∞) would compute the same.

Both squash with tanh, as is done today. The paper of 1997 has g(x) = 4σ(x) − 2 = 2·tanh(x/2) for what enters
and h(x) = 2σ(x) − 1 = tanh(x/2) for what leaves the cell (appendix A.1). Neither cell has the peepholes of Gers and
Schmidhuber 2000.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.nn.cells import Cell, CellState
from clearhead.nn.linear import linear

__all__ = ["Lstm1997Cell", "LstmCell"]


class Lstm1997Cell(Cell):
    """The LSTM of Hochreiter and Schmidhuber 1997, §4: input and output gate, and a cell that never forgets.

    i, g, o = σ, tanh, σ of W·x + U·h₋₁ + b;  c = c₋₁ + i∘g;  h = o∘tanh(c).

    The derivative of c by c₋₁ along the cell itself is exactly one, the "constant error carrousel" of §3.2. The cell
    can only add: over a long text it may grow without bound, which is what the forget gate was invented for.
    """

    gates = ("input", "candidate", "output")
    parts = 2

    def recur(self, drive: Float[Tensor, "R gates"], state: CellState) -> CellState:
        """(h, c) after one step."""
        hidden, cell = state
        admit, candidate, emit = (drive + linear(hidden, self.hidden_weight)).chunk(3, -1)
        cell = cell + admit.sigmoid() * candidate.tanh()
        return emit.sigmoid() * cell.tanh(), cell


class LstmCell(Cell):
    """The LSTM of Gers, Schmidhuber and Cummins 2000, §3, with the forget gate: what is meant by LSTM today.

    i, f, g, o = σ, σ, tanh, σ of W·x + U·h₋₁ + b;  c = f∘c₋₁ + i∘g;  h = o∘tanh(c)  (Zaremba et al. 2014, §3.1).

    `forget_bias` is what the bias of the forget gate starts from. At 1 the cell remembers until it has learnt to
    forget (Gers et al. 2000 start it positive; Jozefowicz et al. 2015, abstract: 1 closes the gap to the GRU). The
    order of the gates is that of PyTorch's kernel.
    """

    gates = ("input", "forget", "candidate", "output")
    parts = 2
    kernel = "lstm"

    def __init__(self, inputs: int, width: int, forget_bias: float = 1.0) -> None:
        super().__init__(inputs, width)
        self.forget_bias = forget_bias

    def recur(self, drive: Float[Tensor, "R gates"], state: CellState) -> CellState:
        """(h, c) after one step."""
        hidden, cell = state
        admit, keep, candidate, emit = (drive + linear(hidden, self.hidden_weight)).chunk(4, -1)
        cell = keep.sigmoid() * cell + admit.sigmoid() * candidate.tanh()
        return emit.sigmoid() * cell.tanh(), cell

    @torch.no_grad()
    def initialise(self, generator: torch.Generator | None = None) -> None:
        """As every cell (see `Cell.initialise`), with `forget_bias` in the forget gate."""
        super().initialise(generator)
        nn.init.constant_(self.gate(self.bias, "forget"), self.forget_bias)
