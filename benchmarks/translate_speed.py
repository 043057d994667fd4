"""Translation speed: our engines beside CTranslate2, Marian and transformers, in batches, singly, on a trained model.

Sub-tables, chosen with --only: `batches` (many sentences; beam 4 and greedy; int8, fp32, bf16), `latency` (one sentence
at a time in int8, on one core and on all threads), `trained` (a trained model with free stopping: quality by precision,
decoder steps, speed), `files` (from file to file beside the bare engine), `loading` (seconds and memory), `without`
(int8 where the native library is switched off). Sides take turns; ratios are medians over the rounds, with their
spread. Processor time where everybody has one thread, wall time elsewhere.

The goals stand beside what was measured in the table at the end, but not with --quick, whose models are toys; nothing
is asserted.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import common_arguments, header, print_header, record, table
from translate_corpus import SIZES, TOYS, by_length, one_by_one
from translate_goals import goal_table

TABLES = ("batches", "latency", "trained", "files", "loading", "without")
PEERS = ("ctranslate2", "marian", "transformers")


def parsed() -> Any:
    """The options, with `sizes` and what --quick changes."""
    parser = common_arguments(__doc__.split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=TABLES, help="only this table (all, if not given)")
    parser.add_argument("--size", action="append", choices=SIZES, help="only this size (both, if not given)")
    parser.add_argument("--without", action="append", default=[], choices=PEERS, help="leave this peer out")
    parser.add_argument("--bundle", type=Path, default=None, help="the trained model (Multi30k's run or the demo's)")
    parser.add_argument("--source", type=Path, default=None, help="text for it (the test set of that run)")
    parser.add_argument("--target", type=Path, default=None, help="its translation, for BLEU")
    parser.add_argument("--beam", type=int, default=4, help="of the trained model and its files")
    parser.add_argument("--batches", type=int, default=6, help="groups of equally long sentences of one run")
    parser.add_argument("--batch-tokens", type=int, default=768, help="source tokens of a group")
    parser.add_argument("--singles", type=int, default=16, help="sentences of one run of `latency`")
    parser.add_argument("--lines", type=int, default=4000, help="lines of the file of `files`")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side has its turn")
    arguments = parser.parse_args()
    sizes = TOYS if arguments.quick else SIZES
    arguments.sizes = sizes
    arguments.chosen = {name: sizes[name] for name in arguments.size or sizes}
    arguments.warmup = 1
    if arguments.quick:
        arguments.batches, arguments.batch_tokens, arguments.rounds, arguments.warmup = 2, 128, 1, 0
        arguments.singles, arguments.lines = 2, 40
    return arguments


def with_random_weights(wanted: list[str], arguments: Any) -> dict[str, Any]:
    """`batches` and `latency` at every size."""
    from translate_tables import Peers, batches, latency

    results: dict[str, Any] = {name: {} for name in wanted}
    for name, size in arguments.chosen.items():
        with tempfile.TemporaryDirectory() as folder:
            peers = Peers(size, arguments.seed, Path(folder), arguments.without)
            results |= {"left out": {peer: why for peer, why in peers.absent.items() if why}}
            for beam in (4, 1):
                if "batches" in wanted:
                    many = by_length(arguments.batches, arguments.batch_tokens, size["vocab"], arguments.seed)
                    print(f"{name}, beam {beam}: {len(many.sources)} sentences, {many.steps} decoder steps", flush=True)
                    results["batches"].setdefault(name, {})[f"beam {beam}"] = batches(peers, many, beam, arguments)
                if "latency" in wanted:
                    single = one_by_one(arguments.singles, size["vocab"], arguments.seed)
                    print(f"{name}, beam {beam}: {arguments.singles} sentences one by one", flush=True)
                    results["latency"].setdefault(name, {})[f"beam {beam}"] = latency(peers, single, beam, arguments)
    return results


def of_a_trained_model(wanted: list[str], arguments: Any) -> dict[str, Any]:
    """`trained` and `files`, or why they cannot be."""
    from translate_trained import Text, files, trained, where

    found = where(arguments)
    if isinstance(found, str):
        return {"left out": {"trained, files": found}}
    bundle, text = found
    if arguments.quick:
        text = Text(text.sources[:20], text.references and text.references[:20])
    results: dict[str, Any] = {}
    if "trained" in wanted:
        results["trained"] = trained(bundle, text, arguments)
    if "files" in wanted:
        results["files"] = files(bundle, text, arguments)
    return results


def measure(wanted: list[str], arguments: Any, results: dict[str, Any]) -> None:
    """Fill `results` table by table: what is there when something fails can still be recorded."""

    def add(found: Mapping[str, Any]) -> None:
        left_out = {**results.get("left out", {}), **found.get("left out", {})}
        results.update(found)
        results["left out"] = left_out

    if random := [name for name in wanted if name in ("batches", "latency")]:
        add(with_random_weights(random, arguments))
    if of_trained := [name for name in wanted if name in ("trained", "files")]:
        add(of_a_trained_model(of_trained, arguments))
    if "loading" in wanted:
        from translate_loading import loading, word_bundle

        with tempfile.TemporaryDirectory() as folder:
            bundle = word_bundle(Path(folder) / "base", arguments.sizes["base"], arguments.seed)
            add({"loading": loading(bundle, min(3, arguments.rounds), arguments.warmup)})
    if "without" in wanted:
        from translate_tables import without

        add({"without": without(arguments.sizes["base"], arguments)})


def every_side(results: Mapping[str, Any]) -> str:
    """A line for each side of each comparison: seconds, rate, and how many times as quick the first one is."""
    rows = []

    def walk(where: tuple[str, ...], found: Any) -> None:
        if not isinstance(found, Mapping):
            return
        if "sides" in found and "ratios" in found:
            told = {ratio.get("against", peer): ratio for peer, ratio in found["ratios"].items()}
            for name, side in found["sides"].items():
                ratio = told.get(name)
                said = "" if ratio is None else f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"
                seconds = sorted(side["seconds"])[len(side["seconds"]) // 2]
                rows.append([", ".join(where), name, f"{seconds:.3g}", f"{side['rate']:.0f}", said])
            return
        for key, inner in found.items():
            walk((*where, key), inner)

    walk((), results)
    return table(["comparison", "side", "seconds", "steps, tokens or lines/s", "ours is × as quick"], rows)


def quality_table(trained: Mapping[str, Any]) -> str:
    """What each engine wrote with the trained model."""
    rows = [
        [
            side,
            f"{note['bleu']:.2f}" if "bleu" in note else "–",
            f"{100 * note['same text']:.1f} %",
            f"{note['tokens'] / trained['sentences']:.2f}",
            f"{note['steps a sentence']:.2f}",
        ]
        for side, note in trained["quality"].items()
    ]
    ties = trained["near ties"]
    lines = [
        table(["side", "BLEU", "plain's text", "tokens a sentence", "decoder steps a sentence"], rows),
        "",
        *(f"{side} {rule}." for side, rule in trained["stopping"].items()),
        f"fp32: {ties['differing']} of {trained['sentences']} texts differ from the plain engine's, {ties['unproved']} "
        f"of these without a near-tie ({ties['bound']:g}); {100 * ties['control']:.0f} % of the others come so close.",
    ]
    return "\n".join(lines)


def loading_table(loading: Mapping[str, Any]) -> str:
    """Seconds and memory of each engine and precision."""
    rows = []
    for side, found in loading.items():
        if side != "file_bytes":
            median = found["median"]
            ratios = [f"{median[f'{key} / file']:.2f}" for key in ("peak", "after")]
            rows.append([side, f"{median['seconds']:.2f}", *ratios, f"{median['after, of files'] / 1e6:.0f}"])
    columns = ["loading", "seconds", "peak / fp32 file", "after / fp32 file", "MB of it mapped files"]
    return table(columns, rows)


def written(results: Mapping[str, Any], *, goals: bool) -> str:
    """All tables; that of the goals if it is asked for."""
    parts = [every_side(results)]
    for name, made in (("trained", quality_table), ("loading", loading_table)):
        if name in results:
            parts.append(made(results[name]))
    parts += [f"{what}: left out ({why})" for what, why in results.get("left out", {}).items()]
    if goals:
        parts.append(goal_table(results))
    return "\n\n".join(parts)


def main() -> None:
    arguments = parsed()
    wanted = [name for name in TABLES if name in (arguments.only or TABLES)]
    import torch

    torch.set_num_threads(arguments.threads)
    facts = header(arguments.threads)
    print_header("Translation beside CTranslate2, Marian and transformers", facts)
    results: dict[str, Any] = {}
    tell: Callable[[], str] = lambda: written(results, goals=not arguments.quick)  # noqa: E731
    try:
        measure(wanted, arguments, results)
    finally:
        if arguments.record and results:
            record("translate_speed", facts, results, tell)
    print(f"\n{tell()}")


if __name__ == "__main__":
    sys.exit(main())
