"""The data doctor: what is in a corpus, and what is wrong with it, in two streaming runs.

Nothing is refused here; what training would refuse is reported as an error, what it would learn badly from as a
warning (`rules.py`). Of each pair hashes and lengths are kept, beyond half a million pairs in a temporary file
(`traces.py`), so that the memory hardly grows with the corpus. Hashes have 64 bits: in a corpus of 10 million pairs a
count of duplicates is off by one with probability 1 in 300,000.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.data.entries import BY_NAME, Layout, Reading, chunks, held_out_texts, languages_of, open_rereadable
from clearhead.data.filescan import KEPT, FileFacts, Sightings
from clearhead.data.overlap import Overlap
from clearhead.data.rules import PAIR_RULES, RULES, Level, PairRules
from clearhead.data.sides import SideModel
from clearhead.data.traces import Traces
from clearhead.data.trainable import TrainCount, TrainLimits
from clearhead.formats.corpus import Corpus, Entry

__all__ = ["CheckReport", "Finding", "check_files", "check_pairs"]


@dataclass(frozen=True)
class Finding:
    """One kind of thing found, how often, where first (entries from 1), and in which file if in one alone."""

    name: str
    count: int
    lines: list[int]
    where: str = ""

    @property
    def level(self) -> Level:
        """ "error" (training refuses it, or scores become worthless), "warning" or "note"."""
        return RULES[self.name].level

    @property
    def meaning(self) -> str:
        """What follows from it."""
        return RULES[self.name].meaning


@dataclass
class CheckReport:
    """All that was found. `ratios` are quantiles of target characters / source characters.

    `places` names entries as their file does ("line 12", "entry 'greeting' (line 40)"), and `examples` holds their
    texts, both by number and for the entries of `findings`. `language_rule` and `script_rule` say whether and from
    what it was told that a text is in a wrong language or script; `train` what training would use.
    """

    pairs: int = 0
    files: list[FileFacts] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    distinct_sources: int = 0
    examples: dict[int, tuple[str, str]] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    corpus: str = ""
    format: str = ""
    languages: tuple[str, str] | None = None
    language_rule: str = ""
    script_rule: str = ""
    train: dict[str, Any] = field(default_factory=dict)

    @property
    def errors(self) -> int:
        """How many kinds of errors were found; 0 means that the corpus can be trained on."""
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def refused(self) -> list[str]:
        """The kinds of errors for which training refuses the files; then it uses none of the pairs."""
        return [finding.name for finding in self.findings if RULES[finding.name].refused]

    def count(self, name: str) -> int:
        """How often a kind was found in all."""
        return sum(finding.count for finding in self.findings if finding.name == name)

    def place(self, number: int) -> str:
        """How entry `number` is called."""
        return self.places.get(number, f"line {number}")

    def to_dict(self) -> dict[str, Any]:
        """For JSON. Keys are added in later versions, never renamed or removed.

        corpus, format           names of the files; plain, tsv, jsonl, po, tmx or xliff
        languages                [source, target] or null
        pairs, distinct_sources  entries read; different texts among their sources
        length_ratio             {"lowest", "5 %", "median", "95 %", "highest"}: target / source characters; or {}
        errors                   how many of the findings are errors
        files                    of lines and TSV: facts of each file (`FileFacts.to_dict`); else []
        findings                 [{name, level, meaning, where, count, lines, places}]; level: error, warning, note;
                                 where: the file, if it is of one alone; lines: numbers of the first entries;
                                 places: their names
        examples                 {number of an entry: [source, target]}
        checked                  {"languages", "scripts"}: from what wrong ones were told, or why they were not
        train                    {by, kept, dropped: {reason: count}, refused: [name of a finding]}: what training would
                                 use; none where it refuses a file
        """
        return {
            "corpus": self.corpus,
            "format": self.format,
            "languages": list(self.languages) if self.languages else None,
            "pairs": self.pairs,
            "distinct_sources": self.distinct_sources,
            "length_ratio": self.ratios,
            "errors": self.errors,
            "files": [facts.to_dict() for facts in self.files],
            "findings": [
                {"name": f.name, "level": f.level, "meaning": f.meaning, "where": f.where, "count": f.count}
                | {"lines": f.lines, "places": [self.place(number) for number in f.lines]}
                for f in self.findings
            ],
            "examples": {str(number): list(pair) for number, pair in sorted(self.examples.items())},
            "checked": {"languages": self.language_rule, "scripts": self.script_rule},
            "train": self.train | ({"kept": 0} if self.refused else {}) | {"refused": self.refused},
        }


def check_files(
    files: Sequence[str | Path],
    *,
    against: Sequence[str | Path] = (),
    languages: tuple[str, str] | None = None,
    limits: TrainLimits | None = None,
    layout: Layout = BY_NAME,
) -> CheckReport:
    """Check a corpus of any format (`formats/corpus.py`), and compare it with held-out files (`against`).

    `languages` (source, target) are needed for TMX; without them they are those that the names of two files end in, if
    these are languages. `limits` let the report count what training would drop for its length. `layout` says what names
    of files do not tell, of held-out files as well.

    Raises InputError if there are not one or two files, DataError for a file that cannot be opened.
    """
    corpus = open_rereadable(files, languages, layout)
    languages = languages or languages_of(files)
    overlaps = {str(path): Overlap.of(held_out_texts(path, languages, layout)) for path in against}
    reading = Reading(corpus)
    examination = _Examination(PairRules(languages), overlaps, limits)
    sides = None if examination.rules.tells_scripts else SideModel()
    for chunk in chunks(reading.entries()):
        for entry in chunk:
            examination.read(entry)
        if sides is not None:
            sides.learn([entry.source for entry in chunk], [entry.target for entry in chunk])
    report = examination.report()
    report.corpus, report.format, report.languages = corpus.name, corpus.format, languages
    report.script_rule = examination.script_rule(languages)
    report.language_rule = _language_rule(sides)
    report.findings = _file_findings(reading) + report.findings
    _second_run(corpus, report, sides if sides is not None and sides.usable else None)
    report.findings.sort(key=lambda finding: finding.name in PAIR_RULES)  # those of files come first
    report.files = reading.files
    return report


def check_pairs(
    pairs: Iterable[tuple[str, str]],
    *,
    against: Mapping[str, Iterable[str]] | None = None,
    languages: tuple[str, str] | None = None,
) -> CheckReport:
    """Check pairs that are read once; `against` maps names to held-out texts, compared with both sides.

    Wrong languages of one script cannot be told in a single reading, and are not looked for.
    """
    overlaps = {name: Overlap.of(texts) for name, texts in (against or {}).items()}
    examination = _Examination(PairRules(languages), overlaps, None)
    for number, (source, target) in enumerate(pairs, 1):
        examination.read(Entry(f"line {number}", source, target, "translated"))
    report = examination.report()
    report.script_rule, report.languages = examination.script_rule(languages), languages
    return report


class _Examination:
    """What the first run gathers."""

    def __init__(self, rules: PairRules, overlaps: Mapping[str, Overlap], limits: TrainLimits | None) -> None:
        self.rules = rules
        self._overlaps = overlaps
        self._seen: dict[str, Sightings] = {}
        self._traces = Traces()
        self._train = TrainCount(limits)

    def read(self, entry: Entry) -> None:
        number = len(self._traces) + 1
        source, target = entry.source, entry.target
        for name in self.rules.broken(source, target):
            self._seen.setdefault(name, Sightings()).add(number)
        if entry.state == "review":
            self._seen.setdefault("needs review", Sightings()).add(number)
        self._traces.add(source, target)
        self._train.add(source, target, review=entry.state == "review")
        for overlap in self._overlaps.values():
            overlap.look(number, source, target)

    def report(self) -> CheckReport:
        report = CheckReport(pairs=len(self._traces), train=self._train.to_dict())
        if not report.pairs:
            report.findings.append(Finding("no pairs", 1, []))
            return report
        found = [Finding(name, seen.count, seen.lines) for name, seen in self._seen.items()]
        found += [
            Finding(name, flags.count, [place + 1 for place in flags.first(KEPT)])
            for name, flags in self._traces.broken().items()
            if flags.count
        ]
        report.findings = sorted(found, key=lambda finding: PAIR_RULES.index(finding.name))
        report.ratios, report.distinct_sources = self._traces.ratios(), self._traces.distinct_sources()
        report.findings += _alignment_findings(self._traces)
        for name, overlap in self._overlaps.items():
            report.findings += _overlap_findings(name, overlap)
        return report

    def script_rule(self, languages: tuple[str, str] | None) -> str:
        if languages is None:
            return "not told: the languages are not known (--languages)"
        return f"letters of {languages[0]} and {languages[1]}"


def _language_rule(sides: SideModel | None) -> str:
    if sides is None:
        return "by script, since the two languages have different ones"
    if not sides.usable:
        return "not told: the corpus has too little text to learn its two languages from"
    return "trigrams of letters, learnt from the two sides of this corpus"


def _second_run(corpus: Corpus, report: CheckReport, sides: SideModel | None) -> None:
    """Read the corpus again, for what only the whole of it could teach, and for the texts of the entries named."""
    wanted = {number for finding in report.findings for number in finding.lines}
    seen = {"wrong source language": Sightings(), "wrong target language": Sightings()}
    number = 0
    for chunk in chunks(Reading(corpus).entries()):
        if sides is not None:
            for index, name in sides.rules_broken([entry.source for entry in chunk], [entry.target for entry in chunk]):
                if seen[name].count < KEPT:
                    wanted.add(number + index + 1)
                seen[name].add(number + index + 1)
        for entry in chunk:
            number += 1
            if number in wanted:
                report.examples[number] = entry.source, entry.target
                report.places[number] = entry.where
    report.findings += [Finding(name, count.count, count.lines) for name, count in seen.items() if count.count]


def _file_findings(reading: Reading) -> list[Finding]:
    found: list[Finding] = []
    ended = any(fact.endless_line for fact in reading.files)  # before the lines were counted
    if len(reading.files) == 2 and reading.files[0].lines != reading.files[1].lines and not ended:
        counts = [facts.lines for facts in reading.files]
        where = ", ".join(f"{facts.path} has {facts.lines}" for facts in reading.files)
        found.append(Finding("line counts differ", abs(counts[0] - counts[1]), [min(counts) + 1], where))
    if reading.no_tab.count:
        where = reading.files[0].path
        if reading.no_tab.count == reading.files[0].lines:
            where += " (is it one side of two? then name the other file as well)"
        found.append(Finding("no tab", reading.no_tab.count, reading.no_tab.lines, where))
    if reading.damage:
        found.append(Finding("damaged file", 1, [], reading.damage))
    for fact in reading.files:
        found += _findings_of_file(fact)
    return found


def _findings_of_file(fact: FileFacts) -> list[Finding]:
    found: list[Finding] = []
    if fact.not_utf8.count:
        note = " (it looks like UTF-16)" if fact.utf16 else ""
        found.append(Finding("not UTF-8", fact.not_utf8.count, fact.not_utf8.lines, fact.path + note))
    if fact.endless_line:
        found.append(Finding("endless line", 1, [fact.endless_line], fact.path))
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


def _alignment_findings(traces: Traces) -> list[Finding]:
    if shift := traces.shift():
        lines = f"{abs(shift.offset)} line{'s' * (abs(shift.offset) > 1)}"
        way = "later" if shift.offset > 0 else "earlier"
        where = f"the translations, which from about here on stand {lines} {way}"
        return [Finding("sides may be shifted", 1, [shift.begin + 1], where)]
    if share := traces.strangeness():
        where = f"lengths that do not go together: {100 * share:.0f} % of the pairs have an unusual ratio"
        return [Finding("sides may be shifted", 1, [], where)]
    return []


def _overlap_findings(name: str, overlap: Overlap) -> list[Finding]:
    """What was found on the side that the file evidently belongs to: the pairs, and of how many texts they are."""

    def finding(rule: str, pairs: Sightings, texts: int) -> Finding:
        return Finding(rule, pairs.count, pairs.lines, f"{name}: {texts} of {len(overlap.source)} different texts")

    source, target = overlap.source, overlap.target
    if overlap.on_target:
        findings = [finding("held-out target in corpus", target.exact_lines, target.exact)]
    else:
        findings = [
            finding("held-out text in corpus", source.exact_lines, source.exact),
            finding("held-out text nearly in corpus", source.near_lines, source.near_texts),
        ]
    return [each for each in findings if each.count]
