"""Recurrent cells against numbers worked out by hand, its formula in scalars, and PyTorch's cells where it has them.

The hand-worked numbers use sigmoid(ln 3) = 3/4, sigmoid(ln 4) = 4/5, tanh(ln 2) = 3/5, sigmoid(0) = 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from clearhead.nn.cells import Cell, ElmanCell, LinearCell
from clearhead.nn.gru import GruAfterCell, GruBeforeCell
from clearhead.nn.lstm import Lstm1997Cell, LstmCell

LN2, LN3, LN4 = math.log(2), math.log(3), math.log(4)
ALL = [LinearCell, ElmanCell, Lstm1997Cell, LstmCell, GruBeforeCell, GruAfterCell]


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def filled(cell: Cell, inputs: object, hidden: object, bias: object) -> Cell:
    """The cell in float64 with these numbers as parameters."""
    cell.double()
    with torch.no_grad():
        cell.input_weight.copy_(tensor(inputs))
        cell.hidden_weight.copy_(tensor(hidden))
        cell.bias.copy_(tensor(bias))
        if isinstance(cell, GruAfterCell):
            cell.hidden_bias.zero_()
    return cell


def drawn(kind: type[Cell], inputs: int = 3, width: int = 4, seed: int = 0) -> Cell:
    """A cell in float64 with every parameter drawn from N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    cell = kind(inputs, width).double()
    for parameter in cell.parameters():
        nn.init.normal_(parameter, generator=generator)
    return cell


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(found: Tensor, wanted: object, atol: float = 1e-15) -> None:
    wanted = wanted if isinstance(wanted, Tensor) else tensor(wanted)
    torch.testing.assert_close(found, wanted, rtol=0, atol=atol)


# ---------------------------------------------------------------------------------------------------- by hand


def test_linear_and_elman_by_hand() -> None:
    """0.5·2 + (0.25·8 − 3) + (ln 2 − 0) for the first unit: the drive is 0 + ln 2, so tanh gives 3/5."""
    weights = ([[0.5], [1.0]], [[0.25, 0.0], [0.0, -1.0]], [LN2 - 3.0, LN3 - 1.0])
    x, state = tensor([[2.0]]), (tensor([[8.0, 1.0]]),)
    close(filled(LinearCell(1, 2), *weights).step(x, state)[0], [[LN2, LN3]])
    close(filled(ElmanCell(1, 2), *weights).step(x, state)[0], [[0.6, 0.8]])


def test_lstm_by_hand() -> None:
    """i = 3/4, f = 1/2, g = 3/5, o = 4/5, c₋₁ = 2: c = 1/2·2 + 3/4·3/5 = 1.45, h = 4/5·tanh 1.45."""
    cell = filled(
        LstmCell(1, 1), [[LN3 - 1], [1.0], [2 * LN2], [0.0]], [[2.0], [-2.0], [-2 * LN2], [4.0]], [0, 0, 0, LN4 - 2]
    )
    hidden, memory = cell.step(tensor([[1.0]]), (tensor([[0.5]]), tensor([[2.0]])))
    close(memory, [[1.45]])
    close(hidden, [[0.8 * math.tanh(1.45)]])


def test_lstm_of_1997_by_hand() -> None:
    """The same gates but none that forgets: c = 2 + 3/4·3/5 = 2.45."""
    cell = filled(Lstm1997Cell(1, 1), [[LN3 - 1], [2 * LN2], [0.0]], [[2.0], [-2 * LN2], [4.0]], [0, 0, LN4 - 2])
    hidden, memory = cell.step(tensor([[1.0]]), (tensor([[0.5]]), tensor([[2.0]])))
    close(memory, [[2.45]])
    close(hidden, [[0.8 * math.tanh(2.45)]])


GRU_INPUT = [[LN3], [4.0], [-4.0], [0.0], [0.0], [0.0]]
GRU_HIDDEN = [[0.0, 0.0], [0.0, -2.0], [1.0, 0.0], [0.0, -LN3 / 2], [LN2, -2 * LN2], [0.0, LN2]]
"""With x = 1 and h₋₁ = (4, 2): r = (3/4, 1/2), z = (1/2, 1/4); U = ln 2·[[1, −2], [0, 1]] for the candidate."""


def test_gru_with_reset_before_by_hand() -> None:
    """U·(r∘s) = ln 2·[[1, −2], [0, 1]]·(3, 1) = (ln 2, ln 2), so s̃ = (3/5, 3/5) and s = (1 − z)∘s₋₁ + z∘s̃."""
    cell = filled(GruBeforeCell(1, 2), GRU_INPUT, GRU_HIDDEN, [0.0] * 6)
    close(cell.step(tensor([[1.0]]), (tensor([[4.0, 2.0]]),))[0], [[0.5 * 4 + 0.5 * 0.6, 0.75 * 2 + 0.25 * 0.6]])


def test_gru_with_reset_after_by_hand() -> None:
    """r∘(U·h) = ln 2·(3/4·0, 1/2·2) = (0, ln 2), so n = (0, 3/5) and h = (1 − z)∘n + z∘h₋₁.

    With b′ = ln 2·(4/3, 0), r∘b′ = (ln 2, 0) and n = (3/5, 3/5).
    """
    cell = filled(GruAfterCell(1, 2), GRU_INPUT, GRU_HIDDEN, [0.0] * 6)
    x, state = tensor([[1.0]]), (tensor([[4.0, 2.0]]),)
    close(cell.step(x, state)[0], [[0.5 * 0 + 0.5 * 4, 0.75 * 0.6 + 0.25 * 2]])
    with torch.no_grad():
        cell.hidden_bias.copy_(tensor([LN2 * 4 / 3, 0.0]))  # type: ignore[operator]
    close(cell.step(x, state)[0], [[0.5 * 0.6 + 0.5 * 4, 0.75 * 0.6 + 0.25 * 2]])


def test_the_two_gru_forms_are_different_functions() -> None:
    """Neither as they stand, nor with z turned round, nor by exchanging r's place."""
    before, after = drawn(GruBeforeCell), drawn(GruAfterCell)
    after.load_state_dict({**before.state_dict(), "hidden_bias": torch.zeros(4)})
    x, state = draw(2, 3), (draw(2, 4, seed=2),)
    assert not torch.allclose(before.step(x, state)[0], after.step(x, state)[0], atol=0.1)
    with torch.no_grad():
        for parameter in (after.input_weight, after.hidden_weight, after.bias):
            after.gate(parameter, "update").neg_()  # z → 1 − z: only the place of r is left
    difference = before.step(x, state)[0] - after.step(x, state)[0]
    assert difference.abs().max() > 0.01
    with torch.no_grad():
        for cell in (before, after):  # a diagonal U is the one case in which the two are the same
            matrix = cell.gate(cell.hidden_weight, "candidate")
            matrix.copy_(matrix.diag().diag())
    close(before.step(x, state)[0], after.step(x, state)[0], 1e-12)


# ---------------------------------------------------------------------------------------------------- in scalars


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def scalar_step(cell: Cell, x: list[float], state: list[list[float]]) -> list[list[float]]:
    """One step of one row by plain Python numbers, unit by unit, from the formulas in the papers."""
    width, hidden = cell.width, state[0]

    def summed(gate: str, unit: int, past: list[float]) -> tuple[float, float]:
        """(W·x + b, U·past) of one unit of one gate."""
        row = cell.gates.index(gate) * width + unit
        drive = sum(w * v for w, v in zip(cell.input_weight[row].tolist(), x))
        return drive + cell.bias[row].item(), sum(u * v for u, v in zip(cell.hidden_weight[row].tolist(), past))

    def plain(gate: str) -> list[float]:
        return [sum(summed(gate, unit, hidden)) for unit in range(width)]

    if isinstance(cell, LinearCell):
        return [plain("state")]
    if isinstance(cell, ElmanCell):
        return [[math.tanh(a) for a in plain("state")]]
    if isinstance(cell, Lstm1997Cell | LstmCell):
        keep = [sigmoid(a) for a in plain("forget")] if isinstance(cell, LstmCell) else [1.0] * width
        admit, emit = ([sigmoid(a) for a in plain(gate)] for gate in ("input", "output"))
        candidate = [math.tanh(a) for a in plain("candidate")]
        memory = [f * c + i * g for f, c, i, g in zip(keep, state[1], admit, candidate)]
        return [[o * math.tanh(c) for o, c in zip(emit, memory)], memory]
    reset, update = ([sigmoid(a) for a in plain(gate)] for gate in ("reset", "update"))
    if isinstance(cell, GruBeforeCell):
        past = [r * s for r, s in zip(reset, hidden)]
        candidate = [math.tanh(sum(summed("candidate", unit, past))) for unit in range(width)]
        return [[(1 - z) * s + z * new for z, s, new in zip(update, hidden, candidate)]]
    assert isinstance(cell, GruAfterCell)
    parts = [summed("candidate", unit, hidden) for unit in range(width)]
    biases = cell.hidden_bias.tolist()
    candidate = [math.tanh(drive + r * (past + b)) for (drive, past), r, b in zip(parts, reset, biases)]
    return [[(1 - z) * new + z * s for z, s, new in zip(update, hidden, candidate)]]


def disagreement(cell: Cell, other: Cell) -> float:
    """The greatest difference between a step of `cell` and the scalar formula of `other`."""
    x = draw(2, cell.inputs)
    state = tuple(draw(2, cell.width, seed=part + 2) for part in range(cell.parts))
    after = cell.step(x, state)
    worst = 0.0
    for row in range(2):
        wanted = scalar_step(other, x[row].tolist(), [part[row].tolist() for part in state])
        worst = max(worst, *((part[row] - tensor(w)).abs().max().item() for part, w in zip(after, wanted)))
    return worst


@pytest.mark.parametrize("kind", ALL)
def test_a_step_is_the_formula(kind: type[Cell]) -> None:
    cell = drawn(kind)
    assert disagreement(cell, cell) < 1e-13


@pytest.mark.parametrize("kind", [LstmCell, Lstm1997Cell, GruBeforeCell, GruAfterCell])
def test_gates_out_of_order_are_noticed(kind: type[Cell]) -> None:
    """The fault that the formula's test must catch: the rows of two gates exchanged in one of the matrices."""
    cell = drawn(kind)
    for parameter in (cell.input_weight, cell.hidden_weight, cell.bias):
        kept = parameter.detach().clone()
        truth = drawn(kind)
        with torch.no_grad():
            parameter.copy_(torch.cat([kept[4:8], kept[:4], kept[8:]]))
        assert disagreement(cell, truth) > 0.01
        with torch.no_grad():
            parameter.copy_(kept)


# ---------------------------------------------------------------------------------------------------- PyTorch's cells


@pytest.mark.parametrize(
    ("kind", "theirs"), [(ElmanCell, nn.RNNCell), (LstmCell, nn.LSTMCell), (GruAfterCell, nn.GRUCell)]
)
def test_the_forms_that_pytorch_has(kind: type[Cell], theirs: Callable[[int, int], nn.Module]) -> None:
    cell, peer = drawn(kind), theirs(3, 4).double()
    weights = cell.kernel_weights()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    peer.load_state_dict({name: weight.detach() for name, weight in zip(names, weights)})
    x = draw(2, 3)
    state = tuple(draw(2, 4, seed=part + 2) for part in range(cell.parts))
    found = cell.step(x, state)
    wanted = peer(x, state if cell.parts == 2 else state[0])
    for mine, other in zip(found, wanted if cell.parts == 2 else (wanted,)):
        close(mine, other, 1e-14)


def test_reset_before_is_not_pytorchs_form() -> None:
    cell, peer = drawn(GruBeforeCell), nn.GRUCell(3, 4).double()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    peer.load_state_dict({name: weight.detach() for name, weight in zip(names, cell.kernel_weights())})
    assert not torch.allclose(cell.step(draw(2, 3), (draw(2, 4, seed=2),))[0], peer(draw(2, 3), draw(2, 4, seed=2)))
    assert cell.kernel is None


# ---------------------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize("kind", ALL)
def test_an_input_in_two_parts(kind: type[Cell]) -> None:
    """The embedding's drive and the context's, added, are the drive of both side by side; the bias counts once."""
    cell, x = drawn(kind, inputs=5), draw(2, 6, 5)
    close(cell.drive(x[..., :3]) + cell.drive(x[..., 3:], at=3), cell.drive(x), 1e-13)
    state = cell.start(2, x)
    for whole, parts in zip(
        cell.step(x[:, 0], state), cell.recur(cell.drive(x[:, 0, :3]) + cell.drive(x[:, 0, 3:], 3), state)
    ):
        close(whole, parts, 1e-13)


def test_parts_in_float32_take_the_fast_road_too() -> None:
    cell = drawn(GruBeforeCell, inputs=5).float()
    x = draw(8, 5).float().requires_grad_()
    parts = cell.drive(x[:, :3]) + cell.drive(x[:, 3:], at=3)
    torch.testing.assert_close(parts, cell.drive(x))
    gradients = [torch.autograd.grad(y.square().sum(), cell.input_weight)[0] for y in (parts, cell.drive(x))]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("kind", ALL)
def test_initial_parameters(kind: type[Cell]) -> None:
    cell = kind(24, 16)
    cell.initialise(torch.Generator().manual_seed(3))
    for name in cell.gates:
        bound = math.sqrt(6 / (24 + 16))  # of the gate's own fan-out, not that of all gates
        largest = float(cell.gate(cell.input_weight, name).detach().abs().max())
        assert 0.95 * bound < largest <= bound
        matrix = cell.gate(cell.hidden_weight, name).detach()
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(16), rtol=0, atol=1e-5)
        bias = cell.gate(cell.bias, name).detach()
        assert torch.equal(bias, torch.full((16,), 1.0 if name == "forget" else 0.0))
    again = kind(24, 16)
    again.initialise(torch.Generator().manual_seed(3))
    for (name, mine), (_, other) in zip(cell.named_parameters(), again.named_parameters()):
        assert torch.equal(mine, other), name


def test_the_forget_bias_is_a_choice() -> None:
    cell = LstmCell(2, 3, forget_bias=0.5)
    cell.initialise()
    assert cell.bias.tolist() == [0.0] * 3 + [0.5] * 3 + [0.0] * 6


def test_gradients_through_a_linear_cell_are_powers_of_its_matrix() -> None:
    """∂h_T/∂h_0 = U·U·…·U: the order of the product and U, not Uᵀ."""
    cell = drawn(LinearCell)

    def after(hidden: Tensor) -> Tensor:
        state: tuple[Tensor, ...] = (hidden[None],)
        for step in range(5):
            state = cell.step(draw(1, 3, seed=step), state)
        return state[0][0]

    found = torch.autograd.functional.jacobian(after, draw(4))
    close(found, torch.linalg.matrix_power(cell.hidden_weight.detach(), 5), 1e-11)
    assert not torch.allclose(found, torch.linalg.matrix_power(cell.hidden_weight.detach().T, 5))


@pytest.mark.parametrize(("kind", "factor"), [(Lstm1997Cell, 1.0), (LstmCell, 0.75)])
def test_the_path_along_the_memory(kind: type[Cell], factor: float) -> None:
    """With gates that do not read the state, ∂c_T/∂c_0 is 1 in 1997 and the forget gate to the power T in 2000."""
    cell = drawn(kind)
    with torch.no_grad():
        cell.hidden_weight.zero_()
        if "forget" in cell.gates:
            cell.gate(cell.input_weight, "forget").zero_()
            cell.gate(cell.bias, "forget").fill_(LN3)

    def after(memory: Tensor) -> Tensor:
        state: tuple[Tensor, ...] = (torch.zeros(1, 4, dtype=torch.float64), memory[None])
        for step in range(50):
            state = cell.step(draw(1, 3, seed=step), state)
        return state[1][0]

    close(torch.autograd.functional.jacobian(after, draw(4)), torch.eye(4, dtype=torch.float64) * factor**50, 1e-15)
