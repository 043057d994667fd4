"""One sentence and one translation of it: the attention record, and what the methods found beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.inspection.ablation import Fill, head_ablation, layer_ablation
from clearhead.inspection.adversarial import adversarial, adversarial_passes
from clearhead.inspection.agreement import agreement
from clearhead.inspection.capture import provenance_of
from clearhead.inspection.head_roles import head_roles
from clearhead.inspection.head_statistics import head_statistics
from clearhead.inspection.importance import head_importance, normalised_by_layer
from clearhead.inspection.lens import logit_lens
from clearhead.inspection.perturbation import permutation, uniform
from clearhead.inspection.records import AttentionRecord, EvidenceRecord, Finding, Token, Unit
from clearhead.inspection.seed_null import seed_null
from clearhead.inspection.sites import STACKS, Stack, attention_sites
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.temperature import temperature_curve
from clearhead.inspection.unit_targets import all_units
from clearhead.inspection.value_norms import vector_lengths
from clearhead.models.seq2seq import Seq2Seq
from clearhead.recipes.inspect.depth import Depth, Tests
from clearhead.recipes.inspect.pair import InspectedPair, as_given, capture_pair, choose_pair
from clearhead.recipes.inspect.stages import Progress, Stage, Stages, beyond
from clearhead.recipes.inspect.token_methods import token_scores
from clearhead.recipes.inspect.tokens import tokens_of
from clearhead.recipes.translator import Translator, decoding_config

__all__ = ["CLOSINGS", "check_others", "closing_findings", "inspect_pair", "inspect_sentence"]

CLOSINGS = 5
"""How many steps `closing_findings` has: importance, and heads and layers closed in two ways."""


def inspect_sentence(  # noqa: PLR0913 (every choice by name)
    translator: Translator,
    text: str,
    *,
    name: str,
    target: str | None = None,
    rank: int = 1,
    config: DecodingConfig | None = None,
    tests: Tests = "quick",
    others: Sequence[Translator] = (),
    seed: int = 1,
    stage: Stage | None = None,
) -> tuple[AttentionRecord, EvidenceRecord]:
    """What the model attends to while it reads `text` and writes a translation, and the evidence beside it.

    The translation is `target`, or hypothesis number `rank` of the search. `name` is what the model is called. `tests`
    says how much is run (`Depth`). `others` are models of the same shape and vocabulary, trained from other seeds: how
    much their maps differ is what a difference must be compared with. `stage` hears what is being done. Raises
    InputError as `choose_pair` does, and for an ensemble.
    """
    pair = choose_pair(translator, text, config or decoding_config(), target=target, rank=rank)
    return inspect_pair(translator, pair, name=name, tests=tests, others=others, seed=seed, stage=stage)


def inspect_pair(
    translator: Translator,
    pair: InspectedPair,
    *,
    name: str,
    tests: Tests = "quick",
    others: Sequence[Translator] = (),
    seed: int = 1,
    stage: Stage | None = None,
) -> tuple[AttentionRecord, EvidenceRecord]:
    """The same for a pair that was chosen before."""
    stages = Stages(stage)
    depth = Depth.of(tests)
    check_others(translator, others)
    stages.begin("attention weights")
    provenance = provenance_of(translator.model, name, translator.tokenizers.fingerprint)
    record = capture_pair(translator, pair, provenance)
    work = _Work(translator, pair, record, depth, seed, stages)
    scores = token_scores(translator.model, pair, record, gradients=depth.gradients, stage=stage)
    findings = work.described() + work.tested() + agreement(record, scores)
    if others:
        progress = stages.begin("models of other seeds", len(others))
        findings += seed_null([record, *_by_others(translator, pair, others, progress)])
    stages.begin("logit lens")
    lens = logit_lens(translator.model, pair.source, pair.target, vocabulary=work.vocabulary)
    curves = []
    if depth.gradients:
        stages.begin("temperature")
        curves = temperature_curve(translator.model, work.pairs)
    evidence = EvidenceRecord(
        provenance,
        "sentence",
        pairs=1,
        tokens=len(record.gold),
        findings=tuple(findings),
        scores=tuple(scores),
        lens=lens,
        curves=tuple(curves),
        settings={"tests": tests, "seed": str(seed)},
    )
    return record, evidence


@dataclass(frozen=True)
class _Work:
    """One pair, and how deep it is looked at."""

    translator: Translator
    pair: InspectedPair
    record: AttentionRecord
    depth: Depth
    seed: int
    stages: Stages

    @property
    def model(self) -> Seq2Seq:
        return self.translator.model

    @property
    def pairs(self) -> Pairs:
        return Pairs.of([self.pair.source], [self.pair.target], self.translator.device)

    def vocabulary(self, token: int) -> Token:
        """A token of the target by its id."""
        return tokens_of(self.translator.tokenizers.target, [token])[0]

    def described(self) -> list[Finding]:
        """What the maps look like."""
        lengths = vector_lengths(self.model, self.pair.source, self.pair.target)
        return head_statistics(self.record) + head_roles(self.record, lengths=lengths)

    def tested(self) -> list[Finding]:
        """What happens to the predictions when heads are closed or look elsewhere."""
        if not self.record.layers or not self.depth.shuffles:
            return []
        source, target, units = self.pair.source, self.pair.target, all_units(self.model)
        found = closing_findings(self.model, self.pairs, self.stages.begin("head importance and ablation", CLOSINGS))
        told = self.stages.begin("permuted and equal weights", 2 * len(units))
        shuffles = self.depth.shuffles
        found += permutation(self.model, source, target, units, shuffles=shuffles, seed=self.seed, progress=told)
        found += uniform(self.model, source, target, units, progress=beyond(told, len(units)))
        if self.depth.adversaries:
            tried = [each for each in units if each.stack == "cross"]
            passes = adversarial_passes(tried)
            told = self.stages.begin(
                f"adversarial weights: {passes} passes through the decoder, forwards and back", passes
            )
            found += adversarial(self.model, source, target, tried, seed=self.seed, progress=told)
        return found


def closing_findings(model: Seq2Seq, pairs: Pairs, progress: Progress) -> list[Finding]:
    """Importance and ablation of every head, and ablation of every layer; `progress` is told of the CLOSINGS steps."""
    found = _importance_findings(model, pairs)
    progress(1)
    return found + _ablation_findings(model, pairs, beyond(progress, 1))


def _importance_findings(model: Seq2Seq, pairs: Pairs) -> list[Finding]:
    """Michel's importance of every head, and the same within its layer."""
    raw = head_importance(model, pairs)
    within = normalised_by_layer(raw)
    return [
        Finding("importance", Unit.of(head), {"importance": value, "within_layer": within[head]})
        for head, value in raw.items()
    ]


def _ablation_findings(model: Seq2Seq, pairs: Pairs, progress: Progress) -> list[Finding]:
    """What closing each head, and each layer, costs: the mean over the pairs, in nats a token."""
    found = []
    fills: tuple[tuple[Fill, str], ...] = (("zero", "ablation-zero"), ("mean", "ablation-mean"))
    for number, (fill, method) in enumerate(fills):
        heads = head_ablation(model, pairs, fill=fill)
        progress(2 * number + 1)
        layers = layer_ablation(model, pairs, fill=fill)
        progress(2 * number + 2)
        changes = [(Unit.of(head), change) for head, change in heads.items()]
        changes += [(Unit(site.stack, site.layer), change) for site, change in layers.items()]
        found += [
            Finding(method, unit, {"delta_nll": float(change.mean()), "worst": float(change.max())})
            for unit, change in changes
        ]
    return found


def check_others(translator: Translator, others: Sequence[Translator], names: Sequence[str] = ()) -> None:
    """Raises InputError, with its name, for one of `others` whose maps cannot be compared with the translator's."""
    ours = [(site.stack, site.layer, site.heads) for site in attention_sites(translator.model)]
    for place, other in enumerate(others):
        name = names[place] if names else f"model {place + 2}"
        if not ours:
            raise InputError(f"{name}: the model that is inspected has no attention, so there are no maps to compare")
        if other.tokenizers.fingerprint != translator.tokenizers.fingerprint:
            raise InputError(
                f"{name}: its tokenizer is not that of the model that is inspected; maps of other seeds can be "
                "compared only over the same tokens"
            )
        if _same_weights(other.model, translator.model):
            raise InputError(
                f"{name}: is the very model that is inspected; give one that was trained from another seed"
            )
        theirs = [(site.stack, site.layer, site.heads) for site in attention_sites(other.model)]
        if theirs != ours:
            raise InputError(
                f"{name}: has {_shape(theirs)}; the model that is inspected has {_shape(ours)}: give one of the same "
                "configuration, trained from another seed"
            )


def _same_weights(one: Seq2Seq, other: Seq2Seq) -> bool:
    """Whether all parameters are equal; models of two seeds differ in the first, and no more is compared."""
    mine, theirs = dict(one.named_parameters()), dict(other.named_parameters())
    return mine.keys() == theirs.keys() and all(
        each.dtype == theirs[name].dtype and torch.equal(each, theirs[name].to(each.device))
        for name, each in mine.items()
    )


def _shape(layers: Sequence[tuple[Stack, int, int]]) -> str:
    told = []
    for stack in STACKS:
        if counts := [heads for at, _, heads in layers if at == stack]:
            told.append(f"{stack} {'+'.join(map(str, counts))}")
    return f"heads {', '.join(told)} by layer" if told else "no attention"


def _by_others(
    translator: Translator, pair: InspectedPair, others: Sequence[Translator], progress: Progress
) -> list[AttentionRecord]:
    """What models of other seeds attend to over the same pair."""
    found = []
    for number, other in enumerate(others, start=2):
        provenance = provenance_of(other.model, f"model {number}", other.tokenizers.fingerprint)
        found.append(capture_pair(translator, as_given(pair), provenance, other.model))
        progress(len(found))
    return found
