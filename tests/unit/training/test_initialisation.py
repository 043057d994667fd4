"""The papers' first weights: ranges, spreads and orthogonality, read off the matrices that are drawn."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure
from clearhead.models import build, presets
from clearhead.models.initialisation import Bahdanau, Default, Uniform, initialise_as
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.cells import Cell
from clearhead.nn.scores import Additive
from clearhead.training.config import TrainingConfig


def drawn(preset: str, how: Default | Uniform | Bahdanau, seed: int = 3) -> Seq2Seq:
    model = build(presets.named(preset, 300), seed=1)
    initialise_as(model, how, torch.Generator().manual_seed(seed))
    return model


def entering(model: Seq2Seq) -> dict[str, Tensor]:
    """Every parameter, those of the word vectors as they enter."""
    parts = {name: parameter.detach() for name, parameter in model.named_parameters()}
    words = {name for name in parts if name.endswith("input.embedding.weight")}
    assert len(words) == 2
    return {name: value * math.sqrt(value.shape[1]) if name in words else value for name, value in parts.items()}


@pytest.mark.parametrize("reach", [0.08, 0.1])
def test_uniform_fills_its_range_and_nothing_else(reach: float) -> None:
    for name, value in entering(drawn("seq2seq-tiny", Uniform(range=reach))).items():
        largest = float(value.abs().max())
        assert 0.9 * reach < largest <= reach * (1 + 1e-6), name
        assert float(value.std()) == pytest.approx(reach / math.sqrt(3), rel=0.1), name


def test_a_range_beyond_float32_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"initialisation\.range"):
        structure(TrainingConfig, {"initialisation": {"kind": "uniform", "range": 1e39}})


def test_bahdanau_gives_each_kind_of_weight_its_own() -> None:
    model = drawn("rnnsearch-tiny", Bahdanau())
    cells = [module for module in model.modules() if isinstance(module, Cell)]
    assert len(cells) == 3  # two directions and the decoder
    special: set[int] = set()
    for cell in cells:
        special.add(id(cell.hidden_weight))
        for gate in cell.gates:
            matrix = cell.gate(cell.hidden_weight, gate).detach().double()
            torch.testing.assert_close(matrix @ matrix.T, torch.eye(len(matrix)).double(), atol=1e-5, rtol=0)
    (score,) = (module for module in model.modules() if isinstance(module, Additive))
    special |= {id(each.weight) for each in (score.query, score.key, score.energy)}
    for matrix in (score.query.weight, score.key.weight):
        assert float(matrix.detach().std()) == pytest.approx(0.001, rel=0.1)
    assert not bool(score.energy.weight.any())
    values = entering(model)
    for name, parameter in model.named_parameters():
        if id(parameter) in special:
            continue
        if parameter.dim() == 1:
            assert not bool(parameter.any()), name
        else:
            assert float(values[name].std()) == pytest.approx(0.01, rel=0.1), name


def test_default_leaves_all_as_built_and_a_seed_repeats_the_others() -> None:
    built = build(presets.named("rnnsearch-tiny", 300), seed=1).state_dict()
    assert all(torch.equal(built[k], v) for k, v in drawn("rnnsearch-tiny", Default()).state_dict().items())
    for how in (Uniform(), Bahdanau()):
        one, two, other = (drawn("rnnsearch-tiny", how, seed).state_dict() for seed in (3, 3, 4))
        assert all(torch.equal(one[name], two[name]) for name in one)
        assert any(not torch.equal(one[name], other[name]) for name in one)


def test_norms_keep_their_gain_and_a_tied_matrix_is_drawn_once_as_the_output() -> None:
    model = drawn("tiny", Uniform(range=0.1))
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert norms
    assert all(bool((norm.weight == 1).all()) and not bool(norm.bias.any()) for norm in norms)
    assert 0.09 < float(model.decoder.output.weight.detach().abs().max()) <= 0.1
    assert model.encoder.input.embedding.weight is model.decoder.output.weight
