"""The report of the data doctor as text for people."""

from clearhead.data.check import CheckReport, Finding
from clearhead.data.filescan import FileFacts

__all__ = ["to_text"]

MARKS = {"error": "ERROR", "warning": "warn ", "note": "note "}
EXCERPT = 60
EXAMPLES = 2


def to_text(report: CheckReport) -> str:
    """Files first, then the corpus, then findings, the worst first, each with some lines and what follows from it."""
    lines = [_file(facts) for facts in report.files]
    lines.append(f"{report.pairs:,} pairs, {report.distinct_sources:,} different sources")
    if report.ratios:
        quantiles = " · ".join(f"{name} {value:.2f}" for name, value in report.ratios.items())
        lines.append(f"target characters / source characters: {quantiles}")
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
    more = ", …" if finding.count > len(finding.lines) else ""
    head += f" (line {', '.join(map(str, finding.lines))}{more})"
    shown = [(line, report.examples[line]) for line in finding.lines[:EXAMPLES] if line in report.examples]
    return [head, *(f"        {line}: {_excerpt(pair[0])} ⇥ {_excerpt(pair[1])}" for line, pair in shown)]


def _excerpt(text: str) -> str:
    """The beginning of a text, with what would disturb a terminal shown as escapes."""
    short = text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in short)
