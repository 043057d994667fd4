"""The demo's floor: a bare `torch.nn.Transformer` trained as long as `make demo`, on the same split.

Same size as the `tiny` preset, same tokenizer, same minutes, same threads, same precision (bf16 where the processor
has it), greedy search. Ours is read from the run directory of `make demo`, or trained first with --train. Both are
scored by the same sacreBLEU and chrF on the detokenised test set.

Goal: ours ≥ 2 BLEU above. (An early trial of the bare model gave 23.8 BLEU / 47.2 chrF in 8 minutes on a strict
split and 25.2 / 50.8 on one by exact source; other processors give other figures.)
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness import ROOT, common_arguments, cpu_info, header, print_header, record, table

BOS, EOS = 2, 3
Ids = list[tuple[list[int], list[int]]]


def read(path: Path) -> list[str]:
    """The lines of a file; a line ends at the newline character only."""
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def shuffled_batches(pairs: Ids, budget: int, rng: random.Random) -> list[Ids]:
    """One epoch: batches of like length, at most `budget` padded tokens a side, in random order."""
    order = sorted(range(len(pairs)), key=lambda index: (max(map(len, pairs[index])), rng.random()))
    batches: list[Ids] = [[]]
    for index in order:
        if (max(map(len, pairs[index])) + 1) * (len(batches[-1]) + 1) > budget and batches[-1]:
            batches.append([])
        batches[-1].append(pairs[index])
    rng.shuffle(batches)
    return batches


def train_bare(
    pairs: Ids, vocab: int, size: Any, arguments: Any, *, minutes: float, bf16: bool
) -> tuple[Any, dict[str, float]]:
    """The bare model after `minutes` of training, and what it did in them."""
    import torch
    from torch_peer import TorchTransformer, pad, step

    torch.manual_seed(arguments.seed)
    rng = random.Random(arguments.seed)
    model = TorchTransformer(
        vocab, size.d_model, size.d_ff, size.attention.heads, size.encoder_layers, dropout=size.dropout
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    start, updates, seen, shown = time.perf_counter(), 0, 0, 0.0
    model.train()
    while True:
        for batch in shuffled_batches(pairs, arguments.batch_tokens, rng):
            elapsed = time.perf_counter() - start
            if elapsed >= 60 * minutes:
                print(file=sys.stderr)
                return model, {"updates": updates, "tokens": seen, "seconds": elapsed, "tokens/s": seen / elapsed}
            updates += 1
            warm = min(1.0, updates / arguments.warmup)
            if arguments.schedule == "linear":
                rate = arguments.peak * min(warm, 1 - elapsed / (60 * minutes))
            else:
                rate = arguments.peak * min(warm, (arguments.warmup / updates) ** 0.5)
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = step(
                model,
                optimizer,
                pad([[*source, EOS] for source, _ in batch]),
                pad([[BOS, *target] for _, target in batch]),
                pad([[*target, EOS] for _, target in batch]),
                bf16=bf16,
            )
            seen += sum(len(source) + len(target) + 2 for source, target in batch)
            if elapsed - shown > 5:
                shown = elapsed
                print(
                    f"\r  bare: {elapsed / 60:.1f}/{minutes:.1f} min, {updates} updates, loss {float(loss):.2f}, "
                    f"{seen / elapsed:.0f} tokens/s",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )


def our_run(run: Path) -> dict[str, float]:
    """How long our run trained, its updates and its tokens a second, from its metrics file."""
    last: dict[str, Any] = {}
    for line in read(run / "metrics.jsonl"):
        last |= json.loads(line)
    seconds = float(last["seconds"])
    tokens = float(last["tokens"]) + float(last["source_tokens"])
    return {"updates": last["update"], "tokens": tokens, "seconds": seconds, "tokens/s": tokens / seconds}


def main() -> None:
    parser = common_arguments(__doc__.split("\n", 1)[0])
    parser.add_argument("--pair", default="en-de", help="SOURCE-TARGET of the demo")
    parser.add_argument("--split", choices=["strict", "exact"], default="strict")
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "home-assistant")
    parser.add_argument("--run", type=Path, default=None, help="our run (default: runs/demo-PAIR)")
    parser.add_argument("--train", action="store_true", help="train ours first, as `make demo` does")
    parser.add_argument(
        "--minutes", type=float, default=None, help="training time of the bare model (default: as ours)"
    )
    parser.add_argument(
        "--batch-tokens", type=int, default=2048, help="padded tokens of the bare model's batches, a side"
    )
    parser.add_argument("--peak", type=float, default=2e-3, help="the bare model's highest learning rate")
    parser.add_argument("--warmup", type=int, default=500, help="the bare model's warm-up updates")
    parser.add_argument(
        "--schedule",
        choices=["noam", "linear"],
        default="noam",
        help="the bare model's rate: the paper's inverse square root, or down to zero in the time it has (stricter)",
    )
    parser.add_argument("--bf16", choices=["auto", "on", "off"], default="auto")
    arguments = parser.parse_args()

    source_code, target_code = arguments.pair.split("-")
    folder = arguments.data / arguments.pair / arguments.split
    run = arguments.run or ROOT / "runs" / f"demo-{arguments.pair}"
    if not (folder / f"train.{source_code}").is_file():
        raise SystemExit(f"{folder}: no corpus here; `make demo` or `clearhead data get` brings it")
    if arguments.train:
        command = [sys.executable, "-m", "clearhead.recipes.demo", "--pair", arguments.pair]
        subprocess.run(command, check=True, cwd=ROOT)

    import torch

    from clearhead.metrics.scores import score_corpus
    from clearhead.models import presets
    from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

    torch.set_num_threads(arguments.threads)
    text = {
        name: (read(folder / f"{name}.{source_code}"), read(folder / f"{name}.{target_code}"))
        for name in ("train", "test")
    }
    facts = header(arguments.threads)
    print_header(f"The demo's floor, {arguments.pair}, {arguments.split} split", facts)
    ours = (run / "metrics.jsonl").is_file()
    if ours:
        from clearhead.bundle.bundle import load_bundle

        bundle = load_bundle(run)
        tokenizers, size = bundle.tokenizers, bundle.config
    else:
        print(f"{run}: no run here; the bare model stands alone (make demo, or --train)")
        config = TokenizerConfig(vocab_size=4000)
        tokenizers = Tokenizers.train(config, lambda: list(zip(*text["train"], strict=True)))
        size = presets.tiny(vocab_size=tokenizers.target.vocab_size)
    minutes = arguments.minutes or (our_run(run)["seconds"] / 60 if ours else 8.0)
    if arguments.quick:
        minutes, text["test"] = 0.1, (text["test"][0][:50], text["test"][1][:50])
    bf16 = arguments.bf16 == "on" or (arguments.bf16 == "auto" and "avx512_bf16" in cpu_info()["flags"])
    print(
        f"d_model {size.d_model}, d_ff {size.d_ff}, {size.encoder_layers}+{size.decoder_layers} layers, "
        f"{size.attention.heads} heads, vocabulary {tokenizers.target.vocab_size}, {minutes:.1f} minutes, "
        f"{'bf16' if bf16 else 'fp32'}"
    )

    pairs = list(
        zip(tokenizers.source.encode_all(text["train"][0]), tokenizers.target.encode_all(text["train"][1]), strict=True)
    )
    pairs = [(source, target) for source, target in pairs if 0 < len(source) <= 256 and 0 < len(target) <= 256]
    model, bare = train_bare(pairs, tokenizers.target.vocab_size, size, arguments, minutes=minutes, bf16=bf16)
    from torch_peer import greedy

    sources, references = text["test"]
    outputs = greedy(model, [[*tokenizers.source.encode(line), EOS] for line in sources])
    systems: dict[str, tuple[list[str], dict[str, float]]] = {
        "torch.nn.Transformer, greedy": ([tokenizers.target.decode(ids) for ids in outputs], bare)
    }
    if ours:
        import clearhead

        translator = clearhead.load(run)
        for name, beam in (("clearhead, greedy", 1), ("clearhead, beam 4", 4)):
            systems[name] = ([one.text for one in translator.translate(sources, beam=beam)], our_run(run))

    rows, result = [], {}
    for name, (hypotheses, training) in systems.items():
        scores = score_corpus(hypotheses, references, target_language=target_code)
        rows.append(
            [
                name,
                f"{scores.bleu.value:.2f}",
                f"{scores.chrf.value:.2f}",
                f"{training['seconds'] / 60:.1f}",
                f"{training['updates']:.0f}",
                f"{training['tokens/s']:.0f}",
            ]
        )
        result[name] = {"bleu": scores.bleu.value, "chrf": scores.chrf.value, "training": training}
        signature = f"{scores.bleu.signature}\n{scores.chrf.signature}"
    answer = table(["system", "BLEU", "chrF", "minutes", "updates", "tokens/s"], rows) + f"\n\n{signature}"
    for name in list(systems)[1:]:
        difference = result[name]["bleu"] - result["torch.nn.Transformer, greedy"]["bleu"]
        answer += f"\n{name}: {difference:+.2f} BLEU over the bare model"
    print(answer)
    if arguments.record:
        result |= {
            "bare model": {key: getattr(arguments, key) for key in ("schedule", "peak", "warmup", "batch_tokens")}
        }
        result |= {"pair": arguments.pair, "split": arguments.split, "bf16": bf16, "signature": signature}
        record("demo_floor", facts, result, answer)


if __name__ == "__main__":
    main()
