"""What the heads of a model do over many pairs: roles, importance, ablation, pruning, tests, temperature, probes.

A head that looks like something on one sentence may not on the next, and closing it may matter once in a while only.
So what is said of a head is said over a sample, and the number of pairs stands beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from clearhead.inspection.adversarial import adversarial, adversarial_passes
from clearhead.inspection.capture import provenance_of
from clearhead.inspection.head_roles import head_roles, roles_over
from clearhead.inspection.head_statistics import head_statistics, statistics_over
from clearhead.inspection.perturbation import permutation, uniform
from clearhead.inspection.probe_labels import token_labels
from clearhead.inspection.probes import ProbeSettings, probe, probe_steps
from clearhead.inspection.pruning import pruning_curve, pruning_steps
from clearhead.inspection.records import Curve, EvidenceRecord, Finding, Probe, Provenance, Unit
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.temperature import temperature_curve
from clearhead.inspection.unit_targets import all_units
from clearhead.inspection.value_norms import vector_lengths
from clearhead.metrics.scores import score_corpus
from clearhead.models.seq2seq import Seq2Seq
from clearhead.recipes.inspect.depth import Tests
from clearhead.recipes.inspect.pair import capture_pair
from clearhead.recipes.inspect.sample_pairs import Sample, pair_tokens
from clearhead.recipes.inspect.sentence import CLOSINGS, closing_findings
from clearhead.recipes.inspect.stages import Stage, Stages, beyond
from clearhead.recipes.translator import Translator

__all__ = ["SampleSize", "inspect_sample"]

FEWEST_PROBED = 8
"""Pairs, below which a split by sentence leaves nothing to learn from."""


@dataclass(frozen=True)
class SampleSize:
    """How many pairs each part takes, from the first on: the costly ones take fewer.

    `pairs` are captured, closed and pruned over; `translated` are translated, greedily, at each point of a pruning
    curve (0: no BLEU); over `shuffled` weights are permuted, `shuffles` times each; over `attacked` adversarial weights
    are searched for.
    """

    pairs: int = 200
    translated: int = 100
    shuffled: int = 20
    shuffles: int = 20
    attacked: int = 0
    probes: bool = True

    @property
    def tested(self) -> bool:
        """Whether anything but maps and roles is wanted."""
        return self.shuffled > 0

    @property
    def probed(self) -> bool:
        """Whether probes are wanted and there are pairs enough for them."""
        return self.probes and self.pairs >= FEWEST_PROBED

    @classmethod
    def of(cls, tests: Tests, pairs: int) -> SampleSize:
        """What the word means, for so many pairs."""
        match tests:
            case "none":
                return cls(pairs, translated=0, shuffled=0, probes=False)
            case "quick":
                return cls(pairs)
            case "full":
                return cls(pairs, translated=pairs, shuffled=50, shuffles=100, attacked=5)


def inspect_sample(
    translator: Translator,
    sample: Sample,
    *,
    name: str,
    size: SampleSize | None = None,
    untrained: Seq2Seq | None = None,
    seed: int = 1,
    stage: Stage | None = None,
) -> EvidenceRecord:
    """The evidence over a sample. The targets are given ones, read by teacher forcing; BLEU is of greedy translations.

    `untrained` is a model of the same configuration as it was before training, for the probes to be compared with.
    `stage` hears what is being done.
    """
    provenance = provenance_of(translator.model, name, translator.tokenizers.fingerprint)
    work = _SampleWork(translator, sample, size or SampleSize(), seed, Stages(stage))
    findings = work.described(provenance) + work.closed() + work.tested()
    return EvidenceRecord(
        provenance,
        "sample",
        pairs=len(sample.chosen),
        tokens=sum(len(target) + 1 for target in sample.targets),
        findings=tuple(findings),
        curves=tuple(work.curves()),
        probes=tuple(work.probed(untrained)),
        settings=work.settings(),
    )


@dataclass(frozen=True)
class _SampleWork:
    translator: Translator
    sample: Sample
    size: SampleSize
    seed: int
    stages: Stages

    @property
    def model(self) -> Seq2Seq:
        return self.translator.model

    @property
    def pairs(self) -> Pairs:
        return Pairs.of(self.sample.sources, self.sample.targets, self.translator.device)

    def described(self, provenance: Provenance) -> list[Finding]:
        """Statistics and roles, over all pairs."""
        progress = self.stages.begin("attention weights of the sample", len(self.sample.chosen))
        read, written = (_counted(ids) for ids in (self.sample.sources, self.sample.targets))
        statistics, roles = [], []
        for pair, links in zip(self.sample.chosen, self.sample.links, strict=True):
            record = capture_pair(self.translator, pair, provenance)
            if not record.layers:
                return []
            statistics.append(head_statistics(record))
            lengths = vector_lengths(self.model, pair.source, pair.target)
            known = None if links is None else frozenset(links)
            roles.append(
                head_roles(
                    record,
                    frequencies=read,
                    target_frequencies=written,
                    links=known,
                    linked="words",
                    lengths=lengths,
                )
            )
            progress(len(roles))
        return statistics_over(statistics) + roles_over(roles)

    def closed(self) -> list[Finding]:
        """Importance and ablation, over all pairs."""
        if not self.size.tested:
            return []
        progress = self.stages.begin("head importance and ablation over the sample", CLOSINGS)
        return closing_findings(self.model, self.pairs, progress)

    def tested(self) -> list[Finding]:
        """Permuted, equal and adversarial weights: the mean over the pairs of each number."""
        if not self.size.tested:
            return []
        units = all_units(self.model)
        pairs = list(zip(self.sample.sources, self.sample.targets, strict=True))
        chosen = pairs[: self.size.shuffled]
        found: list[list[Finding]] = []
        told = self.stages.begin("permuted and equal weights over the sample", 2 * len(units) * len(chosen))
        for number, (source, target) in enumerate(chosen):
            done, shuffles = 2 * len(units) * number, self.size.shuffles
            shuffled = permutation(
                self.model, source, target, units, shuffles=shuffles, seed=self.seed, progress=beyond(told, done)
            )
            equal = uniform(self.model, source, target, units, progress=beyond(told, done + len(units)))
            found.append(shuffled + equal)
        return _mean_findings(found) + self._attacked(units, pairs[: self.size.attacked])

    def _attacked(
        self, units: Sequence[Unit], pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    ) -> list[Finding]:
        """Of layers and the stack: a head is 300 steps a pair; whole layers say more, and are fewer."""
        cross = [unit for unit in units if unit.stack == "cross" and unit.head is None]
        if not pairs or not cross:
            return []
        passes = adversarial_passes(cross)
        told = self.stages.begin(
            f"adversarial weights over the sample: {len(pairs) * passes} passes through the decoder, forwards and back",
            len(pairs) * passes,
        )
        return _mean_findings(
            [
                adversarial(self.model, source, target, cross, seed=self.seed, progress=beyond(told, number * passes))
                for number, (source, target) in enumerate(pairs)
            ]
        )

    def curves(self) -> list[Curve]:
        """Pruning, stack by stack, and temperature."""
        if not self.size.tested:
            return []
        score = self._bleu if self.size.translated else None
        progress = self.stages.begin("pruning", pruning_steps(self.model))
        curves = pruning_curve(self.model, self.pairs, score=score, progress=progress)
        self.stages.begin("temperature")
        return curves + temperature_curve(self.model, self.pairs)

    def probed(self, untrained: Seq2Seq | None) -> list[Probe]:
        """What can be read off the states of each layer."""
        if not self.size.probes or len(self.sample.chosen) < FEWEST_PROBED:
            return []
        read = [pair_tokens(self.translator, pair) for pair in self.sample.chosen]
        # A tag stands before every source and is no word of it, so it has no label.
        labels = [token_labels([sides[side] for sides in read]) for side in (0, 1)]
        first = self.sample.chosen[0]
        steps = probe_steps(self.model, first.source, first.target, *labels)
        return probe(
            self.model,
            self.sample.sources,
            self.sample.targets,
            *labels,
            settings=ProbeSettings(seed=self.seed),
            untrained=untrained,
            progress=self.stages.begin("probes", steps),
        )

    def _bleu(self, model: Seq2Seq) -> float:
        chosen = self.sample.chosen[: self.size.translated]
        translator = Translator(model, self.translator.tokenizers, self.translator.languages, tag=self.translator.tag)
        found = translator.translate([pair.source_text for pair in chosen], beam=1)
        references = [pair.target_text or "" for pair in chosen]
        code = self.translator.languages[1]
        return score_corpus([each.text for each in found], references, target_language=code).bleu.value

    def settings(self) -> dict[str, str]:
        """By name, for the record."""
        return {
            "translated": str(min(self.size.translated, len(self.sample.chosen))),
            "shuffled": str(min(self.size.shuffled, len(self.sample.chosen))),
            "attacked": str(min(self.size.attacked, len(self.sample.chosen))),
            "search": "greedy",
            "seed": str(self.seed),
        }


def _counted(sentences: Sequence[Sequence[int]]) -> dict[int, float]:
    """How often each id occurs."""
    return {token: float(count) for token, count in Counter(chain.from_iterable(sentences)).items()}


def _mean_findings(of_pairs: Sequence[Sequence[Finding]]) -> list[Finding]:
    """One finding a method and unit: each number the mean over the pairs, `pairs` among the settings."""
    together: dict[tuple[str, Unit], list[Finding]] = {}
    for findings in of_pairs:
        for each in findings:
            together.setdefault((each.method, each.unit), []).append(each)
    return [
        Finding(
            group[0].method,
            group[0].unit,
            {key: sum(each.values[key] for each in group) / len(group) for key in group[0].values},
            settings=group[0].settings | {"pairs": float(len(group))},
        )
        for group in together.values()
    ]
