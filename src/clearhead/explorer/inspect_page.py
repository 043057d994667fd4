"""The report of an inspection: one HTML file that needs nothing else, and the same in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from clearhead.base.files import atomic_write
from clearhead.explorer.inspect_payload import pack
from clearhead.explorer.inspect_words import WORDS
from clearhead.explorer.single_file import base64_of, filled, policy, resource, script_json
from clearhead.explorer.walk_page import PageLanguage
from clearhead.inspection.records import AttentionRecord, EvidenceRecord

__all__ = ["ReportDisplay", "report_html", "write_report"]

Calibration = Mapping[str, Mapping[str, float | None]]
"""By method, by task, how well the method did where the answer is known; shown beside the method's name. None for a
task on which the score is not defined: it is left out."""
Measures = Mapping[str, str]
"""By method, what its scores are of: "links", "rank-correlation" or "named" (`clearhead.inspection.calibrated`)."""

SCRIPTS = (
    "kit", "tables", "data", "shell", "overview", "card", "matrix", "map", "charts", "parts", "rows", "heat", "tokens",
    "heads", "tests",
)  # fmt: skip
"""In this order: each builds on those before it."""
STYLES = ("inspect.css", "inspect_views.css")


def report_html(
    attention: AttentionRecord,
    evidence: EvidenceRecord | None = None,
    sample: EvidenceRecord | None = None,
    *,
    calibration: Calibration | None = None,
    measures: Measures | None = None,
    language: PageLanguage = "en",
) -> str:
    """The HTML of a report on one pair: no address in it leads out, and its policy lets nothing in.

    `evidence` is about the pair, `sample` about many pairs of the same model; what neither holds is shown as not
    tested. `measures` says what the scores of `calibration` are of; without it the page shows them without a word on
    that. `language` is what the page opens in (it holds both). The same records give the same page. Raises InputError
    if the records do not belong together, or for a measure that the page has no words for.
    """
    payload = pack(attention, evidence, sample, calibration, measures)
    style = "".join(map(resource, STYLES))
    script = "".join(resource(f"inspect_{name}.js") for name in SCRIPTS)
    parts = {
        "lang": "zh-CN" if language == "zh" else "en",
        "language": language,
        "policy": policy(script, style),
        "title": escape(f"clearhead · {attention.source_text[:60]}"),
        "style": style,
        "script": script,
        "words": script_json({key: [words.en, words.zh] for key, words in WORDS.items()}),
        "report": script_json(payload.head),
        "evidence": base64_of(payload.evidence),
        "arrays": base64_of(payload.arrays),
    }
    return filled(resource("inspect.html"), parts)


def write_report(
    path: str | Path,
    attention: AttentionRecord,
    evidence: EvidenceRecord | None = None,
    sample: EvidenceRecord | None = None,
    *,
    calibration: Calibration | None = None,
    measures: Measures | None = None,
    language: PageLanguage = "en",
) -> Path:
    """Write the report to `path`, whole or not at all, and return the path; see `report_html`."""
    return ReportDisplay(attention, evidence, sample, calibration, language, measures=measures).write(path)


@dataclass(frozen=True)
class ReportDisplay:
    """The report in a notebook: the last value of a cell shows itself, without a network and apart from the notebook.

    It stands in a frame of its own with no rights but to run its script and to offer downloads. `height` is in pixels.
    """

    attention: AttentionRecord
    evidence: EvidenceRecord | None = None
    sample: EvidenceRecord | None = None
    calibration: Calibration | None = None
    language: PageLanguage = "en"
    height: int = 780
    measures: Measures | None = None

    def html(self) -> str:
        """The report as a page of its own."""
        return report_html(
            self.attention,
            self.evidence,
            self.sample,
            calibration=self.calibration,
            measures=self.measures,
            language=self.language,
        )

    def write(self, path: str | Path) -> Path:
        """Write the report to `path`, whole or not at all, and return the path."""
        atomic_write(Path(path), self.html())
        return Path(path)

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="clearhead inspect" sandbox="allow-scripts allow-downloads" width="100%" '
            f'height="{self.height}" srcdoc="{escape(self.html())}"></iframe>'
        )
