"""Gradient × input and the gradient's norm: closed forms, finite differences, and maps that hang on the parameters."""

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.attribution import gradient_scores
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.models import Seq2Seq
from clearhead.nn.embedding import Embedding
from tests.laws.model_laws import ARCHITECTURES, PAIRS, transformer
from tests.unit.inspection.planted import planted

SOURCE, TARGET = [5, 6, 7], [8, 4, 7]
PAIR = Pairs.of([SOURCE], [TARGET])


def test_of_a_sum_the_product_is_each_words_share_and_the_norm_the_same_for_all() -> None:
    model = planted("sum")
    product, norm = gradient_scores(model, SOURCE, TARGET, output="logit")
    encoder, decoder = (module for module in model.modules() if isinstance(module, Embedding))
    rows = model.decoder.output.weight[PAIR.gold.ids[0]]  # type: ignore[attr-defined]
    torch.testing.assert_close(product.source, (rows @ encoder(PAIR.source.ids)[0].T).float())
    torch.testing.assert_close(product.prefix, (rows @ decoder(PAIR.prefix.ids)[0].T).tril().float())
    lengths = rows.norm(dim=1)[:, None].float()
    torch.testing.assert_close(norm.source, lengths.expand(4, 4))
    torch.testing.assert_close(norm.prefix, lengths.expand(4, 4).tril())
    with torch.no_grad():
        logits = model(PAIR.source, PAIR.prefix).gather(1, PAIR.gold.ids[0][:, None])[:, 0]
    torch.testing.assert_close(product.source.sum(1) + product.prefix.sum(1), logits.float())  # shares of the whole


def test_gradient_times_input_is_the_slope_as_a_word_is_turned_up() -> None:
    """A plain model reads a word that is 1 ± ε times itself: a matrix of words with one such row, in the encoder."""
    model = transformer(embeddings="separate", source_vocab_size=13)
    product, norm = gradient_scores(model, SOURCE, TARGET)
    weight, epsilon = model.encoder.input.embedding.weight, 1e-5  # type: ignore[attr-defined]
    slopes = []
    for token in PAIR.source.ids[0].tolist():
        scores = []
        for sign in (1, -1):
            with torch.no_grad():
                kept = weight[token].clone()
                weight[token] *= 1 + sign * epsilon
                scores.append(gold_log_probs(model, PAIR)[0])
                weight[token] = kept
        slopes.append((scores[0] - scores[1]) / (2 * epsilon))
    torch.testing.assert_close(product.source, torch.stack(slopes, 1).float(), rtol=1e-4, atol=1e-6)
    assert product.signed
    assert not norm.signed
    assert (product.source < 0).any()
    assert (norm.source >= 0).all()
    # |x·g| ≤ ‖x‖·‖g‖ (Cauchy and Schwarz).
    lengths = model.encoder.input.embedding(PAIR.source.ids)[0].norm(dim=-1).float()  # type: ignore[attr-defined]
    assert (product.source.abs() <= norm.source * lengths + 1e-6).all()


@pytest.mark.parametrize("name", ["transformer", "two-way-gru-bahdanau", "convolutional-convs2s", "dilated-bytenet"])
def test_what_a_prediction_has_not_read_has_exactly_nothing(name: str) -> None:
    for found in gradient_scores((ARCHITECTURES | PAIRS)[name](), SOURCE, TARGET):
        assert found.prefix is not None
        assert found.source is not None
        assert found.prefix.dtype == torch.float32
        assert torch.equal(found.prefix.triu(1), torch.zeros(4, 4))
        assert found.prefix.diagonal().abs().min() > 0
        assert found.source.shape == (4, 4)


def test_a_model_that_reads_ahead_would_be_seen_by_that() -> None:
    assert gradient_scores(planted("future"), SOURCE, TARGET)[0].prefix.triu(1).abs().max() > 0.1  # type: ignore[union-attr]


def ranks_agree(mine: Tensor, theirs: Tensor) -> float:
    """Spearman's rank correlation."""
    ranks = torch.stack([each.flatten().argsort().argsort().double() for each in (mine, theirs)])
    return float(torch.corrcoef(ranks)[0, 1])


def layers_of(other: Seq2Seq, model: Seq2Seq) -> Seq2Seq:
    """`other` with the words' vectors of `model`."""
    with torch.no_grad():
        for mine, theirs in zip(other.modules(), model.modules(), strict=True):
            if isinstance(mine, Embedding) and isinstance(theirs, Embedding):
                mine.weight.copy_(theirs.weight)
    return other


def test_other_layers_make_another_map() -> None:
    """Parameter randomisation (Adebayo et al. 2018, §3): a map that stays when layers are drawn anew shows no model."""
    source, target = [4 + k % 9 for k in range(20)], [4 + (5 * k) % 9 for k in range(6)]
    model = transformer(seed=1)
    drawn_anew = layers_of(transformer(seed=2), model)
    for mine, theirs in zip(
        gradient_scores(model, source, target), gradient_scores(drawn_anew, source, target), strict=True
    ):
        assert mine.source is not None
        assert theirs.source is not None
        assert abs(ranks_agree(mine.source, theirs.source)) < 0.3
    # The fault: a map made of the input alone.
    lengths = model.encoder.input.embedding(torch.tensor([source]))[0].norm(dim=-1)  # type: ignore[attr-defined]
    others = drawn_anew.encoder.input.embedding(torch.tensor([source]))[0].norm(dim=-1)  # type: ignore[attr-defined]
    assert ranks_agree(lengths, others) > 0.99


def test_words_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="reserved token 3"):
        gradient_scores(transformer(), SOURCE, [5, 3])
    with pytest.raises(InputError, match="output"):
        gradient_scores(transformer(), SOURCE, TARGET, output="loss")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ensemble"):
        gradient_scores(ARCHITECTURES["ensemble"](), SOURCE, TARGET)
