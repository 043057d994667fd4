"""The lineage where nothing of ours computes it: what the papers gained, how long ago and for how long."""

from __future__ import annotations

import math
from fractions import Fraction

from torch import Tensor, nn

from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import vector

__all__: list[str] = []


@facts("rnn", "clipped")
def clipped() -> Tensor:
    """A gradient of length 5 cut to length 1."""
    return nn.functional.normalize(vector(3, 4), dim=0)


@facts("seq2seq", "lags_plain lags_reversed first_lag mean_lag gain gain_mixed")
def reversal() -> tuple[list[int] | list[Fraction] | Fraction, ...]:
    """Steps from reading a source word to writing its translation, six words, the source as it is and reversed."""
    written = range(6, 12)
    plain = [write - read for read, write in enumerate(written)]
    turned = [write - read for read, write in zip(reversed(range(6)), written, strict=True)]
    gains = Fraction("30.59") - Fraction("26.17"), Fraction("30.59") - Fraction("25.9")
    return plain, turned, [plain[0], turned[0]], [Fraction(sum(plain), 6), Fraction(sum(turned), 6)], *gains


@facts("bahdanau", "gain_30 gain_50")
def bahdanau_gains() -> tuple[Fraction, ...]:
    """Gains of attention in per cent."""
    before, after = (Fraction("13.93"), Fraction("17.82")), (Fraction("21.5"), Fraction("26.75"))
    return tuple(100 * (late / early - 1) for early, late in zip(before, after, strict=True))


@facts("luong", "cost_ratio cost_range")
def local_cost() -> tuple[Fraction, list[Fraction]]:
    """Positions within ten of the centre, against sentences of 40 to 50."""
    window = len(range(-10, 11))
    return Fraction(window, 45), [Fraction(window, length) for length in (40, 50)]


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
