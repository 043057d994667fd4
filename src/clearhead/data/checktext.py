"""The report of the data doctor as text for people."""

from collections.abc import Sequence
from typing import Any

from clearhead.data.check import CheckReport, Finding
from clearhead.data.filescan import FileFacts

__all__ = ["to_text"]

MARKS = {"error": "ERROR", "warning": "warn ", "note": "note "}
EXCERPT = 60
EXAMPLES = 2


def to_text(report: CheckReport) -> str:
    """Files first, then the corpus, then findings, the worst first, each with some lines and what follows from it."""
    lines = [_file(facts) for facts in report.files]
    if report.corpus and not report.files:
        lines.append(f"{report.corpus}: {report.format}")
    lines.append(f"{report.pairs:,} pairs, {report.distinct_sources:,} different sources")
    if report.ratios:
        quantiles = " · ".join(f"{name} {value:.2f}" for name, value in report.ratios.items())
        lines.append(f"target characters / source characters: {quantiles}")
    if report.train:
        lines.append(_train(report.train, report.refused))
    for rule, told in (("languages", report.language_rule), ("scripts", report.script_rule)):
        if told:
            lines.append(f"wrong {rule}: {told}")
    order = list(MARKS)
    for finding in sorted(report.findings, key=lambda finding: order.index(finding.level)):
        lines += _finding(finding, report)
    if not report.findings:
        lines.append("nothing to complain about")
    return "\n".join(lines)


def _file(facts: FileFacts) -> str:
    mean = facts.words / max(facts.lines, 1)
    text = f"{facts.path}: {facts.lines:,} lines, {facts.words:,} words ({mean:.1f} a line)"
    if facts.longest_line:
        text += f", longest line {facts.longest_line} with {facts.longest_characters:,} characters"
    return text


def _finding(finding: Finding, report: CheckReport) -> list[str]:
    where = f" in {finding.where}" if finding.where else ""
    head = f"{MARKS[finding.level]} {finding.name}: {finding.count:,}{where}; {finding.meaning}"
    if not finding.lines:
        return [head]
    places = [report.place(number) for number in finding.lines]
    more = ", …" if finding.count > len(places) else ""
    if all(place.startswith("line ") for place in places):  # "line 3, 4, 9" is read faster than the word thrice
        head += f" (line {', '.join(place.removeprefix('line ') for place in places)}{more})"
    else:
        head += f" ({_excerpt('; '.join(places), 3 * EXCERPT)}{more})"
    shown = [
        (report.place(line), report.examples[line]) for line in finding.lines[:EXAMPLES] if line in report.examples
    ]
    return [
        head,
        *(
            f"        {_excerpt(place.removeprefix('line '))}: {_excerpt(source)} ⇥ {_excerpt(target)}"
            for place, (source, target) in shown
        ),
    ]


def _train(train: dict[str, Any], refused: Sequence[str]) -> str:
    if refused:
        return f"training would use none of them: it refuses the text ({', '.join(dict.fromkeys(refused))})"
    dropped = ", ".join(f"{reason} {count:,}" for reason, count in train["dropped"].items() if count)
    return f"training would use {train['kept']:,} of them ({train['by']}" + (f"; {dropped})" if dropped else ")")


def _excerpt(text: str, most: int = EXCERPT) -> str:
    """The beginning of a text, with what would disturb a terminal shown as escapes."""
    short = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in short)
