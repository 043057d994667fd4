"""The temperature curve: the model itself at 1, the largest weight towards 0, equal weights as it grows."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.interventions import Change, Interventions
from clearhead.inspection.sites import attention_sites
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.inspection.temperature import heated, temperature_curve
from tests.laws.model_laws import ARCHITECTURES, PAIRS

SOURCES, TARGETS = [[5, 6, 7, 8, 4], [8], [9, 10, 11]], [[9, 4, 8], [7, 7, 5, 4], []]
FAMILIES = {
    "post-norm": ARCHITECTURES["transformer"],
    "rnnsearch": PAIRS["two-way-gru-bahdanau"],
    "luong-local-p": PAIRS["reversed-lstm-luong-local-p"],
    "convs2s": PAIRS["convolutional-convs2s"],
}


def loss(model, pairs, change=None) -> float:
    """−ln p a gold token, with the same change at every core."""
    twin = Interventions(model)
    changes = {site.path: Change(weights=change) for site in twin.sites} if change else {}
    with torch.no_grad(), twin.using(changes) as changed:
        return -float(gold_log_probs(changed, pairs).sum()) / int(pairs.gold.lengths.sum())


def test_heating_by_hand() -> None:
    row = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
    readable = torch.tensor([True, True, True, False])
    truth = torch.tensor([4.0, 1.0, 1.0, 0.0], dtype=torch.float64) / 6  # squares, brought back to the sum 1
    torch.testing.assert_close(heated(row, readable, 0.5), truth)
    torch.testing.assert_close(heated(row / 2, readable, 0.5), truth / 2)  # a row that sums to ½ keeps that sum
    assert float(heated(row * 0, readable, 0.5).sum()) == 0
    assert heated(row, readable, 1.0) is row


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_one_is_the_model_and_the_ends_are_the_largest_weight_and_equal_weights(make) -> None:
    model = make()
    pairs = Pairs.of(SOURCES, TARGETS)
    curves = {curve.name: curve for curve in temperature_curve(model, pairs, temperatures=(1e-4, 1.0, 1e6))}
    assert set(curves) == {site.stack for site in attention_sites(model)} | {"all"}

    def largest(own: Tensor, visible: Tensor) -> Tensor:
        return torch.zeros_like(own).scatter(-1, own.argmax(-1, keepdim=True), own.sum(-1, keepdim=True))

    def equal(own: Tensor, visible: Tensor) -> Tensor:
        readable = own > 0
        return readable * own.sum(-1, keepdim=True) / readable.sum(-1, keepdim=True).clamp(min=1)

    cold, plain, hot = curves["all"].series["nll"]
    assert plain == pytest.approx(loss(model, pairs), rel=1e-9)
    assert cold == pytest.approx(loss(model, pairs, largest), rel=1e-6)
    assert hot == pytest.approx(loss(model, pairs, equal), rel=1e-4)
    assert len({round(each, 4) for each in (cold, plain, hot)}) == 3
    none, some, full = curves["all"].series["entropy_share"]
    assert none == pytest.approx(0, abs=1e-6) and full == pytest.approx(1, abs=1e-4)
    assert 0 < some < 1


def test_the_entropy_is_that_of_the_rows_of_real_tokens() -> None:
    """One pair, one layer, by hand; and the mean over a padded batch is that of the pairs by themselves."""
    model = PAIRS["two-way-gru-bahdanau"]()
    values, counts = [], []
    for source, target in zip(SOURCES, TARGETS, strict=True):
        rows: list[Tensor] = []

        def watch(own: Tensor, visible: Tensor, rows: list[Tensor] = rows) -> Tensor:
            rows.append(own[0, 0, 0])
            return own

        pairs = Pairs.of([source], [target])
        loss(model, pairs, watch)
        by_hand = [-sum(w * math.log(w) for w in row.tolist()) / math.log(len(row)) for row in rows]
        assert len(by_hand) == len(target) + 1
        curve = temperature_curve(model, pairs, temperatures=(1.0,))[0]
        assert curve.series["entropy_share"][0] == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-9)
        values.append(sum(by_hand))
        counts.append(len(by_hand))
    for batch_tokens in (4096, 1):
        together = temperature_curve(model, Pairs.of(SOURCES, TARGETS), temperatures=(1.0,), batch_tokens=batch_tokens)[
            0
        ]
        assert together.series["entropy_share"][0] == pytest.approx(sum(values) / sum(counts), rel=1e-9)
        assert together.series["nll"][0] == pytest.approx(loss(model, Pairs.of(SOURCES, TARGETS)), rel=1e-9)


def test_what_cannot_be_heated() -> None:
    model = ARCHITECTURES["transformer"]()
    with pytest.raises(InputError, match="above 0"):
        temperature_curve(model, Pairs.of(SOURCES, TARGETS), temperatures=(0.0, 1.0))
    with pytest.raises(InputError, match="no pair"):
        temperature_curve(model, Pairs.of([], []))
    assert temperature_curve(PAIRS["reversed-lstm-seq2seq"](), Pairs.of(SOURCES, TARGETS)) == []
