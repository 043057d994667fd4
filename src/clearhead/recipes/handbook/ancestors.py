"""The lineage where modules of ours compute it: recurrent cells and their gradients, early attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clearhead.models.recurrent_config import RecurrentEncoderConfig
from clearhead.nn.cells import Cell, CellState, ElmanCell, LinearCell
from clearhead.nn.gru import GruBeforeCell
from clearhead.nn.lstm import LstmCell
from clearhead.nn.scores import Additive, Dot
from clearhead.nn.visibility import Visibility
from clearhead.nn.windows import GlobalCore, LocalMonotonicCore, LocalPredictiveCore
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import EVERYTHING, IDENTITY, X, matrix, set_map, vector

__all__: list[str] = []

GATE = math.log(0.99 / 0.01)
"""What a gate of 0.99 is the sigmoid of."""


@torch.no_grad()
def _cell(kind: type[Cell], hidden: Tensor, bias: Tensor) -> Cell:
    """A cell that takes no notice of its input, with the given recurrent matrix and biases."""
    cell = kind(1, hidden.shape[1]).double()
    cell.input_weight.zero_()
    cell.hidden_weight.copy_(hidden)
    cell.bias.copy_(bias)
    return cell


def _linear(weight: float) -> Cell:
    return _cell(LinearCell, matrix([[weight]]), vector(0))


def _elman(weight: float, state: float) -> Cell:
    """With the bias that keeps the state where it is: tanh(weight·h + b) = h."""
    return _cell(ElmanCell, matrix([[weight]]), vector(math.atanh(state) - weight * state))


def _lstm() -> Cell:
    """Its forget gate is 0.99 whatever it reads; input gate, candidate and output gate stand at σ(0), tanh(0), σ(0)."""
    cell = _cell(LstmCell, torch.zeros(4, 1, dtype=torch.float64), torch.zeros(4, dtype=torch.float64))
    with torch.no_grad():
        cell.gate(cell.bias, "forget").fill_(GATE)
    return cell


def _through(cell: Cell, steps: int, start: CellState) -> Tensor:
    """∂(the last part of the state after `steps`)/∂(that part at first), by autograd; [H, H]."""

    def run(part: Tensor) -> Tensor:
        state = (*start[:-1], part[None])
        for _ in range(steps):
            state = cell.step(torch.zeros(1, 1, dtype=torch.float64), state)
        return state[-1][0]

    jacobian: Tensor = torch.func.jacrev(run)(start[-1][0])
    return jacobian


def _once(cell: Cell, steps: int, *start: float) -> Tensor:
    return _through(cell, steps, tuple(matrix([[each]]) for each in start))[0, 0]


@facts("rnn", "shrinking growing tanh_factor gate_path", by=[LinearCell, ElmanCell, LstmCell])
def products() -> tuple[Tensor, ...]:
    """Gradients through many steps: of linear cells, of an Elman cell, and along the cell of an LSTM."""
    shrinking, growing = _once(_linear(0.9), 50, 1.0), _once(_linear(1.1), 50, 1.0)
    return shrinking, growing, _once(_elman(1.1, 0.5), 50, 0.5), _once(_lstm(), 100, 0.0, 1.0)


@facts("rnn", "factors gate tanh_slope tanh_step", by=[LinearCell, LstmCell, ElmanCell])
def single_steps() -> tuple[Tensor, ...]:
    """What one step of each cell multiplies a gradient by."""
    factors = torch.stack([_once(_linear(0.9), 1, 1.0), _once(_linear(1.1), 1, 1.0)])
    return factors, _once(_lstm(), 1, 0.0, 1.0), _once(_elman(1.0, 0.5), 1, 0.5), _once(_elman(1.1, 0.5), 1, 0.5)


@facts("rnn", "half_life", by=[LstmCell])
def half_life() -> int:
    """Steps after which a forget gate of 0.99 has let through half or less."""
    cell = _lstm()
    return next(steps for steps in range(1, 1000) if _once(cell, steps, 0.0, 1.0) <= 0.5)


@facts("rnn", "matrix singular_value power_norms", by=[LinearCell], given="matrix")
def transient() -> tuple[Tensor, Tensor, list[Tensor]]:
    """A recurrent matrix whose eigenvalues are below one, and how large its gradients are all the same."""
    weight = matrix([[0.9, 1], [0, 0.9]])
    cell, start = _cell(LinearCell, weight, vector(0, 0)), (matrix([[1, 1]]),)
    norms = [torch.linalg.matrix_norm(_through(cell, steps, start)) for steps in (1, 5, 10, 50, 100)]
    return weight, torch.linalg.svdvals(_through(cell, 1, start))[0], norms


@facts("rnn", "lstm_parameters gru_parameters", by=[LstmCell, GruBeforeCell])
def gates() -> tuple[int, int]:
    """Width 512, inputs of 512, one bias a gate."""
    with torch.device("meta"):
        cells = LstmCell(512, 512), GruBeforeCell(512, 512)
    lstm, gru = (sum(each.numel() for each in cell.parameters()) for cell in cells)
    return lstm, gru


@facts("bahdanau", "width", by=[RecurrentEncoderConfig])
def annotation_width() -> int:
    """How wide a decoder finds the annotations of an encoder of 1000 units a direction."""
    return RecurrentEncoderConfig(cell="gru-before", width=1000, bidirectional=True).memory_width


@facts("bahdanau", "query sums tanh energies weights context", by=[Additive, GlobalCore], given="query")
def additive_attention() -> tuple[Tensor, ...]:
    """v·tanh(W·s + U·h) with W and U the identity and v all ones; the context by the core itself."""
    score = Additive(2, 2, 2).double()
    set_map(score.query, IDENTITY)
    set_map(score.key, IDENTITY)
    set_map(score.energy, matrix([[1], [1]]))
    query, core = vector(1, 0), GlobalCore(score)
    asked, kept = query[None, None, None], core.remember(X[None])
    sums = score.query(query) + kept[0, 0]
    weights = core.weights(asked, kept, EVERYTHING)[0, 0, 0]
    context = core(asked, kept, X[None, None], EVERYTHING)[0, 0, 0]
    return query, sums, torch.tanh(sums), score(asked, kept)[0, 0, 0], weights, context


@facts("luong", "window", by=[LocalMonotonicCore])
def window() -> int:
    """Positions that a query reads of a long source when the window reaches ten to either side."""
    keys = torch.zeros(1, 1, 60, 1, dtype=torch.float64)
    seen = Visibility(torch.ones(1, 1, 1, 60, dtype=torch.bool), torch.tensor([[30]]))
    weights = LocalMonotonicCore(Dot(1, 1), 10).weights(keys[:, :, :1], keys, seen)
    return int((weights > 0).sum())


@facts(
    "luong",
    "centre gaussian local_weights local_sum local_renormalised",
    by=[LocalPredictiveCore],
    given="local_renormalised",
)
def local_attention() -> tuple[float | Tensor, ...]:
    """Equal scores on words 1 to 4 and a Gaussian around 2.4; and as if its weights were made to sum to one.

    The core counts from 0, so its centre is 1.4 = 4·σ(v·tanh(W·h)) for h = W = 1.
    """
    core = LocalPredictiveCore(Dot(1, 1), 2).double()
    set_map(core.hidden, matrix([[1]]))
    set_map(core.position, matrix([[math.log(0.35 / 0.65) / math.tanh(1)]]))
    query, keys = torch.ones(1, 1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, 4, 1, dtype=torch.float64)
    seen = Visibility(torch.ones(1, 1, 1, 4, dtype=torch.bool), torch.zeros(1, 1, dtype=torch.int64))
    weights = core.weights(query, keys, seen)[0, 0, 0]
    centre = core.centre(query, seen).item() + 1
    gaussian = weights / GlobalCore(Dot(1, 1)).weights(query, keys, seen)[0, 0, 0]
    return centre, gaussian, weights, weights.sum(), torch.nn.functional.normalize(weights, p=1.0, dim=0)
