"""What closing costs, held to heads made for the purpose and to passes one at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection import ablation
from clearhead.inspection.ablation import best_heads, head_ablation, layer_ablation, mean_contexts, only_one_head
from clearhead.inspection.interventions import Change, Interventions
from clearhead.inspection.recorders import recording_twin
from clearhead.inspection.sites import Head, attention_sites
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.models import Seq2Seq
from clearhead.nn.attention import Attention
from tests.laws.model_laws import ARCHITECTURES, PAIRS, transformer

SOME = Pairs.of([[5, 6, 7], [8], [9, 10, 5, 6, 7, 11]], [[5, 6, 9], [7, 8, 9, 10, 4], [10]])


def losses(model: Seq2Seq) -> Tensor:
    with torch.no_grad():
        return -gold_log_probs(model, SOME).sum(1) / SOME.gold.lengths


def attention_of(model: Seq2Seq, path: str) -> Attention:
    found = model.get_submodule(path)
    assert isinstance(found, Attention)
    return found


def test_a_planted_head_is_found() -> None:
    """A model in which one head alone says anything: every other head costs nothing, its layer costs what it costs."""
    model = transformer()
    with torch.no_grad():
        for site in attention_sites(model):
            weight = attention_of(model, str(site.attention)).output.weight
            spoken = weight[:, 4:8].clone()
            weight[:] = 0
            if (site.stack, site.layer) == ("cross", 2):
                weight[:, 4:8] = spoken  # head 2
    planted = Head("cross", 2, 2)
    found = head_ablation(model, SOME)
    assert float(found[planted].abs().min()) > 1e-3
    assert all(float(change.abs().max()) < 1e-12 for head, change in found.items() if head != planted)
    layers = {(site.stack, site.layer): change for site, change in layer_ablation(model, SOME).items()}
    torch.testing.assert_close(layers["cross", 2], found[planted], rtol=1e-10, atol=1e-12)


def test_a_change_is_the_loss_without_the_head_less_the_loss_with_it() -> None:
    """+ means worse. The head is taken away in the weights themselves: its columns of W_O."""
    model = transformer()
    whole = losses(model)
    change = head_ablation(model, SOME)[Head("cross", 2, 3)]
    with torch.no_grad():
        attention_of(model, "decoder.layers.1.cross_attention").output.weight[:, 8:12] = 0  # head 3
    torch.testing.assert_close(change, losses(model) - whole, rtol=1e-9, atol=1e-10)
    assert float(change.abs().min()) > 1e-3


def test_a_head_that_always_says_the_same_is_missed_only_if_nothing_takes_its_place() -> None:
    """W_V = 0 with a bias: the context is that bias at every position, whatever is read."""
    model = ARCHITECTURES["grouped-heads"]()
    attention = attention_of(model, "decoder.layers.0.cross_attention")
    with torch.no_grad():
        attention.value.weight[:6] = 0  # the first of two key and value heads: query heads 1 and 2
    zero, mean = (head_ablation(model, SOME, fill=fill) for fill in ("zero", "mean"))  # type: ignore[arg-type]
    for number in (1, 2):
        head = Head("cross", 1, number)
        assert float(zero[head].abs().min()) > 1e-4
        assert float(mean[head].abs().max()) < 1e-12
    others = [head for head in mean if head not in {Head("cross", 1, 1), Head("cross", 1, 2)}]
    assert all(float(mean[head].abs().max()) > 1e-6 for head in others)


@pytest.mark.parametrize("name", ["transformer", "one-kv-head", "two-way-gru-bahdanau", "convolutional-convs2s"])
def test_means_are_over_real_positions_alone(name: str) -> None:
    """Each pair read by itself, without padding; the padded batch holds other numbers in its padding."""
    model = (ARCHITECTURES | PAIRS)[name]()
    sites = attention_sites(model)
    found = mean_contexts(model, SOME, batch_tokens=10_000)
    sums = {site: torch.zeros_like(found[site]) for site in sites}
    counts = dict.fromkeys(sites, 0)
    for row in range(len(SOME)):
        source = SOME.source.ids[row, : int(SOME.source.lengths[row])].tolist()[:-1]
        target = SOME.gold.ids[row, : int(SOME.gold.lengths[row])].tolist()[:-1]
        alone = Pairs.of([source], [target])
        twin, recording = recording_twin(model, ())
        with torch.no_grad():
            gold_log_probs(twin.eval(), alone)
        for site in sites:
            mixed = recording.attention[site.path].mixed[0]
            sums[site] += mixed.sum(1)
            counts[site] += mixed.shape[1]
    padded_differs = False
    twin, recording = recording_twin(model, ())
    with torch.no_grad():
        gold_log_probs(twin.eval(), SOME)
    for site in sites:
        torch.testing.assert_close(found[site], sums[site] / counts[site], rtol=1e-10, atol=1e-10)
        with_padding = recording.attention[site.path].mixed.mean((0, 2))
        padded_differs |= not torch.allclose(with_padding, found[site], atol=1e-6)
    assert padded_differs
    torch.testing.assert_close(mean_contexts(model, SOME, batch_tokens=12), found, rtol=1e-10, atol=1e-10)


def test_mean_ablation_is_one_pass_a_head_with_the_mean_in_its_place() -> None:
    model = ARCHITECTURES["pre-norm"]()
    found, means, plain, before = (
        head_ablation(model, SOME, fill="mean"),
        mean_contexts(model, SOME),
        Interventions(model),
        losses(model),
    )
    for site in attention_sites(model):
        for number in range(site.heads):
            gates = torch.ones(site.heads)
            gates[number] = 0
            with plain.using({site.path: Change(gates=gates, fill=means[site])}) as changed:
                truth = losses(changed) - before
            torch.testing.assert_close(found[Head(site.stack, site.layer, number + 1)], truth, rtol=1e-9, atol=1e-10)


def test_layers_and_all_heads_but_one() -> None:
    model = ARCHITECTURES["one-kv-head"]()
    plain, before = Interventions(model), losses(model)
    layers, alone = layer_ablation(model, SOME), only_one_head(model, SOME)
    for site in attention_sites(model):
        with plain.using({site.path: Change(gates=torch.zeros(site.heads))}) as changed:
            torch.testing.assert_close(layers[site], losses(changed) - before, rtol=1e-9, atol=1e-10)
        for number in range(site.heads):
            with plain.using({site.path: Change(gates=torch.eye(site.heads)[number])}) as changed:
                truth = losses(changed) - before
            torch.testing.assert_close(alone[Head(site.stack, site.layer, number + 1)], truth, rtol=1e-9, atol=1e-10)
    best = best_heads(alone)
    assert set(best) == {(site.stack, site.layer) for site in attention_sites(model)}
    for (stack, layer), head in best.items():
        rivals = [each for each in alone if (each.stack, each.layer) == (stack, layer)]
        assert head == min(rivals, key=lambda each: float(alone[each].mean()))


def test_the_one_head_of_a_recurrent_decoder_is_its_layer_and_alone_it_loses_nothing() -> None:
    model = PAIRS["two-way-gru-bahdanau"]()
    head = Head("cross", 1, 1)
    (layer,) = layer_ablation(model, SOME).values()
    torch.testing.assert_close(head_ablation(model, SOME), {head: layer})
    assert float(layer.abs().min()) > 1e-6
    assert float(only_one_head(model, SOME)[head].abs().max()) < 1e-12


def test_what_has_no_heads_and_what_is_asked_wrongly() -> None:
    for ask in (head_ablation, layer_ablation, only_one_head, mean_contexts):
        assert ask(PAIRS["reversed-lstm-seq2seq"](), SOME) == {}
        with pytest.raises(InputError, match="no pairs"):
            ask(transformer(), Pairs.of([], []))
    with pytest.raises(InputError, match="fill is 'nothing'"):
        head_ablation(transformer(), SOME, fill="nothing")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ensemble"):
        head_ablation(ARCHITECTURES["ensemble"](), SOME)
    assert ablation.Fill.__args__ == ("zero", "mean")


def test_a_mean_over_many_batches_of_half_precision_is_not_worn_away() -> None:
    """The fault: sums kept in 8 bits stop growing, so that the mean over equal pairs is not that of one."""
    model = transformer().to(torch.bfloat16)
    one, many = (Pairs.of([[5, 6, 7, 8, 9]] * times, [[9, 8, 7, 6]] * times) for times in (1, 60))
    alone, together = mean_contexts(model, one), mean_contexts(model, many, batch_tokens=11)
    for site, mean in alone.items():
        torch.testing.assert_close(together[site].float(), mean.float(), rtol=1e-4, atol=1e-5)
