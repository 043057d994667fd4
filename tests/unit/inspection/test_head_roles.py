"""A planted head is given the role that it was planted with, whatever the length and under the causal mask."""

import pytest
import torch
from torch import Tensor

from clearhead.inspection.head_roles import ROLES, Thresholds, head_roles, roles_over
from clearhead.inspection.records import Finding, Unit
from clearhead.inspection.sites import Stack
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.inspection.value_norms import vector_lengths
from clearhead.models import Seq2Seq
from tests.planted import (
    PLANTED_ROLES,
    fixed_offset,
    one_key,
    planted_record,
    planted_transformer,
    record_of,
    reversed_links,
    token,
    uniform,
)


def words(count: int) -> list:
    return [token(f"▁w{place}", 5 + place, place) for place in range(count)]


def role_of(stack: Stack, maps: Tensor, **more: object) -> Finding:
    length = maps.shape[1] - 1
    record = planted_record({(stack, 1): [maps]}, words(length), words(maps.shape[0] - 1))
    return head_roles(record, **more)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [4, 9, 40])
@pytest.mark.parametrize("mass", [0.8, 1.0])
def test_heads_of_the_encoder(length: int, mass: float) -> None:
    assert role_of("encoder", fixed_offset(1, length, mass=mass)).words["role"] == "next"
    assert role_of("encoder", fixed_offset(-1, length, mass=mass)).words["role"] == "previous"
    assert role_of("encoder", fixed_offset(0, length, mass=mass)).words["role"] == "diagonal"
    assert role_of("encoder", uniform(length)).words["role"] == "broad"
    assert role_of("encoder", one_key(length - 1, length, mass=mass)).words["role"] == "special-token"
    assert role_of("encoder", one_key(1, length, mass=mass)).words["role"] == "stripe"


def test_a_map_that_is_turned_over_is_called_the_other_way() -> None:
    """The mutant: the sign of the offset swapped, which is what turning the map over amounts to."""
    following = fixed_offset(1, 9)
    assert (role_of("encoder", following).words["role"], role_of("encoder", following.T).words["role"]) == (
        "next",
        "previous",
    )


@pytest.mark.parametrize("length", [4, 9, 40])
@pytest.mark.parametrize("mass", [0.8, 1.0])
def test_heads_under_a_causal_mask(length: int, mass: float) -> None:
    assert role_of("decoder", fixed_offset(-1, length, causal=True, mass=mass)).words["role"] == "previous"
    assert role_of("decoder", fixed_offset(0, length, causal=True, mass=mass)).words["role"] == "diagonal"
    assert role_of("decoder", one_key(0, length, causal=True, mass=mass)).words["role"] == "special-token"
    assert "next_score" not in role_of("decoder", uniform(length, causal=True)).values


@pytest.mark.parametrize("length", range(2, 12))
def test_the_mask_alone_makes_no_role(length: int) -> None:
    """Traps 69. Of three tokens a uniform causal head has 61 % of its weight on the diagonal, if one does not look."""
    maps = uniform(length, causal=True)
    found = role_of("decoder", maps)
    assert found.words["role"] == "broad"
    for name in ("diagonal", "previous", "sink"):
        if f"{name}_score" in found.values:
            assert found.values[f"{name}_score"] == pytest.approx(found.values[f"{name}_baseline"], abs=1e-6)
    assert uniform(3, causal=True).diagonal().mean() > Thresholds().diagonal  # what a plain mean would have said


def test_a_short_text_asks_for_more() -> None:
    """Of two keys half of the weight is on the previous one by chance; of 40 hardly any."""
    short, long = (role_of("decoder", fixed_offset(-1, each, causal=True)).values for each in (3, 40))
    assert short["previous_baseline"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert short["previous_threshold"] == pytest.approx(0.5 + short["previous_baseline"] / 2)
    assert long["previous_threshold"] < 0.6
    half = fixed_offset(-1, 3, causal=True, mass=0.3)  # 0.3 above chance: more than half of the weight
    found = role_of("decoder", half)
    assert found.values["previous_score"] > 0.5
    assert found.words["role"] != "previous"


def test_a_fixed_offset_is_named() -> None:
    found = role_of("encoder", fixed_offset(-2, 9, mass=0.4))
    assert (found.words["role"], found.words["offset"]) == ("position", "-2")
    # 0.4 of the weight is too little for "previous", but its largest weight is always there.
    found = role_of("encoder", fixed_offset(-1, 9, mass=0.4))
    assert (found.words["role"], found.words["offset"]) == ("position", "-1")


def test_half_of_the_weight_on_a_special_token_is_not_a_stripe() -> None:
    found = role_of("encoder", one_key(11, 12, mass=0.55))
    assert found.words["role"] == "mixed"
    assert found.values["stripe_score"] == pytest.approx(0.45 / 12, abs=1e-6)


def test_a_head_without_a_habit_is_mixed() -> None:
    torch.manual_seed(0)
    maps = (4 * torch.randn(12, 12, dtype=torch.float64)).softmax(-1)
    assert role_of("encoder", maps).words["role"] == "mixed"


@pytest.mark.parametrize(("length", "role"), [(0.1, "sink"), (3.0, "special-token")])
def test_a_sink_is_a_special_token_whose_vector_is_short(length: float, role: str) -> None:
    lengths = torch.ones(6)
    lengths[-1] = length
    found = role_of("encoder", one_key(5, 6, mass=0.9), lengths={Unit("encoder", 1, 1): lengths})
    assert found.words["role"] == role
    assert found.values["sink_length"] == pytest.approx(length)
    assert found.words["values"] == ("short" if role == "sink" else "not short")
    assert role_of("encoder", one_key(5, 6, mass=0.9)).words["values"] == "not measured"


def test_the_rare_token_is_the_least_frequent_that_is_not_special() -> None:
    counts = {5: 100.0, 6: 80.0, 7: 2.0, 8: 50.0, 9: 60.0}  # id 7, the third word, is the rarest; EOS has none at all
    maps = one_key(2, 6, mass=0.3)
    assert role_of("encoder", maps, frequencies=counts).words["role"] == "rare-token"
    assert role_of("encoder", one_key(1, 6, mass=0.3), frequencies=counts).values["rare-token_score"] == 0
    assert "rare-token_score" not in role_of("encoder", maps).values
    found = role_of("encoder", uniform(6), frequencies=counts)
    assert found.values["rare-token_baseline"] == pytest.approx(1 / 6)
    assert found.values["rare-token_score"] == pytest.approx(1 / 6)


def test_an_id_of_the_prefix_is_counted_among_the_target_s_words() -> None:
    read, written = {5: 1.0, 6: 9.0, 7: 9.0, 8: 9.0, 9: 9.0}, {5: 9.0, 6: 1.0, 7: 9.0, 8: 9.0, 9: 9.0}

    def score(stack: Stack, **counts: object) -> float:
        return role_of(stack, one_key(1, 6, mass=0.3), **counts).values["rare-token_score"]

    assert score("encoder", frequencies=read) != score("encoder", frequencies=written)
    assert score("decoder", frequencies=read) != score("decoder", frequencies=written)
    assert score("encoder", frequencies=read, target_frequencies=written) == score("encoder", frequencies=read)
    assert score("decoder", frequencies=read, target_frequencies=written) == score("decoder", frequencies=written)


def reversing(mass: float = 1.0, shift: int = 0) -> Tensor:
    """Six rows: word t is made of source word 4 − t, and EOS of EOS."""
    maps = uniform(6) * (1 - mass)
    for row, key in enumerate([4, 3, 2, 1, 0, 5]):
        maps[row, (key + shift) % 6] += mass
    return maps


def test_aligned_is_more_than_the_best_fixed_rule() -> None:
    links = reversed_links(5)
    found = role_of("cross", reversing(), links=links)
    assert found.words["role"] == "aligned"
    # Of the fixed rules the line does best: it meets rows 2 and 5.
    assert found.values["aligned_baseline"] == pytest.approx(2 / 6)
    assert role_of("cross", reversing(shift=1), links=links).values["aligned_score"] == 0  # the shift is a mutant
    straight = frozenset((place, place) for place in range(6))
    found = role_of("cross", fixed_offset(0, 6), links=straight)
    assert (found.words["role"], found.values["aligned_baseline"]) == ("diagonal", 1)
    assert "aligned_score" not in role_of("cross", reversing()).values


def test_links_of_words_join_all_their_pieces() -> None:
    source = [token("▁ab", 5, 0), token("c", 6, 0), token("▁d", 7, 1)]
    target = [token("▁x", 8, 0), token("y", 9, 0), token("▁z", 10, 1)]
    maps = torch.zeros(4, 4)
    for row, key in enumerate([2, 2, 1, 3]):
        maps[row, key] = 1.0
    record = planted_record({("cross", 1): [maps]}, source, target)
    found = head_roles(record, links=frozenset({(0, 1), (1, 0)}), linked="words")[0]
    assert found.values["aligned_score"] == 1
    assert found.values["aligned_rows"] == 3


def test_cross_heads_along_the_line_and_at_the_end() -> None:
    line = torch.zeros(5, 9)
    for row in range(5):
        line[row, 2 * row] = 1.0
    assert role_of("cross", line).words["role"] == "diagonal"
    assert role_of("cross", one_key(8, 5, 9)).words["role"] == "special-token"
    assert role_of("cross", uniform(5, 9)).words["role"] == "broad"


def test_weights_that_do_not_sum_to_one_are_judged_by_their_shares() -> None:
    maps = 0.3 * fixed_offset(0, 6)
    record = planted_record({("cross", 1): [maps]}, words(5), words(5), normalised=False)
    assert head_roles(record)[0].values["diagonal_score"] == pytest.approx(1.0)


@pytest.mark.parametrize("reverse", [False, True])
def test_every_head_of_a_written_transformer_has_its_role(reverse: bool) -> None:
    model = planted_transformer(reverse=reverse)
    source = [5, 9, 7, 12, 4, 6]
    target = source[::-1] if reverse else source
    links = reversed_links(6) if reverse else frozenset((place, place) for place in range(7))
    record = record_of(model, source, target)
    found = {finding.unit: finding.words["role"] for finding in head_roles(record, links=links)}
    planted = {Unit(stack, 1, head + 1): roles[head] for stack, roles in PLANTED_ROLES.items() for head in range(4)}
    planted |= {} if reverse else {Unit("cross", 1, 1): "diagonal"}
    assert found == planted
    # The values of the idle heads are thrown away, so what they read at a special token is nothing.
    lengths = vector_lengths(model, source, target)
    with_values = {each.unit: each for each in head_roles(record, links=links, lengths=lengths)}
    assert with_values[Unit("cross", 1, 4)].values["sink_length"] == 0
    assert with_values[Unit("cross", 1, 4)].words["role"] == "sink"


def test_the_written_transformers_do_what_they_are_for() -> None:
    source = [5, 9, 7, 12, 4, 6]

    def loss(model: Seq2Seq, target: list[int]) -> float:
        return float(-gold_log_probs(model, Pairs.of([source], [target])).detach().mean())

    copier, reverser = planted_transformer(), planted_transformer(reverse=True)
    assert loss(copier, source) < 1e-3
    assert loss(reverser, source[::-1]) < 1e-3
    assert min(loss(copier, source[::-1]), loss(reverser, source)) > 1


def test_over_a_sample_scores_are_means_over_all_rows() -> None:
    maps = [fixed_offset(-1, 4), fixed_offset(-1, 10, mass=0.4), uniform(6)]
    samples = [[role_of("encoder", each)] for each in maps]
    (over,) = roles_over(samples)
    scores = [(3, 1.0), (9, 0.4 + 0.6 / 10), (5, 1 / 6)]
    assert over.values["previous_rows"] == 17
    assert over.values["previous_score"] == pytest.approx(sum(rows * score for rows, score in scores) / 17, abs=1e-6)
    assert over.values["previous_baseline"] == pytest.approx((3 / 4 + 9 / 10 + 5 / 6) / 17)
    assert over.settings["records"] == 3
    # The mean over records instead of rows would be another number, and this head then had a role.
    assert over.words["role"] == "mixed" and over.values["role_share"] == 0


def test_a_role_that_holds_over_a_sample() -> None:
    lengths = {Unit("encoder", 1, 1): torch.tensor([1.0] * 5 + [0.1])}
    samples = [[role_of("encoder", one_key(5, 6, mass=0.9), lengths=lengths)] for _ in range(3)]
    samples.append([role_of("encoder", uniform(6))])
    (over,) = roles_over(samples)
    assert (over.words["role"], over.words["values"]) == ("sink", "short")
    assert over.values["role_share"] == 0.75


def test_a_fixed_offset_over_a_sample_is_the_same_everywhere() -> None:
    samples = [[role_of("encoder", fixed_offset(offset, 9, mass=0.4))] for offset in (-2, -2, 2)]
    (over,) = roles_over(samples)
    assert over.words["offset"] == "-2"
    assert over.values["position_score"] == pytest.approx(2 / 3)
    assert over.words["role"] != "position"


def test_an_empty_target_is_asked_nothing_of() -> None:
    record = planted_record({("decoder", 1): [uniform(1)], ("cross", 1): [uniform(1, 3)]}, words(2), [])
    own, cross = head_roles(record)
    assert (own.words["role"], own.values) == ("mixed", {})
    assert cross.words["role"] == "broad"


def test_over_a_sample_aligned_has_to_beat_one_rule_and_not_the_best_of_each_record() -> None:
    """Two sentences that a fixed offset would meet, but not the same one: neither is met in more than half."""
    samples = []
    for offset in (-1, 1):
        maps = fixed_offset(offset, 8)
        links = frozenset((row + offset, row) for row in range(8) if 0 <= row + offset < 8)
        samples.append([role_of("cross", maps, links=links)])
        assert samples[-1][0].values["aligned_baseline"] == 1
    (over,) = roles_over(samples)
    assert over.values["aligned_score"] == pytest.approx(1)
    assert over.values["aligned_offset_1"] == over.values["aligned_offset_-1"] == pytest.approx(0.5)
    assert over.values["aligned_baseline"] == pytest.approx(0.5)
    assert over.words["role"] == "aligned"


def test_a_mixed_head_says_what_it_comes_nearest_to() -> None:
    maps = 0.52 * fixed_offset(1, 9) + 0.48 * fixed_offset(-1, 9)  # 0.52 is not far enough above the ninth of chance
    found = role_of("encoder", maps, thresholds=Thresholds(position=2.0))
    assert (found.words["role"], found.words["nearest"]) == ("mixed", "next")
    assert "nearest" not in role_of("encoder", uniform(6)).words


def test_thresholds_are_shown_and_can_be_set() -> None:
    found = role_of("encoder", fixed_offset(-1, 9, mass=0.4), thresholds=Thresholds(previous=0.3))
    assert found.words["role"] == "previous"
    assert found.settings["previous"] == 0.3
    assert set(found.settings) == {*ROLES, "aligned_margin", "sink_length"}
