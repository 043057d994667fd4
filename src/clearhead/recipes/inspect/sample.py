"""What the heads of a model do over many pairs: roles, importance, ablation, pruning, tests, temperature, probes.

A head that looks like something on one sentence may not on the next, and closing it may matter once in a while only.
So what is said of a head is said over a sample, and the number of pairs stands beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from clearhead.base.errors import ClearheadError, DataError, InputError
from clearhead.base.log import logger
from clearhead.formats.lines import display_name
from clearhead.formats.pairs import read_pairs
from clearhead.formats.pharaoh import Links, read_links
from clearhead.inspection.adversarial import adversarial, adversarial_passes
from clearhead.inspection.capture import provenance_of
from clearhead.inspection.head_roles import head_roles, roles_over
from clearhead.inspection.head_statistics import head_statistics, statistics_over
from clearhead.inspection.perturbation import permutation, uniform
from clearhead.inspection.probe_labels import token_labels
from clearhead.inspection.probes import ProbeSettings, probe
from clearhead.inspection.pruning import pruning_curve
from clearhead.inspection.records import Curve, EvidenceRecord, Finding, Probe, Token, Unit
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.temperature import temperature_curve
from clearhead.inspection.unit_targets import all_units
from clearhead.inspection.value_norms import vector_lengths
from clearhead.metrics.scores import score_corpus
from clearhead.models.seq2seq import Seq2Seq
from clearhead.recipes.inspect.depth import Tests
from clearhead.recipes.inspect.pair import InspectedPair, capture_pair
from clearhead.recipes.inspect.sentence import ablation_findings, importance_findings
from clearhead.recipes.inspect.token_methods import Stage
from clearhead.recipes.inspect.tokens import tokens_of
from clearhead.recipes.translator import Translator
from clearhead.text.languages import language

__all__ = ["Sample", "SampleSize", "inspect_sample", "read_sample", "take_sample"]

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


@dataclass(frozen=True)
class Sample:
    """Pairs that were read, as ids and as text, with gold links between their words where these are known."""

    chosen: tuple[InspectedPair, ...]
    links: tuple[Links | None, ...]

    @property
    def sources(self) -> list[tuple[int, ...]]:
        """The ids of the sources."""
        return [pair.source for pair in self.chosen]

    @property
    def targets(self) -> list[tuple[int, ...]]:
        """The ids of the targets."""
        return [pair.target for pair in self.chosen]


def read_sample(translator: Translator, source: str, target: str, most: int, links: str | None = None) -> Sample:
    """`take_sample` of two files of aligned lines, and of a file of links in Pharaoh format, a line a pair.

    Raises DataError if the files are not equally long, or for what is no link.
    """
    known = None if links is None else list(read_links(links))
    pairs = list(read_pairs(source, target))
    if known is not None and len(known) != len(pairs):
        raise DataError(
            f"{display_name(links or '')} has {len(known)} lines but {display_name(source)} has {len(pairs)}; "
            "they must belong together line by line"
        )
    return take_sample(translator, pairs, most, known)


def take_sample(
    translator: Translator,
    pairs: Iterable[tuple[str, str]],
    most: int,
    links: Sequence[Links] | None = None,
) -> Sample:
    """The first `most` pairs that can be read; one without text, or too long for the model, is left out and counted.

    `links` holds those of each pair, in the order of `pairs`. Raises InputError if none can be read, and DataError for
    a link to a word that its pair does not have.
    """
    chosen: list[InspectedPair] = []
    known: list[Links | None] = []
    left_out = 0
    for place, (source, target) in enumerate(pairs):
        if len(chosen) == most:
            break
        try:
            pair = _encoded(translator, source, target)
        except ClearheadError as error:
            logger.debug("pair %d is left out: %s", place + 1, error)
            left_out += 1
            continue
        its_links = links[place] if links is not None and place < len(links) else None
        if its_links:
            _check_links(translator, pair, its_links, place + 1)
        chosen.append(pair)
        known.append(its_links)
    if not chosen:
        raise InputError("the sample has no pair that the model can read: give pairs with text on both sides")
    if left_out:
        logger.warning("left out of the sample, since blank or longer than the model reads: %d of its pairs", left_out)
    return Sample(tuple(chosen), tuple(known))


def _encoded(translator: Translator, source: str, target: str) -> InspectedPair:
    ids = translator.tokenizers.source.encode(source)
    gold = translator.tokenizers.target.encode(target)
    limit = translator.model.max_positions
    if not ids or not gold or not source.strip() or not target.strip():
        raise InputError("blank")
    if len(ids) > translator.max_source_length or (limit is not None and len(gold) >= limit):
        raise InputError(f"{len(ids)} and {len(gold)} tokens")
    return InspectedPair(source, target, (*translator.lead, *ids), tuple(gold), len(translator.lead), "given")


def _check_links(translator: Translator, pair: InspectedPair, links: Links, number: int) -> None:
    sides = _pair_tokens(translator, pair)
    words = [1 + max((token.word for token in side if token.word is not None), default=-1) for side in sides]
    for source, target in sorted(links):
        if source >= words[0] or target >= words[1]:
            raise DataError(
                f"pair {number}: the link {source}-{target} is to a word that is not there: the pair has {words[0]} "
                f"and {words[1]} words, counted from 0; the links must belong to these lines, split in the same way"
            )


def _pair_tokens(translator: Translator, pair: InspectedPair) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The tokens of both sides, without BOS and EOS, with their words."""
    tokenizers = translator.tokenizers
    scripts = [language(code).script for code in translator.languages]
    return (
        tokens_of(tokenizers.source, pair.source, pair.source_text, script=scripts[0], lead=pair.lead),
        tokens_of(tokenizers.target, pair.target, pair.target_text, script=scripts[1]),
    )


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
    """
    work = _SampleWork(translator, sample, size or SampleSize(), seed, stage or (lambda _: None))
    findings = work.described() + work.closed() + work.tested()
    return EvidenceRecord(
        provenance_of(translator.model, name, translator.tokenizers.fingerprint),
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
    begin: Stage

    @property
    def model(self) -> Seq2Seq:
        return self.translator.model

    @property
    def pairs(self) -> Pairs:
        return Pairs.of(self.sample.sources, self.sample.targets, self.translator.device)

    def described(self) -> list[Finding]:
        """Statistics and roles, over all pairs."""
        self.begin("attention weights of the sample")
        provenance = provenance_of(self.model, "", self.translator.tokenizers.fingerprint)
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
        return statistics_over(statistics) + roles_over(roles)

    def closed(self) -> list[Finding]:
        """Importance and ablation, over all pairs."""
        if not self.size.tested:
            return []
        self.begin("head importance and ablation over the sample")
        return importance_findings(self.model, self.pairs) + ablation_findings(self.model, self.pairs)

    def tested(self) -> list[Finding]:
        """Permuted, equal and adversarial weights: the mean over the pairs of each number."""
        if not self.size.tested:
            return []
        units = all_units(self.model)
        first = list(zip(self.sample.sources, self.sample.targets, strict=True))
        found: list[list[Finding]] = []
        self.begin("permuted and equal weights over the sample")
        for source, target in islice(first, self.size.shuffled):
            shuffled = permutation(self.model, source, target, units, shuffles=self.size.shuffles, seed=self.seed)
            found.append(shuffled + uniform(self.model, source, target, units))
        tested = _mean_findings(found)
        if self.size.attacked:
            # A head is 300 steps a pair; whole layers say more, and are fewer.
            cross = [unit for unit in units if unit.stack == "cross" and unit.head is None]
            pairs = min(self.size.attacked, len(first))
            self.begin(
                f"adversarial weights over the sample: {pairs * adversarial_passes(cross)} passes through the decoder, "
                "forwards and back"
            )
            attacked = [
                adversarial(self.model, source, target, cross, seed=self.seed)
                for source, target in islice(first, self.size.attacked)
            ]
            tested += _mean_findings(attacked)
        return tested

    def curves(self) -> list[Curve]:
        """Pruning, stack by stack, and temperature."""
        if not self.size.tested:
            return []
        self.begin("pruning")
        score = self._bleu if self.size.translated else None
        curves = pruning_curve(self.model, self.pairs, score=score)
        self.begin("temperature")
        return curves + temperature_curve(self.model, self.pairs)

    def probed(self, untrained: Seq2Seq | None) -> list[Probe]:
        """What can be read off the states of each layer."""
        if not self.size.probes or len(self.sample.chosen) < FEWEST_PROBED:
            return []
        self.begin("probes")
        read = [_pair_tokens(self.translator, pair) for pair in self.sample.chosen]
        sources, targets = ([sides[side] for sides in read] for side in (0, 1))
        # A tag stands before every source and is no word of it, so it has no label.
        return probe(
            self.model,
            self.sample.sources,
            self.sample.targets,
            token_labels(sources),
            token_labels(targets),
            settings=ProbeSettings(seed=self.seed),
            untrained=untrained,
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
