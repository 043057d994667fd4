"""Sections 4 to 6 of a comparison: gradients through time, layers against length, and alignments of real sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.analysis.gradients import encoder_curve, initial_curves
from clearhead.analysis.layer_times import crossovers, measure_layers
from clearhead.base.errors import InputError
from clearhead.formats.corpus import open_corpus
from clearhead.formats.pharaoh import Links, read_links
from clearhead.inspection.alignment import Reading, cross_attention, over_words
from clearhead.metrics.alignment_error import alignment_error
from clearhead.models.build import build
from clearhead.recipes.align import align_corpus, read_bitext
from clearhead.recipes.alignments import Linker, Linking
from clearhead.recipes.compare.corpus import Text
from clearhead.recipes.compare.results import AlignmentMatrix
from clearhead.recipes.run_config import resolve_model
from clearhead.recipes.translate import load
from clearhead.recipes.translator import Translator
from clearhead.text.spans import source_spans, word_at

if TYPE_CHECKING:
    from clearhead.models.seq2seq import Seq2Seq

__all__ = ["Mechanisms", "best_head", "gradients", "layers", "matrices"]

CELLS = {
    "linear": "seq2seq-linear",
    "elman": "seq2seq-elman",
    "lstm": "seq2seq",
    "gru-before": "seq2seq-gru",
    "transformer": "transformer",
}
"""Whose trained encoder stands for a cell."""

MATRICES = ("rnnsearch", "transformer")


@dataclass(frozen=True)
class Mechanisms:
    """How large the experiments are: width, distance and texts of the gradients, lengths of the layers, sentences."""

    width: int = 128
    distance: int = 200
    draws: int = 3
    texts: int = 4
    layer_width: int = 256
    lengths: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048)
    repeats: int = 7
    sentences: int = 4
    aligned: int = 10_000
    """Pairs of the training text that the statistical aligner learns from, beside the test set."""


def gradients(runs: Path, text: Text, size: Mechanisms) -> dict[str, Any]:
    """The curves of bare cells as they begin, and of the encoders that were trained, on joined test sentences.

    A trained encoder is read over texts of at least `size.distance` tokens, and once more with its first weights.
    """
    curves = initial_curves(width=size.width, distance=size.distance, draws=size.draws)
    for cell, name in CELLS.items():
        if not (runs / name).is_dir():
            continue
        translator = load(runs / name, "cpu", engine="plain")
        sources = _long_sources(translator, text, size)
        if cell == "transformer":  # the cells' own beginning is among the curves above
            curves.append(encoder_curve(cell, _untrained(runs / name), sources, distance=size.distance, trained=False))
        curves.append(encoder_curve(cell, translator.model, sources, distance=size.distance))
    return {"curves": [curve.to_json() for curve in curves]}


def layers(size: Mechanisms) -> dict[str, Any]:
    """The time of each kind of layer at each length, and where self-attention comes to cost more."""
    times = measure_layers(size.layer_width, size.lengths, repeats=size.repeats)
    return {"times": [each.to_json() for each in times], "crossovers": [each.to_json() for each in crossovers(times)]}


def matrices(runs: Path, text: Text, size: Mechanisms, scratch: Path) -> list[AlignmentMatrix]:
    """What RNNsearch and one head of the Transformer read of the same sentences, over words, references as targets.

    Real text has no gold links; the head is the one whose links are nearest to those of the HMM aligner.
    """
    pairs = list(zip(*text.read("test"), strict=True))
    lengths = [len(source.split()) for source, _ in pairs]
    chosen = [n for n, length in enumerate(lengths) if 6 <= length <= 12][: size.sentences]
    found = []
    for name in MATRICES:
        if not (runs / name).is_dir():
            continue
        translator = load(runs / name, "cpu", engine="plain")
        reading, label = None, "its attention"
        if name == "transformer":
            judged = list(range(min(len(pairs), 200)))
            gold = _statistical(text, size.aligned, scratch)
            reading, _ = best_head(translator, [pairs[n] for n in judged], [(gold[n], gold[n]) for n in judged])
            label = f"layer {reading.layer}, head {reading.head}"
        found += [_matrix(name, label, translator, pairs[n], reading) for n in chosen]
    return found


def best_head(
    translator: Translator, pairs: Sequence[tuple[str, str]], gold: Sequence[tuple[Links, Links]]
) -> tuple[Reading, float]:
    """The cross-attention head whose links have the lowest error rate against `gold`, and that rate."""
    shapes = cross_attention(translator.model, [], [])
    rates: dict[Reading, float] = {}
    for layer, weights in enumerate(shapes.values(), 1):
        for head in range(1, len(weights) + 1):
            reading = Reading(layer, head)
            rates[reading] = alignment_error(links_of(translator, pairs, reading), gold).error_rate
    if not rates:
        raise InputError("a model without attention has no best head")
    best = min(rates, key=lambda reading: (rates[reading], reading.layer, reading.head))
    return best, rates[best]


def links_of(translator: Translator, pairs: Sequence[tuple[str, str]], reading: Reading) -> list[Links]:
    """The links of given pairs; none for one that cannot be read."""
    found = Linker(translator, Linking(reading)).pairs(pairs)
    return [frozenset() if links is None else links for links in found]


def _matrix(
    name: str, label: str, translator: Translator, pair: tuple[str, str], reading: Reading | None
) -> AlignmentMatrix:
    sides = (translator.tokenizers.source, translator.tokenizers.target)
    ids = [tokenizer.encode(text) for tokenizer, text in zip(sides, pair, strict=True)]
    words = [
        word_at(text, source_spans(tokenizer, each, text))
        for tokenizer, each, text in zip(sides, ids, pair, strict=True)
    ]
    weights = list(cross_attention(translator.model, ids[0], ids[1]).values())
    read = weights[0].mean(0) if reading is None else weights[(reading.layer or 1) - 1][(reading.head or 1) - 1]
    rows = over_words(read[:-1, :-1], words[0], words[1])
    rounded = [[round(float(weight), 4) for weight in row] for row in rows]
    return AlignmentMatrix(name, label, pair[0].split(), pair[1].split(), rounded)


def _statistical(text: Text, count: int, scratch: Path) -> list[Links]:
    """The HMM aligner's links of the test set, which it learns from together with the first training pairs."""
    scratch.mkdir(parents=True, exist_ok=True)
    files = scratch / "aligned.src", scratch / "aligned.tgt"
    for side, path in enumerate(files):
        lines = [*text.read("test")[side], *text.read("train")[side][:count]]
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    align_corpus(read_bitext(open_corpus(files, None)), scratch / "aligned.links", read=files)
    return list(read_links(scratch / "aligned.links"))


def _long_sources(translator: Translator, text: Text, size: Mechanisms) -> list[list[int]]:
    """Texts of exactly distance + 1 tokens, put together from neighbouring test sentences."""
    stream = [token for source in text.read("test")[0] for token in translator.tokenizers.source.encode(source)]
    limit = translator.model.max_positions
    length = size.distance + 1 if limit is None else min(size.distance + 1, limit)
    starts = range(0, len(stream) - length + 1, length)
    return [stream[at : at + length] for at in starts[: size.texts]]


def _untrained(run: Path) -> Seq2Seq:
    """The model of a run with its first weights."""
    from clearhead.base.seeds import mix
    from clearhead.config.toml import load_toml

    table = load_toml(run / "config.toml")
    size, joint = table["tokenizer"]["vocab_size"], table["tokenizer"]["joint"]
    return build(resolve_model(table["model"], size, size, joint), seed=mix(table["seed"], 1))
