"""The lens ends on the model's own prediction, and a layer's row is what the model would say if it ended there."""

import copy

import pytest
import torch
from torch import Tensor, nn

from clearhead.inspection import lens
from clearhead.inspection.lens import layer_logits, logit_lens
from clearhead.inspection.records import Token
from clearhead.inspection.teaching import Pairs, next_logits
from clearhead.models import Seq2Seq
from tests.laws.model_laws import ARCHITECTURES, PAIRS
from tests.planted import planted_transformer

SOURCE, TARGET = [5, 6, 7], [9, 4, 8, 10]
WITH_LENS = {name: ARCHITECTURES[name] for name in ("transformer", "pre-norm", "grouped-heads", "learned-positions")}
WITH_LENS |= {name: PAIRS[f"two-way-gru-{name}"] for name in ("convs2s", "convs2s-as-wide", "transformer")}


def word(index: int) -> Token:
    return Token(f"w{index}", index)


@torch.no_grad()
def own_logits(model: Seq2Seq) -> Tensor:
    return next_logits(model, Pairs.of([SOURCE], [TARGET]))[0]


@pytest.mark.parametrize("make", WITH_LENS.values(), ids=WITH_LENS.keys())
def test_the_last_layer_says_what_the_model_says(make) -> None:
    model = make()
    layers = layer_logits(model, SOURCE, TARGET)
    assert torch.equal(layers[max(layers)], own_logits(model))
    found = logit_lens(model, SOURCE, TARGET, vocabulary=word)
    assert [layer.layer for layer in found] == list(layers)
    assert all(place.divergence == 0 for place in found[-1].places)
    assert all(place.divergence > 0 for layer in found[:-1] for place in layer.places)


@pytest.mark.parametrize(
    ("name", "norm"), [("transformer", nn.LayerNorm(16, dtype=torch.float64)), ("pre-norm", nn.Identity())]
)
def test_a_tail_with_a_norm_too_many_or_too_few_is_found_out(name: str, norm: nn.Module, monkeypatch) -> None:
    """The mutant: another norm on a post-norm stack, or none on a pre-norm one."""
    model = ARCHITECTURES[name]()

    def with_another_tail(*arguments: object) -> tuple[Seq2Seq, dict[str, Tensor]]:
        made, kept = truth(*arguments)
        made.decoder.norm = norm
        return made, kept

    truth = lens.keeping_twin
    monkeypatch.setattr(lens, "keeping_twin", with_another_tail)
    layers = layer_logits(model, SOURCE, TARGET)
    assert not torch.allclose(layers[max(layers)], own_logits(model), atol=1e-3)


@pytest.mark.parametrize("name", ["transformer", "pre-norm", "convs2s-as-wide"])
def test_a_layers_row_is_that_of_a_model_cut_off_above_it(name: str) -> None:
    model = WITH_LENS[name]()
    layers = layer_logits(model, SOURCE, TARGET)
    for count in range(1, len(model.decoder.layers) + 1):
        cut = copy.deepcopy(model)
        cut.decoder.layers = cut.decoder.layers[:count]
        torch.testing.assert_close(layers[count], own_logits(cut), rtol=1e-10, atol=1e-10)


def test_layer_0_is_what_enters_the_stack() -> None:
    model = ARCHITECTURES["pre-norm"]()
    pairs = Pairs.of([SOURCE], [TARGET])
    entering = model.decoder.input(pairs.prefix.ids, torch.arange(len(TARGET) + 1)[None])
    truth = model.decoder.project(model.decoder.norm(entering))[0].detach()
    torch.testing.assert_close(layer_logits(model, SOURCE, TARGET)[0], truth, rtol=1e-10, atol=1e-10)


def test_only_layers_as_wide_as_the_last_have_a_row() -> None:
    assert list(layer_logits(PAIRS["two-way-gru-convs2s"](), SOURCE, TARGET)) == [2]  # widths 6 and 5
    assert list(layer_logits(PAIRS["two-way-gru-convs2s-as-wide"](), SOURCE, TARGET)) == [0, 1, 2]


@pytest.mark.parametrize("decoder", ["bahdanau", "luong-general", "seq2seq", "bytenet"])
def test_other_decoders_have_no_lens(decoder: str) -> None:
    assert logit_lens(PAIRS[f"two-way-gru-{decoder}"](), SOURCE, TARGET, vocabulary=word) == ()


def test_numbers_of_a_place() -> None:
    model = ARCHITECTURES["transformer"]()
    layers = layer_logits(model, SOURCE, TARGET)
    first = logit_lens(model, SOURCE, TARGET, vocabulary=word, likeliest=3)[1]
    own = own_logits(model).softmax(-1)
    for row, (place, gold) in enumerate(zip(first.places, [*TARGET, 3], strict=True)):
        shares = layers[1][row].softmax(-1)
        order = shares.argsort(descending=True).tolist()
        assert [each.id for each, _ in place.likeliest] == order[:3]
        assert [share for _, share in place.likeliest] == pytest.approx(shares[order[:3]].tolist())
        assert place.gold_rank == order.index(gold) + 1
        assert place.gold_probability == pytest.approx(float(shares[gold]))
        assert place.divergence == pytest.approx(float((own[row] * (own[row] / shares).log()).sum()))


def test_a_copier_knows_its_word_only_after_its_layer() -> None:
    model = planted_transformer()
    before, after = logit_lens(model, [5, 9, 7], [5, 9, 7], vocabulary=word)
    assert all(place.gold_probability < 0.2 for place in before.places)
    assert all(place.gold_rank == 1 and place.gold_probability > 0.99 for place in after.places)


def test_the_model_is_left_as_it_is() -> None:
    model = ARCHITECTURES["transformer"]().train()
    modules = dict(model.named_modules())
    layer_logits(model, SOURCE, TARGET)
    assert dict(model.named_modules()) == modules and all(module.training for module in modules.values())
