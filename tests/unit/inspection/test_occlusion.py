"""Occlusion is what a plain model loses when PAD stands in one word's place, word by word."""

import copy

import pytest
import torch
from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.inspection.embeddings import GoldScores
from clearhead.inspection.occlusion import _losses, occlusion
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.models import Seq2Seq
from clearhead.nn.embedding import Embedding
from clearhead.nn.padding import Padded
from clearhead.text.symbols import PAD
from tests.laws.model_laws import ARCHITECTURES, PAIRS, transformer
from tests.unit.inspection.planted import planted

SOURCE, TARGET = [5, 6, 7], [9, 4, 8, 10]
PAIR = Pairs.of([SOURCE], [TARGET])
MODELS = ARCHITECTURES | PAIRS
SOME = ["transformer", "pre-norm", "one-kv-head", "learned-positions", "reversed-lstm-seq2seq", "two-way-gru-bahdanau"]
SOME += ["reversed-lstm-luong-local-p", "convolutional-convs2s", "dilated-bytenet", "one-embedding"]


@torch.no_grad()
def one_by_one(model: Seq2Seq, stand_in: int) -> tuple[Tensor, Tensor]:
    """[T, S] and [T, T] by brute force: the model reads `stand_in` in the place of each token."""
    whole = gold_log_probs(model, PAIR)[0]

    def lost(source: Padded, prefix: Padded) -> Tensor:
        return whole - gold_log_probs(model, Pairs(source, prefix, PAIR.gold))[0]

    def without(words: Padded, place: int) -> Padded:
        ids = words.ids.clone()
        ids[0, place] = stand_in
        return Padded(ids, words.lengths)

    by_source = [lost(without(PAIR.source, place), PAIR.prefix) for place in range(4)]
    by_prefix = [lost(PAIR.source, without(PAIR.prefix, place)) for place in range(5)]
    return torch.stack(by_source, 1), torch.stack(by_prefix, 1)


@pytest.mark.parametrize("name", SOME)
def test_pad_in_the_place_of_a_word(name: str) -> None:
    model = MODELS[name]()
    found = occlusion(model, SOURCE, TARGET)
    source, prefix = one_by_one(model, PAD)
    torch.testing.assert_close(found.source, source.float(), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found.prefix, prefix.float(), rtol=1e-6, atol=1e-7)
    assert prefix.tril().abs().max() > 0.01
    assert found.signed


def test_zeros_in_the_place_of_a_word() -> None:
    """A word whose vector is zeros, in a copy whose three matrices of words are not one."""
    model = transformer()
    apart = copy.deepcopy(model)
    for module in apart.modules():
        if isinstance(module, Embedding):
            module.weight = nn.Parameter(module.weight.detach().clone())
            module.weight.data[12] = 0.0
    found = occlusion(model, SOURCE, TARGET, baseline="zero")
    source, prefix = one_by_one(apart, 12)
    torch.testing.assert_close(found.source, source.float(), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found.prefix, prefix.float(), rtol=1e-6, atol=1e-7)
    assert (occlusion(model, SOURCE, TARGET).source - found.source).abs().max() > 0.01  # type: ignore[operator]


def losses(model: Seq2Seq) -> Tensor:
    """What the predictions lose without a token of the prefix, before anything is set to 0: [T, T]."""
    gold = GoldScores(model, SOURCE, [8, 4, 8, 7], "log_prob")
    return _losses(gold, gold.injection.nothing(gold.words, "pad"), 100)[:, 4:]


@pytest.mark.parametrize("name", ["transformer", "two-way-gru-bahdanau", "convolutional-convs2s", "dilated-bytenet"])
def test_a_word_changes_only_predictions_that_have_read_it(name: str) -> None:
    found = losses(MODELS[name]())
    assert found.triu(1).abs().max() < 1e-12
    assert found.diagonal().abs().min() > 1e-6


def test_a_model_that_reads_ahead_would_be_seen_by_that() -> None:
    assert losses(planted("future")).triu(1).abs().max() > 0.1


def test_smaller_batches_change_nothing_and_the_model_is_left_as_it_is() -> None:
    model = transformer()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    one, other = (occlusion(model, SOURCE, TARGET, batch_tokens=size) for size in (1, 4096))
    torch.testing.assert_close(one.source, other.source)
    torch.testing.assert_close(one.prefix, other.prefix)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="batch_tokens = 0"):
        occlusion(transformer(), SOURCE, TARGET, batch_tokens=0)
    with pytest.raises(InputError, match="baseline = 'mean'"):
        occlusion(transformer(), SOURCE, TARGET, baseline="mean")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ensemble"):
        occlusion(ARCHITECTURES["ensemble"](), SOURCE, TARGET)
