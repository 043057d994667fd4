"""Smoothed cross-entropy against distributions written out, finite differences and the handbook's numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.models import build, presets
from clearhead.nn.padding import Padded
from clearhead.objectives import CrossEntropy
from clearhead.objectives.cross_entropy import smoothed_cross_entropy


@dataclass
class Batch:
    source: Padded
    prefix: Padded
    gold: Padded


def draw(count: int, vocabulary: int, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(count)
    logits = torch.randn(count, vocabulary, generator=generator, dtype=torch.float64) * scale
    return logits.requires_grad_(), torch.randint(0, vocabulary, (count,), generator=generator)


def distribution(gold: Tensor, vocabulary: int, smoothing: float) -> Tensor:
    """1 − ε on the label, ε / (V − 1) on every other entry."""
    target = torch.full((len(gold), vocabulary), smoothing / (vocabulary - 1), dtype=torch.float64)
    return target.scatter(1, gold[:, None], 1 - smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("vocabulary", [2, 11, 400])
def test_against_the_distribution_written_out(smoothing: float, vocabulary: int) -> None:
    logits, gold = draw(6, vocabulary)
    loss, nll = smoothed_cross_entropy(logits, gold, smoothing)
    target = distribution(gold, vocabulary, smoothing)
    torch.testing.assert_close(loss, -(target * logits.log_softmax(-1)).sum(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(nll, F.cross_entropy(logits, gold, reduction="sum").detach(), rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, logits.detach().softmax(-1) - target, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_by_finite_differences(smoothing: float) -> None:
    logits, gold = draw(3, 7)
    assert torch.autograd.gradcheck(lambda z: smoothed_cross_entropy(z, gold, smoothing)[0], (logits,))


def test_the_handbooks_gradient() -> None:
    """p = [.6, .3, .1] with the second as label: [0.6, −0.7, 0.1] (§13)."""
    logits = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64).log().requires_grad_()
    smoothed_cross_entropy(logits, torch.tensor([1]), 0.0)[0].backward()
    truth = torch.tensor([[0.6, -0.7, 0.1]], dtype=torch.float64)
    torch.testing.assert_close(logits.grad, truth, rtol=1e-12, atol=1e-12)


def test_the_handbooks_mean() -> None:
    """Labels of probability 0.8 and 0.5: 0.458145 a token (§11)."""
    logits = torch.tensor([[0.8, 0.2], [0.5, 0.5]], dtype=torch.float64).log()
    loss, _ = smoothed_cross_entropy(logits, torch.tensor([0, 1]), 0.0)
    assert float(loss) / 2 == pytest.approx(0.45814536593707755, abs=1e-15)


def test_the_floor_of_the_smoothed_loss_and_how_pytorchs_form_differs() -> None:
    """The best possible model at V = 37000, ε = 0.1 has 1.37694759 nats here and 1.37691322 in PyTorch's form."""
    vocabulary, smoothing, gold = 37000, 0.1, torch.tensor([5])
    ours = distribution(gold, vocabulary, smoothing).log()
    loss, nll = smoothed_cross_entropy(ours, gold, smoothing)
    assert float(loss) == pytest.approx(1.3769475898148582, abs=1e-11)
    assert float(nll) == pytest.approx(-math.log(0.9), abs=1e-12)
    best = torch.full((1, vocabulary), smoothing / vocabulary, dtype=torch.float64)
    best[0, 5] += 1 - smoothing
    theirs = F.cross_entropy(best.log(), gold, label_smoothing=smoothing)
    assert float(theirs) == pytest.approx(1.3769132225560563, abs=1e-11)
    assert abs(float(F.cross_entropy(ours, gold, label_smoothing=smoothing)) - float(loss)) > 1e-5


def test_pytorchs_form_at_a_rescaled_rate_is_ours() -> None:
    """ε/V on all equals ours at ε·(V − 1)/V: another road to the same number."""
    logits, gold = draw(5, 9)
    theirs = F.cross_entropy(logits, gold, label_smoothing=0.1 * 9 / 8, reduction="sum")
    torch.testing.assert_close(smoothed_cross_entropy(logits, gold, 0.1)[0], theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e4, -1e4])
def test_large_logits_in_float32(shift: float) -> None:
    logits, gold = draw(4, 1000, 20.0)
    narrow = (logits.detach() + shift).float()
    truth = smoothed_cross_entropy(narrow.double(), gold, 0.1)
    for ours, exact in zip(smoothed_cross_entropy(narrow, gold, 0.1), truth):
        assert bool(torch.isfinite(ours))
        assert float(ours) == pytest.approx(float(exact), rel=1e-4)


def test_a_label_that_the_model_excludes_costs_much_and_not_infinity() -> None:
    logits = torch.tensor([[0.0, -200.0, -300.0]], requires_grad=True)
    loss, nll = smoothed_cross_entropy(logits, torch.tensor([1]), 0.0)
    loss.backward()
    assert float(nll) == pytest.approx(200.0)
    assert logits.grad is not None
    assert logits.grad.tolist() == [[1.0, -1.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_summed_in_float32(dtype: torch.dtype) -> None:
    logits, gold = draw(50, 300)
    narrow = logits.detach().to(dtype).requires_grad_()
    loss, nll = smoothed_cross_entropy(narrow, gold, 0.1)
    assert (loss.dtype, nll.dtype) == (torch.float32, torch.float32)
    exact = smoothed_cross_entropy(narrow.detach().double(), gold, 0.1)[0]
    assert float(loss.detach()) == pytest.approx(float(exact), rel=1e-6)
    loss.backward()
    assert narrow.grad is not None
    assert narrow.grad.dtype is dtype
    truth = narrow.detach().double().softmax(-1) - distribution(gold, 300, 0.1)
    torch.testing.assert_close(narrow.grad.double(), truth, rtol=1e-2, atol=1e-4)


def test_the_gradient_follows_a_scaled_loss() -> None:
    logits, gold = draw(4, 7)
    (whole,) = torch.autograd.grad(smoothed_cross_entropy(logits, gold, 0.1)[0], logits)
    (part,) = torch.autograd.grad(smoothed_cross_entropy(logits, gold, 0.1)[0] / 8, logits)
    torch.testing.assert_close(part, whole / 8, rtol=1e-12, atol=1e-12)


def test_the_nll_carries_no_gradient_and_a_second_derivative_is_refused() -> None:
    logits, gold = draw(4, 7)
    loss, nll = smoothed_cross_entropy(logits, gold, 0.1)
    assert not nll.requires_grad  # or a running sum of it would keep every graph alive
    (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad|once_differentiable"):
        gradient.sum().backward()


# ------------------------------------------------------------------------------------------------------- the objective

MODEL = presets.tiny(20, d_model=16, d_ff=16, encoder_layers=1, decoder_layers=1)
PAIRS = [([5, 6, 3], [7, 8, 9]), ([10, 3], [11])]


def batch(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    return Batch(
        Padded.from_lists([source for source, _ in pairs]),
        Padded.from_lists([[2, *target] for _, target in pairs]),
        Padded.from_lists([[*target, 3] for _, target in pairs]),
    )


def test_the_loss_of_a_batch_is_the_sum_over_its_tokens() -> None:
    model = build(MODEL, seed=0).double().eval()
    whole = CrossEntropy(0.1)(model, batch(PAIRS))
    parts = [CrossEntropy(0.1)(model, batch([pair])) for pair in PAIRS]
    assert (whole.count, [part.count for part in parts]) == (6, [4, 2])
    torch.testing.assert_close(whole.sum, parts[0].sum + parts[1].sum, rtol=1e-12, atol=1e-12)
    truth = 0.0
    for source, target in PAIRS:
        logits = model(Padded.from_lists([source]), Padded.from_lists([[2, *target]]))
        truth += float(F.cross_entropy(logits, torch.tensor([*target, 3]), reduction="sum").detach())
    assert float(whole.metrics["nll"]) == pytest.approx(truth, abs=1e-10)


def test_padding_weighs_nothing() -> None:
    """Rows that are all padding, and any id in the padding, change neither loss nor count nor gradient."""
    results = []
    for made in (batch(PAIRS), batch(PAIRS)):
        model = build(MODEL, seed=0).double().eval()
        if results:
            empty = Padded(torch.tensor([[9, 9, 9, 9]]), torch.tensor([0]))

            def more(part: Padded, empty: Padded = empty) -> Padded:
                ids = part.ids.masked_fill(~part.mask, 4)
                return Padded(torch.cat([ids, empty.ids[:, : ids.shape[1]]]), torch.cat([part.lengths, empty.lengths]))

            made = Batch(more(made.source), more(made.prefix), more(made.gold))  # noqa: PLW2901
        loss = CrossEntropy(0.1)(model, made)
        loss.sum.backward()
        results.append((loss, [p.grad for p in model.parameters()]))
    (plain, before), (padded, after) = results
    assert plain.count == padded.count
    torch.testing.assert_close(padded.sum, plain.sum, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(after, before):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_batch_without_tokens_costs_nothing() -> None:
    model = build(MODEL, seed=0)
    empty = Padded(torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
    loss = CrossEntropy(0.1)(model, Batch(Padded.from_lists([[5, 3], [6, 3]]), empty, empty))
    loss.sum.backward()
    assert (float(loss.sum.detach()), loss.count, float(loss.metrics["nll"])) == (0.0, 0, 0.0)
    assert not any(bool(p.grad.any()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_rates_outside_zero_to_one_are_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match="label_smoothing"):
        CrossEntropy(smoothing)
