"""Readings of tokens: weights by layer and head, and how long the vectors are that the weights add up."""

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.alignment import cross_attention
from clearhead.inspection.records import Unit
from clearhead.inspection.replay import replay
from clearhead.inspection.sites import attention_sites, heads_of
from clearhead.inspection.token_readings import attention_scores
from clearhead.inspection.value_norms import head_norms, value_norms, vector_lengths
from clearhead.models import Seq2Seq
from tests.laws.model_laws import ARCHITECTURES, PAIRS
from tests.planted import fixed_offset, one_key, planted_record, planted_transformer, record_of, token, uniform

SOURCE, TARGET = [5, 6, 7, 8], [9, 4, 10]

# ------------------------------------------------------------------------------------------------------------- weights


def test_layers_are_means_over_their_heads() -> None:
    source, target = [token("a"), token("b")], [token("c")]
    heads = [torch.tensor([[1.0, 0, 0], [0, 1, 0]]), torch.tensor([[0.5, 0.5, 0], [0, 0, 1]])]
    layers = {
        ("encoder", 1): [uniform(3)],
        ("decoder", 1): [fixed_offset(0, 2, causal=True), one_key(0, 2, causal=True)],
        ("cross", 1): heads,
        ("cross", 2): [uniform(2, 3)],
    }
    record = planted_record(layers, source, target)  # type: ignore[arg-type]
    own, first, second = attention_scores(record)
    assert [each.unit for each in (own, first, second)] == [Unit("decoder", 1), Unit("cross", 1), Unit("cross", 2)]
    assert own.source is None and first.prefix is None
    torch.testing.assert_close(own.prefix, torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    torch.testing.assert_close(first.source, torch.tensor([[0.75, 0.25, 0.0], [0.0, 0.5, 0.5]]))
    one, stack = attention_scores(record, [Unit("cross", 1, 2), Unit("cross")])
    torch.testing.assert_close(one.source, heads[1])
    torch.testing.assert_close(stack.source, (heads[0] + heads[1] + uniform(2, 3).float()) / 3)  # every head once


@pytest.mark.parametrize("unit", [Unit("encoder", 1), Unit("cross", 7), Unit("decoder", 1, 5), Unit("decoder", 1, 0)])
def test_a_unit_that_is_not_there_or_predicts_nothing_is_refused(unit: Unit) -> None:
    record = record_of(ARCHITECTURES["transformer"](), SOURCE, TARGET)
    with pytest.raises(InputError):
        attention_scores(record, [unit])


# --------------------------------------------------------------------------------------------------------------- norms


def by_loops(model: Seq2Seq, layer: int, *, tiled: bool = False) -> Tensor:
    """‖Σ_h α_h·v_h·W_O[:, h]ᵀ‖ of a cross layer cell by cell; `tiled` takes the wrong key/value head of a group."""
    attention = model.decoder.layers[layer].cross_attention  # type: ignore[union-attr]
    weights = list(cross_attention(model, SOURCE, TARGET).values())[layer]
    memory = replay(model, SOURCE, TARGET).memory.values[0]
    heads, width = attention.heads, attention.head_dim
    value = attention.value(memory).detach()
    output = attention.output.weight.detach()
    _, rows, keys = weights.shape
    found = torch.zeros(rows, keys, dtype=torch.float64)
    for t in range(rows):
        for s in range(keys):
            total = torch.zeros(output.shape[0], dtype=torch.float64)
            for head in range(heads):
                group = head % attention.kv_heads if tiled else head * attention.kv_heads // heads
                mine = value[s, group * width : (group + 1) * width]
                total += weights[head, t, s] * (output[:, head * width : (head + 1) * width] @ mine)
            found[t, s] = total.square().sum().sqrt()
    return found


@pytest.mark.parametrize("name", ["transformer", "pre-norm", "grouped-heads", "one-kv-head"])
def test_norms_of_a_layer_are_those_of_its_added_vectors(name: str) -> None:
    model = ARCHITECTURES[name]()
    found = {each.unit: each for each in value_norms(model, SOURCE, TARGET)}
    for site in attention_sites(model):
        assert (Unit(site.stack, site.layer) in found) == (site.stack != "encoder")
    scores = found[Unit("cross", 1)]
    assert scores.method == "value-norms" and scores.prefix is None and scores.source is not None
    torch.testing.assert_close(scores.source.double(), by_loops(model, 0), rtol=1e-6, atol=1e-6)
    if name == "grouped-heads":
        assert not torch.allclose(scores.source.double(), by_loops(model, 0, tiled=True), atol=1e-3)
    own = found[Unit("decoder", 1)]
    assert own.source is None and own.prefix is not None
    assert bool((own.prefix.triu(1) == 0).all()) and own.prefix.shape == (4, 4)


def test_heads_may_cancel_in_a_layer() -> None:
    """Two heads that read alike and bring opposite vectors: each is long, their sum is nothing."""
    model = planted_transformer()
    cross = model.decoder.layers[0].cross_attention  # type: ignore[union-attr]
    with torch.no_grad():
        for weight in (cross.query.weight, cross.key.weight, cross.value.weight):
            weight[16:32] = weight[:16]
        cross.output.weight[:, 16:32] = -cross.output.weight[:, :16]
    (own, layer) = value_norms(model, [5, 6, 7], [5, 6, 7])
    heads = head_norms(model, [5, 6, 7], [5, 6, 7])
    assert layer.source is not None and float(layer.source.max()) < 1e-6
    assert float(heads[Unit("cross", 1, 1)].max()) > 1
    torch.testing.assert_close(heads[Unit("cross", 1, 1)], heads[Unit("cross", 1, 2)])
    assert own.prefix is not None and not bool(own.prefix.any())  # self-attention brings nothing in this model


def test_a_heads_norms_are_its_weights_times_the_lengths() -> None:
    model = ARCHITECTURES["grouped-heads"]()
    heads, lengths = head_norms(model, SOURCE, TARGET), vector_lengths(model, SOURCE, TARGET)
    assert set(heads) == set(lengths) == {Unit.of(head) for head in heads_of(attention_sites(model))}
    record = record_of(model, SOURCE, TARGET)
    for unit, norms in heads.items():
        assert unit.layer is not None and unit.head is not None
        weights = record.layer(unit.stack, unit.layer).weights[unit.head - 1].double()
        torch.testing.assert_close(norms, weights * lengths[unit], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("decoder", ["bahdanau", "luong-local-p", "convs2s-as-wide"])
def test_a_core_without_projections_reads_its_values_as_they_are(decoder: str) -> None:
    model = PAIRS[f"two-way-gru-{decoder}"]()
    found = value_norms(model, SOURCE, TARGET)
    weights = cross_attention(model, SOURCE, TARGET)
    lengths = replay(model, SOURCE, TARGET).memory.values[0].norm(dim=-1)
    assert [each.unit for each in found] == [Unit("cross", layer + 1) for layer in range(len(weights))]
    for each, alpha in zip(found, weights.values(), strict=True):
        assert each.source is not None
        torch.testing.assert_close(each.source.double(), alpha[0] * lengths, rtol=1e-6, atol=1e-6)


def test_a_model_without_attention_has_no_norms_and_an_ensemble_is_refused() -> None:
    assert value_norms(PAIRS["reversed-lstm-seq2seq"](), SOURCE, TARGET) == []
    with pytest.raises(InputError, match="ensemble"):
        value_norms(PAIRS["ensemble"](), SOURCE, TARGET)
