"""Permuted and uniform attention: against a run by hand, and where it must not and must matter."""

import math
from itertools import permutations

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.divergences import LARGEST_JSD, jsd, tvd
from clearhead.inspection.interventions import Change, Interventions
from clearhead.inspection.perturbation import permutation, permutation_shifts, permuted, uniform, uniform_shifts
from clearhead.inspection.records import Unit
from clearhead.inspection.sites import attention_sites
from clearhead.inspection.teaching import Pairs, next_logits
from clearhead.inspection.unit_targets import all_units, targets_of
from clearhead.models import Seq2Seq
from tests.laws.model_laws import ARCHITECTURES, PAIRS, transformer

SOURCE, TARGET = [5, 6, 7, 8, 4], [9, 4, 8, 10]
FAMILIES = {
    "post-norm": ARCHITECTURES["transformer"],
    "pre-norm": ARCHITECTURES["pre-norm"],
    "grouped-heads": ARCHITECTURES["grouped-heads"],
    "rnnsearch": PAIRS["two-way-gru-bahdanau"],
    "luong-local-m": PAIRS["reversed-lstm-luong-concat-local-m"],
    "luong-local-p": PAIRS["reversed-lstm-luong-local-p"],
    "luong-location": PAIRS["two-way-gru-luong-location"],
    "convs2s": PAIRS["convolutional-convs2s"],
}


def zeroed(model: Seq2Seq, path: str, part: str) -> Seq2Seq:
    """The model with the matrix `part` of the attention at `path` set to zero."""
    with torch.no_grad():
        getattr(model.get_submodule(path), part).weight.zero_()
    return model


def test_divergences_by_hand() -> None:
    p, q = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64), torch.tensor([0.25, 0.75, 0.0], dtype=torch.float64)
    assert float(tvd(p, q)) == 0.5
    middle = [0.375, 0.5, 0.125]
    by_hand = 0.5 * sum(a * math.log(a / m) for a, m in zip(p.tolist(), middle) if a)
    by_hand += 0.5 * sum(b * math.log(b / m) for b, m in zip(q.tolist(), middle) if b)
    assert float(jsd(p, q)) == pytest.approx(by_hand, abs=1e-12)
    assert float(jsd(p, p)) == 0
    apart = jsd(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    assert float(apart) == pytest.approx(LARGEST_JSD)


def test_the_derivative_of_jsd_is_finite_where_a_share_is_zero() -> None:
    q = torch.tensor([0.3, 0.7, 0.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(jsd(torch.tensor([0.0, 0.5, 0.5], dtype=torch.float64), q), q)
    assert bool(slope.isfinite().all())


def test_every_order_of_the_chosen_weights_is_drawn_equally_often_and_the_others_stay() -> None:
    generator = torch.Generator().manual_seed(3)
    row = torch.tensor([0.1, 0.2, 0.3, 0.4]).expand(6000, 4)
    chosen = torch.tensor([True, False, True, True]).expand(6000, 4)
    drawn = permuted(row, chosen, torch.rand(6000, 4, generator=generator))
    assert bool((drawn[:, 1] == row[:, 1]).all())
    orders, counts = drawn.unique(dim=0, return_counts=True)
    assert len(orders) == len(list(permutations(range(3))))
    assert (counts - 1000).abs().max() < 145  # 1000 expected, five standard deviations


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_a_unit_is_changed_in_every_family_and_the_model_stays_as_it_was(make) -> None:
    model = make()
    pairs = Pairs.of([SOURCE], [TARGET])
    with torch.no_grad():
        before = next_logits(model, pairs)
    found = permutation_shifts(model, SOURCE, TARGET, shuffles=5)
    assert [shift.unit for shift in found] == all_units(model)
    assert any(float(shift.tvd.max()) > 1e-4 for shift in found)
    for shift in found:
        assert shift.tvd.shape == (5,)
        assert bool((shift.tvd >= 0).all()) and bool((shift.tvd <= 1).all())
        assert (shift.largest_weight is None) == (shift.unit.stack == "encoder")
    with torch.no_grad():
        assert torch.equal(next_logits(model, pairs), before)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_uniform_is_what_a_run_with_equal_weights_gives(make) -> None:
    model = make()
    twin = Interventions(model)
    pairs = Pairs.of([SOURCE], [TARGET])
    for site in attention_sites(model):
        if "window" in vars(model.get_submodule(site.path)):
            continue  # its equal weights are equal within the window: the test below

        def equal(own: Tensor, visible: Tensor) -> Tensor:
            reachable = visible & (own > 0)  # no weight of these small models underflows
            return reachable.to(own.dtype) / reachable.sum(-1, keepdim=True)

        with torch.no_grad():
            plain = next_logits(model, pairs)[0].softmax(-1)
            with twin.using({site.path: Change(weights=equal)}) as changed:
                moved = next_logits(changed, pairs)[0].softmax(-1)
        (shift,) = uniform_shifts(model, SOURCE, TARGET, [Unit(site.stack, site.layer)])
        torch.testing.assert_close(shift.tvd, tvd(plain, moved), rtol=1e-9, atol=1e-12)
        finding = uniform(model, SOURCE, TARGET, [Unit(site.stack, site.layer)])[0]
        assert finding.values["mean_tvd"] == pytest.approx(float(shift.tvd.mean()))


def test_one_head_is_one_head() -> None:
    """The context of the other heads is bitwise theirs: a brute-force run that only touches head 3 agrees."""
    model = transformer()
    site = next(site for site in attention_sites(model) if (site.stack, site.layer) == ("cross", 1))

    def third(own: Tensor, visible: Tensor) -> Tensor:
        new = own.clone()
        new[:, 2] = visible[:, 2].to(own.dtype) / visible[:, 2].sum(-1, keepdim=True)
        return new

    twin, pairs = Interventions(model), Pairs.of([SOURCE], [TARGET])
    with torch.no_grad(), twin.using({site.path: Change(weights=third)}) as changed:
        moved = next_logits(changed, pairs)[0].softmax(-1)
        plain = next_logits(model, pairs)[0].softmax(-1)
    (shift,) = uniform_shifts(model, SOURCE, TARGET, [Unit("cross", 1, 3)])
    torch.testing.assert_close(shift.tvd, tvd(plain, moved), rtol=1e-9, atol=1e-12)
    others = [uniform_shifts(model, SOURCE, TARGET, [Unit("cross", 1, head)])[0].tvd for head in (1, 2, 4)]
    assert all((shift.tvd - other).abs().max() > 1e-6 for other in others)


def test_permuting_equal_weights_changes_nothing() -> None:
    model = transformer()
    for layer in (0, 1):
        zeroed(model, f"decoder.layers.{layer}.cross_attention", "query")
    (finding,) = permutation(model, SOURCE, TARGET, [Unit("cross")], shuffles=9)
    assert finding.values == {"median_tvd": 0.0, "max_tvd": 0.0}
    (other,) = permutation(transformer(), SOURCE, TARGET, [Unit("cross")], shuffles=9)
    assert other.values["median_tvd"] > 1e-3  # so the zero above is not the method's


def test_with_equal_values_the_weights_do_not_matter() -> None:
    model = zeroed(transformer(decoder_layers=1), "decoder.layers.0.cross_attention", "value")
    unit = [Unit("cross", 1)]
    assert permutation(model, SOURCE, TARGET, unit, shuffles=9)[0].values["max_tvd"] < 1e-12
    assert uniform(model, SOURCE, TARGET, unit)[0].values["max_tvd"] < 1e-12
    assert uniform(transformer(decoder_layers=1), SOURCE, TARGET, unit)[0].values["max_tvd"] > 1e-3


def test_only_keys_that_may_be_read_are_shuffled_and_no_boundary_token() -> None:
    """Row sums, the weights of BOS and EOS and the zeros above the diagonal are those of the model."""
    model = transformer()
    seen: list[tuple[Tensor, Tensor]] = []
    original = permuted

    def spy(weights: Tensor, chosen: Tensor, noise: Tensor) -> Tensor:
        new = original(weights, chosen, noise)
        seen.append((weights, new))
        return new

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.inspection.perturbation.permuted", spy)
        permutation(model, SOURCE, TARGET, [Unit("decoder", 1), Unit("cross", 1), Unit("encoder", 1)], shuffles=4)
    (own, new), (cross, new_cross), (encoder, new_encoder) = seen
    assert bool((new.triu(1) == 0).all()) and torch.equal(new[..., 0], own[..., 0])
    assert torch.equal(new[:, :, :2], own[:, :, :2])  # BOS alone, and BOS with one other: nothing to shuffle
    assert not torch.equal(new, own)
    assert torch.equal(new.sort(-1).values, own.sort(-1).values)
    for before, after in ((cross, new_cross), (encoder, new_encoder)):
        assert torch.equal(after[..., -1], before[..., -1])
        assert torch.equal(after.sort(-1).values, before.sort(-1).values)
        assert not torch.equal(after[0], after[1]) and not torch.equal(after[:, 0], before[:, 0])


def test_a_window_stays_a_window() -> None:
    """Weights of local attention are shuffled within the window; outside they are 0 as before."""
    model = PAIRS["reversed-lstm-luong-local-m-unfed"]()
    calls: list[tuple[Tensor, Tensor]] = []

    def spy(weights: Tensor, chosen: Tensor, noise: Tensor) -> Tensor:
        calls.append((weights, permuted(weights, chosen, noise)))
        return calls[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.inspection.perturbation.permuted", spy)
        permutation(model, SOURCE, TARGET, [Unit("cross")], shuffles=6)
    before, after = calls[0]
    assert torch.equal(before == 0, after == 0) and bool((before == 0).any())
    assert not torch.equal(before, after)


@pytest.mark.parametrize("name", ["post-norm", "rnnsearch"])
def test_each_row_of_each_head_in_each_shuffle_is_drawn_by_itself(name) -> None:
    calls: list[Tensor] = []

    def spy(weights: Tensor, chosen: Tensor, noise: Tensor) -> Tensor:
        calls.append(noise)
        return permuted(weights, chosen, noise)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.inspection.perturbation.permuted", spy)
        permutation(FAMILIES[name](), SOURCE, TARGET, [Unit("cross", 1)], shuffles=3)
    drawn = torch.cat(calls, 2)  # a recurrent decoder asks once a step
    assert drawn.shape[2:] == (5, 6)
    assert len(drawn.reshape(-1, 6).unique(dim=0)) == drawn.numel() // 6


@pytest.mark.parametrize("name", ["post-norm", "rnnsearch"])
def test_batches_and_seeds(name) -> None:
    model = FAMILIES[name]()
    units = [Unit("cross")]
    first = permutation_shifts(model, SOURCE, TARGET, units, shuffles=10)[0].tvd
    by_three = permutation_shifts(model, SOURCE, TARGET, units, shuffles=10, batch_tokens=24)[0].tvd
    torch.testing.assert_close(first, by_three, rtol=1e-9, atol=1e-12)
    other = permutation_shifts(model, SOURCE, TARGET, units, shuffles=10, seed=2)[0].tvd
    assert (first - other).abs().max() > 1e-6


def test_what_is_not_there_is_told() -> None:
    model = transformer()
    assert permutation(PAIRS["reversed-lstm-seq2seq"](), SOURCE, TARGET) == []
    for unit, words in (
        (Unit("cross", 9), "layer 9"),
        (Unit("cross", 1, 5), "has 4"),
        (Unit("cross", None, 1), "which layer"),
    ):
        with pytest.raises(InputError, match=words):
            targets_of(model, unit)
    with pytest.raises(InputError, match="no attention in the stack"):
        uniform(PAIRS["two-way-gru-bahdanau"](), SOURCE, TARGET, [Unit("decoder")])
    with pytest.raises(InputError, match="0 shuffles"):
        permutation(model, SOURCE, TARGET, shuffles=0)
    with pytest.raises(InputError, match="ensemble"):
        permutation(ARCHITECTURES["ensemble"](), SOURCE, TARGET)
