"""Records made by hand for tests of the report: odd tokens, uneven stacks, all kinds of evidence, and attacks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from clearhead.inspection.records import (
    AttentionLayer,
    AttentionRecord,
    Curve,
    EvidenceRecord,
    Finding,
    LensLayer,
    LensPlace,
    Probe,
    Provenance,
    Token,
    TokenScores,
    Unit,
)
from clearhead.inspection.sites import Stack

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "{{style}}{{arrays}}",
    "\u2028\u2029<!--",
    "\"'><svg/onload=alert(3)>",
)
DEPTHS: dict[Stack, tuple[int, ...]] = {"encoder": (4, 4, 2), "decoder": (4, 1), "cross": (2, 4)}
"""Heads of every layer: stacks of other depths, layers of other widths."""
SOURCE = ("▁Zwei", "▁Kin", "der", "▁猫", "😀", "<0xE2>", "▁שלום", "▁.")
TARGET = ("▁two", "▁chil", "dren", "，", "مرحبا", "▁.")

PROVENANCE = Provenance("multi30k", "f" * 12 + "0" * 52, "e" * 64, "Transformer 3+2 layers", versions={"torch": "2"})


def tokens(pieces: Sequence[str], *, start: bool = False, end: bool = False) -> tuple[Token, ...]:
    """Pieces as tokens; a word begins where U+2581 stands; a byte or a piece of another script is its own."""
    made, word = [], -1
    for place, piece in enumerate(pieces):
        byte = piece.startswith("<0x")
        word += int(piece.startswith("▁") or not piece[0].isascii() or byte or word < 0)
        made.append(Token(piece, 10 + place, "byte" if byte else "piece", word))
    before = (Token("<s>", 1, "special"),) if start else ()
    after = (Token("</s>", 2, "special"),) if end else ()
    return (*before, *made, *after)


def weights(heads: int, rows: int, columns: int, visible: Tensor, seed: int) -> Tensor:
    """Random rows that sum to 1 and are 0 where nothing is visible, some sharp and some flat."""
    made = torch.Generator().manual_seed(seed)
    logits = torch.randn(heads, rows, columns, generator=made) * torch.linspace(0.3, 4, heads)[:, None, None]
    return logits.masked_fill(~visible, -torch.inf).softmax(-1)


def attention_record(
    source: Sequence[str] = SOURCE,
    target: Sequence[str] = TARGET,
    *,
    depths: dict[Stack, tuple[int, ...]] | None = None,
    provenance: Provenance = PROVENANCE,
    rank: int | None = None,
) -> AttentionRecord:
    """A record of these pieces; `rank` makes it one of a search."""
    read, prefix, gold = tokens(source, end=True), tokens(target, start=True), tokens(target, end=True)
    sizes = {"encoder": (len(read), len(read)), "decoder": (len(prefix),) * 2, "cross": (len(prefix), len(read))}
    layers = []
    for stack, heads in (DEPTHS if depths is None else depths).items():
        rows, columns = sizes[stack]
        seen = torch.ones(rows, columns, dtype=torch.bool)
        seen = seen.tril() if stack == "decoder" else seen
        for number, count in enumerate(heads, start=1):
            drawn = weights(count, rows, columns, seen, 100 * number + len(layers))
            layers.append(AttentionLayer(stack, number, f"{stack}.{number}", drawn, seen))
    return AttentionRecord(
        provenance,
        "given" if rank is None else "search",
        ("de", "en"),
        "".join(source).replace("▁", " ").strip(),
        "".join(target).replace("▁", " ").strip(),
        read,
        prefix,
        gold,
        -torch.linspace(0.1, 2.0, len(gold)),
        tuple(layers),
        rank,
        None if rank is None else -0.4321,
    )


def units(record: AttentionRecord) -> list[Unit]:
    """Every head of a record."""
    return [Unit(each.stack, each.layer, head + 1) for each in record.layers for head in range(len(each.weights))]


ROLES = ("previous", "next", "broad", "sink", "mixed", "aligned")


def findings(record: AttentionRecord, shift: float = 0.0) -> list[Finding]:
    """Every head method about every head, and the tests about its layers and stacks; numbers that tell units apart."""
    found = []
    for place, unit in enumerate(units(record)):
        role = ROLES[place % len(ROLES)]
        share = (place % 7) / 10 + shift
        found += [
            Finding("role", unit, {f"{role}_score": 0.5 + share / 2, f"{role}_baseline": 0.2, f"{role}_threshold": 0.4},
                    {"role": role}),
            Finding("statistics", unit, {"entropy": 1.2, "entropy_share": 0.1 + share, "sparsity": 0.3, "distance": 1.5,
                                         "confidence": 0.6, "row_error": 1e-7}),
            Finding("importance", unit, {"importance": 0.01 * place + shift, "within_layer": 0.3}),
            Finding("ablation-zero", unit, {"delta_nll": 0.02 * place - 0.01, "worst": 0.5}, settings={"pairs": 3.0}),
            Finding("ablation-mean", unit, {"delta_nll": 0.01 * place, "worst": 0.2}),
            Finding("permutation", unit, {"median_tvd": 0.05 * (place % 5), "max_tvd": 0.6},
                    settings={"shuffles": 100.0}),
            Finding("uniform", unit, {"mean_tvd": 0.04, "max_tvd": 0.3}),
            Finding("adversarial", unit, {"max_jsd": 0.31, "far": 0.25, "tvd": 0.04, "joint_jsd": 0.1},
                    settings={"epsilon": 0.05}),
            Finding("agreement", unit, {"occlusion_tau": 0.4, "occlusion_rho": 0.5, "occlusion_predictions": 7.0}),
        ]  # fmt: skip
    wider = {Unit(each.stack, each.layer) for each in record.layers} | {Unit(each.stack) for each in record.layers}
    for unit in sorted(wider, key=lambda each: (each.stack, each.layer or 0)):
        found += [
            Finding("permutation", unit, {"median_tvd": 0.7, "max_tvd": 0.9}, settings={"shuffles": 100.0}),
            Finding("uniform", unit, {"mean_tvd": 0.5, "max_tvd": 0.8}),
            Finding(
                "adversarial",
                unit,
                {"max_jsd": 0.45, "far": 0.6, "tvd": 0.04, "joint_jsd": 0.2},
                settings={"epsilon": 0.05},
            ),
        ]
    return found


def token_scores(record: AttentionRecord) -> list[TokenScores]:
    """One of every token method."""
    made = torch.Generator().manual_seed(7)
    rows, columns = len(record.gold), len(record.source)

    def scores(method: str, *, signed: bool, unit: Unit | None = None, **series: tuple[float, ...]) -> TokenScores:
        source = torch.randn(rows, columns, generator=made)
        prefix = torch.randn(rows, rows, generator=made).tril()
        if not signed:
            source, prefix = source.abs(), prefix.abs()
        return TokenScores(method, source, prefix, signed, unit, dict(series))

    cross = [each for each in record.layers if each.stack == "cross"]
    found = [TokenScores("attention", each.weights.mean(0), None, False, Unit("cross", each.layer)) for each in cross]
    return [
        *found,
        scores("value-norms", signed=False, unit=Unit("cross", 1)),
        scores("rollout", signed=False),
        scores("gradient-input", signed=True),
        scores("gradient-norm", signed=False),
        scores("integrated-gradients", signed=True, completeness_error=tuple(0.003 * t for t in range(rows)),
               steps=(32.0,) * (rows - 1) + (1024.0,)),
        scores("occlusion", signed=True),
    ]  # fmt: skip


def lens(record: AttentionRecord, layers: int = 3) -> tuple[LensLayer, ...]:
    """A lens in which the gold token rises from rank 3 to rank 1."""

    def place(layer: int, gold: Token) -> LensPlace:
        likeliest = tuple((Token(f"▁w{n}", 40 + n), 0.2 / (n + 1)) for n in range(4))
        return LensPlace(((gold, 0.5), *likeliest), max(1, layers - layer), 0.5, 0.3 * (layers - 1 - layer))

    return tuple(LensLayer(layer, tuple(place(layer, gold) for gold in record.gold)) for layer in range(layers))


def evidence_record(record: AttentionRecord) -> EvidenceRecord:
    """All that can be found about one sentence."""
    return EvidenceRecord(
        record.provenance,
        "sentence",
        1,
        len(record.gold),
        tuple(findings(record)),
        tuple(token_scores(record)),
        lens(record),
        settings={"depth": "full"},
    )


def sample_record(record: AttentionRecord) -> EvidenceRecord:
    """What a sample of many pairs adds."""
    shares = tuple(n / 10 for n in range(10))
    curves = [
        Curve("pruning", stack, "share", shares, {"nll_change": tuple(math.exp(3 * x) - 1 for x in shares),
                                                  "bleu": tuple(30 - 25 * x * x for x in shares)})
        for stack in ("encoder", "decoder", "cross")
    ]  # fmt: skip
    flattened = {"nll": (2.0, 1.5, 2.5), "entropy_share": (0.2, 0.4, 0.7)}
    curves.append(Curve("temperature", "cross", "temperature", (0.5, 1.0, 2.0), flattened))
    probes = (
        Probe("position", "encoder", 1, "linear", 0.9, 0.3, 0.1, 12, 400, 0.5),
        Probe("word-shape", "decoder", 0, "mlp", 0.8, 0.6, 0.4, 5, 400),
    )
    return EvidenceRecord(
        record.provenance,
        "sample",
        64,
        900,
        tuple(each for each in findings(record, 0.05) if each.method in ("role", "importance", "ablation-zero")),
        curves=tuple(curves),
        probes=probes,
    )


CALIBRATION: dict[str, dict[str, float | None]] = {
    "attention": {"copy": 0.98, "reverse": 0.95},
    "rollout": {"copy": 0.6},
    "ablation-zero": {"reverse": 0.9, "sort": -0.38, "copy": 0.0, "language": None},
    "importance": {"sort": None},
    "statistics": {},
}
MEASURES = {"attention": "links", "ablation-zero": "rank-correlation", "importance": "rank-correlation"}


def hostile_records() -> tuple[AttentionRecord, EvidenceRecord, EvidenceRecord]:
    """An attack in every field that holds text."""
    attack = HOSTILE[0]
    provenance = Provenance(attack, HOSTILE[1], HOSTILE[2], HOSTILE[3], HOSTILE[4], HOSTILE[0], False,
                            {HOSTILE[0]: HOSTILE[1]})  # fmt: skip
    record = attention_record(HOSTILE, HOSTILE, provenance=provenance)
    languages = (HOSTILE[4], HOSTILE[4])
    record = AttentionRecord(**{**vars(record), "languages": languages, "source_text": HOSTILE[1],
                                "target_text": attack})  # fmt: skip
    unit = Unit("cross", 1, 1)
    bad = Finding("role", unit, {attack: 1.0}, {"role": attack, HOSTILE[1]: HOSTILE[4]}, {HOSTILE[4]: 1.0})
    odd = Finding(HOSTILE[1], unit, {HOSTILE[0]: math.nan, HOSTILE[2]: math.inf})
    scores = TokenScores(attack, torch.ones(len(record.gold), len(record.source)), None, True, None,
                         {HOSTILE[1]: (1.0,) * len(record.gold)})  # fmt: skip
    evidence = EvidenceRecord(provenance, "sentence", 1, 6, (bad, odd), (scores,), lens(record),
                              settings={attack: HOSTILE[1]})  # fmt: skip
    sample = EvidenceRecord(provenance, "sample", 2, 12, (bad,), curves=(
        Curve("pruning", attack, HOSTILE[1], (0.0, 1.0), {HOSTILE[4]: (0.0, 1.0)}),), probes=(
        Probe(attack, "encoder", 0, "linear", 0.5, 0.5, 0.5, 2, 10),))  # fmt: skip
    return record, evidence, sample
