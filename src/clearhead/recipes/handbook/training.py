"""Chapter 11: the loss, the rate, the optimizer, search and BLEU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor, nn

from clearhead.data import collate as collation
from clearhead.decoding import penalties
from clearhead.decoding.config import DecodingConfig
from clearhead.metrics.scores import score_corpus
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.transformer import TransformerDecoder
from clearhead.nn.padding import Padded
from clearhead.objectives.cross_entropy import CrossEntropy
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import vector
from clearhead.training import schedules
from clearhead.training.config import Adam
from clearhead.training.optim import build_optimizer

__all__ = ["Losses", "likelihoods", "losses", "smoothed_target"]


@dataclass(frozen=True)
class _Labels:
    """Gold labels in one row, without a model's input."""

    gold: Padded

    @property
    def source(self) -> Padded:
        return self.gold

    @property
    def prefix(self) -> Padded:
        return self.gold


@dataclass(frozen=True)
class Losses:
    """What the objective said of a few positions: the mean loss, the mean NLL that it reports, ∂(sum)/∂logits."""

    mean_loss: float
    mean_nll: float
    gradient: Tensor


def losses(logits: Tensor, gold: Sequence[int], smoothing: float = 0.0) -> Losses:
    """Our objective on logits [N, V] and their N labels."""
    given = logits.detach().clone().requires_grad_()
    loss = CrossEntropy(smoothing)(lambda source, prefix: given, _Labels(Padded.from_lists([list(gold)])))
    (gradient,) = torch.autograd.grad(loss.sum, given)
    return Losses(loss.sum.item() / loss.count, loss.metrics["nll"].item() / loss.count, gradient)


def likelihoods(logits: Tensor) -> Tensor:
    """The probability of each token: the exponential of minus what it would cost as the label."""
    return vector(*(math.exp(-losses(logits[None], [label]).mean_nll) for label in range(logits.shape[0])))


def smoothed_target(size: int, gold: int, smoothing: float) -> Tensor:
    """What the objective wants the probabilities to be: softmax minus its gradient."""
    logits = torch.zeros(1, size, dtype=torch.float64)
    return (logits.softmax(-1) - losses(logits, [gold], smoothing).gradient)[0]


ROWS = torch.tensor([[0.8, 0.1, 0.1], [0.5, 0.3, 0.2]], dtype=torch.float64).log()
"""Two positions whose labels, both the first token, have probability 0.8 and 0.5."""


@facts("train", "nll perplexity nll_sum", by=[CrossEntropy])
def negative_log_likelihood() -> tuple[float, float, float]:
    """Mean, its exponential, and sum."""
    mean = losses(ROWS, [0, 0]).mean_nll
    return mean, math.exp(mean), 2 * mean


@facts("train", "nll_reported smoothed_loss", by=[CrossEntropy])
def with_smoothing() -> tuple[float, float]:
    """Smoothing changes what is minimised and not what is reported."""
    found = losses(ROWS, [0, 0], 0.1)
    return found.mean_nll, found.mean_loss


@facts("train", "smoothed_target smoothing_floor", by=[CrossEntropy])
def smoothing() -> tuple[Tensor, float]:
    """The distribution asked for, and the loss of a model that gives exactly it, of 37000 tokens."""
    asked = smoothed_target(37000, 0, 0.1)
    return smoothed_target(3, 1, 0.1), losses(asked.log()[None], [0], 0.1).mean_loss


@facts("train", "smoothing_floor_uniform")
def smoothing_over_all() -> Tensor:
    """The same where the label gets a share of ε too, as in PyTorch's own loss."""
    asked = torch.full((1, 37000), 0.1 / 37000, dtype=torch.float64)
    asked[0, 0] += 0.9
    return nn.functional.cross_entropy(asked.log(), torch.tensor([0]), label_smoothing=0.1)


@facts("train", "prefix_and_gold", by=[collation.collate])
def prefix_and_gold() -> list[list[int]]:
    """What the decoder reads, and what it should say at each place, for the target tokens 4 and 5."""
    batch = collation.collate([([4], [4, 5])])
    prefix, gold = batch.prefix, batch.gold
    return [side.ids[0, : int(side.lengths[0])].tolist() for side in (prefix, gold)]


@facts("train", "rate_1 rate_peak rate_100000 rate_peak_big rates", by=[schedules.rate, schedules.InverseSqrt])
def rates() -> tuple[float, float, float, float, list[float]]:
    """The paper's schedule, warm-up 4000, for widths 512 and 1024."""

    def of(update: int, d_model: int = 512) -> float:
        return schedules.rate(schedules.InverseSqrt(), update, d_model=d_model, updates=100_000)

    return of(1), of(4000), of(100_000), of(4000, 1024), [of(step) for step in (1000, 2000, 4000, 8000, 16000)]


@facts("train", "adam_update", by=[build_optimizer, Adam])
def adam() -> Tensor:
    """The first update, whatever the size of the gradient, is about the rate."""
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    layer.weight.grad = vector(0.6, -0.7, 0.1)
    optimizer = build_optimizer(layer, Adam())
    for group in optimizer.param_groups:
        group["lr"] = 0.001
    optimizer.step()
    return layer.weight


@facts("train", "cache_rows", by=[TransformerDecoder])
def cache_rows() -> list[int]:
    """Key rows that a decoder layer works out for eight tokens: all anew at every step, and with the past kept."""
    figures = {"d_model": 4, "d_ff": 4, "encoder_layers": 1, "decoder_layers": 1, "attention": {"heads": 1}}
    model = build(presets.base(6, **figures), seed=0).double().eval()
    rows: list[int] = []
    keys = model.get_submodule("decoder.layers.0.self_attention.key")
    handle = keys.register_forward_hook(lambda _, inputs, __: rows.append(inputs[0].shape[0] * inputs[0].shape[1]))
    memory = model.encoder(Padded.from_lists([[4, 3]]))
    tokens = torch.full((1, 8), 4)
    with torch.no_grad():
        for length in range(1, 9):
            model.decoder.advance(Padded.full(tokens[:, :length]), model.decoder.start(memory))
        anew = sum(rows)
        state = model.decoder.start(memory)
        for step in range(8):
            _, state = model.decoder.advance(Padded.full(tokens[:, step : step + 1]), state)
    handle.remove()
    return [anew, sum(rows) - anew]


@facts("search", "length_penalty example_scores example_best", by=[penalties.divisor, penalties.score])
def length_penalty() -> tuple[list[float], list[float], int]:
    """The divisor for five lengths, and two hypotheses that it ranks."""
    scores = [penalties.score(DecodingConfig(), *each) for each in ((-2.0, 3), (-2.3, 6))]
    return [penalties.divisor("gnmt", 0.6, length) for length in (1, 5, 10, 20, 50)], scores, scores.index(max(scores))


@facts("bleu", "precisions score", by=[score_corpus, BLEU])
def bleu() -> tuple[list[float], float]:
    """One wrong word in five."""
    hypothesis, reference = ["a b c d e"], ["a b c d f"]
    precisions = BLEU().corpus_score(hypothesis, [reference]).precisions
    score = score_corpus(hypothesis, reference, target_language="en").bleu.value
    return [precision / 100 for precision in precisions], score


@facts("bleu", "brevity", by=[score_corpus])
def brevity() -> float:
    """The first nine words of twelve: every n-gram is right, so that the score is the penalty alone."""
    words = [f"word{number}" for number in range(12)]
    return score_corpus([" ".join(words[:9])], [" ".join(words)], target_language="en").bleu.value / 100
