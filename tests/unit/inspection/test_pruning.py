"""Pruning held to a slow twin of itself; closed heads to interventions; a smaller model to one with closed heads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.decoding import DecodingConfig, search
from clearhead.inspection.ablation import mean_contexts
from clearhead.inspection.interventions import Change, Interventions
from clearhead.inspection.pruning import closed, greedy_order, pruning_curve
from clearhead.inspection.sites import Head, attention_sites, heads_of
from clearhead.inspection.structural import without_heads
from clearhead.inspection.teaching import Pairs, gold_log_probs, next_logits
from clearhead.models import Seq2Seq
from clearhead.nn.padding import Padded
from tests.laws import model_laws
from tests.laws.model_laws import ARCHITECTURES, PAIRS, SOURCES, transformer

SOME = Pairs.of([[5, 6, 7], [8], [9, 10, 5, 6, 7, 11]], [[5, 6, 9], [7, 8, 9, 10, 4], [10]])


def loss(model: Seq2Seq) -> float:
    with torch.no_grad():
        return float((-gold_log_probs(model, SOME).sum(1) / SOME.gold.lengths).mean())


def found_by(model: Seq2Seq) -> list[tuple[tuple[int, ...], float]]:
    """What a beam search writes, with the scores."""
    with torch.no_grad():
        lines = search(model, Padded.from_lists(SOURCES), DecodingConfig(beam=3, max_length=7))
    return [(tuple(each.tokens), round(float(each.score), 9)) for line in lines for each in line]


def some_heads(model: Seq2Seq) -> list[Head]:
    """Every third head, so that every layer with four keeps some."""
    return heads_of(attention_sites(model))[::3]


# ------------------------------------------------------------------------------------------------------------- closed


@pytest.mark.parametrize("name", ["transformer", "grouped-heads", "two-way-gru-bahdanau", "convolutional-convs2s"])
@pytest.mark.parametrize("filled", [False, True])
def test_closed_is_what_an_intervention_does_in_reading_and_in_search(name: str, filled: bool) -> None:
    model = (ARCHITECTURES | PAIRS)[name]()
    fills = mean_contexts(model, SOME) if filled else None
    heads = some_heads(model)
    changes = {}
    for site in attention_sites(model):
        gates = torch.ones(site.heads)
        gates[[each.head - 1 for each in heads if (each.stack, each.layer) == (site.stack, site.layer)]] = 0
        changes[site.path] = Change(gates=gates, fill=None if fills is None else fills[site])
    pruned = closed(model, heads, fills)
    with Interventions(model).using(changes) as changed, torch.no_grad():
        torch.testing.assert_close(next_logits(pruned, SOME), next_logits(changed, SOME), rtol=1e-12, atol=1e-12)
        assert found_by(pruned) == found_by(changed)
    assert found_by(pruned) != found_by(model)
    assert {id(each) for each in pruned.parameters()} == {id(each) for each in model.parameters()}


def test_closing_again_adds_to_what_is_closed_and_nothing_closed_changes_nothing() -> None:
    model = transformer()
    one, other = Head("encoder", 1, 2), Head("cross", 2, 4)
    both = loss(closed(model, [one, other]))
    assert loss(closed(closed(model, [one]), [other])) == pytest.approx(both, abs=1e-13)
    assert loss(closed(model, [other, one, one])) == both
    assert loss(closed(model, [])) == loss(model) != both


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (Head("encoder", 3, 1), 'no layer 3 in the stack "encoder"'),
        (Head("cross", 1, 5), "no head 5 in layer 1 of cross: it has 4"),
        (Head("decoder", 1, 0), "no head 0 in layer 1 of decoder"),
    ],
)
def test_a_head_that_is_not_there_is_told(head: Head, said: str) -> None:
    for ask in (closed, without_heads):
        with pytest.raises(InputError, match=said):
            ask(transformer(), [head])
    with pytest.raises(InputError, match="no attention"):
        closed(PAIRS["reversed-lstm-seq2seq"](), [head])


# ------------------------------------------------------------------------------------------------------------ pruning


def slowly(model: Seq2Seq, at_a_time: int, again: bool) -> list[Head]:
    """The greedy order by finite differences of the gates, with everything closed so far closed, if `again`."""
    plain, step = Interventions(model), 1e-5
    sites = {(site.stack, site.layer): site for site in plain.sites}
    left, gone = heads_of(plain.sites), []

    def rated(head: Head) -> float:
        site, both = sites[head.stack, head.layer], []
        for sign in (1, -1):
            changes = {}
            for each in plain.sites:
                gates = torch.ones(each.heads, dtype=torch.float64)
                if again:
                    gates[[h.head - 1 for h in gone if (h.stack, h.layer) == (each.stack, each.layer)]] = 0
                if each is site:
                    gates[head.head - 1] += sign * step
                changes[each.path] = Change(gates=gates)
            with plain.using(changes) as changed, torch.no_grad():
                both.append(-gold_log_probs(changed, SOME).sum(1) / SOME.gold.lengths)
        slopes: Tensor = (both[0] - both[1]) / (2 * step)
        return float(slopes.abs().mean())

    while left:
        scores = {head: rated(head) for head in left}
        gone += sorted(left, key=lambda head: scores[head])[:at_a_time]
        left = [head for head in left if head not in gone]
    return gone


def test_the_order_is_greedy_and_scored_again_after_each_step() -> None:
    model = transformer(attention={"heads": 2}, encoder_layers=1, decoder_layers=1)
    steps = greedy_order(model, SOME, share=1 / 6)
    assert [len(step) for step in steps] == [1] * 6
    order = [head for step in steps for head in step]
    assert order == slowly(model, 1, again=True)
    assert order != slowly(model, 1, again=False)


def test_silent_heads_go_first_and_steps_are_a_share_of_all() -> None:
    model = transformer()
    with torch.no_grad():
        model.get_parameter("decoder.layers.1.cross_attention.output.weight")[:, 4:12] = 0
    silent = {Head("cross", 2, 2), Head("cross", 2, 3)}
    assert set(greedy_order(model, SOME, stack="cross", share=0.25)[0]) == silent
    steps = greedy_order(model, SOME, share=0.3)
    assert silent <= set(steps[0])
    assert [len(step) for step in steps] == [7, 7, 7, 3]
    assert sorted(head for step in steps for head in step) == sorted(heads_of(attention_sites(model)))
    assert [len(step) for step in greedy_order(model, SOME, stack="decoder", share=0.4)] == [3, 3, 2]
    tiny = transformer(attention={"heads": 1}, encoder_layers=2, decoder_layers=1)
    assert [len(step) for step in greedy_order(tiny, SOME, stack="encoder", share=0.001)] == [1, 1]


def test_a_curve_says_what_each_step_costs() -> None:
    model = transformer()
    asked: list[float] = []

    def score(pruned: Seq2Seq) -> float:
        asked.append(loss(pruned))
        return -asked[-1]

    (curve,) = pruning_curve(model, SOME, stacks=["cross"], share=0.25, score=score)
    assert (curve.method, curve.name, curve.x_name) == ("pruning", "cross", "heads left")
    assert curve.x == (8, 6, 4, 2, 0)
    assert curve.series["share_left"] == (1, 0.75, 0.5, 0.25, 0)
    assert curve.series["score"] == tuple(-each for each in asked)
    assert curve.series["delta_nll"] == pytest.approx([each - loss(model) for each in asked], abs=1e-12)
    places = {name: place for name, place in curve.settings.items() if name.startswith("cross ")}
    assert sorted(places.values()) == list(range(1, 9))
    first = [head for head in heads_of(attention_sites(model)) if places.get(str(head), 9) <= 2]
    assert curve.series["delta_nll"][1] == pytest.approx(loss(closed(model, first)) - loss(model), abs=1e-12)
    assert curve.settings["share"] == 0.25
    assert "score" not in pruning_curve(model, SOME, stacks=["encoder"], share=1.0)[0].series


def test_only_stacks_with_heads_have_a_curve() -> None:
    curves = pruning_curve(PAIRS["two-way-gru-bahdanau"](), SOME)
    assert [(curve.name, curve.x) for curve in curves] == [("cross", (1, 0)), ("all", (1, 0))]
    assert pruning_curve(PAIRS["reversed-lstm-seq2seq"](), SOME) == []


def test_ranked_within_layers_if_asked() -> None:
    """A layer whose slopes are all small goes first by plain slopes; its best head does not, within its layer."""
    model = transformer(encoder_layers=1, decoder_layers=2)
    with torch.no_grad():
        model.get_parameter("decoder.layers.0.cross_attention.output.weight").mul_(1e-3)
    weak = [head for head in heads_of(attention_sites(model)) if (head.stack, head.layer) == ("cross", 1)]
    assert set(greedy_order(model, SOME, stack="cross", share=0.5)[0]) == set(weak)
    assert set(greedy_order(model, SOME, stack="cross", share=0.5, by_layer=True)[0]) != set(weak)


@pytest.mark.parametrize("share", [0, -0.1, 1.5])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(InputError, match="share"):
        greedy_order(transformer(), SOME, share=share)
    with pytest.raises(InputError, match="stack is 'source'"):
        greedy_order(transformer(), SOME, stack="source")  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------- a smaller model


def same_as_closed(model: Seq2Seq, heads: list[Head], tolerance: float = 1e-10) -> Seq2Seq:
    """The law: logits of a smaller model are those with the heads closed, and so are its searches."""
    smaller, masked = without_heads(model, heads), closed(model, heads)
    with torch.no_grad():
        torch.testing.assert_close(
            next_logits(smaller, SOME), next_logits(masked, SOME), rtol=tolerance, atol=tolerance
        )
    if tolerance < 1e-8:
        assert found_by(smaller) == found_by(masked)
    return smaller


def numbers(model: Seq2Seq) -> int:
    return sum(each.numel() for each in model.parameters())


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "ensemble"])
def test_heads_taken_out_are_heads_closed(name: str) -> None:
    model = ARCHITECTURES[name]()
    before = {key: each.clone() for key, each in model.state_dict().items()}
    smaller = same_as_closed(model, some_heads(model))
    assert numbers(smaller) < numbers(model)
    same_as_closed(ARCHITECTURES[name]().float(), some_heads(model), 1e-6)
    assert all(torch.equal(before[key], each) for key, each in model.state_dict().items())


def test_what_is_taken_out_is_what_its_heads_own() -> None:
    """One head of width 4 in a model of width 16: 4 rows of W_Q, W_K, W_V and 4 columns of W_O."""
    model = transformer()
    assert numbers(model) - numbers(without_heads(model, [Head("cross", 1, 2)])) == 4 * 4 * 16
    assert numbers(without_heads(model, [])) == numbers(model)


def test_a_layer_can_lose_all_its_heads() -> None:
    """With the biases of W_O, which stay; in the first layer of the decoder, whose keys the state begins with."""
    for name in ("transformer", "grouped-heads"):
        model = ARCHITECTURES[name]()
        for stack in ("encoder", "decoder", "cross"):
            heads = [head for head in heads_of(attention_sites(model)) if (head.stack, head.layer) == (stack, 1)]
            smaller = same_as_closed(model, heads)
            assert [site.layer for site in attention_sites(smaller) if site.stack == stack] == [1]
        everything = same_as_closed(model, heads_of(attention_sites(model)))
        assert attention_sites(everything) == []


@pytest.mark.parametrize(
    ("gone", "heads", "kv_heads"), [([1], 4, 2), ([1, 3], 2, 2), ([1, 2], 2, 1), ([1, 2, 4], 1, 1), ([3], 4, 2)]
)
def test_shared_keys_go_with_the_last_that_reads_them(gone: list[int], heads: int, kv_heads: int) -> None:
    """Heads 1, 2 share one key and value head, 3, 4 the other; where the groups differ, a closed head stays behind."""
    model = ARCHITECTURES["grouped-heads"]()
    smaller = same_as_closed(model, [Head("decoder", 2, number) for number in gone])
    attention = smaller.get_submodule("decoder.layers.1.self_attention")
    assert (attention.heads, attention.kv_heads) == (heads, kv_heads)


def test_a_smaller_model_obeys_the_laws() -> None:
    model = ARCHITECTURES["grouped-heads"]()
    whole_layer = [Head("decoder", 1, number) for number in range(1, 5)]
    smaller = without_heads(model, [Head("cross", 1, 1), Head("cross", 1, 3), Head("encoder", 2, 4), *whole_layer])
    for law in (
        model_laws.a_batch_is_its_rows,
        model_laws.stepping_is_teacher_forcing,
        model_laws.rows_commutes_with_advance,
        model_laws.join_keeps_every_row,
        model_laws.fan_out_is_copying,
    ):
        law(smaller)


def test_rows_without_their_columns_are_seen() -> None:
    """The fault that the law catches: the wrong columns of W_O, or a head left out of one side alone (traps.md, 67)."""
    model = transformer()
    heads = [Head("cross", 1, 2)]
    smaller, masked = without_heads(model, heads), closed(model, heads)
    attention = smaller.get_submodule("decoder.layers.0.cross_attention")
    with torch.no_grad():
        attention.output.weight.copy_(model.get_parameter("decoder.layers.0.cross_attention.output.weight")[:, :12])
        assert not torch.allclose(next_logits(smaller, SOME), next_logits(masked, SOME), atol=1e-6)


def test_attention_without_projections_cannot_be_taken_out() -> None:
    with pytest.raises(InputError, match="close it instead"):
        without_heads(PAIRS["two-way-gru-bahdanau"](), [Head("cross", 1, 1)])
