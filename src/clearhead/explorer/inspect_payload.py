"""What the report of an inspection embeds: a head of JSON, the evidence, and packed arrays (`inspect_coding`)."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clearhead.base.errors import InputError
from clearhead.explorer.inspect_coding import WHOLE, Arrays, Json, coded_layer, coded_scores
from clearhead.inspection.records import (
    AttentionLayer,
    AttentionRecord,
    EvidenceRecord,
    Finding,
    LensLayer,
    Token,
    TokenScores,
    Unit,
)

__all__ = ["FORMAT", "MEASURES", "ROOM", "SHADES", "Payload", "pack"]

FORMAT = "clearhead inspect 1"
SHADES = (255, 127, 63)
"""Steps of the square root where a map is kept in 8 bits: the first with which the file is small enough."""
MEASURES = ("links", "rank-correlation", "named")
"""What a calibration score can be of: each has words of its own on the page (`shell.calibrated.MEASURE`)."""
ROOM = 1_700_000
"""Bytes that arrays and evidence may take, written in base64: with 128 tokens and 144 heads the page is to stay below
2 MB together with its script, style and words, which are some 200 kB."""


@dataclass(frozen=True)
class Payload:
    """`head` tells what there is and where its array begins; `evidence` is JSON and `arrays` numbers, each by gzip."""

    head: Json
    evidence: bytes
    arrays: bytes


def pack(
    attention: AttentionRecord,
    evidence: EvidenceRecord | None = None,
    sample: EvidenceRecord | None = None,
    calibration: Mapping[str, Mapping[str, float | None]] | None = None,
    measures: Mapping[str, str] | None = None,
) -> Payload:
    """The payload of one pair, the evidence on that pair, and the evidence from a sample of many.

    Raises InputError if the evidence is of another model or of the wrong scope, if a map does not fit its tokens, or if
    a method's calibration is said to be of something that is none of `MEASURES`.
    """
    told = _calibration(calibration, measures or {})
    _check(attention, evidence, "sentence")
    _check(attention, sample, "sample")
    for steps in SHADES:
        payload = _packed(attention, evidence, sample, told, steps)
        small = 4 * (len(payload.arrays) + len(payload.evidence)) <= 3 * ROOM
        if small or max(len(attention.source), len(attention.prefix)) <= WHOLE:
            break
    return payload


def _packed(
    attention: AttentionRecord,
    evidence: EvidenceRecord | None,
    sample: EvidenceRecord | None,
    calibration: Json,
    steps: int,
) -> Payload:
    arrays = Arrays(steps)
    head = {
        "format": FORMAT,
        "meta": _meta(attention),
        "tokens": {
            "source": _tokens(attention.source),
            "prefix": _tokens(attention.prefix),
            "gold": _tokens(attention.gold),
        },
        "logProbs": _numbers(attention.log_probs.tolist()),
        "layers": [coded_layer(layer, attention, arrays) for layer in attention.layers],
    }
    told = {
        "sentence": None if evidence is None else _evidence(evidence, attention.layers, arrays),
        "sample": None if sample is None else _evidence(sample, attention.layers, arrays),
        **calibration,
    }
    return Payload(head, _zip(_json(told).encode()), _zip(bytes(arrays.held)))


def _check(attention: AttentionRecord, evidence: EvidenceRecord | None, scope: str) -> None:
    if evidence is None:
        return
    if evidence.scope != scope:
        raise InputError(f"evidence about a {evidence.scope} was given where that about a {scope} belongs: swap them")
    own, other = attention.provenance, evidence.provenance
    if own.fingerprint != other.fingerprint:
        raise InputError(
            f"the evidence about the {scope} is of model {other.model} ({other.fingerprint[:12]}), the attention of "
            f"{own.model} ({own.fingerprint[:12]}): inspect one model"
        )


def _calibration(scores: Mapping[str, Mapping[str, float | None]] | None, measures: Mapping[str, str]) -> Json:
    for method, measure in measures.items():
        if measure not in MEASURES:
            raise InputError(
                f"the calibration of the method {method!r} is said to be of {measure!r}, which a report has no words "
                f"for; it knows {', '.join(MEASURES)}"
            )
    told = None if scores is None else {method: _named(each) for method, each in scores.items()}
    return {"calibration": told, "measures": dict(measures)}


def _meta(attention: AttentionRecord) -> Json:
    own = attention.provenance
    return {
        "model": own.model,
        "fingerprint": own.fingerprint,
        "tokenizer": own.tokenizer,
        "family": own.family,
        "dtype": own.dtype,
        "capture": own.capture,
        "dropout": own.dropout,
        "versions": own.versions,
        "origin": attention.origin,
        "rank": attention.rank,
        "score": _number(attention.score),
        "languages": list(attention.languages),
        "sourceText": attention.source_text,
        "targetText": attention.target_text,
    }


def _tokens(tokens: Sequence[Token]) -> list[Json]:
    return [{"text": each.text, "id": each.id, "kind": each.kind, "word": each.word} for each in tokens]


# --------------------------------------------------------------------------------------------------------- the evidence


def _evidence(record: EvidenceRecord, layers: Sequence[AttentionLayer], arrays: Arrays) -> Json:
    return {
        "scope": record.scope,
        "pairs": record.pairs,
        "tokens": record.tokens,
        "settings": dict(record.settings),
        "findings": [_finding(each) for each in record.findings],
        "scores": [_scores(each, layers, arrays) for each in record.scores],
        "lens": [_lens(each) for each in record.lens],
        "curves": [
            {
                "method": each.method,
                "name": each.name,
                "xName": each.x_name,
                "x": _numbers(each.x),
                "series": {name: _numbers(line) for name, line in each.series.items()},
                "settings": _named(each.settings),
            }
            for each in record.curves
        ],
        "probes": [
            {
                "label": each.label,
                "place": each.place,
                "layer": each.layer,
                "kind": each.kind,
                "accuracy": _number(each.accuracy),
                "control": _number(each.control),
                "selectivity": _number(each.selectivity),
                "majority": _number(each.majority),
                "untrained": _number(each.untrained),
                "classes": each.classes,
                "examples": each.examples,
            }
            for each in record.probes
        ],
    }


def _finding(found: Finding) -> Json:
    return {
        "method": found.method,
        "unit": _unit(found.unit),
        "values": _named(found.values),
        "words": dict(found.words),
        "settings": _named(found.settings),
    }


def _unit(unit: Unit | None) -> Json | None:
    return None if unit is None else {"stack": unit.stack, "layer": unit.layer, "head": unit.head}


def _scores(scores: TokenScores, layers: Sequence[AttentionLayer], arrays: Arrays) -> Json:
    return {
        "method": scores.method,
        "unit": _unit(scores.unit),
        "signed": scores.signed,
        "source": None if scores.source is None else coded_scores(scores.source, layers, arrays),
        "prefix": None if scores.prefix is None else coded_scores(scores.prefix, layers, arrays),
        "series": {name: _numbers(line) for name, line in scores.series.items()},
        "settings": _named(scores.settings),
    }


def _lens(layer: LensLayer) -> Json:
    return {
        "layer": layer.layer,
        "places": [
            {
                "likeliest": [[*_tokens([token]), _number(chance)] for token, chance in place.likeliest],
                "goldRank": place.gold_rank,
                "goldProbability": _number(place.gold_probability),
                "divergence": _number(place.divergence),
            }
            for place in layer.places
        ],
    }


def _named(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: _number(value) for name, value in values.items()}


def _numbers(values: Sequence[float | None]) -> list[float | None]:
    return [_number(value) for value in values]


def _number(value: float | None) -> float | None:
    """Nine digits, which tell every float32 from its neighbours; None for what JSON has no number for."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.9g}")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _zip(data: bytes) -> bytes:
    """No time stands in them: the same data gives the same bytes. A higher level would gain 1 % for thrice the time."""
    return gzip.compress(data, compresslevel=6, mtime=0)
