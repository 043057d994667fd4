"""What stands beside an exported file: from which model it is, how its numbers were taken, and what a row is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clearhead.base.files import atomic_write
from clearhead.inspection.records import AttentionRecord, EvidenceRecord

__all__ = ["about_evidence", "about_pair", "write_sidecar"]

_ROWS = (
    "a row is a query; in the decoder and cross stacks row t is the query that has read the prefix up to token t and "
    "predicts token t + 1 of it, which is token t of gold (counted from 0)"
)
_CAUTION = (
    "An attention weight says what was read, not why; it is no explanation of the prediction by itself "
    "(Jain and Wallace 2019; Wiegreffe and Pinter 2019)."
)


def about_pair(record: AttentionRecord) -> dict[str, Any]:
    """What the numbers of an attention record are from."""
    return {
        "rows": _ROWS,
        "caution": _CAUTION,
        "provenance": dataclasses.asdict(record.provenance),
        "origin": record.origin,
        "rank": record.rank,
        "score": record.score,
        "languages": record.languages,
        "source_text": record.source_text,
        "target_text": record.target_text,
        "source": [token.text for token in record.source],
        "prefix": [token.text for token in record.prefix],
        "gold": [token.text for token in record.gold],
    }


def about_evidence(record: EvidenceRecord) -> dict[str, Any]:
    """What the numbers of an evidence record are from."""
    return {
        "scope": record.scope,
        "pairs": record.pairs,
        "tokens": record.tokens,
        "settings": record.settings,
        "counting": "layers and heads from 1, queries and tokens from 0; no layer or head: all of them",
        "rows": _ROWS,
        "provenance": dataclasses.asdict(record.provenance),
    }


def write_sidecar(folder: Path, name: str, files: Sequence[Path], about: dict[str, Any]) -> Path:
    """Write `NAME.meta.json` about these files of `folder`, and return its path."""
    path = folder / f"{name}.meta.json"
    table = {"clearhead": "export", "version": 1, "files": [file.name for file in files], **about}
    atomic_write(path, json.dumps(table, ensure_ascii=False, allow_nan=False, indent=1, sort_keys=True) + "\n")
    return path
