"""BLEU and chrF of whole corpora, by sacreBLEU, always with the signature that says how they were counted.

BLEU is that of Papineni et al. (2002): clipped n-gram precisions up to 4, their counts and the lengths of the
brevity penalty summed over the corpus; n-grams without a match are smoothed "exp" (sacreBLEU's default; Post 2018).
chrF is chrF2 of Popović (2015, 2016): character n-grams up to 6, recall weighed twice, no word n-grams.
The texts are detokenised ones, as the reader would see them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from clearhead.base.errors import DataError, InputError
from clearhead.text.languages import language

__all__ = ["Comparison", "Interval", "Score", "Scores", "paired_bootstrap", "score_corpus"]


@dataclass(frozen=True)
class Score:
    """One number with the signature that makes it comparable; `str` shows both.

    Attributes:
        name: "BLEU" or "chrF2".
        value: from 0 to 100.
        signature: sacreBLEU's, such as `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0`.
    """

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}  {self.signature}"


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF of one corpus."""

    bleu: Score
    chrf: Score

    def __str__(self) -> str:
        return f"{self.bleu}\n{self.chrf}"


@dataclass(frozen=True)
class Interval:
    """The middle 95 % of a resampled score."""

    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """A candidate against a baseline in one metric, by paired bootstrap.

    Attributes:
        baseline, candidate: the scores on the whole corpus.
        baseline_interval, candidate_interval, difference_interval: 95 % of the resamples; the difference is
            candidate minus baseline.
        p_value: how likely a difference at least this large (either way) is, if there is none in truth.
        samples: the number of resamples.
    """

    baseline: Score
    candidate: Score
    baseline_interval: Interval
    candidate_interval: Interval
    difference_interval: Interval
    p_value: float
    samples: int

    @property
    def difference(self) -> float:
        """Candidate minus baseline, in points."""
        return self.candidate.value - self.baseline.value


def score_corpus(hypotheses: Sequence[str], references: Sequence[str], *, target_language: str) -> Scores:
    """BLEU and chrF of translations against one reference each.

    `target_language` chooses BLEU's tokeniser (`clearhead.text.languages`). Raises DataError with both counts when
    they differ, and when there is nothing to score.
    """
    _check(hypotheses, references, "hypotheses")
    scores = []
    for metric, name in _metrics(target_language):
        result = metric.corpus_score(list(hypotheses), [list(references)])
        scores.append(Score(name, min(100.0, float(result.score)), str(metric.get_signature())))
    return Scores(*scores)


def paired_bootstrap(
    baseline: Sequence[str],
    candidate: Sequence[str],
    references: Sequence[str],
    *,
    target_language: str,
    samples: int = 1000,
    seed: int = 12345,
) -> dict[str, Comparison]:
    """Whether `candidate` differs from `baseline` by more than the choice of test sentences explains.

    Both systems are scored on the same `samples` resamples (with replacement) of the corpus (Koehn 2004). The
    p-value is two-sided: the resampled differences, moved to the mean 0 of "no difference", are compared with the
    one observed, and one is added above and below so that it is never 0. Returns a Comparison for "bleu" and one
    for "chrf". Raises DataError for counts that differ, InputError for `samples` < 1.
    """
    _check(baseline, references, "baseline hypotheses")
    _check(candidate, references, "candidate hypotheses")
    if samples < 1:
        raise InputError(f"samples: must be at least 1, got {samples}")
    results = {}
    for (metric, name), key in zip(_metrics(target_language), ("bleu", "chrf"), strict=True):
        # The counts of each sentence; a resample's score comes from their sum, nothing is tokenised again.
        counts = [_sentence_counts(metric, texts, references) for texts in (baseline, candidate)]
        whole = [_value(metric, count.sum(0)) for count in counts]
        rng = np.random.default_rng(seed)
        resampled = np.empty((2, samples))
        for sample in range(samples):
            # How often each sentence is drawn; the same draws for both systems, which is what "paired" means.
            times = np.bincount(rng.integers(len(references), size=len(references)), minlength=len(references))
            resampled[:, sample] = [_value(metric, times @ count) for count in counts]
        signature = f"{metric.get_signature()}|bs:{samples}|seed:{seed}"
        difference = resampled[1] - resampled[0]
        # "At least as large", not "larger": a system against itself then has p = 1 (rounding is allowed for).
        extreme = np.abs(difference - difference.mean()) >= abs(whole[1] - whole[0]) - 1e-9
        results[key] = Comparison(
            baseline=Score(name, whole[0], signature),
            candidate=Score(name, whole[1], signature),
            baseline_interval=_interval(resampled[0]),
            candidate_interval=_interval(resampled[1]),
            difference_interval=_interval(difference),
            p_value=float((extreme.sum() + 1) / (samples + 1)),
            samples=samples,
        )
    return results


def _metrics(target_language: str) -> list[tuple[Metric, str]]:
    tokenizer = language(target_language).bleu_tokenizer
    return [(BLEU(tokenize=tokenizer), "BLEU"), (CHRF(), "chrF2")]


def _check(hypotheses: Sequence[str], references: Sequence[str], what: str) -> None:
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} {what} but {len(references)} references; a score needs one for each")
    if not references:
        raise DataError(f"no {what} and no references: there is nothing to score")


def _sentence_counts(metric: Metric, texts: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    return np.asarray(metric._extract_corpus_statistics(list(texts), [list(references)]), dtype=np.int64)


def _value(metric: Metric, counts: NDArray[np.int64]) -> float:
    return min(100.0, float(metric._compute_score_from_stats(counts.tolist()).score))  # rounding can exceed 100


def _interval(values: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(float(low), float(high))
