"""The data doctor: what is in a corpus, and what is wrong with it, in one streaming run.

Nothing is refused here; what training would refuse is reported as an error, what it would learn badly from as a
warning. For each pair about 40 bytes stay in memory (hashes and a ratio), whatever its text is; hashes have 64 bits,
so in a corpus of 10 million pairs a count of duplicates is off by one with probability 1 in 300,000.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clearhead.base.errors import InputError
from clearhead.data.filescan import KEPT, FileFacts, Sightings, scan_lines
from clearhead.data.overlap import HeldOut, hash_text
from clearhead.data.split import normal_key
from clearhead.formats.lines import gives_itself_once

__all__ = ["CheckReport", "Finding", "check_files", "check_pairs"]

RATIO_FACTOR = 3.0
RATIO_CHARACTERS = 20
Level = Literal["error", "warning", "note"]
MEANINGS: dict[str, tuple[Level, str]] = {
    "line counts differ": ("error", "the files are not aligned; training refuses them"),
    "no pairs": ("error", "there is nothing to train on"),
    "no tab": ("error", "a line without a tab is no pair; training refuses it"),
    "not UTF-8": ("error", "training refuses the file; convert it (iconv -f … -t UTF-8)"),
    "damaged archive": ("error", "fetch or pack the file again"),
    "empty source": ("warning", "training drops the pair"),
    "empty target": ("warning", "training drops the pair"),
    "identical sides": ("warning", "the source seems not to be translated; the model learns to copy"),
    "length ratio": ("warning", f"the sides differ in length {RATIO_FACTOR:g} times more or less than is usual here"),
    "duplicate pair": ("note", "the pair came before; it is learnt with more weight"),
    "other translation": ("note", "the source came before with another target"),
    "near-duplicate source": ("note", "the source came before with other digits, placeholders, case or punctuation"),
    "held-out text in corpus": ("error", "text of the held-out file is also trained on; scores on it mean nothing"),
    "held-out text nearly in corpus": (
        "warning",
        "all but digits, placeholders, case, punctuation is the same",
    ),
    "held-out target in corpus": ("note", "other sources have the same translation"),
    "odd character": ("note", "some tools end a line here; clearhead does not"),
    "byte order mark": ("note", "dropped when read"),
    "CRLF line ends": ("note", "the carriage return is dropped when read"),
    "no final line end": ("note", "the last line may be cut short"),
}


@dataclass(frozen=True)
class Finding:
    """One kind of thing found, how often, where first (lines from 1), and in which file if in one alone."""

    name: str
    count: int
    lines: list[int]
    where: str = ""

    @property
    def level(self) -> Level:
        """ "error" (training refuses it, or scores become worthless), "warning" or "note"."""
        return MEANINGS[self.name][0]

    @property
    def meaning(self) -> str:
        """What follows from it."""
        return MEANINGS[self.name][1]


@dataclass
class CheckReport:
    """All that was found. `ratios` are quantiles of target characters / source characters."""

    pairs: int = 0
    files: list[FileFacts] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    distinct_sources: int = 0
    examples: dict[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def errors(self) -> int:
        """How many kinds of errors were found; 0 means that the corpus can be trained on."""
        return sum(finding.level == "error" for finding in self.findings)

    def count(self, name: str) -> int:
        """How often a kind was found in all."""
        return sum(finding.count for finding in self.findings if finding.name == name)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "pairs": self.pairs,
            "distinct_sources": self.distinct_sources,
            "length_ratio": self.ratios,
            "errors": self.errors,
            "files": [facts.to_dict() for facts in self.files],
            "findings": [
                {"name": f.name, "level": f.level, "meaning": f.meaning, "where": f.where, "count": f.count}
                | {"lines": f.lines}
                for f in self.findings
            ],
            "examples": {str(line): list(pair) for line, pair in sorted(self.examples.items())},
        }


def check_files(corpus: Sequence[str | Path], *, against: Sequence[str | Path] = ()) -> CheckReport:
    """Check two aligned files, or one TSV, and compare them with held-out files of text (`against`).

    Raises InputError if there are not one or two files, DataError for a file that cannot be opened.
    """
    if len(corpus) not in (1, 2):
        raise InputError(f"a corpus is two aligned files or one TSV file; {len(corpus)} files were given")
    if any(gives_itself_once(path) for path in corpus):
        raise InputError("the corpus is read twice, which standard input ('-') or a pipe cannot be: name files")
    facts = [FileFacts(str(path)) for path in corpus]
    problems = _Problems()
    held_out = {str(path): _held_out_lines(path) for path in against}
    report = check_pairs(_pairs(corpus, facts, problems), against=held_out)
    report.files = facts
    if len(facts) == 2 and facts[0].lines != facts[1].lines:
        where = f"{facts[0].path} has {facts[0].lines}, {facts[1].path} has {facts[1].lines}"
        gap = abs(facts[0].lines - facts[1].lines)
        report.findings.insert(0, Finding("line counts differ", gap, [min(f.lines for f in facts) + 1], where))
    if problems.no_tab.count:
        report.findings.insert(0, Finding("no tab", problems.no_tab.count, problems.no_tab.lines, facts[0].path))
    for fact in facts:
        report.findings += _file_findings(fact)
    wanted = {line for finding in report.findings for line in finding.lines}
    blind = [FileFacts(fact.path) for fact in facts]
    for number, pair in enumerate(_pairs(corpus, blind, _Problems()), 1):
        if number in wanted:
            report.examples[number] = pair
    return report


def check_pairs(pairs: Iterable[tuple[str, str]], *, against: Mapping[str, Iterable[str]] | None = None) -> CheckReport:
    """Check pairs that are read once; `against` maps names to held-out texts, compared with both sides."""
    traces = _Traces()
    sides = {name: Sightings() for name in ("empty source", "empty target", "identical sides")}
    held_out = {}
    for name, texts in (against or {}).items():
        kept = list(texts)
        held_out[name] = HeldOut(kept), HeldOut(kept)
    for number, (source, target) in enumerate(pairs, 1):
        blank = not source.strip(), not target.strip()
        if blank[0]:
            sides["empty source"].add(number)
        if blank[1]:
            sides["empty target"].add(number)
        if not blank[0] and source == target:
            sides["identical sides"].add(number)
        traces.add(source, target, any(blank))
        if held_out:
            target_hash, target_key = hash_text(target), normal_key(target)
            for on_source, on_target in held_out.values():
                on_source.look(number, traces.source[-1], traces.key[-1] or None)
                on_target.look(number, target_hash, hash_text(target_key) if target_key else None)
    report = CheckReport(pairs=len(traces.source))
    if not traces.source:
        report.findings.append(Finding("no pairs", 1, []))
        return report
    report.findings += [Finding(name, seen.count, seen.lines) for name, seen in sides.items() if seen.count]
    report.findings += traces.findings()
    report.ratios, report.distinct_sources = traces.ratios(), len(np.unique(traces.view(traces.source)))
    for name, (on_source, on_target) in held_out.items():
        report.findings += _overlap_findings(name, on_source, on_target)
    return report


class _Traces:
    """The few bytes of each pair that stay: hashes of pair, source and source key, and the length ratio."""

    def __init__(self) -> None:
        self.source, self.pair, self.key = array("Q"), array("Q"), array("Q")
        self.ratio = array("f")

    def add(self, source: str, target: str, blank: bool) -> None:
        key = normal_key(source)
        self.source.append(hash_text(source))
        self.key.append(hash_text(key) if key else 0)
        self.pair.append(hash_text(f"{len(source)} {source}{target}"))
        # Short sides say little ("Ja" for "Yes, please"), so that they are not looked at.
        told = not blank and max(len(source), len(target)) >= RATIO_CHARACTERS
        self.ratio.append(math.log(len(target) / len(source)) if told else math.nan)

    @staticmethod
    def view(column: "array[Any]") -> NDArray[Any]:
        return np.frombuffer(column, dtype=np.float32 if column.typecode == "f" else np.uint64)

    def findings(self) -> list[Finding]:
        source, pair, key = self.view(self.source), self.view(self.pair), self.view(self.key)
        ratio = self.view(self.ratio)
        with np.errstate(invalid="ignore"):
            middle = np.nanmedian(ratio) if np.isfinite(ratio).any() else 0.0
            outliers = np.abs(ratio - middle) > math.log(RATIO_FACTOR)
        found = {
            "length ratio": np.flatnonzero(outliers),
            "duplicate pair": _duplicates(pair),
            "other translation": _repeats(source, pair),
            "near-duplicate source": _repeats(key, source),
        }
        return [
            Finding(name, len(places), [int(place) + 1 for place in places[:KEPT]])
            for name, places in found.items()
            if len(places)
        ]

    def ratios(self) -> dict[str, float]:
        ratio = self.view(self.ratio)
        known = ratio[np.isfinite(ratio)]
        if not len(known):
            return {}
        points = {"lowest": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "highest": 1.0}
        return {name: round(float(np.exp(np.quantile(known, q))), 3) for name, q in points.items()}


@dataclass
class _Problems:
    no_tab: Sightings = field(default_factory=Sightings)


def _pairs(corpus: Sequence[str | Path], facts: Sequence[FileFacts], problems: _Problems) -> Iterator[tuple[str, str]]:
    """The pairs as far as both files go; a line of a TSV without a tab is a pair without a target."""
    if len(corpus) == 1:
        for number, line in enumerate(scan_lines(corpus[0], facts[0]), 1):
            fields = line.split("\t")
            if len(fields) < 2:
                problems.no_tab.add(number)
                fields.append("")
            yield fields[0], fields[1]
        return
    for source, target in zip_longest(*(scan_lines(path, fact) for path, fact in zip(corpus, facts, strict=True))):
        if source is not None and target is not None:
            yield source, target


def _held_out_lines(path: str | Path) -> Iterator[str]:
    """The lines of a held-out file; of a TSV its first column."""
    is_tsv = any(suffix.lower() == ".tsv" for suffix in Path(path).suffixes[-2:])
    for line in scan_lines(path, FileFacts(str(path))):
        yield line.split("\t")[0] if is_tsv else line


def _file_findings(fact: FileFacts) -> list[Finding]:
    found: list[Finding] = []
    if fact.not_utf8.count:
        note = " (it looks like UTF-16)" if fact.utf16 else ""
        found.append(Finding("not UTF-8", fact.not_utf8.count, fact.not_utf8.lines, fact.path + note))
    if fact.damage:
        found.append(Finding("damaged archive", 1, [], f"{fact.path}: {fact.damage}"))
    found += [Finding("odd character", s.count, s.lines, f"{fact.path}: {name}") for name, s in fact.odd.items()]
    if fact.byte_order_mark:
        found.append(Finding("byte order mark", 1, [1], fact.path))
    if fact.carriage_return_ends:
        found.append(Finding("CRLF line ends", fact.carriage_return_ends, [], fact.path))
    if fact.lines and not fact.final_newline:
        found.append(Finding("no final line end", 1, [fact.lines], fact.path))
    return found


def _overlap_findings(name: str, on_source: HeldOut, on_target: HeldOut) -> list[Finding]:
    """What was found on the side that the file evidently belongs to.

    Words such as "Status" are the same in many languages, so that a file finds some of its texts on the other side too.
    """
    where = f"{name}: of {len(on_source)} different texts"
    if on_target.exact + on_target.near > on_source.exact + on_source.near:
        return [Finding("held-out target in corpus", on_target.exact, on_target.exact_lines.lines, where)]
    findings = (
        Finding("held-out text in corpus", on_source.exact, on_source.exact_lines.lines, where),
        Finding("held-out text nearly in corpus", on_source.near, on_source.near_lines.lines, where),
    )
    return [finding for finding in findings if finding.count]


def _repeats(group: NDArray[Any], member: NDArray[Any]) -> NDArray[np.int64]:
    """Places whose group came before, but not with this member, in rising order; group 0 is no group.

    With three members a, b, b of one group in this order, the place of the first b is the only one.
    """
    order = np.lexsort((member, group))  # stable: places of one (group, member) stay in rising order
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (group[order][1:] != group[order][:-1]) | (member[order][1:] != member[order][:-1])
    firsts = np.sort(order[new])
    firsts = firsts[np.argsort(group[firsts], kind="stable")]
    groups = group[firsts]
    return np.sort(firsts[1:][(groups[1:] == groups[:-1]) & (groups[1:] != 0)])


def _duplicates(values: NDArray[Any]) -> NDArray[np.int64]:
    """Places whose value came before, in rising order."""
    order = np.argsort(values, kind="stable")
    return np.sort(order[1:][values[order][1:] == values[order][:-1]])
