"""Multi30k en→de: quality and time, beside joeynmt 2.3.0 at the same tokens and updates.

The small configuration that the literature found best for this corpus (Wu et al. 2021: 4+4 layers, d 128, ff 256,
4 heads, dropout 0.3, joint BPE of 10k merges, batches of 4,096 tokens). Ours is trained through `clearhead train`;
joeynmt gets our pieces, as many updates, and a batch size at which its batches hold as many real target tokens as
ours. Both last checkpoints translate test2016 with the same beam and are scored by the same sacreBLEU.

`--hours` trains ours alone for longer, with averaging; started again, it goes on where it was.
Goals: at equal updates not below joeynmt by more than 0.3 BLEU, in less time; the long run ≥ 38 sacreBLEU.
"""

from __future__ import annotations

import lzma
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import joeynmt_peer
from harness import ROOT, children_seconds, common_arguments, header, print_header, record, table
from joeynmt_peer import JoeyPlan

SIZE = {"d_model": 128, "d_ff": 256, "layers": 4, "heads": 4}


def corpus(folder: Path, split: str) -> tuple[list[str], list[str]]:
    """English and German lines of `train`, `val` or `test_2016_flickr`."""
    english, german = (
        lzma.decompress((folder / f"{split}.{code}.xz").read_bytes()).decode("utf-8").removesuffix("\n")
        for code in ("en", "de")
    )
    return english.split("\n"), german.split("\n")


def recipe(arguments: Any, out: Path, *, updates: int, hours: float = 0.0) -> dict[str, Any]:
    """Our recipe as a table; `hours` > 0 for the long run with development scores and averaging."""
    folder = arguments.data.resolve()

    def pair(split: str) -> dict[str, str]:
        return {"source": str(folder / f"{split}.en.xz"), "target": str(folder / f"{split}.de.xz")}

    training: dict[str, Any] = {
        "updates": updates,
        "label_smoothing": 0.1,
        "precision": arguments.precision,
        "threads": arguments.threads,
        "schedule": {
            "kind": "noam",
            "warmup": arguments.warmup,
            "factor": arguments.peak * (SIZE["d_model"] * arguments.warmup) ** 0.5,
        },
        "validate_every": 0,
        "save_every": 0,
        "log_every": 50,
    }
    data: dict[str, Any] = {
        "languages": ["en", "de"],
        "train": pair("train"),
        "batch_tokens": arguments.batch_tokens,
        "max_length": 200,
    }
    if hours:
        training |= {
            "max_minutes": 60 * hours,
            "validate_every": 500,
            "score_every": 1000,
            "save_every": 110,  # an epoch of 29,000 pairs in batches of 4,096 tokens
            "keep_last": 10,
            "average_last": 10,
            "metric": "bleu",
        }
        data["dev"] = pair("val")
    return {
        "out": str(out),
        "seed": arguments.seed,
        "data": data,
        "tokenizer": {"kind": "bpe", "vocab_size": arguments.vocab, "joint": True},
        "model": {
            "preset": "tiny",
            "d_model": SIZE["d_model"],
            "d_ff": SIZE["d_ff"],
            "encoder_layers": SIZE["layers"],
            "decoder_layers": SIZE["layers"],
            "attention": {"heads": SIZE["heads"]},
            "dropout": arguments.dropout,
            "norm": arguments.norm,
        },
        "training": training,
    }


def train_ours(table_: dict[str, Any], out: Path) -> dict[str, Any]:
    """`clearhead train` on the recipe; what its last checkpoint says of it."""
    import tomli_w

    out.mkdir(parents=True, exist_ok=True)
    path = out.with_name(out.name + ".toml")
    path.write_text(tomli_w.dumps(table_), "utf-8")
    from clearhead.bundle.bundle import read_info
    from clearhead.bundle.resolve import steps

    resumed = bool(steps(out))
    before = children_seconds()
    subprocess.run([sys.executable, "-m", "clearhead", "train", str(path)], check=True)
    processor = None if resumed else children_seconds() - before  # of its earlier parts nobody kept the time
    done = read_info(steps(out)[-1][1]).training
    return {
        "updates": done["updates"],
        "seconds": 60 * done["minutes"],
        "target_tokens": done["tokens"],
        "source_tokens": done["source_tokens"],
        "precision": done["precision"],
        "processor_seconds": processor,
    }


def translate_ours(run: Path, sources: list[str], arguments: Any) -> tuple[list[str], float]:
    """Translations of the test set and the seconds they took."""
    import clearhead

    translator = clearhead.load(run)
    start = time.perf_counter()
    found = translator.translate(sources, beam=arguments.beam, alpha=arguments.alpha)
    return [one.text for one in found], time.perf_counter() - start


def train_joey(arguments: Any, run: Path, folder: Path, ours: dict[str, Any]) -> tuple[JoeyPlan, dict[str, Any]]:
    """joeynmt on the pieces of our run, for as many updates with as many tokens: its plan and its training."""
    from clearhead.bundle.bundle import load_bundle

    tokenizer = load_bundle(run).tokenizers.target
    shutil.rmtree(folder, ignore_errors=True)
    lengths: list[tuple[int, int]] = []
    for name, split in (("train", "train"), ("dev", "val"), ("test", "test_2016_flickr")):
        count = 20 if name == "test" and arguments.quick else None
        sides = [tokenizer.encode_all(lines[:count]) for lines in corpus(arguments.data, split)]
        pairs = list(zip(*sides, strict=True))
        if name == "train":
            pairs = [pair for pair in pairs if 0 < len(pair[0]) <= 200 and 0 < len(pair[1]) <= 200]
            lengths = [(len(source), len(target)) for source, target in pairs]
        for position, code in enumerate(("src", "trg")):
            joeynmt_peer.write_pieces(folder / f"{name}.{code}", (tokenizer.pieces(pair[position]) for pair in pairs))
    names = tokenizer.pieces(range(tokenizer.vocab_size))
    joeynmt_peer.write_pieces(folder / "vocabulary.txt", ([name] for name in names[4:]))
    plan = JoeyPlan(
        updates=int(ours["updates"]),
        batch_tokens=joeynmt_peer.equal_budget(lengths, ours["target_tokens"] / ours["updates"]),
        peak=arguments.peak,
        warmup=arguments.warmup,
        dropout=arguments.dropout,
        smoothing=0.1,
        norm=arguments.norm,
        beam=arguments.beam,
        alpha=arguments.alpha,
        max_output=10 if arguments.quick else 100,
        threads=arguments.threads,
        seed=arguments.seed,
        **SIZE,
    )
    return plan, joeynmt_peer.train(plan, folder)


def translate_joey(plan: JoeyPlan, run: Path, folder: Path) -> tuple[list[str], float]:
    """joeynmt's translations as text, put together by our tokenizer, and the seconds they took."""
    from clearhead.bundle.bundle import load_bundle

    tokenizer = load_bundle(run).tokenizers.target
    ids = {name: index for index, name in enumerate(tokenizer.pieces(range(tokenizer.vocab_size))) if index > 3}
    outputs, seconds = joeynmt_peer.translate(plan, folder)
    return [tokenizer.decode([ids[piece] for piece in pieces if piece in ids]) for pieces in outputs], seconds


def planned_updates(arguments: Any, scratch: Path) -> int:
    """How many updates of both fit into --minutes, from a short trial of each side."""
    trial = 20
    shutil.rmtree(scratch, ignore_errors=True)
    ours = train_ours(recipe(arguments, scratch, updates=trial), scratch)
    _, joey = train_joey(arguments, scratch, scratch.with_name(scratch.name + "-joeynmt"), ours)
    each = (ours["seconds"] + joey["seconds"]) / trial
    print(f"trial: ours {ours['seconds'] / trial:.2f} s an update, joeynmt {joey['seconds'] / trial:.2f} s", flush=True)
    return max(50, int(0.93 * 60 * arguments.minutes / each) // 50 * 50)


def row(name: str, scores: Any, training: dict[str, Any], seconds: float) -> list[str]:
    rate = training["target_tokens"] / training["seconds"]
    return [
        name,
        f"{scores.bleu.value:.2f}",
        f"{scores.chrf.value:.2f}",
        str(training["updates"]),
        f"{training['seconds'] / 60:.1f}",
        "–" if training["processor_seconds"] is None else f"{training['processor_seconds'] / 60:.1f}",
        f"{training['target_tokens'] / 1e6:.2f} M",
        f"{rate:.0f}",
        f"{seconds:.1f}",
    ]


def main() -> None:
    parser = common_arguments(__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "multi30k")
    parser.add_argument("--out", type=Path, default=ROOT / "runs", help="where the runs go")
    parser.add_argument("--minutes", type=float, default=30.0, help="training time of both together")
    parser.add_argument("--updates", type=int, default=0, help="updates of each (0: as many as fit into --minutes)")
    parser.add_argument("--hours", type=float, default=0.0, help="instead: ours alone, so long, resumable, averaged")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="padded tokens of our batches, a side")
    parser.add_argument("--vocab", type=int, default=10_000)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--peak", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--warmup", type=int, default=400, help="updates until then")
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto", help="ours; joeynmt has fp32")
    parser.add_argument("--norm", choices=["post", "pre"], default="pre", help="place of the layer norm, both sides")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--alpha", type=float, default=1.0, help="exponent of the length penalty, both sides")
    parser.add_argument("--without-joeynmt", action="store_true")
    arguments = parser.parse_args()
    if not (arguments.data / "train.en.xz").is_file():
        print(
            f"{arguments.data}: the Multi30k corpus is not here, so there is nothing to measure. It is for research "
            "use and does not come with clearhead; give its folder with --data."
        )
        return
    why = "" if arguments.without_joeynmt or arguments.hours else joeynmt_peer.available()
    if why:
        print(f"joeynmt cannot run here ({why}); see benchmarks/README.md. Ours runs alone.")
    alone = bool(arguments.without_joeynmt or arguments.hours or why)

    import torch

    from clearhead.metrics.scores import score_corpus

    torch.set_num_threads(arguments.threads)
    facts = header(arguments.threads)
    print_header("Multi30k en→de, test2016", facts)
    name = "multi30k-long" if arguments.hours else "multi30k"
    out = arguments.out / name
    if arguments.quick:
        arguments.updates, arguments.batch_tokens, out = 10, 512, arguments.out / "multi30k-quick"
    if not arguments.hours:
        shutil.rmtree(out, ignore_errors=True)
    updates = (
        1_000_000
        if arguments.hours
        else arguments.updates or planned_updates(arguments, arguments.out / "multi30k-trial")
    )
    print(
        f"{updates} updates of about {arguments.batch_tokens} tokens, peak rate {arguments.peak:g} at update "
        f"{arguments.warmup}, dropout {arguments.dropout}, beam {arguments.beam}, alpha {arguments.alpha}",
        flush=True,
    )

    count = 20 if arguments.quick else None
    sources, references = (lines[:count] for lines in corpus(arguments.data, "test_2016_flickr"))
    ours = train_ours(recipe(arguments, out, updates=updates, hours=arguments.hours), out)
    texts, seconds = translate_ours(out, sources, arguments)
    scores = score_corpus(texts, references, target_language="de")
    result: dict[str, Any] = {
        "clearhead": {
            "bleu": scores.bleu.value,
            "chrf": scores.chrf.value,
            "training": ours,
            "translation_seconds": seconds,
        }
    }
    rows = [row("clearhead", scores, ours, seconds)]
    (out / "test2016.de").write_text("\n".join(texts) + "\n", "utf-8")
    if not alone:
        folder = out.with_name(out.name + "-joeynmt")
        plan, joey = train_joey(arguments, out, folder, ours)
        texts, seconds = translate_joey(plan, out, folder)
        other = score_corpus(texts, references, target_language="de")
        result["joeynmt"] = {
            "bleu": other.bleu.value,
            "chrf": other.chrf.value,
            "training": joey,
            "translation_seconds": seconds,
        }
        rows.append(row("joeynmt 2.3.0", other, joey, seconds))
    columns = [
        "system",
        "BLEU",
        "chrF",
        "updates",
        "training min",
        "processor min",
        "target tokens",
        "target tok/s",
        "translating s",
    ]
    text = table(columns, rows) + f"\n\n{scores.bleu.signature}\n{scores.chrf.signature}"
    if not alone:
        text += (
            f"\nours: {scores.bleu.value - other.bleu.value:+.2f} BLEU at equal updates, in "
            f"{ours['seconds'] / joey['seconds']:.2f} of the time"
        )
    print(text)
    if arguments.record:
        result |= {"signature": scores.bleu.signature, "arguments": {k: str(v) for k, v in vars(arguments).items()}}
        record(name.replace("-", "_"), facts, result, text)


if __name__ == "__main__":
    main()
