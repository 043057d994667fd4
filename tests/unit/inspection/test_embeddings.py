"""Vectors put in for words are read as the words would be, by every kind of model, and gradients are autograd's own."""

import copy

import pytest
import torch
from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.inspection.embeddings import Embedded, EmbeddingInjection, GoldScores
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.models import Seq2Seq, build, presets
from clearhead.nn.embedding import Embedding
from tests.laws.model_laws import ARCHITECTURES, PAIRS, transformer

MODELS = {name: make for name, make in (ARCHITECTURES | PAIRS).items() if "ensemble" not in name}
SOURCE, TARGET = [5, 6, 7], [9, 4, 8, 10]
OTHER = Pairs.of([[11, 8, 5]], [[4, 12, 9, 6]])
FEW = ["transformer", "pre-norm", "grouped-heads", "reversed-lstm-luong-general", "two-way-gru-bahdanau"]
FEW += ["convolutional-convs2s", "dilated-bytenet", "one-embedding"]


def untied(model: Seq2Seq) -> Seq2Seq:
    """A copy whose three matrices of words are equal but no longer one."""
    found = copy.deepcopy(model)
    for module in found.modules():
        if isinstance(module, Embedding):
            module.weight = nn.Parameter(module.weight.detach().clone())
    return found


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_the_vectors_of_another_sentence_make_its_scores(make) -> None:
    """What is read is the vectors alone, in their places: nothing of the pair's own ids, and no other order."""
    gold = GoldScores(make(), SOURCE, TARGET, "log_prob")
    there = Pairs(OTHER.source, OTHER.prefix, Pairs.of([SOURCE], [TARGET]).gold)
    with torch.no_grad():
        truth = gold_log_probs(make(), there)
    found = gold.scores(gold.injection.embed(OTHER.source, OTHER.prefix))
    torch.testing.assert_close(found, truth, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gold.scores(gold.words), gold_log_probs(make(), Pairs.of([SOURCE], [TARGET])).detach())


def gradients_of_rows(model: Seq2Seq, prediction: int) -> tuple[Tensor, Tensor]:
    """∂ log p(gold) / ∂ rows of the matrices that a plain model looks its words up in; every word stands once."""
    pairs = Pairs.of([SOURCE], [TARGET])
    encoder, decoder = (module for module in model.modules() if isinstance(module, Embedding))
    score = gold_log_probs(model, pairs)[0, prediction]
    by_source, by_prefix = torch.autograd.grad(score, (encoder.weight, decoder.weight))
    return by_source[pairs.source.ids[0]] / encoder.factor, by_prefix[pairs.prefix.ids[0]] / decoder.factor


@pytest.mark.parametrize("name", FEW)
def test_gradients_are_those_of_a_model_with_separate_embeddings(name: str) -> None:
    """Also of a model whose embeddings are one matrix: source and prefix have gradients of their own (captum#1110)."""
    model = MODELS[name]()
    found = list(GoldScores(model, SOURCE, TARGET, "log_prob").gradients(words(model), range(5)))
    for prediction, each in enumerate(found):
        truth = gradients_of_rows(untied(model), prediction)
        torch.testing.assert_close((each.source[0], each.prefix[0]), truth, rtol=1e-9, atol=1e-12)


def test_a_gradient_of_the_shared_matrix_would_not_be_told_apart() -> None:
    """The fault that the test above is there for: one matrix gathers what its rows do on both sides."""
    model = transformer()
    encoder, decoder = (module for module in model.modules() if isinstance(module, Embedding))
    assert encoder.weight is decoder.weight
    mine = next(GoldScores(model, SOURCE, TARGET, "log_prob").gradients(words(model), [4]))
    shared, _ = gradients_of_rows(model, 4)
    assert (shared - mine.source[0]).abs().max() > 0.01


def words(model: Seq2Seq) -> Embedded:
    return GoldScores(model, SOURCE, TARGET, "log_prob").words


def test_one_vector_more_in_the_other_embedding_is_seen() -> None:
    """A twin that put the source's vectors into the target as well, say, would give other scores."""
    gold = GoldScores(transformer(), SOURCE, TARGET, "log_prob")
    prefix = gold.words.prefix.clone()
    prefix[:, 1] = gold.words.source[:, 1]
    assert (gold.scores(Embedded(gold.words.source, prefix)) - gold.scores(gold.words))[0, 1:].abs().min() > 1e-3


@pytest.mark.parametrize("output", ["log_prob", "logit"])
def test_gradients_against_finite_differences(output: str) -> None:
    gold = GoldScores(transformer(), SOURCE, TARGET, output)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    sides = (gold.words.source, gold.words.prefix)
    way = Embedded(*(torch.randn(side.shape, generator=generator, dtype=side.dtype) for side in sides))
    step = 1e-5
    ahead, back = (
        gold.scores(Embedded(gold.words.source + sign * way.source, gold.words.prefix + sign * way.prefix))
        for sign in (step, -step)
    )
    slopes = torch.stack(
        [sum(side.sum() for side in each.dot(way)) for each in gold.gradients(gold.words, range(5))]  # type: ignore[misc]
    )
    torch.testing.assert_close(slopes, ((ahead - back) / (2 * step))[0], rtol=1e-6, atol=1e-8)


def test_many_points_are_read_as_one_by_one() -> None:
    gold = GoldScores(transformer(), SOURCE, TARGET, "logit")
    points = gold.injection.nothing(gold.words, "zero").between(gold.words, torch.tensor([0.25, 0.5, 1.0]).double())
    (together,) = gold.gradients(points, [2])
    for row in range(3):
        alone = Embedded(points.source[row : row + 1], points.prefix[row : row + 1])
        (each,) = gold.gradients(alone, [2])
        torch.testing.assert_close(together.source[row], each.source[0], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(gold.scores(points)[row], gold.scores(alone)[0], rtol=1e-10, atol=1e-12)
    assert torch.equal(points.prefix[2], gold.words.prefix[0])


def test_pad_is_the_vector_of_padding_and_zero_is_zero() -> None:
    model = transformer()
    injection = EmbeddingInjection(model)
    nothing = injection.nothing(words(model), "pad")
    assert nothing.source.shape == (1, 4, 16)
    assert nothing.prefix.shape == (1, 5, 16)
    pad = model.encoder.input.embedding.weight[0] * 4.0  # type: ignore[attr-defined]  # √16
    assert torch.equal(nothing.source, pad.expand(1, 4, 16))
    assert torch.equal(nothing.prefix, pad.expand(1, 5, 16))
    assert not injection.nothing(words(model), "zero").source.any()


def test_the_model_is_left_as_it_is() -> None:
    model = build(presets.tiny(vocab_size=20, dropout=0.5), seed=1).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    gold = GoldScores(model, SOURCE, TARGET, "log_prob")
    list(gold.gradients(gold.words, range(5)))
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert torch.equal(torch.random.get_rng_state(), state)
    with torch.no_grad():
        model.decoder.output.weight.zero_()  # type: ignore[attr-defined]
    torch.testing.assert_close(gold.scores(gold.words), torch.full((1, 5), 1 / 20).log())  # the memory is one


def test_an_ensemble_is_refused() -> None:
    with pytest.raises(InputError, match="ensemble cannot be inspected"):
        EmbeddingInjection(ARCHITECTURES["ensemble"]())


def test_a_model_without_an_embedding_on_one_side_is_refused() -> None:
    model = transformer()
    model.decoder.input.embedding = nn.Embedding(13, 16)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="decoder has 0 embeddings"):
        EmbeddingInjection(model)


def test_unknown_words_are_refused() -> None:
    with pytest.raises(InputError, match=r"output = 'probability' is unknown: take 'log_prob' or 'logit'"):
        GoldScores(transformer(), SOURCE, TARGET, "probability")  # type: ignore[arg-type]
    model = transformer()
    with pytest.raises(InputError, match="baseline = 'mean' is unknown"):
        EmbeddingInjection(model).nothing(words(model), "mean")  # type: ignore[arg-type]
