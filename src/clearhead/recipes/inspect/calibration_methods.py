"""The methods of inspection, each run on a model that has learnt a task, beside what is known about the task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from torch import Tensor

from clearhead.data.synthetic import Link
from clearhead.inspection.ablation import head_ablation
from clearhead.inspection.adversarial import adversarial
from clearhead.inspection.agreement import agreement
from clearhead.inspection.attribution import gradient_scores, integrated_gradients, occlusion
from clearhead.inspection.calibrated import Family, Measure, Score
from clearhead.inspection.capture import capture
from clearhead.inspection.head_roles import head_roles, roles_over
from clearhead.inspection.importance import head_importance
from clearhead.inspection.perturbation import permutation, uniform
from clearhead.inspection.records import AttentionRecord, Finding, Provenance, Token, TokenScores, Unit
from clearhead.inspection.rollout import rollout
from clearhead.inspection.sites import Head, attention_sites, heads_of
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.token_readings import attention_scores
from clearhead.inspection.value_norms import value_norms
from clearhead.models.seq2seq import Seq2Seq
from clearhead.recipes.inspect.calibration_scores import (
    Hits,
    area_under_curve,
    hits,
    precision_recall,
    rank_correlation,
)
from clearhead.text.symbols import BOS, EOS

__all__ = ["HEAD_METHODS", "TOKEN_METHODS", "Effort", "Example", "Subject", "head_scores", "record_of", "token_scores"]

TOKEN_METHODS = (
    "attention",
    "value-norms",
    "rollout",
    "gradient-input",
    "gradient-norm",
    "integrated-gradients",
    "occlusion",
)
HEAD_METHODS = (
    "importance",
    "ablation-zero",
    "ablation-mean",
    "permutation",
    "uniform",
    "adversarial",
    "agreement",
    "role",
)

ALIGNED = 0.5
"""A head is aligned if more than this share of the target words have their largest weight on a gold link, EOS being a
place like the others."""

_LEAST_HEADS, _LEAST_SPREAD = 4, 0.1
"""Ranks of fewer heads say nothing, nor do those of heads whose shares of right links are all within so much."""


@dataclass(frozen=True)
class Example:
    """A pair that was not trained on: ids without BOS and EOS, the words, and the links that count as right."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    words: tuple[tuple[str, ...], tuple[str, ...]]
    links: frozenset[Link]


@dataclass(frozen=True)
class Subject:
    """A model that has learnt `task`, itself as it was before, pairs to score by, and pairs to choose by."""

    task: str
    name: str
    family: Family
    model: Seq2Seq
    untrained: Seq2Seq
    test: tuple[Example, ...]
    dev: tuple[Example, ...]


@dataclass(frozen=True)
class Effort:
    """How many pairs each method is run on, and how long the dear ones look.

    `maps` for what scores tokens, `integrated` for integrated gradients, `untrained` for the model before training,
    `heads` for importance, ablation and roles, `shuffled` for permutation, uniform and agreement, `searched` for
    adversarial attention.
    """

    maps: int = 50
    integrated: int = 20
    untrained: int = 10
    heads: int = 50
    shuffled: int = 8
    shuffles: int = 50
    searched: int = 2
    starts: int = 2
    steps: int = 60


def record_of(model: Seq2Seq, example: Example) -> AttentionRecord:
    """The attention weights of a model over a pair, words as tokens."""
    read, written = (
        tuple(Token(word, id, word=place) for place, (word, id) in enumerate(zip(words, ids, strict=True)))
        for words, ids in zip(example.words, (example.source, example.target), strict=True)
    )
    begin, end = Token("<s>", BOS, "special"), Token("</s>", EOS, "special")
    return capture(
        model,
        example.source,
        example.target,
        source_tokens=(*read, end),
        prefix_tokens=(begin, *written),
        gold_tokens=(*written, end),
        provenance=Provenance("calibration", "", "", ""),
    )


def token_scores(subject: Subject, effort: Effort) -> list[Score]:
    """The share of target words that each method of tokens links rightly: trained, and untrained for comparison."""
    counted: dict[tuple[str, str, Measure], Hits] = {}

    def count(method: str, part: str, measure: Measure, found: Hits) -> None:
        key = method, part, measure
        counted[key] = counted.get(key, Hits()) + found

    for number, example in enumerate(subject.test[: effort.maps]):
        for method, part, scores in _maps(subject.model, example, integrated=number < effort.integrated):
            count(method, part, "links", hits(scores, example.links))
            count(method, part, "links-with-end", hits(scores, example.links, end=True))
    for example in subject.test[: effort.untrained]:
        for method, part, scores in _maps(subject.untrained, example, integrated=True):
            count(method, part, "links-untrained", hits(scores, example.links))
    return [
        Score(method, subject.task, subject.name, part, measure, each.share, each.asked)
        for (method, part, measure), each in counted.items()
    ]


def _maps(model: Seq2Seq, example: Example, *, integrated: bool) -> Iterator[tuple[str, str, Tensor]]:
    """(method, what was read, scores over the source) of every method that has something to say of it."""
    record = record_of(model, example)
    pair = model, example.source, example.target
    found: list[TokenScores | None] = [*attention_scores(record), *value_norms(*pair), rollout(record)]
    found += [*gradient_scores(*pair), occlusion(*pair)]
    found += [integrated_gradients(*pair)] if integrated else []
    for scores in found:
        if scores is not None and scores.source is not None:
            yield scores.method, _part(scores.unit), scores.source


def _part(unit: Unit | None) -> str:
    return "" if unit is None else " ".join(str(each) for each in (unit.stack, unit.layer, unit.head) if each)


def head_scores(subject: Subject, effort: Effort) -> list[Score]:
    """How well each method of heads tells the cross-attention heads that are aligned from those that are not.

    Nothing for a model of fewer than four such heads, and no ranks where all are about as well aligned. The number of
    "adversarial" is the largest JSD with its sign turned: the less room there is for other weights, the more a head
    should matter; but sharp weights leave more room than flat ones whatever they are for. Being aligned is no proof
    that a model needs the head: another may do the same. So a low figure of ablation or importance need not be a fault
    of the method.
    """
    heads = [head for head in heads_of(attention_sites(subject.model)) if head.stack == "cross"]
    if len(heads) < _LEAST_HEADS:
        return []
    records = [record_of(subject.model, example) for example in subject.test[: effort.heads]]
    truth = _alignment(records, subject.test, heads)
    found = []
    for method, numbers in _numbers(subject, records, heads, effort).items():
        values = [numbers[head] for head in heads]
        shares = [truth[head] for head in heads]
        spread = max(shares) - min(shares)
        measures: dict[Measure, float | None] = {
            "rank-correlation": rank_correlation(values, shares) if spread >= _LEAST_SPREAD else None,
            "area": area_under_curve(values, [share > ALIGNED for share in shares]),
        }
        found += [
            Score(method, subject.task, subject.name, "", measure, value, len(heads))
            for measure, value in measures.items()
        ]
    return found + _role_scores(subject, truth, effort)


def _alignment(
    records: Sequence[AttentionRecord], examples: Sequence[Example], heads: Sequence[Head]
) -> dict[Head, float]:
    """The share of target words whose largest weight, by each head, lies on a gold link."""
    counted = dict.fromkeys(heads, Hits())
    for record, example in zip(records, examples, strict=False):
        for head in heads:
            weights = record.layer(head.stack, head.layer).weights[head.head - 1]
            counted[head] += hits(weights, example.links, end=True)
    return {head: each.share for head, each in counted.items()}


def _numbers(
    subject: Subject, records: Sequence[AttentionRecord], heads: Sequence[Head], effort: Effort
) -> dict[str, Mapping[Head, float]]:
    """Of each method the number that should be larger for a head that matters more."""
    model, examples = subject.model, subject.test
    several = examples[: effort.heads]
    pairs = Pairs.of([each.source for each in several], [each.target for each in several])
    units = [Unit.of(head) for head in heads]
    found: dict[str, Mapping[Head, float]] = {"importance": head_importance(model, pairs)}
    for fill in ("zero", "mean"):
        changes = head_ablation(model, pairs, fill=fill)
        found[f"ablation-{fill}"] = {head: float(change.mean()) for head, change in changes.items()}
    collected: dict[tuple[str, Head], list[float]] = {}

    def collect(method: str, findings: Sequence[Finding], value: str, sign: float = 1.0) -> None:
        by_unit = {finding.unit: finding.values for finding in findings}
        for head in heads:
            if value in by_unit.get(Unit.of(head), {}):
                collected.setdefault((method, head), []).append(sign * by_unit[Unit.of(head)][value])

    for number, example in enumerate(examples[: effort.shuffled]):
        pair = model, example.source, example.target
        collect("permutation", permutation(*pair, units, shuffles=effort.shuffles), "median_tvd")
        collect("uniform", uniform(*pair, units), "mean_tvd")
        integrated = integrated_gradients(*pair)
        collect("agreement", agreement(records[number], [integrated]), "integrated-gradients_tau")
        if number < effort.searched:
            looked = adversarial(*pair, units, starts=effort.starts, steps=effort.steps)
            collect("adversarial", looked, "max_jsd", -1.0)  # the less it can be changed, the more it matters
    for method in ("permutation", "uniform", "adversarial", "agreement"):
        found[method] = {head: fmean(collected[method, head]) for head in heads}
    return found


def _role_scores(subject: Subject, truth: Mapping[Head, float], effort: Effort) -> list[Score]:
    """Which heads are called aligned, by pairs other than those that say which are. Copied text runs along the
    diagonal, and so does an aligned head."""
    called = {"aligned", "diagonal"} if subject.task == "copy" else {"aligned"}
    samples = [head_roles(record_of(subject.model, each), links=each.links) for each in subject.dev[: effort.heads]]
    said = {finding.unit for finding in roles_over(samples) if finding.words["role"] in called}
    true = {Unit.of(head) for head, share in truth.items() if share > ALIGNED}
    units = {Unit.of(head) for head in truth}
    precision, recall = precision_recall(said & units, true)
    named = len([unit for unit in units if (unit in said) == (unit in true)]) / len(units)
    measures: dict[Measure, float | None] = {"named": named, "precision": precision, "recall": recall}
    return [
        Score("role", subject.task, subject.name, "", measure, value, len(units)) for measure, value in measures.items()
    ]
