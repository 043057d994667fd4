"""The numbers of a map are those that one gets by hand, and by loops over its cells."""

import math

import pytest
import torch

from clearhead.inspection.head_statistics import head_statistics, statistics_over
from clearhead.inspection.records import AttentionRecord, Finding, Unit
from clearhead.text.symbols import BOS, EOS
from tests.planted import fixed_offset, planted_record, token, uniform

WORDS = [token("▁A"), token("▁dog"), token("s"), token("▁.")]


def test_a_map_that_was_worked_out_by_hand() -> None:
    # Three prefix tokens; the last row reads 0.05, 0.15 and 0.8.
    rows = torch.tensor([[1.0, 0, 0], [0.25, 0.75, 0], [0.05, 0.15, 0.8]])
    record = planted_record({("decoder", 1): [rows]}, [], [token("▁a"), token("▁b")])
    (finding,) = head_statistics(record)
    assert (finding.method, finding.unit) == ("statistics", Unit("decoder", 1, 1))
    second = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    third = -(0.05 * math.log(0.05) + 0.15 * math.log(0.15) + 0.8 * math.log(0.8))
    truth = {
        "entropy": (0 + second + third) / 3,
        "entropy_share": (second / math.log(2) + third / math.log(3)) / 2,
        "sparsity": 5 / 6,
        "sparsity_count": 5 / 3,
        "distance": (0 + 0.25 + (2 * 0.05 + 0.15)) / 3,
        "confidence": (1 + 0.75 + 0.8) / 3,
        "confidence_without_eos": (1 + 0.75 + 0.8) / 3,
        "offset_-2": 0.05,
        "offset_-1": (0.25 + 0.15) / 2,
        "offset_0": (1 + 0.75 + 0.8) / 3,
        "mass_bos": (1 + 0.25 + 0.05) / 3,
        "row_error": 0.0,
    }
    assert finding.values == pytest.approx(truth, abs=1e-6)  # no offset after the query, no EOS, no punctuation


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_a_uniform_head_has_all_the_entropy_that_it_can_have(length: int, causal: bool) -> None:
    stack = "decoder" if causal else "encoder"
    words = WORDS * 2
    maps = [uniform(length, causal=causal)]
    record = planted_record({(stack, 1): maps}, words[: length - 1], words[: length - 1])
    (finding,) = head_statistics(record)
    visible = [row + 1 if causal else length for row in range(length)]
    assert finding.values["entropy"] == pytest.approx(sum(map(math.log, visible)) / length, abs=1e-6)
    if length > 1:
        assert finding.values["entropy_share"] == pytest.approx(1.0)
    else:
        assert "entropy_share" not in finding.values


def brute(weights: list[list[float]], visible: list[list[bool]], ids: list[int], cross: bool) -> dict[str, float]:
    """Cell by cell."""
    rows, keys = len(weights), len(ids)
    found: dict[str, list[float]] = {}
    for t in range(rows):
        mine = t * (keys - 1) / (rows - 1) if cross and rows > 1 else keys - 1 if cross else t
        seen = [s for s in range(keys) if visible[t][s]]
        entropy = -sum(weights[t][s] * math.log(weights[t][s]) for s in seen if weights[t][s] > 0)
        numbers = {
            "entropy": entropy,
            "distance": sum(weights[t][s] * abs(s - mine) for s in seen),
            "confidence": max(weights[t]),
            "confidence_without_eos": max(weights[t][s] for s in seen if ids[s] != EOS),
            "sparsity_count": sum(weights[t][s] > 0.1 for s in seen),
        }
        if len(seen) > 1:
            numbers["entropy_share"] = entropy / math.log(len(seen))
        for name, special in (("bos", BOS), ("eos", EOS)):
            if special in ids:
                numbers[f"mass_{name}"] = sum(weights[t][s] for s in seen if ids[s] == special)
        for offset in () if cross else (-2, -1, 0, 1, 2):
            if 0 <= t + offset < keys and visible[t][t + offset]:
                numbers[f"offset_{offset}"] = weights[t][t + offset]
        for name, number in numbers.items():
            found.setdefault(name, []).append(number)
    return {name: sum(numbers) / len(numbers) for name, numbers in found.items()}


@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
def test_every_number_is_that_of_a_loop_over_the_cells(stack: str) -> None:
    generator = torch.Generator().manual_seed(3)
    source, target = [token(each) for each in "abcd"], [token(each) for each in "efg"]
    rows, keys = {"encoder": (5, 5), "decoder": (4, 4), "cross": (4, 5)}[stack]
    scores = 3 * torch.randn(2, rows, keys, generator=generator, dtype=torch.float64)
    hidden = torch.ones(rows, keys, dtype=torch.bool).triu(1) & (stack == "decoder")
    maps = scores.masked_fill(hidden, -torch.inf).softmax(-1).float()
    record = planted_record({(stack, 1): maps}, source, target)  # type: ignore[dict-item]
    ids = [each.id for each in (record.prefix if stack == "decoder" else record.source)]
    for head, finding in enumerate(head_statistics(record)):
        truth = brute(maps[head].tolist(), (~hidden).tolist(), ids, stack == "cross")
        assert {name: finding.values[name] for name in truth} == pytest.approx(truth, abs=1e-6)
        others = set(finding.values) - set(truth)
        assert others == {"sparsity", "row_error"}
        assert finding.values["row_error"] < 1e-6


def test_mass_on_punctuation_counts_pieces_of_nothing_else() -> None:
    maps = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0]]).expand(5, 5)
    record = planted_record({("encoder", 1): [maps]}, [token("▁U.S."), token("▁,"), token("▁。」"), token("▁+")])
    assert head_statistics(record)[0].values["mass_punctuation"] == pytest.approx(0.5)


def test_rows_that_are_not_meant_to_sum_to_one_have_the_range_of_their_sums() -> None:
    maps = torch.tensor([[0.5, 0.2], [0.3, 0.1]])
    record = planted_record({("cross", 1): [maps]}, [token("a")], [token("b")], normalised=False)
    values = head_statistics(record)[0].values
    assert (values["row_sum_least"], values["row_sum_most"]) == pytest.approx((0.4, 0.7))
    assert "row_error" not in values
    shares = [5 / 7, 2 / 7, 3 / 4, 1 / 4]
    assert values["entropy"] == pytest.approx(-sum(each * math.log(each) for each in shares) / 2, abs=1e-6)


def test_a_row_that_does_not_sum_to_one_is_found_out() -> None:
    maps = fixed_offset(0, 3)
    maps[1, 1] = 0.9
    record = planted_record({("encoder", 1): [maps]}, [token("a"), token("b")])
    assert head_statistics(record)[0].values["row_error"] == pytest.approx(0.1)


def test_the_monotone_cross_head_is_at_no_distance_from_the_line() -> None:
    source, target = [token(each) for each in "abcde"], [token(each) for each in "xy"]  # 6 keys, 3 rows: 0, 2.5, 5
    maps = torch.zeros(3, 6)
    maps[0, 0] = maps[2, 5] = 1.0
    maps[1, 2] = maps[1, 3] = 0.5
    found = head_statistics(planted_record({("cross", 1): [maps, maps.flip(1)]}, source, target))
    assert found[0].values["distance"] == pytest.approx(1 / 6)  # the middle row is half a token off
    assert found[1].values["distance"] == pytest.approx((5 + 0.5 + 5) / 3)


def test_over_a_sample_means_are_taken_and_the_worst_row_is_kept() -> None:
    def findings(values: dict[str, float]) -> list[Finding]:
        return [Finding("statistics", Unit("cross", 1, 2), values), Finding("role", Unit("cross", 1, 2), {"x": 1.0})]

    samples = [
        findings({"entropy": 1.0, "row_error": 0.1}),
        findings({"entropy": 2.0, "row_error": 0.3, "mass_bos": 1}),
    ]
    (over,) = statistics_over(samples)
    assert over.values == pytest.approx({"entropy": 1.5, "row_error": 0.3, "mass_bos": 1.0})
    assert over.settings["records"] == 2


def test_a_record_without_attention_has_no_statistics() -> None:
    record = planted_record({}, WORDS)
    assert isinstance(record, AttentionRecord) and head_statistics(record) == []
