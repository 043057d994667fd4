"""The task whose links are known: small models trained on a made-up language, and read for what is linked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.data.synthetic import Language, LinkedPair
from clearhead.formats.corpus import open_corpus
from clearhead.formats.lines import write_lines
from clearhead.formats.pharaoh import Links, read_links
from clearhead.inspection.alignment import Reading
from clearhead.metrics.alignment_error import alignment_error
from clearhead.recipes.align import Model, align_corpus, read_bitext
from clearhead.recipes.compare.lineup import Size
from clearhead.recipes.compare.mechanisms import best_head, links_of
from clearhead.recipes.compare.results import AlignmentError
from clearhead.recipes.translate import load

__all__ = ["PREFIX", "READERS", "LinksTask", "link_errors", "link_table", "write_task"]

PREFIX = "links-"
READERS = ("rnnsearch", "luong", "convs2s", "transformer")
"""The models of the line-up that take part: one of each kind with attention."""
SEEDS = {"language": 1, "train": 2, "dev": 3, "test": 4}


@dataclass(frozen=True)
class LinksTask:
    """How many pairs there are, and how large and how long trained the models that learn them are."""

    train: int = 10_000
    held_out: int = 400
    words: int = 120
    updates: int = 1000
    batch_tokens: int = 512
    size: Size = Size(d_model=64, d_ff=128, layers=2, vocab_size=600, max_length=127, dropout=0.1)  # noqa: RUF009 (frozen)


def write_task(directory: Path, task: LinksTask) -> list[LinkedPair]:
    """Write train, dev and test; the pairs of the test with their links."""
    directory.mkdir(parents=True, exist_ok=True)
    language = Language.made_up(SEEDS["language"], words=task.words)
    held: list[LinkedPair] = []
    for part, count in (("train", task.train), ("dev", task.held_out), ("test", 2 * task.held_out)):
        pairs = list(language.pairs(count, SEEDS[part]))
        held = pairs
        for ending, side in (("src", "source"), ("tgt", "target")):
            with write_lines(directory / f"{part}.{ending}") as write:
                for pair in pairs:
                    write(" ".join(getattr(pair, side)))
    return held


def link_table(directory: Path, model: dict[str, Any], task: LinksTask, peak: float) -> dict[str, Any]:
    """The recipe of one of the models; its languages are names only."""
    files = {
        part: {"source": str(directory / f"{part}.src"), "target": str(directory / f"{part}.tgt")}
        for part in ("train", "dev")
    }
    return {
        "data": {
            "languages": ["en", "de"],
            **files,
            "batch_tokens": task.batch_tokens,
            "max_length": task.size.max_length,
        },
        "tokenizer": {"kind": "bpe", "vocab_size": task.size.vocab_size, "joint": True},
        "model": model,
        "training": {
            "updates": task.updates,
            "threads": 1,
            "precision": "fp32",
            "clip_norm": 1.0,
            "schedule": {"kind": "linear", "peak": peak, "warmup": max(1, task.updates // 10)},
            "validate_every": max(1, task.updates // 4),
            "save_every": 0,
            "keep_last": 1,
            "log_every": 10,
        },
    }


def link_errors(runs: Path, directory: Path, held: list[LinkedPair]) -> list[AlignmentError]:
    """The error rates on the second half of the held-out pairs.

    What must be chosen (a Transformer's head, a layer of several) is chosen on the first half by its gold links; the
    aligner learns without links from the training text and all held-out pairs.
    """
    half = len(held) // 2
    texts = [(" ".join(pair.source), " ".join(pair.target)) for pair in held]
    gold: list[tuple[Links, Links]] = [(pair.sure, pair.possible) for pair in held]
    found = []
    for name in READERS:
        run = runs / f"{PREFIX}{name}"
        if not run.is_dir():
            continue
        translator = load(run, "cpu", engine="plain")
        readings = [(Reading(), "usual reading", "")]
        if name == "transformer":
            best, rate = best_head(translator, texts[:half], gold[:half])
            note = f"best of all heads on {half} other pairs, by their gold links (AER {rate:.3f} there)"
            readings = [(best, f"layer {best.layer}, head {best.head}", note)]
            readings.append((Reading(layer=0), "mean of all layers and heads", ""))
        for reading, label, note in readings:
            links = links_of(translator, texts[half:], reading)
            found.append(_scored(name, label, links, gold[half:], note))
    kinds: tuple[tuple[Model, str], ...] = (("ibm1", "IBM Model 1"), ("hmm", "HMM"))
    for kind, name in kinds:
        links = _aligned(directory, kind, len(held))[half:]
        found.append(_scored(name, "statistical aligner, both directions joined", links, gold[half:], ""))
    return found


def _scored(
    name: str, attention: str, links: list[Links], gold: list[tuple[Links, Links]], note: str
) -> AlignmentError:
    counts = alignment_error(links, gold)
    return AlignmentError(name, attention, counts.precision, counts.recall, counts.error_rate, counts.pairs, note)


def _aligned(directory: Path, kind: Model, held: int) -> list[Links]:
    files = directory / "all.src", directory / "all.tgt"
    for path in files:
        parts = [(directory / f"{part}{path.suffix}").read_text("utf-8") for part in ("test", "train")]
        path.write_text("".join(parts), "utf-8")
    output = directory / f"{kind}.links"
    align_corpus(read_bitext(open_corpus(files, None)), output, model=kind, read=files)
    return list(read_links(output))[:held]
