"""RNNsearch beside joeynmt's Bahdanau model: training in tokens/s, translation with beam in target tokens/s.

Equal widths of word vectors and states on both sides, the same batches of the same ids, fp32, dropout 0.1, label
smoothing 0.1, one Adam step a batch; a token is a real source or target token, EOS included. For translation both write
exactly as many tokens as the longest source of the batch has, as in `translate_speed.py`. `joeynmt_recurrent.py` says
what differs between the models. The width of our readout is set such that both have as many parameters.

Goals: training ≥ 1.3 × joeynmt, translation with beam ≥ 1.5 ×.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from harness import Side, alternate, common_arguments, header, print_header, ratios, record, table

SIZES = {
    "tiny": {"embedding": 128, "width": 128, "vocab": 8000},
    "middle": {"embedding": 256, "width": 512, "vocab": 8000},
}
"""The tiny presets' size, and one on the way to the paper's (620 and 1,000; Bahdanau et al. 2015, A.2.3)."""

QUICK = {"quick": {"embedding": 16, "width": 24, "vocab": 500}}
DROPOUT = 0.1


def ours(size: dict[str, int], parameters_wanted: int, seed: int) -> Any:
    """RNNsearch of `size`, its readout (a multiple of 8) such that it has about so many parameters."""
    from clearhead.models import build, presets

    half = {"embedding": size["embedding"], "width": size["width"], "dropout": DROPOUT}

    def made(readout: int, device: str) -> Any:
        asking = {"attention": size["width"], "readout": readout}
        config = presets.rnnsearch(vocab_size=size["vocab"], encoder=half, decoder=half | asking)
        return build(config, seed=None if device == "meta" else seed, device=device)

    each = parameters(made(2, "meta")) - parameters(made(1, "meta"))  # a readout unit costs the same everywhere
    room = parameters_wanted - parameters(made(1, "meta"))
    return made(max(8, 8 * round((1 + room / each) / 8)), "cpu")


def parameters(model: Any) -> int:
    """How many numbers are learnt."""
    return sum(each.numel() for each in model.parameters())


def our_search(model: Any, batches: list[list[list[int]]], lengths: list[int], beam: int) -> Callable[[], float]:
    """The plain engine, to exactly so many tokens; the seconds."""
    import time

    import torch

    from clearhead.decoding import DecodingConfig, search
    from clearhead.nn.padding import Padded

    sources = [Padded.from_lists([[*sentence, 3] for sentence in batch]) for batch in batches]

    def run() -> float:
        model.eval()
        start = time.perf_counter()
        with torch.inference_mode():
            for source, length in zip(sources, lengths, strict=True):
                forced = DecodingConfig(
                    beam=beam, max_length_ratio=0.0, max_length_extra=length, max_length=length, min_length=length
                )
                for hypotheses in search(model, source, forced):
                    if len(hypotheses[0].tokens) != length:
                        raise SystemExit(f"clearhead wrote {len(hypotheses[0].tokens)} tokens, not {length}")
        return time.perf_counter() - start

    return run


def our_training(model: Any, batches: list[Any]) -> Callable[[], float]:
    """The bare step of `own_trainer.py`, the model put back to training first."""
    from own_trainer import bare_step

    run = bare_step(model, batches, "fp32")

    def trained() -> float:
        model.train()
        return run()

    return trained


def compared(name: str, size: dict[str, int], arguments: Any) -> tuple[dict[str, Any], list[list[str]]]:
    """Both jobs at one size: the result, and a row of the table for each."""
    import joeynmt_recurrent as joey
    from train_speed import batches_of_pairs, tokens
    from translate_corpus import lengths, sentences

    theirs = joey.make(size, DROPOUT, arguments.seed)
    mine = ours(size, parameters(theirs), arguments.seed)
    counts = {"clearhead": parameters(mine), "joeynmt": parameters(theirs)}
    print(
        f"{name} {size}: parameters {counts['clearhead']:,} and {counts['joeynmt']:,}; "
        f"roads: encoder {mine.encoder.path}, decoder {mine.decoder.path}",
        flush=True,
    )
    pairs = batches_of_pairs(arguments.batches, arguments.batch_tokens, size["vocab"], arguments.seed)
    lines = sentences(arguments.batches, arguments.batch_tokens // 2, size["vocab"], arguments.seed)
    steps = lengths(lines)
    written = float(sum(len(batch) * length for batch, length in zip(lines, steps, strict=True)))
    search = f"translation, beam {arguments.beam}"
    jobs = {
        "training": (float(tokens(pairs)), our_training(mine, pairs), joey.trains(theirs, pairs)),
        search: (
            written,
            our_search(mine, lines, steps, arguments.beam),
            joey.searches(theirs, lines, steps, arguments.beam),
        ),
    }
    result: dict[str, Any] = {"size": size, "parameters": counts}
    rows = []
    for job, (work, my_run, their_run) in jobs.items():
        sides = [Side("clearhead", my_run, work), Side("joeynmt", their_run, work)]
        alternate(sides, arguments.rounds)
        ratio = ratios(*sides)
        rates = [f"{side.rate:.0f}" for side in sides]
        rows.append([name, job, *rates, f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"])
        result[job] = {side.name: {"seconds": side.seconds, "rate": side.rate} for side in sides} | {"ratio": ratio}
    return result, rows


def main() -> None:
    parser = common_arguments(__doc__.split("\n", 1)[0], threads=1)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batches", type=int, default=4, help="batches of one pass, from short to long sentences")
    parser.add_argument("--batch-tokens", type=int, default=1024, help="padded tokens of a batch, each side")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", choices=SIZES, action="append", help="only this size (both, if not given)")
    arguments = parser.parse_args()
    sizes = {name: SIZES[name] for name in arguments.size or SIZES}
    if arguments.quick:
        sizes, arguments.batches, arguments.batch_tokens, arguments.rounds = QUICK, 2, 128, 1

    from joeynmt_peer import available

    if missing := available():
        sys.exit(f"joeynmt cannot run here ({missing}); benchmarks/README.md says how to install it")

    import torch

    import clearhead.nn.linear  # noqa: F401 (the header names its way of multiplying)

    torch.set_num_threads(arguments.threads)
    facts = header(arguments.threads)
    print_header("RNNsearch beside joeynmt's Bahdanau model, fp32", facts)
    results, rows = {}, []
    for name, size in sizes.items():
        results[name], more = compared(name, size, arguments)
        rows += more
    text = table(["size", "job", "clearhead tokens/s", "joeynmt tokens/s", "clearhead is × as fast"], rows)
    counted = [
        f"{name}: {each['size']}, parameters {each['parameters']['clearhead']:,} and {each['parameters']['joeynmt']:,}"
        for name, each in results.items()
    ]
    text = "\n".join([text, "", *counted])
    print(f"\n{text}")
    if arguments.record:
        record("recurrent", facts, results, text)


if __name__ == "__main__":
    main()
