"""Rank correlations by hand, and what a head's rows are compared with."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.agreement import agreement, kendall, spearman
from clearhead.inspection.records import AttentionLayer, AttentionRecord, Provenance, Token, TokenScores, Unit


def tau_by_hand(a: list[float], b: list[float]) -> float:
    """τ-b by its definition, pair by pair."""
    score = ties_a = ties_b = 0
    pairs = list(itertools.combinations(range(len(a)), 2))
    for i, j in pairs:
        ties_a += a[i] == a[j]
        ties_b += b[i] == b[j]
        score += ((a[i] > a[j]) - (a[i] < a[j])) * ((b[i] > b[j]) - (b[i] < b[j]))
    return score / math.sqrt((len(pairs) - ties_a) * (len(pairs) - ties_b))


def rho_by_hand(a: list[float], b: list[float]) -> float:
    """Pearson's correlation of mean ranks."""

    def ranks(x: list[float]) -> list[float]:
        return [sum(y < each for y in x) + (sum(y == each for y in x) + 1) / 2 for each in x]

    mine, theirs = ranks(a), ranks(b)
    mean = (len(a) + 1) / 2
    top = sum((x - mean) * (y - mean) for x, y in zip(mine, theirs, strict=True))
    return top / math.sqrt(sum((x - mean) ** 2 for x in mine) * sum((y - mean) ** 2 for y in theirs))


def test_known_values() -> None:
    """Kendall 1945's kind of example: 12 against 8 out of 20 with ties worked out on paper."""
    a = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]], dtype=torch.float64)
    b = torch.tensor([[3.0, 4.0, 1.0, 2.0, 5.0]], dtype=torch.float64)
    assert float(kendall(a, b)) == pytest.approx(0.2)  # 6 pairs alike, 4 not
    assert float(spearman(a, b)) == pytest.approx(1 - 6 * 16 / (5 * 24))  # Σd² = 4·4
    tied = torch.tensor([[1.0, 1.0, 2.0, 2.0, 3.0]], dtype=torch.float64)
    assert float(kendall(a, tied)) == pytest.approx(8 / math.sqrt(10 * 8))
    assert float(kendall(a, -a)) == pytest.approx(-1)
    assert bool(kendall(a, torch.ones_like(a)).isnan()) and bool(spearman(a, torch.ones_like(a)).isnan())


@pytest.mark.parametrize("levels", [3, 1000])
def test_against_the_definitions_with_ties_and_hidden_columns(levels) -> None:
    generator = torch.Generator().manual_seed(levels)
    a = (torch.rand(12, 7, generator=generator, dtype=torch.float64) * levels).round()
    b = (torch.rand(12, 7, generator=generator, dtype=torch.float64) * levels).round()
    valid = torch.arange(7) < torch.arange(12)[:, None] % 5 + 3
    a[:, 0], a[:, 1] = 0, 1
    b[:, 0], b[:, 2] = 1, 0  # no row is constant
    taus, rhos = kendall(a, b, valid), spearman(a, b, valid)
    for t in range(12):
        mine, theirs = a[t][valid[t]].tolist(), b[t][valid[t]].tolist()
        assert float(taus[t]) == pytest.approx(tau_by_hand(mine, theirs), abs=1e-12)
        assert float(rhos[t]) == pytest.approx(rho_by_hand(mine, theirs), abs=1e-12)


def record(cross: Tensor, decoder: Tensor) -> AttentionRecord:
    """One layer of each stack, the encoder's too; weights [H, T, S] and [H, T, T]."""
    steps, keys = cross.shape[1:]
    tokens = tuple(Token(str(each), each) for each in range(max(steps, keys)))
    every = torch.ones(steps, keys, dtype=torch.bool)
    return AttentionRecord(
        Provenance("planted", "", "", "none"),
        "given",
        ("en", "de"),
        "",
        "",
        tokens[:keys],
        tokens[:steps],
        tokens[:steps],
        torch.zeros(steps),
        (
            AttentionLayer("encoder", 1, "a", torch.eye(keys)[None], torch.ones(keys, keys, dtype=torch.bool)),
            AttentionLayer("decoder", 1, "b", decoder, torch.ones(steps, steps, dtype=torch.bool).tril()),
            AttentionLayer("cross", 1, "c", cross, every),
        ),
    )


def test_each_head_is_compared_with_the_side_that_it_reads() -> None:
    generator = torch.Generator().manual_seed(2)
    cross = torch.rand(2, 5, 4, generator=generator).softmax(-1)
    decoder = torch.rand(1, 5, 5, generator=generator).tril() + 0.01 * torch.eye(5)
    scores = [
        TokenScores("occlusion", -3 * cross[0], None, signed=True),  # the sign is not what is compared
        TokenScores("gradient-norm", cross[1], decoder[0] ** 2, signed=False),
        TokenScores("attention", cross[0], None, signed=False, unit=Unit("cross", 1, 1)),
        TokenScores("value-norms", cross[1], None, signed=False, unit=Unit("cross", 1, 2)),
        TokenScores("of-layer", cross[0], None, signed=False, unit=Unit("cross", 1)),
        TokenScores("of-another", cross[0], None, signed=False, unit=Unit("cross", 2)),
    ]
    findings = {finding.unit: finding.values for finding in agreement(record(cross, decoder), scores)}
    assert set(findings) == {Unit("decoder", 1, 1), Unit("cross", 1, 1), Unit("cross", 1, 2)}
    assert findings[Unit("cross", 1, 1)]["occlusion_tau"] == pytest.approx(1)
    assert findings[Unit("cross", 1, 2)]["gradient-norm_rho"] == pytest.approx(1)
    assert findings[Unit("cross", 1, 2)]["value-norms_tau"] == pytest.approx(1)
    assert findings[Unit("cross", 1, 1)]["of-layer_tau"] == pytest.approx(1)
    assert not any("of-another_tau" in values for values in findings.values())
    by_hand = [tau_by_hand(cross[0, t].tolist(), cross[1, t].tolist()) for t in range(5)]
    assert findings[Unit("cross", 1, 1)]["gradient-norm_tau"] == pytest.approx(sum(by_hand) / 5)
    assert not any(name.startswith(("attention", "value-norms")) for name in findings[Unit("cross", 1, 1)])
    own = findings[Unit("decoder", 1, 1)]
    assert own["gradient-norm_tau"] == pytest.approx(1)
    assert own["gradient-norm_predictions"] == 3  # rows of one and of two keys do not count
    assert "occlusion_tau" not in own


def test_rows_without_an_order_are_left_out_and_other_pairs_refused() -> None:
    cross = torch.full((1, 3, 4), 0.25)
    cross[0, 2] = torch.tensor([0.1, 0.2, 0.3, 0.4])
    made = record(cross, torch.eye(3)[None])
    scores = torch.tensor([[1.0, 2.0, 3.0, 4.0]]).expand(3, 4)
    (finding,) = agreement(made, [TokenScores("occlusion", scores, None, signed=True)])
    assert finding.values == {"occlusion_tau": 1.0, "occlusion_rho": 1.0, "occlusion_predictions": 1.0}
    assert agreement(made, [TokenScores("occlusion", torch.ones(3, 4), None, signed=True)]) == []
    with pytest.raises(InputError, match="one pair"):
        agreement(made, [TokenScores("occlusion", torch.ones(3, 5), None, signed=True)])


def test_few_rows_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long pairs are compared block by block, since all pairs of columns of all rows would fill the memory."""
    generator = torch.Generator().manual_seed(5)
    cross = torch.rand(2, 9, 6, generator=generator).softmax(-1)
    made = record(cross, torch.rand(2, 9, 9, generator=generator).tril())
    scores = [
        TokenScores("occlusion", torch.randn(9, 6, generator=generator), torch.rand(9, 9, generator=generator), True),
        TokenScores("gradient-norm", torch.rand(9, 6, generator=generator), None, False),
    ]
    whole = agreement(made, scores)
    monkeypatch.setattr("clearhead.inspection.agreement._MOST_PAIRS", 81 * 2)
    assert agreement(made, scores) == whole
    assert [len(each.values) for each in whole] == [3, 3, 6, 6]
