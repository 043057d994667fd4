"""The lineage: recurrent networks, their gradients, and attention before the Transformer."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor, nn

from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import X, matrix, vector

__all__: list[str] = []


@facts("rnn", "shrinking growing tanh_factor gate_path")
def products() -> tuple[Tensor, ...]:
    """Gradients through many steps of a recurrence of one number, by autograd."""
    return _through(50, 0.9), _through(50, 1.1), _through_tanh(50, 1.1, 0.5), _through(100, 0.99)


def _through(steps: int, weight: float) -> Tensor:
    state = first = torch.ones((), dtype=torch.float64, requires_grad=True)
    for _ in range(steps):
        state = weight * state
    (gradient,) = torch.autograd.grad(state, first)
    return gradient


def _through_tanh(steps: int, weight: float, state: float) -> Tensor:
    """tanh(weight·h + b) with b chosen so that the state stays where it is."""
    first = torch.tensor(state, dtype=torch.float64, requires_grad=True)
    bias, hidden = math.atanh(state) - weight * state, first
    for _ in range(steps):
        hidden = torch.tanh(weight * hidden + bias)
    (gradient,) = torch.autograd.grad(hidden, first)
    return gradient


@facts("rnn", "factors gate tanh_slope tanh_step")
def single_steps() -> tuple[Tensor, ...]:
    """What one step of each recurrence multiplies a gradient by, by autograd."""
    slope = _through_tanh(1, 1.0, 0.5)
    return torch.stack([_through(1, 0.9), _through(1, 1.1)]), _through(1, 0.99), slope, _through_tanh(1, 1.1, 0.5)


@facts("rnn", "half_life")
def half_life() -> int:
    """Steps after which a gate of 0.99 has let through half or less."""
    return next(steps for steps in range(1, 1000) if _through(steps, 0.99) <= 0.5)


@facts("rnn", "matrix singular_value power_norms")
def transient() -> tuple[Tensor, Tensor, list[Tensor]]:
    """A matrix whose eigenvalues are below one, its largest singular value, and Frobenius norms of its powers."""
    weight = matrix([[0.9, 1], [0, 0.9]])
    norms = [torch.linalg.matrix_norm(torch.linalg.matrix_power(weight, power)) for power in (1, 5, 10, 50, 100)]
    return weight, torch.linalg.svdvals(weight)[0], norms


@facts("rnn", "clipped")
def clipped() -> Tensor:
    """A gradient of length 5 cut to length 1."""
    return nn.functional.normalize(vector(3, 4), dim=0)


@facts("rnn", "lstm_parameters gru_parameters")
def gates() -> tuple[int, int]:
    """Width 512, one bias a gate: PyTorch's layers have two, so theirs are left out and one counted."""
    with torch.device("meta"):
        layers = nn.LSTM(512, 512, bias=False), nn.GRU(512, 512, bias=False)
    lstm, gru = (sum(each.numel() for each in layer.parameters()) for layer in layers)
    return lstm + 4 * 512, gru + 3 * 512


@facts("seq2seq", "lags_plain lags_reversed first_lag mean_lag gain gain_mixed")
def reversal() -> tuple[list[int] | list[Fraction] | Fraction, ...]:
    """Steps from reading a source word to writing its translation, six words, the source as it is and reversed."""
    written = range(6, 12)
    plain = [write - read for read, write in enumerate(written)]
    turned = [write - read for read, write in zip(reversed(range(6)), written, strict=True)]
    gains = Fraction("30.59") - Fraction("26.17"), Fraction("30.59") - Fraction("25.9")
    return plain, turned, [plain[0], turned[0]], [Fraction(sum(plain), 6), Fraction(sum(turned), 6)], *gains


@facts("bahdanau", "width gain_30 gain_50")
def bahdanau_figures() -> tuple[int, Fraction, Fraction]:
    """The width of an annotation; gains of attention in per cent."""
    with torch.device("meta"):
        both = nn.GRU(1, 1000, bidirectional=True)(torch.empty(1, 1, 1))[0].shape[-1]
    before, after = (Fraction("13.93"), Fraction("17.82")), (Fraction("21.5"), Fraction("26.75"))
    gains = [100 * (late / early - 1) for early, late in zip(before, after, strict=True)]
    return both, *gains


@facts("bahdanau", "query sums tanh energies weights context")
def additive_attention() -> tuple[Tensor, ...]:
    """v·tanh(W·s + U·h) with W and U the identity and v all ones."""
    query = vector(1, 0)
    sums = query + X
    energies = torch.tanh(sums) @ vector(1, 1)
    weights = energies.softmax(-1)
    return query, sums, torch.tanh(sums), energies, weights, weights @ X


@facts("luong", "window cost_ratio cost_range")
def local_cost() -> tuple[int, Fraction, list[Fraction]]:
    """Positions within ten of the centre, against sentences of 40 to 50."""
    window = len(range(-10, 11))
    return window, Fraction(window, 45), [Fraction(window, length) for length in (40, 50)]


@facts("luong", "centre gaussian local_weights local_sum local_renormalised")
def local_attention() -> tuple[float | Tensor, ...]:
    """Equal weights on positions 1 to 4 times a Gaussian around 2.4; and as if they were made to sum to one."""
    centre, places = 2.4, torch.arange(1, 5, dtype=torch.float64)
    gaussian = torch.exp(-((places - centre) ** 2) / 2)
    weights = vector(0, 0, 0, 0).softmax(-1) * gaussian
    return centre, gaussian, weights, weights.sum(), nn.functional.normalize(weights, p=1.0, dim=0)


@facts("luong", "feeding_gain total_gain")
def luong_gains() -> tuple[Fraction, Fraction]:
    """BLEU gained by feeding the attentional state back, and by all that the paper's Table 1 adds."""
    return Fraction("18.1") - Fraction("16.8"), Fraction("19.0") - Fraction("14.0")


@facts("ablation", "heads_1 heads_32")
def heads() -> tuple[Fraction, Fraction]:
    """BLEU lost with one head and with thirty-two, on the development set."""
    return Fraction("25.8") - Fraction("24.9"), Fraction("25.8") - Fraction("25.4")


@facts("lineage", "trigrams")
def trigrams() -> int:
    """How many sequences of three tokens a vocabulary of 37000 has."""
    return math.prod([37000] * 3)


@facts("lineage", "hours_base days_big")
def durations() -> tuple[Fraction, Fraction]:
    """The paper's runs by its seconds an update: 100000 of the base model, 300000 of the big one."""
    seconds = 100_000 * Fraction("0.4"), 300_000 * Fraction("1.0")
    return seconds[0] / 60**2, seconds[1] / (24 * 60**2)


@facts("lineage", "authors years")
def lineage() -> tuple[int, int]:
    """Authors of the paper; forty, twenty and five years of three ages of machine translation."""
    authors = ("Vaswani", "Shazeer", "Parmar", "Uszkoreit", "Jones", "Gomez", "Kaiser", "Polosukhin")
    return len(authors), sum((40, 20, 5))
