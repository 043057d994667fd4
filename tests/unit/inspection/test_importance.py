"""Importance against finite differences and against its other form; the mean of absolute values, not of slopes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.inspection.importance import gate_slopes, head_importance, normalised_by_layer
from clearhead.inspection.interventions import Change, Interventions
from clearhead.inspection.sites import Head, attention_sites
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.inspection.twin import twin
from clearhead.models import Seq2Seq
from clearhead.nn.cores import Core
from clearhead.nn.visibility import Visibility
from tests.laws.model_laws import ARCHITECTURES, PAIRS, transformer

SOME = Pairs.of([[5, 6, 7], [8], [9, 10, 5, 6, 7, 11]], [[5, 6, 9], [7, 8, 9, 10, 4], [10]])
NAMES = ["transformer", "grouped-heads", "two-way-gru-bahdanau", "transformer-convs2s", "reversed-lstm-luong-local-p"]


def losses(model: Seq2Seq) -> Tensor:
    return -gold_log_probs(model, SOME).sum(1) / SOME.gold.lengths


@pytest.mark.parametrize("name", NAMES)
def test_the_slope_of_each_pair_is_that_of_finite_differences(name: str) -> None:
    model = (ARCHITECTURES | PAIRS)[name]()
    plain, step = Interventions(model), 1e-5
    found = gate_slopes(model, SOME)
    with torch.no_grad():
        for site in attention_sites(model):
            for number in range(site.heads):
                both = []
                for sign in (1, -1):
                    gates = torch.ones(site.heads, dtype=torch.float64)
                    gates[number] += sign * step
                    with plain.using({site.path: Change(gates=gates)}) as changed:
                        both.append(losses(changed))
                truth = (both[0] - both[1]) / (2 * step)
                head = Head(site.stack, site.layer, number + 1)
                torch.testing.assert_close(found[head], truth, rtol=1e-6, atol=1e-8)


class _Kept(Core):
    """Keeps the context of its heads, so that the loss can be derived by it."""

    def __init__(self, core: Core) -> None:
        super().__init__()
        self.core = core
        self.contexts: list[Tensor] = []

    def remember(self, keys: Tensor) -> Tensor:
        return self.core.remember(keys)

    def weights(self, query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        return self.core.weights(query, key, visibility)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        self.contexts.append(self.core(query, key, value, visibility))
        return self.contexts[-1]


@pytest.mark.parametrize("name", NAMES)
def test_both_forms_of_equation_2_are_one(name: str) -> None:
    """|Σ Att_h · ∂L/∂Att_h| of each pair, over its positions and numbers, then the mean over pairs."""
    model = (ARCHITECTURES | PAIRS)[name]()
    kept: dict[str, _Kept] = {}
    paths = {site.path for site in attention_sites(model)}

    def swap(path: str, module: nn.Module) -> nn.Module | None:
        if path not in paths or not isinstance(module, Core):
            return None
        kept[path] = _Kept(module)
        return kept[path]

    loss = losses(twin(model, swap).eval()).sum()
    importance = head_importance(model, SOME)
    for site in attention_sites(model):
        contexts = kept[site.path].contexts
        slopes = torch.autograd.grad(loss, contexts, retain_graph=True)
        products = sum((c * s).sum((2, 3)) for c, s in zip(contexts, slopes, strict=True))  # [R, H]
        assert isinstance(products, Tensor)
        for number, value in enumerate(products.abs().mean(0).tolist(), start=1):
            assert importance[Head(site.stack, site.layer, number)] == pytest.approx(value, abs=1e-12)


def test_the_absolute_value_is_taken_of_each_pair_before_the_mean() -> None:
    """Averaged before, slopes of unlike sign cancel: a lower number, and for some head a much lower one."""
    model = transformer()
    importance, slopes = head_importance(model, SOME), gate_slopes(model, SOME)
    wrong = {head: abs(float(each.mean())) for head, each in slopes.items()}
    assert all(importance[head] >= wrong[head] - 1e-15 for head in wrong)
    assert any(wrong[head] < 0.5 * importance[head] for head in wrong)
    assert importance == {head: pytest.approx(float(each.abs().mean())) for head, each in slopes.items()}


def test_the_batches_do_not_matter_and_nothing_is_left_on_the_model() -> None:
    model = ARCHITECTURES["pre-norm"]().train()
    whole = head_importance(model, SOME)
    assert head_importance(model, SOME, batch_tokens=1) == {
        head: pytest.approx(value, abs=1e-13) for head, value in whole.items()
    }
    with torch.no_grad():
        assert head_importance(model, SOME) == whole
    assert model.training
    assert all(each.grad is None for each in model.parameters())


def test_a_head_that_says_nothing_has_no_importance() -> None:
    model = transformer()
    with torch.no_grad():
        model.get_parameter("decoder.layers.0.self_attention.output.weight")[:, :4] = 0
    importance = head_importance(model, SOME)
    assert importance[Head("decoder", 1, 1)] == 0
    assert sum(value < 1e-9 for value in importance.values()) == 1


def test_within_a_layer_the_squares_sum_to_one() -> None:
    importance = {
        Head("encoder", 1, 1): 3.0,
        Head("encoder", 1, 2): 4.0,
        Head("cross", 1, 1): 5.0,
        Head("cross", 2, 1): 0.0,
        Head("cross", 2, 2): 0.0,
    }
    found = normalised_by_layer(importance)
    assert found == {
        Head("encoder", 1, 1): 0.6,
        Head("encoder", 1, 2): 0.8,
        Head("cross", 1, 1): 1.0,
        Head("cross", 2, 1): 0.0,
        Head("cross", 2, 2): 0.0,
    }
    real = normalised_by_layer(head_importance(transformer(), SOME))
    total = sum(value**2 for head, value in real.items() if (head.stack, head.layer) == ("cross", 2))
    assert math.isclose(total, 1.0)


def test_what_has_no_heads_and_what_cannot_be_asked() -> None:
    assert head_importance(PAIRS["reversed-lstm-seq2seq"](), SOME) == {}
    with pytest.raises(InputError, match="no pairs"):
        head_importance(transformer(), Pairs.of([], []))
    with pytest.raises(InputError, match="ensemble"):
        head_importance(ARCHITECTURES["ensemble"](), SOME)
