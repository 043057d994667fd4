"""Integrated gradients: exact where paper and pencil reach, complete elsewhere, and flagged where they do not close."""

from collections.abc import Iterator, Sequence

import pytest
import torch

from clearhead.base.errors import InputError
from clearhead.inspection.embeddings import Embedded, GoldScores
from clearhead.inspection.integrated import SMALLEST_DIFFERENCE, integrated_gradients, integrated_path
from clearhead.inspection.records import TokenScores
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.models import Seq2Seq
from clearhead.nn.embedding import Embedding
from clearhead.nn.padding import Padded
from clearhead.text.symbols import PAD
from tests.laws.model_laws import ARCHITECTURES, PAIRS, transformer
from tests.unit.inspection.planted import planted

SOURCE, TARGET = [5, 6, 7], [8, 4, 7]
PAIR = Pairs.of([SOURCE], [TARGET])
CLOSING = ["transformer", "pre-norm", "one-kv-head", "reversed-lstm-luong-general", "two-way-gru-bahdanau"]
CLOSING += ["two-way-gru-luong-concat-local-m", "convolutional-convs2s", "two-way-lstm-1997-seq2seq", "one-embedding"]
OTHERS = ["grouped-heads", "learned-positions", "two-way-gru-luong-local-p", "dilated-bytenet"]


def parts_of(model: Seq2Seq) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of a planted model: the vectors of the source [S, D] and the prefix [T, D], and the gold rows of W [T, D]."""
    encoder, decoder = (module for module in model.modules() if isinstance(module, Embedding))
    rows = model.decoder.output.weight[PAIR.gold.ids[0]]  # type: ignore[attr-defined]
    return encoder(PAIR.source.ids)[0].detach(), decoder(PAIR.prefix.ids)[0].detach(), rows.detach()


def test_of_a_sum_one_step_is_exact() -> None:
    found = integrated_gradients(planted("sum"), SOURCE, TARGET, output="logit", first_steps=1, baseline="pad")
    source, prefix, rows = parts_of(planted("sum"))
    nothing = [
        module.weight[PAD].detach() * module.factor for module in planted("sum").modules() if type(module) is Embedding
    ]
    torch.testing.assert_close(found.source, (rows @ (source - nothing[0]).T).float())
    torch.testing.assert_close(found.prefix, (rows @ (prefix - nothing[1]).T).tril().float())
    assert found.series["steps"] == (1.0,) * 4
    assert found.series["converged"] == (1.0,) * 4
    assert max(found.series["completeness_error"]) < 1e-12


def test_of_a_product_each_factor_has_half() -> None:
    """F = w·(Σ source ∘ Σ prefix) from zero: ∫ α·… dα = ½, which the midpoint gives in one step and an end does not."""
    model = planted("product")
    source, prefix, rows = parts_of(model)
    read = prefix.cumsum(0)  # [T, D]
    truth_source = torch.einsum("td,td,sd->ts", rows, read, source) / 2
    truth_prefix = torch.einsum("td,d,jd->tj", rows, source.sum(0), prefix).tril() / 2
    found = integrated_gradients(model, SOURCE, TARGET, output="logit", first_steps=1, baseline="zero")
    torch.testing.assert_close(found.source, truth_source.float())
    torch.testing.assert_close(found.prefix, truth_prefix.float())
    assert max(found.series["completeness_error"]) < 1e-12
    # The fault: the rule of the right end.
    gold = GoldScores(model, SOURCE, TARGET, "logit")

    def at_the_end(points: Embedded, predictions: Sequence[int]) -> Iterator[Embedded]:
        return gold.gradients(gold.words, predictions)

    wrong, _ = integrated_path(at_the_end, gold.injection.nothing(gold.words, "zero"), gold.words, range(4), 1, 1)
    torch.testing.assert_close(wrong, 2 * truth_source)


def test_the_way_back_is_the_same_with_the_other_sign() -> None:
    gold = GoldScores(transformer(), SOURCE, TARGET, "log_prob")
    nothing = gold.injection.nothing(gold.words, "zero")
    there = integrated_path(gold.gradients, nothing, gold.words, range(4), 20, 7)
    back = integrated_path(gold.gradients, gold.words, nothing, range(4), 20, 20)
    for one, other in zip(there, back, strict=True):
        torch.testing.assert_close(one, -other, rtol=1e-9, atol=1e-12)
        assert one.abs().max() > 0.01


def test_a_word_that_is_the_baseline_itself_has_nothing() -> None:
    found = integrated_gradients(transformer(), [5, PAD, 7], TARGET, first_steps=4, most_steps=4)
    assert found.source is not None
    assert not found.source[:, 1].any()
    assert found.source[:, [0, 2, 3]].abs().min() > 0


def series(found: TokenScores, name: str) -> torch.Tensor:
    return torch.tensor(found.series[name], dtype=torch.float64)


def difference(model: Seq2Seq) -> torch.Tensor:
    """F(x) − F(b) by a plain model that reads PAD at every place."""

    def nothing(words: Padded) -> Padded:
        return Padded(torch.full_like(words.ids, PAD), words.lengths)

    with torch.no_grad():
        without = gold_log_probs(model, Pairs(nothing(PAIR.source), nothing(PAIR.prefix), PAIR.gold))
        return (gold_log_probs(model, PAIR) - without)[0]


@pytest.mark.parametrize("name", CLOSING + OTHERS)
def test_all_scores_together_are_what_the_words_change(name: str) -> None:
    model = (ARCHITECTURES | PAIRS)[name]()
    most = 1024 if name in CLOSING else 256
    found = integrated_gradients(model, SOURCE, TARGET, most_steps=most)
    truth = difference(model)
    torch.testing.assert_close(series(found, "difference"), truth, rtol=1e-9, atol=1e-9)
    assert found.source is not None
    assert found.prefix is not None
    off = (found.source.double().sum(1) + found.prefix.double().sum(1) - truth).abs()
    torch.testing.assert_close(series(found, "absolute_error"), off, rtol=0, atol=1e-5)
    relative = off / truth.abs().clamp(min=SMALLEST_DIFFERENCE)
    torch.testing.assert_close(series(found, "completeness_error"), relative, rtol=0, atol=1e-3)
    for error, steps, converged in zip(
        *(found.series[key] for key in ("completeness_error", "steps", "converged")), strict=True
    ):
        assert converged == float(error < 0.01)
        assert converged or steps == most
    if name in CLOSING:
        assert all(found.series["converged"])
    assert not found.prefix.triu(1).any()


def test_where_words_jump_out_of_a_window_nothing_closes_and_it_says_so() -> None:
    """local-p: the window moves with the vectors, and what leaves it leaves at once (Luong et al. 2015, §3.2)."""
    model = PAIRS["transformer-luong-local-p"]()
    found = integrated_gradients(model, SOURCE, TARGET, most_steps=256)
    assert not all(found.series["converged"])
    assert max(found.series["completeness_error"]) > 0.05


def test_only_what_has_not_converged_goes_on_and_each_has_the_scores_of_its_own_steps() -> None:
    model = PAIRS["two-way-gru-bahdanau"]()
    found = integrated_gradients(model, SOURCE, TARGET, first_steps=8, most_steps=100)
    steps = [int(each) for each in found.series["steps"]]
    assert len(set(steps)) > 1
    assert set(steps) <= {8, 16, 32, 64, 100}
    gold = GoldScores(model, SOURCE, TARGET, "log_prob")
    nothing = gold.injection.nothing(gold.words, "pad")
    for prediction, taken in enumerate(steps):
        source, prefix = integrated_path(gold.gradients, nothing, gold.words, [prediction], taken, taken)
        torch.testing.assert_close(found.source[prediction], source[0].float())  # type: ignore[index]
        torch.testing.assert_close(found.prefix[prediction], prefix[0].float())  # type: ignore[index]
        half = sum(
            side.sum() for side in integrated_path(gold.gradients, nothing, gold.words, [prediction], taken // 2, taken)
        )
        change = difference(model)[prediction]
        assert taken in {8, 100} or abs(half - change) >= 0.01 * abs(change)  # it had to go on


def test_smaller_batches_change_nothing() -> None:
    one, other = (
        integrated_gradients(transformer(), SOURCE, TARGET, most_steps=32, batch_tokens=size) for size in (50, 4096)
    )
    torch.testing.assert_close(one.source, other.source)
    torch.testing.assert_close(one.prefix, other.prefix)
    assert one.series["steps"] == other.series["steps"]


def test_too_few_steps_are_told() -> None:
    """The fault that showing the error is for: with one step a Transformer's scores do not add up."""
    found = integrated_gradients(transformer(), SOURCE, TARGET, first_steps=1, most_steps=1)
    assert max(found.series["completeness_error"]) > 0.1
    assert not all(found.series["converged"])


def test_a_score_that_no_word_changes_is_not_divided_by_nothing() -> None:
    model = planted("sum")
    with torch.no_grad():
        model.decoder.output.weight.zero_()  # type: ignore[attr-defined]
    found = integrated_gradients(model, SOURCE, TARGET, first_steps=1)
    assert found.series["difference"] == (0.0,) * 4
    assert found.series["completeness_error"] == (0.0,) * 4
    assert found.series["converged"] == (1.0,) * 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 0.0}, "tolerance = 0.0 must be above 0"),
        ({"first_steps": 0}, "first_steps = 0"),
        ({"first_steps": 64, "most_steps": 32}, "at most most_steps = 32"),
        ({"batch_tokens": 0}, "batch_tokens = 0"),
        ({"baseline": "mean"}, "take 'pad' or 'zero'"),
        ({"output": "loss"}, "take 'log_prob' or 'logit'"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        integrated_gradients(transformer(), SOURCE, TARGET, **settings)  # type: ignore[arg-type]


def test_terms_of_half_precision_are_added_up_in_full() -> None:
    """The fault: a sum kept in 8 bits stays at 256 however many ones are added to it."""
    ones = torch.ones(1, 1, 1, dtype=torch.bfloat16)
    words, nothing = Embedded(ones, ones), Embedded(0 * ones, 0 * ones)

    def slopes(points: Embedded, predictions: Sequence[int]) -> Iterator[Embedded]:
        for _ in predictions:
            yield Embedded(torch.ones_like(points.source), torch.ones_like(points.prefix))

    for side in integrated_path(slopes, nothing, words, [0], 1000, 1):
        assert side.tolist() == [[1.0]]
