"""Training speed: tokens a second of forward + backward + Adam, beside `torch.nn.Transformer` of the same size.

The paper's base size, dropout 0.1, label smoothing 0.1, synthetic batches with the length mix of real text, the
same batches for every side; a token is a real source or target token, EOS included, padding not. Both sides in
fp32 and in bf16 autocast (where the processor has it). `--allocator both` repeats the whole table with glibc's
mmap and trim thresholds raised, for all sides alike. Last, the whole trainer (data order, schedule, metrics,
logging) beside its own bare step.

Goals: ours ≥ 1.6 × torch fp32 in fp32, ≥ 2.3 × torch fp32 in bf16; the whole trainer loses ≤ 5 %.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import (
    HERE,
    Side,
    alternate,
    common_arguments,
    cpu_info,
    header,
    length_buckets,
    print_header,
    ratios,
    record,
    table,
)

EOS, BOS = 3, 2
Pairs = list[tuple[list[int], list[int]]]


def batches_of_pairs(count: int, batch_tokens: int, vocab: int, seed: int) -> list[Pairs]:
    """Random ids with the length mix of real text."""
    import random

    rng = random.Random(seed)

    def ids(length: int) -> list[int]:
        return [rng.randrange(8, vocab) for _ in range(length)]

    buckets = length_buckets(count, batch_tokens, seed)
    return [[(ids(source), ids(target)) for source, target in bucket] for bucket in buckets]


def tokens(batches: list[Pairs]) -> int:
    """Real source and target tokens, EOS included."""
    return sum(len(source) + len(target) + 2 for batch in batches for source, target in batch)


def torch_side(size: dict[str, int], batches: list[Pairs], *, bf16: bool, seed: int) -> Callable[[], float]:
    """One pass of `torch.nn.Transformer` over all batches; the seconds it took."""
    import torch
    from torch_peer import TorchTransformer, pad, step

    torch.manual_seed(seed)
    model = TorchTransformer(size["vocab"], size["d_model"], size["d_ff"], size["heads"], size["layers"]).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    ready = [
        (
            pad([[*source, EOS] for source, _ in batch]),
            pad([[BOS, *target] for _, target in batch]),
            pad([[*target, EOS] for _, target in batch]),
        )
        for batch in batches
    ]

    def run() -> float:
        start = time.perf_counter()
        for source, prefix, gold in ready:
            step(model, optimizer, source, prefix, gold, bf16=bf16)
        return time.perf_counter() - start

    return run


def clearhead_model(size: dict[str, int], seed: int) -> Any:
    """Our model of the same size: the base preset, or a small one when `size` says so."""
    from clearhead.models import build, presets

    if size["d_model"] == 512:
        return build(presets.base(vocab_size=size["vocab"]), seed=seed)
    small = presets.tiny(
        vocab_size=size["vocab"], d_model=size["d_model"], d_ff=size["d_ff"], attention={"heads": size["heads"]}
    )
    return build(small, seed=seed)


def has_bf16() -> bool:
    """Whether the processor multiplies bf16 in hardware."""
    return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(cpu_info()["flags"].split()))


def measure(arguments: Any, size: dict[str, int], batches: list[Pairs]) -> tuple[dict[str, Any], str]:
    """The alternated table: every side's rate, and its ratio to torch in fp32."""
    from own_trainer import bare_step

    work, unit = float(tokens(batches)), "tokens/s"
    precisions = [False, True] if arguments.bf16 == "on" or (arguments.bf16 == "auto" and has_bf16()) else [False]
    sides = []
    for bf16 in precisions:
        name = "bf16" if bf16 else "fp32"
        sides.append(Side(f"torch {name}", torch_side(size, batches, bf16=bf16, seed=arguments.seed), work, unit))
        if not arguments.only_torch:
            run = bare_step(clearhead_model(size, arguments.seed), batches, "bf16" if bf16 else "fp32")
            sides.append(Side(f"clearhead {name}", run, work, unit))
    alternate(sides, arguments.rounds)
    by_name = {side.name: side for side in sides}
    rows, result = [], {}
    for side in sides:
        to_fp32 = ratios(side, by_name["torch fp32"])
        twin = by_name[f"torch {side.name.split()[1]}"]
        rows.append(
            [
                side.name,
                f"{side.rate:.0f}",
                f"{to_fp32['median']:.2f} ({to_fp32['low']:.2f}–{to_fp32['high']:.2f})",
                f"{ratios(side, twin)['median']:.2f}",
            ]
        )
        result[side.name] = {"seconds": side.seconds, "rate": side.rate, "over torch fp32": to_fp32}
    return result, table(["side", unit, "× torch fp32", "× torch, same precision"], rows)


def trainer_overhead(arguments: Any, size: dict[str, int], batches: list[Pairs]) -> tuple[dict[str, Any], str]:
    """The whole trainer beside its bare step on the same batches, fp32 and bf16."""
    from own_trainer import bare_and_whole

    rows, result = [], {}
    precisions = ["fp32", "bf16"] if arguments.bf16 == "on" or (arguments.bf16 == "auto" and has_bf16()) else ["fp32"]
    for precision in precisions:
        with tempfile.TemporaryDirectory() as scratch:
            bare, whole = bare_and_whole(
                lambda: clearhead_model(size, arguments.seed), batches, precision, Path(scratch)
            )
            work = float(tokens(batches))
            sides = [Side(f"bare step {precision}", bare, work), Side(f"whole trainer {precision}", whole, work)]
            alternate(sides, arguments.rounds)
        loss = ratios(sides[1], sides[0])
        share = 100 * (1 - loss["median"])
        rows.append([precision, f"{sides[0].rate:.0f}", f"{sides[1].rate:.0f}", f"{share:.1f} %"])
        result[precision] = {side.name: side.seconds for side in sides} | {"whole over bare": loss}
    return result, table(["precision", "bare step tokens/s", "whole trainer tokens/s", "lost"], rows)


def run_child(arguments: list[str], allocator: str) -> tuple[dict[str, Any], str]:
    """This very script in a process of its own: what an allocator is told, it is told for good."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "result.json"
        command = [sys.executable, str(HERE / "train_speed.py"), *arguments, "--allocator", allocator]
        subprocess.run([*command, "--child", str(out)], check=True)
        answer = json.loads(out.read_text("utf-8"))
    return answer["result"], answer["text"]


def tune() -> str:
    """Tell glibc and PyTorch for this process, so for all sides alike, what our trainer tells them; in words."""
    from clearhead.training.allocator import tune_allocator
    from clearhead.training.huge_pages import ask_for_huge_pages

    pages = ask_for_huge_pages()
    return ", ".join(filter(None, (tune_allocator(), pages))) or "could not be tuned here"


def main() -> None:
    parser = common_arguments(__doc__.split("\n", 1)[0])
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--batches", type=int, default=6, help="batches of one pass, from short to long sentences")
    parser.add_argument("--batch-tokens", type=int, default=1024, help="padded tokens of a batch, each side")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bf16", choices=["auto", "on", "off"], default="auto")
    parser.add_argument(
        "--allocator", choices=["default", "tuned", "both"], default="default", help="glibc thresholds of all sides"
    )
    parser.add_argument("--only-torch", action="store_true", help="the rival alone")
    parser.add_argument("--no-trainer", action="store_true", help="leave out the whole trainer")
    parser.add_argument("--child", default="", help="(internal) write the result of one allocator setting here")
    arguments = parser.parse_args()
    size = {"vocab": arguments.vocab, "d_model": 512, "d_ff": 2048, "heads": 8, "layers": 6}
    if arguments.quick:
        size = {"vocab": 1000, "d_model": 64, "d_ff": 128, "heads": 4, "layers": 3}
        arguments.batches, arguments.batch_tokens, arguments.rounds = 2, 128, 1

    if arguments.child:
        import torch

        torch.set_num_threads(arguments.threads)
        allocator = tune() if arguments.allocator == "tuned" else "as glibc comes"
        batches = batches_of_pairs(arguments.batches, arguments.batch_tokens, size["vocab"], arguments.seed)
        result, text = measure(arguments, size, batches)
        parts = {"allocator": allocator, "alternated": result}
        text = f"Allocator: {allocator}\n\n{text}"
        if not (arguments.only_torch or arguments.no_trainer):
            parts["trainer"], lost = trainer_overhead(arguments, size, batches)
            text = f"{text}\n\n{lost}"
        Path(arguments.child).write_text(json.dumps({"result": parts, "text": text}), "utf-8")
        return

    if not arguments.only_torch:
        import clearhead.nn.linear  # noqa: F401 (the header names its way of multiplying)

    facts = header(arguments.threads)
    print_header("Training, forward + backward + Adam", facts)
    print(
        f"size {size}, {arguments.batches} batches of {arguments.batch_tokens} tokens a side, dropout 0.1, "
        "label smoothing 0.1",
        flush=True,
    )
    results, texts = {}, []
    for allocator in ("default", "tuned") if arguments.allocator == "both" else (arguments.allocator,):
        results[allocator], text = run_child(sys.argv[1:], allocator)
        texts.append(text)
        print(f"\n{text}", flush=True)
    if arguments.record:
        record("train_speed", facts, {"size": size, "allocators": results}, "\n\n".join(texts))


if __name__ == "__main__":
    main()
