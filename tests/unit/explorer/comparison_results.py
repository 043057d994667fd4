"""A results directory as `clearhead compare` leaves it, with made-up numbers that tell a known story."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from clearhead.analysis.gradients import GradientCurve
from clearhead.analysis.layer_times import LENGTHS, Layer, LayerTime, layer_flops
from clearhead.recipes.compare.lineup import LINE_UP
from clearhead.recipes.compare.results import (
    AlignmentMatrix,
    CurvePoint,
    Interval,
    LengthScore,
    ModelResult,
    Setting,
    write_result,
)

BLEU = {
    "transformer": 31.2, "seq2seq": 17.4, "seq2seq-reversed": 20.6, "encdec": 16.1, "rnnsearch": 28.3, "luong": 28.9,
    "convs2s": 29.4, "bytenet": 22.0, "luong-dot": 28.1, "luong-concat": 28.6, "luong-no-feeding": 28.2,
    "luong-local-m": 26.3, "luong-local-p": 28.8, "seq2seq-linear": 11.0, "seq2seq-elman": 13.5, "seq2seq-gru": 18.0,
    "transformer-1-head": 30.1, "transformer-2-heads": 30.9, "transformer-8-heads": 31.3, "transformer-16-heads": 30.7,
    "transformer-learned": 31.0, "transformer-no-positions": 24.4,
}  # fmt: skip
FIXED = {"seq2seq", "seq2seq-reversed", "encdec", "seq2seq-linear", "seq2seq-elman", "seq2seq-gru", "bytenet"}


def interval(value: float, half: float = 1.1) -> Interval:
    return Interval(value, value - half, value + half)


def lengths(name: str, buckets: list[tuple[int, int | None]], fall: float) -> list[LengthScore]:
    scores = [max(0.8, BLEU[name] - place * fall) for place in range(len(buckets))]
    return [
        LengthScore(low, high, 220 - 30 * place, interval(score, 1.8), score + 18.0)
        for place, ((low, high), score) in enumerate(zip(buckets, scores, strict=True))
    ]


def model(name: str, label: str | None = None, **changes: Any) -> ModelResult:
    entry = {each.name: each for each in LINE_UP}.get(name)
    curve = [CurvePoint(200 * step, 21.0 * step, 2.0 + 4.0 / step - BLEU[name] / 60) for step in range(1, 9)]
    fall = 3.9 if name in FIXED else 0.9
    made = ModelResult(
        name=name,
        label=label or (entry.label if entry is not None else name),
        family=entry.family if entry is not None else "convolution",
        parameters=1_830_000 + 311 * len(name),
        planned_updates=1600,
        updates=1600,
        stopped_by="",
        peak_rate=3e-3,
        train_seconds=168.0,
        train_tokens_per_second=14200.0 if name.startswith("transformer") else 6100.0,
        translate_tokens_per_second=900.0,
        dev_nll=curve[-1].dev_nll,
        bleu=interval(BLEU[name]),
        chrf=interval(BLEU[name] + 19, 0.9),
        bleu_p=None if name == "transformer" else 0.001,
        chrf_p=None if name == "transformer" else 0.001,
        by_length=lengths(name, [(1, 9), (10, 12), (13, 16), (17, None)], fall / 2),
        long_by_length=lengths(name, [(1, 15), (16, 30), (31, 45), (46, 60), (61, None)], fall),
        curve=curve,
        path="",
        beam=4,
        signature="nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
        fingerprint="0",
    )
    return dataclasses.replace(made, **changes)


SETTING = Setting(
    corpus="/data/multi30k", languages=("en", "de"), pairs=29000, dev=1014, test=1000, vocab_size=4000, updates=1600,
    minutes=5, batch_tokens=3000, threads=1, jobs=2, resamples=1000, quick=False, machine="a made-up processor",
    versions={"clearhead": "0.9", "torch": "2.9"}, command="clearhead compare --out DIR --corpus /data/multi30k",
)  # fmt: skip


def curves(distance: int = 200) -> list[GradientCurve]:
    rates = {"linear": 1.0, "elman": 0.8, "lstm": 0.97, "gru-before": 0.96}
    made = []
    for trained in (False, True):
        for name, rate in rates.items():
            norms = [(rate if not trained else rate**0.8) ** step for step in range(distance + 1)]
            wider = [[norm * factor for norm in norms] for factor in (0.6, 1.0, 1.5)]
            made.append(GradientCurve.of(name, "h and c" if name == "lstm" else "h", wider, trained=trained))
    for name in ("linear", "elman"):
        for radius in (0.9, 1.0, 1.1):
            base = radius if name == "linear" else radius * 0.9
            made.append(GradientCurve.of(name, "h", [[base**step for step in range(distance + 1)]], radius=radius))
    return made


def layer_times(width: int = 256) -> list[LayerTime]:
    kinds: list[Layer] = ["elman", "gru-before", "lstm", "convolution", "dilated", "self-attention"]
    made = []
    for length in LENGTHS:
        for kind in kinds:
            flops = layer_flops(kind, length, width)
            recurrent = kind in ("elman", "gru-before", "lstm")
            # LSTM and attention meet between 1,024 and 2,048; the others have no pattern that matters.
            seconds = length * 6e-6 if kind == "lstm" else 3e-5 + flops / 4e11 + (2e-5 * length if recurrent else 0.0)
            if kind == "self-attention":
                seconds = length * length * 5e-9
            made.append(
                LayerTime(
                    kind, length, width, length if recurrent else 1, length if recurrent else 1, length * width * width,
                    flops, False, seconds, seconds * 0.9, seconds * 1.2, 1,
                )
            )  # fmt: skip
    return made


def matrix(model: str, source: list[str], target: list[str]) -> AlignmentMatrix:
    weights = []
    for row in range(len(target)):
        raw = [1.0 / (1 + 3 * abs(column - row * len(source) / len(target))) ** 2 for column in range(len(source))]
        weights.append([each / sum(raw) for each in raw])
    return AlignmentMatrix(model, "layer 2, head 3", source, target, weights)


SOURCE = ["A", "man", "in", "a", "blue", "shirt", "costs", "$\\frac{5$", "<script>alert(1)</script>", "."]
TARGET = ["Ein", "Mann", "in", "einem", "blauen", "衬衫", "kostet", "{{style}}", "&lt;b&gt;", "."]


def write_results(path: Path, models: list[ModelResult] | None = None) -> Path:
    """Everything into `path`, and `path` itself."""
    write_result(path / "setting.json", SETTING)
    for each in models if models is not None else [model(name) for name in BLEU]:
        write_result(path / f"{each.name}.json", each)
    write_result(path / "gradients.json", {"curves": [each.to_json() for each in curves()]})
    write_result(path / "layers.json", {"times": [each.to_json() for each in layer_times()]})
    errors = [
        ("HMM", "both ways", 0.07),
        ("rnnsearch", "its attention", 0.21),
        ("transformer", "layer 2, head 3", 0.14),
    ]
    table = {
        "matrices": [dataclasses.asdict(matrix(each, SOURCE, TARGET)) for each in ("rnnsearch", "transformer")],
        "errors": [
            {
                "model": name, "attention": attention, "precision": 1 - rate, "recall": 1 - rate, "error_rate": rate,
                "sentences": 500, "note": "",
            }
            for name, attention, rate in errors
        ],
    }  # fmt: skip
    (path / "alignments.json").write_text(json.dumps(table), encoding="utf-8")
    return path
