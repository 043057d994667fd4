"""Adversarial attention: the found weights do what is claimed, and planted models bound what can be found.

The null between seeds stands here too: head by head against brute force.
"""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.adversarial import AdversarySearch, adversarial, adversarial_passes, adversaries
from clearhead.inspection.divergences import LARGEST_JSD, jsd, tvd
from clearhead.inspection.interventions import Change, Interventions, NewWeights
from clearhead.inspection.records import AttentionLayer, AttentionRecord, Provenance, Token, Unit
from clearhead.inspection.seed_null import matching, seed_null
from clearhead.inspection.sites import attention_sites
from clearhead.inspection.teaching import Pairs, next_logits
from clearhead.models import Seq2Seq
from tests.laws.model_laws import ARCHITECTURES, PAIRS, transformer

SOURCE, TARGET = [5, 6, 7, 8, 4], [9, 4, 8, 10]
SHORT = AdversarySearch(starts=2, steps=25)
FAMILIES: dict[str, tuple[Callable[[], Seq2Seq], Unit]] = {
    "head": (ARCHITECTURES["transformer"], Unit("cross", 1, 2)),
    "stack": (ARCHITECTURES["pre-norm"], Unit("cross")),
    "decoder": (ARCHITECTURES["grouped-heads"], Unit("decoder", 2)),
    "rnnsearch": (PAIRS["two-way-gru-bahdanau"], Unit("cross")),
    "luong-local-p": (PAIRS["reversed-lstm-luong-local-p"], Unit("cross", 1)),
    "convs2s": (PAIRS["convolutional-convs2s"], Unit("cross", 2, 1)),
}


def original(model: Seq2Seq) -> tuple[dict[str, Tensor], Tensor]:
    """The weights of every core, [H, T, S], by a run of the unchanged model, and its predictions."""
    twin = Interventions(model)
    calls: dict[str, list[Tensor]] = {site.path: [] for site in twin.sites}

    def watching(path: str) -> NewWeights:
        def watch(own: Tensor, visible: Tensor) -> Tensor:
            calls[path].append(own[0])
            return own

        return watch

    with torch.no_grad(), twin.using({path: Change(weights=watching(path)) for path in calls}) as watched:
        predicted = next_logits(watched, Pairs.of([SOURCE], [TARGET]))[0].softmax(-1)
    return {path: torch.cat(parts, 1) for path, parts in calls.items()}, predicted


def rerun(model: Seq2Seq, weights: dict[str, Tensor], heads: list[int]) -> Tensor:
    """The predictions with `weights` [N, T, S] put in place of the heads' own, layer by layer."""
    twin = Interventions(model)

    def setting(path: str) -> NewWeights:
        at = 0

        def change(own: Tensor, visible: Tensor) -> Tensor:
            nonlocal at
            new = own.clone()
            new[0, heads] = weights[path][:, at : at + own.shape[2]]
            at += own.shape[2]
            return new

        return change

    with torch.no_grad(), twin.using({path: Change(weights=setting(path)) for path in weights}) as changed:
        return next_logits(changed, Pairs.of([SOURCE], [TARGET]))[0].softmax(-1)


def test_a_search_runs_where_gradients_are_off() -> None:
    model, unit = ARCHITECTURES["transformer"](), Unit("cross", 1, 2)
    (found,) = adversaries(model, SOURCE, TARGET, [unit], SHORT)
    with torch.no_grad():
        (quiet,) = adversaries(model, SOURCE, TARGET, [unit], SHORT)
    assert float(found.jsd.max()) > 0 and torch.equal(found.jsd, quiet.jsd)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(("make", "unit"), FAMILIES.values(), ids=FAMILIES.keys())
def test_the_witnesses_do_what_is_claimed(make, unit) -> None:
    """Set again in another twin, each leaves its prediction within ε, and its rows are as far as was said."""
    model = make()
    (found,) = adversaries(model, SOURCE, TARGET, [unit], SHORT, keep_weights=True)
    own, predicted = original(model)
    assert found.weights is not None
    heads = [unit.head - 1] if unit.head else list(range(len(next(iter(own[path] for path in found.weights)))))
    for t in range(len(TARGET) + 1):
        witness = {path: each[t] for path, each in found.weights.items()}
        moved = tvd(rerun(model, witness, heads), predicted)[t]
        assert float(moved) == pytest.approx(float(found.tvd[t]), abs=1e-9)
        assert float(moved) <= SHORT.epsilon + 1e-9
        apart = []
        for path, new in witness.items():
            mine = own[path][heads]
            torch.testing.assert_close(new.sum(-1), mine.sum(-1), rtol=1e-6, atol=1e-9)
            assert bool(((new == 0) | (mine > 0)).all())  # nothing is read that may not be
            apart.append(
                jsd(mine[:, t] / mine[:, t].sum(-1, keepdim=True), new[:, t] / new[:, t].sum(-1, keepdim=True))
            )
        assert float(torch.cat(apart).mean()) == pytest.approx(float(found.jsd[t]), abs=1e-6)
    assert bool((found.jsd >= 0).all()) and bool((found.jsd <= LARGEST_JSD).all())
    assert float(found.jsd.max()) > 0.01
    assert found.joint_jsd <= float(found.jsd[found.free].mean()) + 1e-12
    assert all(parameter.grad is None for parameter in model.parameters())
    after, again = original(model)
    assert torch.equal(again, predicted) and all(torch.equal(after[path], own[path]) for path in own)


def test_with_equal_values_any_weights_will_do() -> None:
    model = transformer(decoder_layers=1)
    with torch.no_grad():
        model.decoder.layers[0].cross_attention.value.weight.zero_()
    search = AdversarySearch(starts=3, steps=60, rate=0.5)
    (found,) = adversaries(model, SOURCE, TARGET, [Unit("cross", 1)], search)
    assert float(found.tvd.max()) < 1e-12
    assert float(found.jsd.min()) > 0.9 * LARGEST_JSD
    assert found.joint_jsd > 0.9 * LARGEST_JSD
    assert found.finding().values["far"] == 1


@pytest.mark.parametrize("epsilon", [0.02, 0.08])
def test_with_two_keys_the_largest_divergence_is_known(epsilon) -> None:
    """One row (a, 1 − a): every a is tried. The prediction follows the weights, so what can be found is little."""
    model = PAIRS["two-way-gru-luong-dot-unfed"]()
    (site,) = attention_sites(model)
    share = torch.linspace(0, 1, 1001, dtype=torch.float64)
    rows = torch.stack([share, 1 - share], -1)
    own: list[Tensor] = []

    def change(weights: Tensor, visible: Tensor) -> Tensor:
        own.append(weights[0, 0, 0])
        return torch.cat([weights[:1], rows[:, None, None]])

    twin, pairs = Interventions(model), Pairs.of([[5]], [[]]).repeated(len(rows) + 1)
    with torch.no_grad(), twin.using({site.path: Change(weights=change)}) as changed:
        predicted = next_logits(changed, pairs)[:, 0].softmax(-1)
    allowed = tvd(predicted[1:], predicted[0]) <= epsilon
    best = float(jsd(rows, own[0])[allowed].max())
    assert 0.001 < best < 0.6  # a bound that binds
    (found,) = adversaries(model, [5], [], [Unit("cross")], AdversarySearch(epsilon=epsilon, starts=2, steps=120))
    assert float(found.jsd[0]) == pytest.approx(best, rel=0.1)


def test_the_fallback_is_the_model_itself() -> None:
    model = transformer()
    found = adversaries(model, SOURCE, TARGET, [Unit("cross")], AdversarySearch(epsilon=1e-12, starts=1, steps=2))[0]
    assert found.jsd.tolist() == [0.0] * 5 and found.tvd.tolist() == [0.0] * 5 and found.joint_jsd == 0


def test_a_row_of_one_key_is_not_counted() -> None:
    (found,) = adversaries(transformer(), SOURCE, TARGET, [Unit("decoder", 1)], SHORT)
    assert found.free.tolist() == [False, True, True, True, True]  # the first query reads BOS alone
    assert float(found.jsd[0]) == 0
    assert found.finding().values["max_jsd"] == pytest.approx(float(found.jsd[1:].mean()))


def test_units_by_default_and_errors() -> None:
    model = PAIRS["convolutional-convs2s"]()
    found = adversarial(model, SOURCE, TARGET, starts=1, steps=2)
    assert [each.unit for each in found] == [Unit("cross", site.layer, 1) for site in attention_sites(model)]
    assert found[0].settings["epsilon"] == 0.05
    assert adversarial(PAIRS["reversed-lstm-seq2seq"](), SOURCE, TARGET) == []
    with pytest.raises(InputError, match="encoder has none"):
        adversarial(transformer(), SOURCE, TARGET, [Unit("encoder")])
    with pytest.raises(InputError, match="between 0 and 1"):
        adversarial(transformer(), SOURCE, TARGET, [Unit("cross")], epsilon=0)
    with pytest.raises(InputError, match="at least 1"):
        adversarial(transformer(), SOURCE, TARGET, [Unit("cross")], steps=0)


def test_the_cost_is_known_beforehand() -> None:
    model, calls = transformer(), 0
    project = type(model.decoder).project

    def counting(self, hidden, vocabulary=None):
        nonlocal calls
        calls += hidden.shape[0]
        return project(self, hidden, vocabulary)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model.decoder), "project", counting)
        adversaries(model, SOURCE, TARGET, [Unit("cross", 1)], SHORT)
    assert calls == adversarial_passes([Unit("cross", 1)], SHORT) + SHORT.starts + 1  # and the model itself once


# ------------------------------------------------------------------------------------------------------------ the null


def record(weights: Tensor, visible: Tensor | None = None) -> AttentionRecord:
    """A record of one cross layer with these weights [H, T, S]."""
    _, queries, keys = weights.shape
    tokens = tuple(Token(str(each), each) for each in range(max(queries, keys)))
    visible = torch.ones(queries, keys, dtype=torch.bool) if visible is None else visible
    return AttentionRecord(
        Provenance("planted", "", "", "none"),
        "given",
        ("en", "de"),
        "",
        "",
        tokens[:keys],
        tokens[:queries],
        tokens[:queries],
        torch.zeros(queries),
        (AttentionLayer("cross", 1, "core", weights, visible),),
    )


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_matching_is_the_cheapest_of_all(size) -> None:
    generator = torch.Generator().manual_seed(size)
    for number in range(30):
        costs = torch.rand(size, size, generator=generator, dtype=torch.float64)
        costs = (3 * costs).round() if number % 3 == 0 else costs  # ties
        found = matching(costs)
        assert sorted(found) == list(range(size))
        best = min(sum(costs[i, p[i]].item() for i in range(size)) for p in itertools.permutations(range(size)))
        assert sum(costs[i, found[i]].item() for i in range(size)) == pytest.approx(best, abs=1e-12)


def test_heads_in_another_order_are_the_same_heads() -> None:
    weights = torch.rand(4, 5, 6, generator=torch.Generator().manual_seed(1)).softmax(-1)
    (finding,) = seed_null([record(weights), record(weights[[2, 0, 3, 1]])])
    assert finding.unit == Unit("cross", 1) and finding.method == "seed-null"
    assert finding.values["matched"] == pytest.approx(0, abs=1e-12)
    assert finding.values["mean_maps"] == pytest.approx(0, abs=1e-12)
    by_hand = [jsd(a, b).mean().item() for a in weights.double() for b in weights.double()]
    assert finding.values["any_heads"] == pytest.approx(sum(by_hand) / 16, rel=1e-5)


def test_the_null_is_the_mean_over_pairs_of_models_and_leaves_out_rows_of_one_key() -> None:
    one, other = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    causal = torch.tensor([[True, False], [True, True]])
    (finding,) = seed_null([record(one, causal), record(one, causal), record(other, causal)])
    assert finding.values["matched"] == pytest.approx(2 * math.log(2) / 3)
    with pytest.raises(InputError, match="two models or more"):
        seed_null([record(one)])
    with pytest.raises(InputError, match="different shapes"):
        seed_null([record(one), record(one.expand(2, 2, 2))])
    with pytest.raises(InputError, match="different tokens"):
        seed_null([record(one), record(torch.ones(1, 2, 3) / 3)])
