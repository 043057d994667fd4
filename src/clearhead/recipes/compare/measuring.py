"""What a trained model is measured by: scores with their intervals, by length, and how fast it translates."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from clearhead.base.errors import DecodingError
from clearhead.decoding.config import DecodingConfig
from clearhead.formats.lines import read_lines, write_lines
from clearhead.metrics.scores import Comparison, paired_bootstrap
from clearhead.models.build import count_parameters
from clearhead.recipes.compare.corpus import Text, bucket
from clearhead.recipes.compare.lineup import REFERENCE, Entry
from clearhead.recipes.compare.results import CurvePoint, Interval, LengthScore, ModelResult
from clearhead.recipes.compare.running import Job
from clearhead.recipes.translate import load
from clearhead.recipes.translation import Translation
from clearhead.recipes.translator import Translator
from clearhead.training.events import METRICS, read_metrics

__all__ = ["Measures", "measure", "result_fingerprint"]


@dataclass(frozen=True)
class Measures:
    """How models are measured: the beam, the resamples of each bootstrap, the lengths at which buckets end (words)."""

    beam: int = 4
    resamples: int = 1000
    edges: tuple[int, ...] = (8, 10, 12, 14, 18)
    long_edges: tuple[int, ...] = (12, 24, 36, 48)


def result_fingerprint(job: Job, text: Text, measures: Measures) -> str:
    """Of what a result depends on: the recipe, the text, and how it is measured."""
    record = (text.directory / "corpus.json").read_bytes()
    recipe = job.recipe.read_text("utf-8").replace(str(job.recipe.parent.parent), "")  # which may be moved
    return hashlib.sha256(b"\n".join((recipe.encode(), record, repr(measures).encode()))).hexdigest()[:16]


def measure(job: Job, entry: Entry, text: Text, measures: Measures, translations: Path) -> ModelResult:
    """Translate both test sets with the best checkpoint, write them into `translations`, and score them.

    The reference's translations must be there already for the paired tests; without them there are none.
    Raises DecodingError for a model whose translation fails.
    """
    translator = load(job.run, "cpu", engine="plain")
    sources, references = text.read("test")
    began = time.perf_counter()
    found = _translated(translator, sources, measures, job.name)
    seconds = time.perf_counter() - began
    hypotheses = [each.text for each in found]
    long_sources, long_references = text.read("long")
    long_found = _translated(translator, long_sources, measures, job.name)
    _write(translations / f"{job.name}.test", hypotheses)
    _write(translations / f"{job.name}.long", [each.text for each in long_found])

    reference = translations / f"{REFERENCE}.test"
    paired = reference.is_file() and job.name != REFERENCE
    baseline = list(read_lines(reference)) if paired else hypotheses
    target = text.languages[1]
    compared = paired_bootstrap(baseline, hypotheses, references, target_language=target, samples=measures.resamples)
    lines = read_metrics(job.run / METRICS)
    curve = [CurvePoint(line["update"], line["seconds"], line["dev_nll"]) for line in lines if "dev_nll" in line]
    rates = [line["tokens_per_second"] for line in lines if "tokens_per_second" in line]
    trained = job.trained
    parts = (translator.model.encoder, translator.model.decoder)
    return ModelResult(
        name=job.name,
        label=entry.label,
        family=entry.family,
        parameters=count_parameters(translator.model),
        planned_updates=job.updates,
        updates=0 if trained is None else trained.updates,
        stopped_by="" if trained is None else trained.reason,
        peak_rate=entry.peak,
        train_seconds=max((float(line["seconds"]) for line in lines), default=0.0),
        train_tokens_per_second=statistics.median(rates) if rates else 0.0,
        translate_tokens_per_second=sum(len(each.tokens) + 1 for each in found) / seconds,
        dev_nll=min((point.dev_nll for point in curve), default=float("nan")),
        bleu=_interval(compared["bleu"]),
        chrf=_interval(compared["chrf"]),
        bleu_p=compared["bleu"].p_value if paired else None,
        chrf_p=compared["chrf"].p_value if paired else None,
        by_length=_by_length(sources, found, references, target, measures.edges, measures),
        long_by_length=_by_length(long_sources, long_found, long_references, target, measures.long_edges, measures),
        curve=curve,
        path=", ".join(dict.fromkeys(road for part in parts if (road := getattr(part, "path", "")))),
        beam=measures.beam,
        signature=compared["bleu"].candidate.signature,
        fingerprint=result_fingerprint(job, text, measures),
    )


def _translated(translator: Translator, sources: Sequence[str], measures: Measures, name: str) -> list[Translation]:
    with torch.inference_mode():
        found = list(translator.stream(sources, DecodingConfig(beam=measures.beam)))
    if failed := sum("failed" in each.flags for each in found):
        raise DecodingError(f"{name}: {failed} of {len(found)} sentences could not be translated; see the log")
    return found


def _by_length(  # noqa: PLR0913, PLR0917 (one corpus, and how it is cut)
    sources: list[str],
    found: Sequence[Translation],
    references: Sequence[str],
    target: str,
    edges: tuple[int, ...],
    measures: Measures,
) -> list[LengthScore]:
    """A bucket that holds a text longer than the model reads (it was translated in pieces) has no score."""
    scores = []
    for low, high, lines in bucket(sources, edges):
        if not lines:
            continue
        if any("split" in found[line].flags for line in lines):
            scores.append(LengthScore(low, high, len(lines), Interval(0.0, 0.0, 0.0), 0.0, available=False))
            continue
        hypotheses, gold = [found[line].text for line in lines], [references[line] for line in lines]
        compared = paired_bootstrap(hypotheses, hypotheses, gold, target_language=target, samples=measures.resamples)
        chrf = compared["chrf"].candidate.value
        scores.append(LengthScore(low, high, len(lines), _interval(compared["bleu"]), chrf))
    return scores


def _interval(compared: Comparison) -> Interval:
    found = compared.candidate_interval
    return Interval(compared.candidate.value, found.low, found.high)


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_lines(path) as write:
        for line in lines:
            write(line)
