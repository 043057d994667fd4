"""Norms of Jacobians against products by hand, powers of matrices, and derivatives of the whole at once."""

import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.analysis.gradients import (
    GradientCurve,
    decoder_curve,
    encoder_curve,
    initial_curve,
    initial_curves,
    scale_to_radius,
    spectral_radius,
    state_norms,
)
from clearhead.base.errors import InputError
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.config import MixedConfig
from clearhead.models.recurrent_config import RecurrentEncoderConfig, Seq2SeqConfig
from clearhead.nn.cells import Cell
from clearhead.nn.padding import Padded
from clearhead.nn.recurrent import CellKind, make_cell
from clearhead.nn.visibility import Visibility

KINDS: tuple[CellKind, ...] = ("linear", "elman", "lstm-1997", "lstm", "gru-before", "gru-after")


def still(kind: CellKind, width: int) -> Cell:
    """A cell in float64 of which every parameter is zero."""
    cell = make_cell(kind, width, width).double()
    for parameter in cell.parameters():
        torch.nn.init.zeros_(parameter)
    return cell


def set_gate(parameter: Tensor, value: float | list[list[float]]) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(value, dtype=torch.float64).expand_as(parameter))


# ----------------------------------------------------------------------------------------------------------- the cells


def test_a_linear_cell_gives_the_powers_of_its_matrix() -> None:
    matrix = [[0.5, 3.0], [0.0, 0.5]]  # both eigenvalues 0.5, and yet it grows at first
    cell = still("linear", 2)
    set_gate(cell.hidden_weight, matrix)
    norms = state_norms(cell, torch.randn(9, 2, generator=torch.Generator().manual_seed(1)))
    expected = [np.linalg.norm(np.linalg.matrix_power(np.array(matrix), k), 2) for k in range(9)]
    np.testing.assert_allclose(norms, expected, rtol=1e-12)
    assert norms[1] > 3 and norms[8] < 0.2
    assert spectral_radius(cell.hidden_weight) == pytest.approx(0.5, abs=1e-6)  # a double eigenvalue is ill-conditioned


def test_an_elman_cell_at_rest_is_the_linear_one() -> None:
    matrix = [[0.3, -0.8], [0.9, 0.4]]
    linear, elman = still("linear", 2), still("elman", 2)
    for cell in (linear, elman):
        set_gate(cell.hidden_weight, matrix)
    nothing = torch.zeros(12, 2)
    np.testing.assert_allclose(state_norms(elman, nothing), state_norms(linear, nothing), rtol=1e-12)


def test_an_elman_cell_with_inputs_is_the_product_in_the_right_order() -> None:
    matrix = np.array([[0.9, -1.4], [0.2, 0.7]])
    x = np.array([[0.3, -0.2], [1.0, 0.5], [-0.7, 0.1], [0.2, 0.9]])
    cell = still("elman", 2)
    set_gate(cell.hidden_weight, matrix.tolist())
    set_gate(cell.input_weight, [[1.0, 0.0], [0.0, 1.0]])
    states = [np.zeros(2)]
    for row in x:
        states.append(np.tanh(row + matrix @ states[-1]))
    steps = [np.diag(1 - state**2) @ matrix for state in states[1:]]  # ∂h_k/∂h_{k−1}, k = 1 …
    expected = [1.0, *(np.linalg.norm(np.linalg.multi_dot([np.eye(2), *steps[-k:][::-1]]), 2) for k in (1, 2, 3))]
    turned = [1.0, *(np.linalg.norm(np.linalg.multi_dot([np.eye(2), *steps[-k:]]), 2) for k in (1, 2, 3))]
    norms = state_norms(cell, torch.tensor(x))
    np.testing.assert_allclose(norms, expected, rtol=1e-12)
    assert not np.allclose(norms, turned, rtol=1e-3)  # the order matters here, so the test would see it


def test_an_lstm_keeps_what_its_forget_gate_lets_through() -> None:
    cell = still("lstm", 1)
    for gate, value in {"input": 0.4, "forget": 2.0, "candidate": 0.8, "output": -0.3}.items():
        set_gate(cell.gate(cell.bias, gate), value)
    length = 7
    forget, admit, emit = (1 / (1 + math.exp(-value)) for value in (2.0, 0.4, -0.3))
    memory = 0.0
    for _ in range(length):
        memory = forget * memory + admit * math.tanh(0.8)
    leaves = emit * (1 - math.tanh(memory) ** 2)  # ∂h_T/∂c_T
    norms = state_norms(cell, torch.zeros(length, 1))
    expected = [1.0, *(forget**k * math.hypot(1.0, leaves) for k in range(1, length))]  # ∂c_T/∂c_t = Π f
    np.testing.assert_allclose(norms, expected, rtol=1e-12)


def test_the_cell_of_1997_is_a_constant_carrousel() -> None:
    cell = still("lstm-1997", 3)
    norms = state_norms(cell, torch.zeros(60, 3))
    np.testing.assert_allclose(norms[1:], math.hypot(1.0, 0.5), rtol=1e-12)  # c stays 0, the output gate is half open


@pytest.mark.parametrize("kind", KINDS)
def test_every_cell_against_the_derivative_of_all_steps_at_once(kind: CellKind) -> None:
    cell = make_cell(kind, 3, 4).double()
    cell.initialise(torch.Generator().manual_seed(5))
    x = torch.randn(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    states = [cell.start(1, x)]
    for row in x:
        states.append(cell.step(row[None], states[-1]))

    def last_from(t: int, joint: Tensor) -> Tensor:
        state = tuple(joint.chunk(cell.parts, -1))
        for row in x[t:]:
            state = cell.step(row[None], state)
        return torch.cat(state, -1)[0]

    norms = state_norms(cell, x, distance=6)
    assert len(norms) == 7
    for distance, norm in enumerate(norms):
        t = len(x) - distance
        start = torch.cat(states[t], -1).detach()
        whole = torch.autograd.functional.jacobian(lambda joint, t=t: last_from(t, joint), start)
        assert norm == pytest.approx(float(torch.linalg.svdvals(whole[:, 0])[0]), rel=1e-10)


def test_what_vanishes_altogether_is_zero_and_not_nan() -> None:
    assert state_norms(still("linear", 2), torch.zeros(4, 2)) == [1.0, 0.0, 0.0, 0.0]


def test_hundreds_of_small_factors_do_not_underflow() -> None:
    cell = still("linear", 1)
    set_gate(cell.hidden_weight, 0.1)
    assert state_norms(cell, torch.zeros(301, 1))[-1] == pytest.approx(1e-300, rel=1e-9)


# -------------------------------------------------------------------------------------------------------- first weights


def test_scaling_sets_the_radius_of_cells_without_gates_alone() -> None:
    cell = still("elman", 2)
    set_gate(cell.hidden_weight, [[0.0, -2.0], [2.0, 0.0]])  # eigenvalues ±2i
    scale_to_radius(cell, 0.9)
    np.testing.assert_allclose(cell.hidden_weight.detach(), [[0.0, -0.9], [0.9, 0.0]], rtol=1e-14)
    with pytest.raises(InputError, match="LstmCell has 4 recurrent matrices"):
        scale_to_radius(make_cell("lstm", 2, 2), 0.9)
    with pytest.raises(InputError, match="is 0; draw another"):
        scale_to_radius(still("linear", 2), 0.9)


@pytest.mark.parametrize("radius", [0.9, 1.0, 1.1])
def test_an_orthogonal_matrix_scaled_gives_powers_of_the_radius(radius: float) -> None:
    curve = initial_curve("linear", width=12, distance=40, draws=2, radius=radius)
    np.testing.assert_allclose(curve.median, [radius**k for k in range(41)], rtol=1e-4)  # drawn in float32
    assert curve.radius == radius and not curve.trained and curve.state == "h"


def test_a_radius_above_one_is_not_sufficient_to_explode_nor_one_below_to_shrink_at_once() -> None:
    options = {"width": 24, "distance": 80, "draws": 2}
    assert initial_curve("linear", radius=1.1, **options).median[80] > 1000
    assert initial_curve("elman", radius=1.1, **options).median[80] < 0.01  # Pascanu et al. 2013: necessary only
    lopsided = initial_curve("linear", radius=0.9, recurrence="gaussian", **options)
    assert lopsided.median[1] > 1.2 and lopsided.median[80] < 0.1


def test_initial_curves_name_every_cell_and_repeat_themselves() -> None:
    said: list[str] = []
    curves = initial_curves(width=4, distance=3, draws=1, progress=said.append)
    assert {curve.name for curve in curves if curve.radius is None} == set(KINDS)
    scaled = {(curve.name, curve.radius) for curve in curves if curve.radius is not None}
    assert scaled == {(name, r) for c in ("linear", "elman") for name in (c, f"{c}, gaussian") for r in (0.9, 1.0, 1.1)}
    assert [curve.state for curve in curves if curve.name.startswith("lstm")] == ["h and c"] * 2
    assert curves == initial_curves(width=4, distance=3, draws=1) and len(said) == len(curves)
    assert curves[1] != initial_curves(width=4, distance=3, draws=1, seed=9)[1]


# ----------------------------------------------------------------------------------------------------------- the models


def recurrent(cell: CellKind, **more: object):
    encoder = RecurrentEncoderConfig(cell=cell, embedding=5, width=6, dropout=0.4, **more)
    return build(MixedConfig(vocab_size=20, encoder=encoder, decoder=Seq2SeqConfig(embedding=5, width=6)), seed=3)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrent_encoder_is_measured_in_the_order_in_which_it_reads(bidirectional: bool, reverse: bool) -> None:
    model = recurrent("lstm", bidirectional=bidirectional, reverse=reverse)
    source = [7, 8, 9, 10, 11, 3]
    curve = encoder_curve("mine", model, [source, source])
    assert model.training and all(parameter.grad is None for parameter in model.parameters())
    model.eval()
    stack = model.encoder.stack
    cell = stack.forwards[0] if bidirectional else stack.cells[0]
    read = {way: model.encoder.input(torch.tensor(ids)) for way, ids in ((False, source), (True, [11, 10, 9, 8, 7, 3]))}
    np.testing.assert_allclose(curve.median, state_norms(cell, read[reverse]), rtol=1e-12)
    assert not np.allclose(curve.median, state_norms(cell, read[not reverse]), rtol=1e-6)
    assert (curve.name, curve.trained, curve.distances) == ("mine", True, (0, 1, 2, 3, 4, 5))


@pytest.fixture
def transformer():
    figures = {"d_model": 8, "d_ff": 12, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.3}
    return build(presets.tiny(vocab_size=20, attention={"heads": 2}, **figures), seed=2).double()


def test_a_transformers_encoder_against_its_layers_one_by_one(transformer) -> None:
    source = [7, 8, 9, 10, 3]
    curve = encoder_curve("encoder", transformer, [source], distance=3, trained=False)
    encoder = transformer.eval().encoder
    entered = encoder.input(torch.tensor([source]), torch.arange(5)[None]).detach()

    def top(x: Tensor) -> Tensor:
        for layer in encoder.layers:
            x = layer(x, Visibility.of_keys(torch.ones(1, 5, dtype=torch.bool)))
        return encoder.norm(x)[0, -1]

    whole = torch.autograd.functional.jacobian(top, entered)[:, 0]  # [D, 5, D]
    expected = [float(torch.linalg.svdvals(whole[:, 4 - k])[0]) for k in range(4)]
    np.testing.assert_allclose(curve.median, expected, rtol=1e-9)
    assert not curve.trained and len(encoder.input._forward_hooks) == 0


def test_a_transformers_decoder_against_small_changes(transformer) -> None:
    source, prefix = [7, 8, 3], [2, 9, 10, 11]
    curve = decoder_curve("decoder", transformer, [(source, prefix)])
    transformer.eval()

    def moved(at: int, which: int, by: float) -> Tensor:
        def nudge(_module: object, _args: object, output: Tensor) -> Tensor:
            output = output.clone()
            output[0, at, which] += by
            return output

        handle = transformer.decoder.input.register_forward_hook(nudge)
        state = transformer.decoder.start(transformer.encoder(Padded.from_lists([source])))
        hidden = transformer.decoder.advance(Padded.from_lists([prefix]), state)[0][0, -1].detach()
        handle.remove()
        return hidden

    for distance in range(4):
        columns = [(moved(3 - distance, d, 1e-5) - moved(3 - distance, d, -1e-5)) / 2e-5 for d in range(8)]
        expected = float(torch.linalg.svdvals(torch.stack(columns, 1))[0])
        assert curve.median[distance] == pytest.approx(expected, rel=1e-5)


def test_models_of_another_kind_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="Seq2SeqDecoder is not a Transformer's decoder"):
        decoder_curve("mine", recurrent("gru-before"), [([5, 3], [2])])
    with pytest.raises(InputError, match="gradients of mine: there is no text"):
        encoder_curve("mine", recurrent("gru-before"), [])


# ------------------------------------------------------------------------------------------------------------ the curve


def test_a_curve_is_the_median_and_the_quartiles_as_far_as_all_reach() -> None:
    curve = GradientCurve.of("elman", "h", [[1, 1.0, 9], [1, 2.0], [1, 4.0, 9], [1, 3.0, 9], [1, 9.0, 9]])
    assert (curve.distances, curve.median, curve.low, curve.high) == ((0, 1), (1, 3.0), (1, 2.0), (1, 4.0))


@pytest.mark.parametrize(
    ("norms", "expected"),
    [
        ([1, 0.5, 0.006, 0.0051, 0.0049, 0.0], 4),
        ([1, 0.5, 0.1, 0.005], None),
        ([1, 10.0, 0.2, 0.09], 3),
        ([1], None),
        ([1, 0, 0], None),
    ],
)
def test_effective_context_ends_below_one_percent_of_distance_one(norms: list[float], expected: int | None) -> None:
    assert GradientCurve.of("one", "h", [norms]).effective_context == expected


def test_a_curve_survives_json() -> None:
    curve = GradientCurve.of("elman", "h", [[1, 0.5], [1, 0.25]], radius=0.9)
    assert GradientCurve.from_json(json.loads(json.dumps(curve.to_json()))) == curve
    with pytest.raises(InputError, match="no gradient curve"):
        GradientCurve.from_json({**curve.to_json(), "colour": "red"})
