"""Integrated gradients (Sundararajan et al. 2017, §3) over the source and the target's prefix together.

IG_i = (x_i − b_i) · ∫₀¹ ∂F/∂x_i (b + α(x − b)) dα (their equation 1), x all vectors that enter for a pair, b the
baseline's in their place, F the score of one gold token. The sum over everything is F(x) − F(b): completeness (their
Proposition 1). It holds for the integral, and here for a sum of finitely many terms as far as these are enough. Their
advice of 20 to 300 steps, and a check of completeness within 5 % (§5), is followed by measuring: **the error is part of
the result**, and a prediction whose sum does not close is marked so.

The integral is the mean of the gradient at (k + ½)/n, k < n: the midpoint rule, which is exact where F is quadratic
along the path. Doubling n moves every point, so none is used again; the trapezoid rule, which could, errs twice as much
for as many points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.embeddings import Baseline, Embedded, GoldScores, Output
from clearhead.inspection.records import TokenScores
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["SMALLEST_DIFFERENCE", "Gradients", "integrated_gradients", "integrated_path", "most_points"]

Gradients = Callable[[Embedded, Sequence[int]], Iterator[Embedded]]
"""(points of R rows, the predictions asked for) → for each prediction the gradients at every point."""

SMALLEST_DIFFERENCE = 0.01
"""Where the score differs by less than this (nats, or units of the logit) from the baseline's, the relative error of
completeness is taken of this instead: a hundredth of it, 0.0001, is near what float32 can tell for a difference of
log-probabilities, and a token whose probability moves by less than one in a hundred has little to be divided up."""


def integrated_gradients(  # noqa: PLR0913 (every choice by name)
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    *,
    baseline: Baseline = "pad",
    output: Output = "log_prob",
    tolerance: float = 0.01,
    first_steps: int = 32,
    most_steps: int = 1024,
    batch_tokens: int = 4096,
    progress: Callable[[int], None] | None = None,
) -> TokenScores:
    """How the score of each gold token, less what it is when no word is given, divides among the words.

    `source` and `target` are ids without BOS and EOS. The baseline stands at every place, BOS and EOS included, while
    lengths and positions stay; F is the natural log of the gold token's probability, or its logit. Steps start at
    `first_steps` and are doubled until the relative error of completeness is below `tolerance`, at most up to
    `most_steps`, for each prediction apart: only those that have not converged go on. At most `batch_tokens` vectors
    (points on the path × (S + T)) are read at once. `progress` is told how many of the T predictions are done with.

    Scores are signed: what speaks against a token is negative. `series`: `difference`, F(x) − F(b); `absolute_error`,
    |Σ IG − (F(x) − F(b))|; `completeness_error`, the same over |F(x) − F(b)|, or over SMALLEST_DIFFERENCE if that is
    more; `steps`; `converged`, 1 or 0.

    A sum may close by chance while its terms are still off, the more so after few steps, and another baseline gives
    other scores. With Luong's local-p window (2015, §3.2) words drop in and out of the window along the path: F has
    jumps that no gradient sees, and the sum does not close with any number of steps. A baseline of zeros may stand
    where a LayerNorm divides by almost nothing (ByteNet, whose words have no positions beside them): nearly all of the
    way then lies before the first point, and the sum does not close either. Both are marked, not mended.

    Raises InputError for settings out of range, an unknown word, a reserved token in the target, or an ensemble.
    """
    rule = _Rule(tolerance, first_steps, most_steps)
    if batch_tokens < 1:
        raise InputError(f"batch_tokens = {batch_tokens} must be at least 1")
    gold = GoldScores(model, source, target, output)
    nothing = gold.injection.nothing(gold.words, baseline)
    difference = (gold.scores(gold.words) - gold.scores(nothing))[0]
    found = _until_it_closes(gold, nothing, difference, rule, max(1, batch_tokens // gold.words.tokens), progress)
    return TokenScores(
        "integrated-gradients",
        found.source.float().cpu(),
        found.prefix.float().cpu(),
        signed=True,
        series={
            "difference": tuple(difference.tolist()),
            "completeness_error": tuple((found.error / _scale(difference)).tolist()),
            "absolute_error": tuple(found.error.tolist()),
            "steps": tuple(map(float, found.steps)),
            "converged": tuple(map(float, found.converged)),
        },
        settings={
            "baseline_pad": float(baseline == "pad"),
            "output_log_prob": float(output == "log_prob"),
            "tolerance": tolerance,
            "first_steps": float(first_steps),
            "most_steps": float(most_steps),
            "smallest_difference": SMALLEST_DIFFERENCE,
        },
    )


def most_points(first_steps: int = 32, most_steps: int = 1024) -> int:
    """How many points `integrated_gradients` takes at most for one prediction, over all doublings.

    >>> most_points(32, 128)  # 32 + 64 + 128
    224
    """
    points = steps = first_steps
    while steps < most_steps:
        steps = min(2 * steps, most_steps)
        points += steps
    return points


def integrated_path(
    gradients: Gradients, nothing: Embedded, words: Embedded, predictions: Sequence[int], steps: int, rows: int
) -> tuple[Float[Tensor, "P S"], Float[Tensor, "P T"]]:
    """The integrated gradients of each of `predictions`, for every place, by the midpoint rule with `steps` points.

    The path is straight, from `nothing` to `words`, both of one row; `rows` points are read at once.
    """
    step = words.minus(nothing)
    sides = (words.source, words.prefix)
    wide = torch.promote_types(step.source.dtype, torch.float32)
    sums = [each.new_zeros(len(predictions), each.shape[1], dtype=wide) for each in sides]
    shares = ((torch.arange(steps, dtype=torch.float64) + 0.5) / steps).to(step.source)
    for first in range(0, steps, rows):
        points = nothing.between(words, shares[first : first + rows])
        for line, gradient in enumerate(gradients(points, predictions)):
            for total, found in zip(sums, gradient.dot(step), strict=True):
                total[line] += found.sum(0, dtype=wide)
    return sums[0] / steps, sums[1] / steps


@dataclass(frozen=True)
class _Rule:
    """When to stop; InputError for what makes no sense."""

    tolerance: float
    first_steps: int
    most_steps: int

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise InputError(f"tolerance = {self.tolerance} must be above 0: 0.01 stands for one per cent")
        if not 1 <= self.first_steps <= self.most_steps:
            raise InputError(
                f"first_steps = {self.first_steps} must be at least 1 and at most most_steps = {self.most_steps}"
            )


@dataclass(frozen=True)
class _Integrals:
    """Of T predictions: `source` [T, S], `prefix` [T, T], the absolute `error` [T] of the sums, and how each ended."""

    source: Tensor
    prefix: Tensor
    error: Tensor
    steps: list[int]
    converged: list[bool]


def _until_it_closes(
    gold: GoldScores,
    nothing: Embedded,
    difference: Float[Tensor, " T"],
    rule: _Rule,
    rows: int,
    progress: Callable[[int], None] | None,
) -> _Integrals:
    """Steps doubled for the predictions whose sums are not yet within `rule.tolerance` of `difference`."""
    allowed = rule.tolerance * _scale(difference)
    count = gold.count
    found = _Integrals(
        difference.new_zeros(count, gold.words.source.shape[1]),
        difference.new_zeros(count, count),
        torch.full_like(difference, torch.inf),
        [0] * count,
        [False] * count,
    )
    pending, steps = list(range(count)), rule.first_steps
    while pending:
        source, prefix = integrated_path(gold.gradients, nothing, gold.words, pending, steps, rows)
        found.source[pending], found.prefix[pending] = source.to(difference), prefix.to(difference)
        found.error[pending] = (found.source.sum(1) + found.prefix.sum(1) - difference)[pending].abs()
        for each in pending:
            found.steps[each], found.converged[each] = steps, bool(found.error[each] < allowed[each])
        pending = [each for each in pending if not found.converged[each]]
        if steps == rule.most_steps:
            pending = []
        if progress is not None:
            progress(count - len(pending))
        steps = min(2 * steps, rule.most_steps)
    return found


def _scale(difference: Float[Tensor, " T"]) -> Float[Tensor, " T"]:
    return difference.abs().clamp(min=SMALLEST_DIFFERENCE)
