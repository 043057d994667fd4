"""The work behind `clearhead data convert`: pairs from one format into another, as a stream."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from clearhead.base.errors import InputError
from clearhead.base.log import logger
from clearhead.formats.corpus import Corpus, Format, output_format, write_corpus
from clearhead.formats.fitting import Breaks, Fitting
from clearhead.formats.lines import is_standard_stream

__all__ = ["ConvertReport", "convert_corpus"]

LEFT_OUT = {
    "empty": "without a source or a translation",
    "review": "needing review (--fuzzy keep takes them)",
    "closed": 'not to be translated (obsolete, or translate="no")',
}


@dataclass
class ConvertReport:
    """What became of the entries; `left_out` counts them by state ("empty", "review", "closed").

    An entry with plural forms counts once a form. `changed` counts the pairs in which line breaks became spaces.
    """

    read: int = 0
    written: int = 0
    changed: int = 0
    left_out: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LEFT_OUT, 0))

    def __str__(self) -> str:
        """Two lines at most."""
        lines = [f"{self.written:,} of {self.read:,} entries written"]
        if self.changed:
            lines[0] += f", {self.changed:,} of them with spaces for line breaks"
        if left := [f"{count:,} {LEFT_OUT[state]}" for state, count in self.left_out.items() if count]:
            lines.append(f"  left out: {'; '.join(left)}")
        return "\n".join(lines)


def convert_corpus(
    corpus: Corpus,
    out: Sequence[str | Path],
    *,
    format: Format | Literal["auto"] = "auto",
    breaks: Breaks = "refuse",
    fuzzy: Literal["drop", "keep"] = "drop",
) -> ConvertReport:
    """Write the pairs of `corpus` into `out`, in order: one file, or two aligned ones (`formats/corpus.py`).

    Left out, and counted, are entries without a text on one of the sides, closed ones and, unless `fuzzy` is "keep",
    those that need review. Line breaks and tabs, which lines and TSV cannot hold, are refused, or with "space" each
    becomes a space. Languages and, where JSONL is written, fields are those of the corpus. The files appear whole or
    not at all. When no pair is written, a warning says so. Raises InputError or DataError.
    """
    _check_apart(corpus.files, out)
    fitting = Fitting(corpus, output_format(out, format), breaks)
    report = ConvertReport()
    with write_corpus(out, corpus.languages, format=format, fields=corpus.fields) as write:
        for where, source, target, state in corpus.states():
            report.read += 1
            if not source.strip() or not (target.strip() or state == "closed"):
                report.left_out["empty"] += 1
            elif state == "closed" or (state == "review" and fuzzy == "drop"):
                report.left_out[state] += 1
            else:
                fitting.write(write, where, source, target)
                report.written += 1
    report.changed = fitting.changed
    if not report.written:
        logger.warning("%s: no pair was written", corpus.name)
    return report


def _check_apart(files: Sequence[Path], out: Sequence[str | Path]) -> None:
    given = {path.resolve() for path in files if not is_standard_stream(path)}
    for path in out:
        if not is_standard_stream(path) and Path(path).resolve() in given:
            raise InputError(f"{path}: is to be read and would be replaced; name another file with --out")
