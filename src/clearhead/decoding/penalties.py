"""Length penalties: by what the log-probability of a hypothesis is divided to make its score.

|Y| counts the tokens that were generated, the closing EOS included, BOS not.
"""

from __future__ import annotations

import math

from clearhead.decoding.config import DecodingConfig, Penalty

__all__ = ["attainable", "divisor", "formula", "score"]


def divisor(penalty: Penalty, alpha: float, length: int) -> float:
    """By what a log-probability of `length` = |Y| ≥ 1 tokens is divided; always positive and monotone in `length`.

    `gnmt` is Wu et al. 2016, eq. 14, which Vaswani et al. 2017, §6.1 use with alpha 0.6.

    >>> divisor("gnmt", 1.0, 7), divisor("length", 2.0, 3), divisor("none", 0.6, 9)
    (2.0, 9.0, 1.0)
    """
    if penalty == "gnmt":
        return math.pow((5.0 + length) / 6.0, alpha)
    if penalty == "length":
        return math.pow(length, alpha)
    return 1.0


def score(config: DecodingConfig, log_prob: float, length: int) -> float:
    """The figure by which hypotheses are ranked: `log_prob` (natural log) over the penalty of `length` = |Y|."""
    return log_prob / divisor(config.penalty, config.alpha, length)


def attainable(config: DecodingConfig, shortest: int, longest: int) -> float:
    """The divisor that an unfinished hypothesis can hope for: its log-probability over this bounds its final score.

    Log-probabilities are at most 0 and only fall, so the best future is to lose nothing more and to be divided by
    the largest penalty; and the penalty is monotone, so that is one of the two ends of the lengths still possible.
    """
    return max(
        divisor(config.penalty, config.alpha, shortest),
        divisor(config.penalty, config.alpha, longest),
    )


def formula(config: DecodingConfig) -> str:
    """The score in words, for the header of a run.

    >>> formula(DecodingConfig())
    'log P(Y|X) / ((5 + |Y|) / 6)^0.6'
    """
    if config.penalty == "gnmt":
        return f"log P(Y|X) / ((5 + |Y|) / 6)^{config.alpha:g}"
    if config.penalty == "length":
        return f"log P(Y|X) / |Y|^{config.alpha:g}"
    return "log P(Y|X)"
