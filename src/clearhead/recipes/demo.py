"""`make demo`: from nothing to a translator, on a corpus that a package registry carries.

Fetches Home Assistant's interface strings, holds out a development and a test set, trains the `tiny` preset, scores it,
translates held-out sentences beside their references and says how to go on. Every step that is done already is kept,
so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from clearhead.base.errors import ClearheadError
from clearhead.base.files import atomic_write
from clearhead.base.log import setup
from clearhead.data.corpora import get_corpus
from clearhead.decoding.config import DecodingConfig
from clearhead.recipes.data import split_corpus
from clearhead.recipes.evaluate import Evaluation, evaluate_translator
from clearhead.recipes.run_config import RunConfig, compose
from clearhead.recipes.train import train
from clearhead.recipes.translate import load
from clearhead.text.languages import parse_pair

__all__ = ["main", "recipe"]

CORPUS = "home-assistant"
DEV_PAIRS, TEST_PAIRS, SEED = 1000, 1500, 1
SHOWN = 12


def recipe(pair: str, data: Path, out: Path, threads: int = 0) -> RunConfig:
    """What the demo trains: `tiny` on the split in `data`, some nine minutes on two free cores."""
    source, target = parse_pair(pair)

    def corpus(part: str) -> dict[str, str]:
        return {"source": str(data / f"{part}.{source}"), "target": str(data / f"{part}.{target}")}

    table: dict[str, Any] = {
        "out": str(out),
        "data": {
            "languages": [source, target],
            "train": corpus("train"),
            "dev": corpus("dev"),
            "batch_tokens": 2048,
        },
        "tokenizer": {"kind": "bpe", "vocab_size": 4000},
        "model": {"preset": "tiny"},
        "training": {
            "updates": 2200,
            "threads": threads,
            "schedule": {"kind": "linear", "peak": 4e-3, "warmup": 200},
            "validate_every": 200,
            "score_every": 1100,
            "save_every": 200,
            "keep_last": 1,
            "log_every": 50,
        },
    }
    return compose(table, where="demo")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0, 1 or 2 as for every command, 130 after an interruption."""
    parser = argparse.ArgumentParser(prog="python -m clearhead.recipes.demo", description=__doc__)
    parser.add_argument("--pair", default="en-de", help="source and target language: en-de, en-zh, en-es or en-fr")
    parser.add_argument("--split", default="strict", choices=["strict", "exact"], help="how test text is held out")
    parser.add_argument("--package", help="a Home Assistant wheel that is on disk already")
    parser.add_argument("--threads", type=int, default=0, help="processor threads for training (0: one a core)")
    options = parser.parse_args(arguments)
    setup()
    try:
        return run(options.pair, options.split, options.package, threads=options.threads)
    except ClearheadError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def run(pair: str, by: str, package: str | None, *, threads: int = 0) -> int:
    """Fetch, split, train, score, show. Raises the errors of its steps."""
    source, target = parse_pair(pair)
    corpus = Path("data") / CORPUS / pair
    out = Path("runs") / (f"demo-{pair}" if by == "strict" else f"demo-{pair}-{by}")
    if not (corpus / "provenance.json").is_file():
        get_corpus(CORPUS, pair, corpus, package=package)
    files = [corpus / f"corpus.{code}" for code in (source, target)]
    if not (corpus / by / "split.json").is_file():
        split_corpus(files, corpus / by, dev=DEV_PAIRS, test=TEST_PAIRS, seed=SEED, by=by)
    config = recipe(pair, corpus / by, out, threads)
    result = train(config)
    if result.exit_code:
        print("or, for the scores and examples at its end as well, the same make again", file=sys.stderr)
        return result.exit_code
    began = time.perf_counter()
    translator = load(out)
    test = [corpus / by / f"test.{code}" for code in (source, target)]
    evaluation = evaluate_translator(translator, DecodingConfig(), *test, output=out / f"test.{target}")
    seconds = time.perf_counter() - began
    report(evaluation, test, out, seconds)
    return 0


def report(evaluation: Evaluation, test: Sequence[Path], out: Path, seconds: float) -> None:
    """Print scores, examples and the next step; write the scores to `out`/demo.json."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    sources, references = (path.read_text(encoding="utf-8").split("\n")[:-1] for path in test)
    table = Table(title=f"Held-out sentences ({test[0]}), never seen in training", show_lines=True)
    for heading in ("source", "clearhead", "reference"):
        table.add_column(heading, ratio=1, overflow="fold")
    for line in examples(sources):
        table.add_row(*(Text(column[line]) for column in (sources, evaluation.hypotheses, references)))
    console.print(table)
    for score in (evaluation.scores.bleu, evaluation.scores.chrf):
        console.print(f"{score.name} {score.value:.1f}   {score.signature}", highlight=False)
    rate = len(sources) / seconds
    console.print(f"{len(sources):,} test sentences in {seconds:.0f} s ({rate:.0f} a second, beam 4)", highlight=False)
    atomic_write(out / "demo.json", evaluation.as_json() + "\n")
    curve = out / "curve.png"
    console.print(f"\nlearning curve   {curve if curve.is_file() else 'not drawn: matplotlib is not installed'}")
    command = Path(os.path.relpath(sys.executable)).parent / "clearhead"
    console.print("a sentence of your own:", highlight=False)
    sentence = json.dumps("Turn off the lights in the kitchen")[1:-1]
    console.print(f"  echo '{sentence}' | {command} translate {out}", highlight=False, soft_wrap=True)


def examples(sources: Sequence[str]) -> list[int]:
    """A dozen lines spread over the set, long enough to be worth reading; the same ones every time."""
    worth = [line for line, text in enumerate(sources) if 5 <= len(text.split()) <= 16] or list(range(len(sources)))
    step = max(1, len(worth) // SHOWN)
    return worth[::step][:SHOWN]


if __name__ == "__main__":
    sys.exit(main())
