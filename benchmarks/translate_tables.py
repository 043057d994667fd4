"""The tables of `translate_speed.py` with random weights and forced lengths: batches, one sentence at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import translate_marian as marian
from harness import Side, alternate, ratios
from translate_corpus import Corpus, by_length, name, transformer
from translate_ours import Ours, clock, engine, forced_run
from translate_peers import CTranslate2, missing, transformers_model, transformers_run

__all__ = ["Peers", "batches", "compare", "latency", "print_without", "without"]

COMPUTE = {"int8": "int8", "fp32": "float32"}
"""CTranslate2's names of the precisions that both have; on a CPU it has no bf16."""
UNIT = "decoder steps/s"


class Peers:
    """The peers that are here, with one model of `size` that all of them and we run (Marian: one of the same size)."""

    def __init__(self, size: dict[str, int], seed: int, folder: Path, without: Sequence[str]) -> None:
        from clearhead.models import build

        self.size, self.seed, self.folder = size, seed, folder
        self.config = transformer(size)
        self.model = build(self.config, seed=seed).eval()
        absent = {
            "ctranslate2": missing("ctranslate2"),
            "marian": marian.absent(),
            "transformers": missing("transformers"),
        }
        self.absent = {peer: "left out by --without" if peer in without else why for peer, why in absent.items()}
        self.ctranslate2 = None
        if self.absent["ctranslate2"] is None:
            self.ctranslate2 = CTranslate2(self.model, self.config, folder / "ctranslate2")
        self.marian = None if self.absent["marian"] else marian.marian_file(folder / "marian", size, seed)

    def ours(self, precision: str, threads: int) -> Ours:
        """Our engine over the same weights."""
        return Ours(engine(self.config, precision, self.seed), threads)

    def marian_sides(self, corpus: Corpus, beam: int, threads: int, *, singly: bool = False) -> list[Side]:
        """Marian in int8 with two sizes of batch; the work is what it says that it wrote."""
        if self.marian is None:
            return []
        sides = []
        lines = [" ".join(name(sentence)) for sentence in corpus.sources]
        calls = [[line] for line in lines] if singly else [lines]
        for batch in (1,) if singly else (32, 64):
            translator = marian.marian_translator(self.marian, beam, threads, mini_batch=batch)
            count = sum(marian.marian_written(translator, call) for call in calls)
            title = f"marian int8 {marian.gemm()}" + ("" if singly else f", batch {batch}")
            sides.append(Side(title, _marian_run(translator, calls, clock(threads)), float(count), UNIT))
        return sides


def _marian_run(translator: Any, calls: Sequence[Sequence[str]], now: Callable[[], float]) -> Callable[[], float]:
    def run() -> float:
        start = now()
        for call in calls:
            marian.marian_written(translator, call)
        return now() - start

    return run


def compare(
    ours: Sequence[Side], peers: Mapping[str, Sequence[Side]], rounds: int, *, warmup: int = 1
) -> dict[str, Any]:
    """Alternate all sides; our first one's ratio to the best side of each peer, and every side's seconds."""
    every = [*ours, *(side for sides in peers.values() for side in sides)]
    alternate(every, rounds, warmup=warmup)
    result: dict[str, Any] = {
        "sides": {side.name: {"seconds": side.seconds, "rate": side.rate, "work": side.work} for side in every}
    }
    result["ratios"] = {}
    for peer, sides in peers.items():
        if sides:
            best = max(sides, key=lambda side: side.rate)
            result["ratios"][peer] = ratios(ours[0], best) | {"against": best.name}
    return result


def quickest(sides: list[Side], keep: int = 1) -> list[Side]:
    """The quickest after one trial each (each has run before)."""
    return sorted(sides, key=lambda side: side.run() / side.work)[:keep]


def batches(peers: Peers, corpus: Corpus, beam: int, arguments: Any) -> dict[str, Any]:
    """Many sentences at once: each precision beside CTranslate2, then, in fewer rounds, beside the slower peers."""
    threads, steps = arguments.threads, float(corpus.steps)
    result: dict[str, Any] = {}
    made = {}
    for precision in ("int8", "fp32", "bf16"):
        ours = peers.ours(precision, threads)
        made[precision] = (f"clearhead {precision}", forced_run(ours, corpus, beam), steps, UNIT)
        result["engine"] = str(ours.engine.description)
    for precision, compute in COMPUTE.items():
        theirs: dict[str, list[Side]] = {}
        if peers.ctranslate2 is not None:
            theirs["ctranslate2"] = [
                Side(f"ctranslate2 {precision} {setting}", run, steps, UNIT)
                for setting, run in peers.ctranslate2.best(compute, corpus, beam, threads)
            ]
        mine = [Side(*made[precision])] + ([Side(*made["bf16"])] if precision == "fp32" else [])
        result[precision] = compare(mine, theirs, arguments.rounds, warmup=arguments.warmup)
    slow = {"marian": quickest(peers.marian_sides(corpus, beam, threads))}
    if beam > 1 and peers.absent["transformers"] is None:
        for precision in ("fp32", "bf16"):
            model = transformers_model(peers.model, peers.config, bf16=precision == "bf16")
            run = transformers_run(model, corpus, beam, threads)
            slow[f"transformers {precision}"] = [Side(f"transformers {precision}", run, steps, UNIT)]
    if any(slow.values()):
        mine = [Side(*made["int8"]), Side(*made["bf16"])]
        result["others"] = compare(mine, slow, min(arguments.rounds, 3), warmup=arguments.warmup)
    return result


def latency(peers: Peers, corpus: Corpus, beam: int, arguments: Any) -> dict[str, Any]:
    """One sentence at a time in int8: on one core beside both engines, on all threads beside CTranslate2's best."""
    result: dict[str, Any] = {"sentences": len(corpus.groups)}
    steps = float(corpus.steps)
    for threads in dict.fromkeys((1, arguments.threads)):
        ours = peers.ours("int8", threads)
        mine = Side("clearhead int8", forced_run(ours, corpus, beam, singly=True), steps, UNIT)
        theirs: dict[str, list[Side]] = {}
        if peers.ctranslate2 is not None:
            theirs["ctranslate2"] = []
            for each in dict.fromkeys((1, threads)):
                translator = peers.ctranslate2.translator("int8", 1, each)
                run = peers.ctranslate2.singly(translator, corpus, beam, clock(threads))
                theirs["ctranslate2"].append(Side(f"ctranslate2 int8 1x{each}", run, steps, UNIT))
        if threads == 1:
            theirs["marian"] = quickest(peers.marian_sides(corpus, beam, 1, singly=True))
        found = compare([mine], theirs, arguments.rounds, warmup=arguments.warmup)
        result["one core" if threads == 1 else "all threads"] = found
    return result


def without(size: dict[str, int], arguments: Any) -> dict[str, Any]:
    """int8, beam 4, where the native library is switched off: in a process of its own, which finds it so at import."""
    if why := missing("ctranslate2"):
        return {"absent": why}
    wanted = {name: getattr(arguments, name) for name in ("batches", "batch_tokens", "threads", "rounds", "seed")}
    code = "import sys, translate_tables; translate_tables.print_without(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(wanted | {"size": size})],
        env=os.environ | {"CLEARHEAD_NATIVE": "0", "PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit("the run without the native library failed; its message is above")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_without(text: str) -> None:
    """What `without` runs: the measurement that the JSON `text` asks for, as JSON in the last line."""
    wanted = json.loads(text)
    size, rounds = wanted["size"], wanted["rounds"]
    corpus = by_length(wanted["batches"], wanted["batch_tokens"], size["vocab"], wanted["seed"])
    steps = float(corpus.steps)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        peers = Peers(size, wanted["seed"], Path(folder), ("marian", "transformers"))
        for threads in dict.fromkeys((1, wanted["threads"])):
            ours = peers.ours("int8", threads)
            result["engine"] = str(ours.engine.description)
            mine = Side("clearhead int8 without its library", forced_run(ours, corpus, 4), steps, UNIT)
            found = [] if peers.ctranslate2 is None else peers.ctranslate2.best("int8", corpus, 4, threads)
            theirs = [Side(f"ctranslate2 int8 {setting}", run, steps, UNIT) for setting, run in found]
            result["one core" if threads == 1 else "all threads"] = compare([mine], {"ctranslate2": theirs}, rounds)
    print(json.dumps(result))
