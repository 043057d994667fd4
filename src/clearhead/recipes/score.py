"""How likely a saved model finds given translations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from clearhead.base.errors import DecodingError
from clearhead.decoding.config import DecodingConfig
from clearhead.formats.lines import write_lines
from clearhead.formats.pairs import read_pairs
from clearhead.formats.pharaoh import pharaoh_line
from clearhead.recipes.alignments import Linker
from clearhead.recipes.translation import Scored
from clearhead.recipes.translator import Progress, Translator

__all__ = ["ScoreTotals", "as_json", "score_files"]


@dataclass
class ScoreTotals:
    """The sums over a file. Tokens count EOS."""

    lines: int = 0
    tokens: int = 0
    log_prob: float = 0.0
    failed: int = 0

    def add(self, scored: Scored) -> None:
        """Count one more line."""
        self.lines += 1
        if "failed" in scored.flags:
            self.failed += 1
        else:
            self.tokens += len(scored.token_log_probs)
            self.log_prob += scored.log_prob

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a token."""
        return math.exp(-self.log_prob / self.tokens) if self.tokens else math.nan

    def __str__(self) -> str:
        failed = f"; {self.failed:,} failed" if self.failed else ""
        return f"{self.lines:,} lines, {self.tokens:,} tokens, perplexity {self.perplexity:.4f}{failed}"


def score_files(  # noqa: PLR0913 (every choice by name)
    translator: Translator,
    config: DecodingConfig,
    source: str | Path,
    target: str | Path,
    output: str | Path,
    *,
    json_lines: bool = False,
    linker: Linker | None = None,
    alignments: str | Path | None = None,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> ScoreTotals:
    """Write one line a pair: log-probability and perplexity with a tab between them, or an object (`as_json`).

    A pair that fails is written as `nan	nan`. `alignments` gets the links of `linker`, a line a pair in Pharaoh
    format. Memory does not grow with the files. Raises DataError with both counts when they differ in length.
    """
    totals = ScoreTotals()
    read = 0

    def counted() -> Iterator[tuple[str, str]]:
        nonlocal read
        for pair in read_pairs(source, target):
            read += 1
            yield pair

    with ExitStack() as stack:
        write = stack.enter_context(write_lines(output))
        write_links = None if alignments is None else stack.enter_context(write_lines(alignments))
        found = translator.score_stream(counted(), config, linker=linker, batch_tokens=batch_tokens, progress=progress)
        for scored in found:
            write(as_json(scored) if json_lines else f"{scored.log_prob:.6f}\t{scored.perplexity:.4f}")
            if write_links is not None:
                write_links(pharaoh_line(scored.links or ()))
            totals.add(scored)
        if totals.lines != read:
            raise DecodingError(f"{read} pairs in but {totals.lines} scores out; this is a fault of clearhead")
    return totals


def as_json(scored: Scored) -> str:
    """One object on one line: log_prob, score, perplexity, tokens, token_log_probs, flags; null for what failed."""
    failed = "failed" in scored.flags
    table = {
        "log_prob": None if failed else scored.log_prob,
        "score": None if failed else scored.score,
        "perplexity": None if failed else scored.perplexity,
        "tokens": scored.tokens,
        "token_log_probs": scored.token_log_probs,
        "flags": scored.flags,
    }
    return json.dumps(table, ensure_ascii=False, allow_nan=False)
