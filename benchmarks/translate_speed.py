"""Translation speed in fp32: the plain engine beside transformers and CTranslate2.

The paper's base size with random weights, beam 4, sentences sorted by length in batches of about 1,024 source
tokens. Every side must write exactly as many tokens as the batch's longest source has (random weights stop where
they like), so all do the same work and the stopping rule is out of the picture. transformers runs Marian, the
Transformer of its translation models, at the same size (ReLU, post-norm, tied embeddings); CTranslate2 runs that
very model, converted, at its best setting for batches (as many workers as threads, one thread each).

Beside each side stands how often its decoder ran for a sentence: engines can only be compared fairly when they take as
many steps. Ours and transformers' are counted at the decoder; CTranslate2 does not tell, and its are left open.

Goal: plain engine ≥ 1.5 × transformers. The ratio to CTranslate2 is for a later issue.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import (
    Side,
    alternate,
    common_arguments,
    header,
    length_buckets,
    print_header,
    ratios,
    record,
    table,
)

PAD, BOS, EOS = 0, 2, 3
Batches = list[list[list[int]]]  # batches of sentences of ids, without EOS


class Steps:
    """How often the decoder runs for a sentence. No sentence leaves its batch early here, so it is in every call."""

    def __init__(self) -> None:
        self.calls = self.sentences = self.steps = 0

    def called(self, *_: object) -> None:
        """The decoder has run once more."""
        self.calls += 1

    def end(self, sentences: int) -> None:
        """A batch of so many sentences is done; the calls since the last one were for it."""
        self.steps += self.calls * sentences
        self.sentences += sentences
        self.calls = 0

    @property
    def mean(self) -> float | None:
        """Calls for a sentence, the mean over all; None if nobody counted."""
        return self.steps / self.sentences if self.steps else None


def sentences(count: int, batch_tokens: int, vocab: int, seed: int) -> Batches:
    """Random sentences with the length mix of real text, in length-sorted batches."""
    import random

    rng = random.Random(seed)
    buckets = length_buckets(count, batch_tokens, seed)
    return [[[rng.randrange(8, vocab) for _ in range(source)] for source, _ in bucket] for bucket in buckets]


def lengths(batches: Batches) -> list[int]:
    """The forced output length of each batch: its longest source."""
    return [max(len(sentence) for sentence in batch) for batch in batches]


def marian(size: dict[str, int], seed: int) -> Any:
    """A Marian model of `size` with random weights."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=size["vocab"],
        d_model=size["d_model"],
        max_position_embeddings=512,
        encoder_layers=size["layers"],
        decoder_layers=size["layers"],
        encoder_attention_heads=size["heads"],
        decoder_attention_heads=size["heads"],
        encoder_ffn_dim=size["d_ff"],
        decoder_ffn_dim=size["d_ff"],
        activation_function="relu",
        dropout=0.1,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        num_beams=1,
        tie_word_embeddings=True,
    )
    return MarianMTModel(config).eval()


def transformers_side(model: Any, batches: Batches, beam: int, steps: Steps) -> Callable[[], float]:
    """One run of `generate` over all batches; the seconds it took."""
    import torch

    model.model.decoder.register_forward_hook(steps.called)

    def run() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            for batch, length in zip(batches, lengths(batches), strict=True):
                width = max(len(sentence) for sentence in batch) + 1
                ids = torch.full((len(batch), width), PAD)
                for row, sentence in enumerate(batch):
                    ids[row, : len(sentence) + 1] = torch.tensor([*sentence, EOS])
                output = model.generate(
                    input_ids=ids,
                    attention_mask=(ids != PAD).long(),
                    num_beams=beam,
                    do_sample=False,
                    min_new_tokens=length,
                    max_new_tokens=length,
                    bad_words_ids=[[PAD], [EOS]],
                    length_penalty=0.6,
                )
                steps.end(len(batch))
                if output.shape[1] != length + 1:
                    raise SystemExit(f"transformers wrote {output.shape[1] - 1} tokens, not {length}")
        return time.perf_counter() - start

    return run


def ctranslate2_side(
    model: Any, size: dict[str, int], batches: Batches, beam: int, *, workers: int, threads: int, folder: Path
) -> Callable[[], float]:
    """The same Marian model in CTranslate2, fp32."""
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader

    names = [f"t{index}" for index in range(size["vocab"])]
    names[PAD], names[1], names[BOS], names[EOS] = "<pad>", "<unk>", "<s>", "</s>"
    if not (folder / "model.bin").exists():
        loader = MarianMTLoader()
        loader._remove_pad_weights = lambda spec: None  # our PAD is the first entry, not the last that Marian drops
        spec = loader.get_model_spec(model)
        spec.register_source_vocabulary(list(names))
        spec.register_target_vocabulary(list(names))
        spec.config.bos_token, spec.config.eos_token = "<s>", "</s>"
        spec.config.unk_token, spec.config.decoder_start_token = "<unk>", "<s>"
        spec.config.add_source_eos = True
        spec.validate()
        spec.optimize(quantization="float32")
        folder.mkdir(parents=True, exist_ok=True)
        spec.save(str(folder))
    translator = ctranslate2.Translator(
        str(folder), device="cpu", inter_threads=workers, intra_threads=threads, compute_type="float32"
    )
    tokens = [[[names[token] for token in sentence] for sentence in batch] for batch in batches]

    def run() -> float:
        start = time.perf_counter()
        waiting = []
        # Longest first, so that two workers end together.
        for batch, length in sorted(zip(tokens, lengths(batches), strict=True), key=lambda item: -item[1]):
            waiting.append(
                (
                    length,
                    translator.translate_batch(
                        batch,
                        beam_size=beam,
                        min_decoding_length=length,
                        max_decoding_length=length,
                        asynchronous=True,
                        max_batch_size=0,
                        length_penalty=0.6,
                        suppress_sequences=[["<pad>"]],
                    ),
                )
            )
        for length, results in waiting:
            for result in results:
                written = len(result.result().hypotheses[0])
                if written != length:
                    raise SystemExit(f"CTranslate2 wrote {written} tokens, not {length}")
        return time.perf_counter() - start

    return run


def clearhead_side(size: dict[str, int], batches: Batches, beam: int, seed: int, steps: Steps) -> Callable[[], float]:
    """The plain engine: build, search."""
    import torch

    from clearhead.decoding import DecodingConfig, search
    from clearhead.models import build, presets
    from clearhead.nn.padding import Padded

    if size["d_model"] == 512:
        config = presets.base(vocab_size=size["vocab"])
    else:
        small = {"d_model": size["d_model"], "d_ff": size["d_ff"], "attention": {"heads": size["heads"]}}
        config = presets.tiny(vocab_size=size["vocab"], **small)
    model = build(config, seed=seed).eval()
    advance = model.decoder.advance

    def counted(*arguments: Any) -> Any:
        steps.called()
        return advance(*arguments)

    model.decoder.advance = counted

    def run() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            for batch, length in zip(batches, lengths(batches), strict=True):
                source = Padded.from_lists([[*sentence, EOS] for sentence in batch])
                forced = DecodingConfig(
                    beam=beam, max_length_ratio=0.0, max_length_extra=length, max_length=length, min_length=length
                )
                for hypotheses in search(model, source, forced):
                    if len(hypotheses[0].tokens) != length:
                        raise SystemExit(f"clearhead wrote {len(hypotheses[0].tokens)} tokens, not {length}")
                steps.end(len(batch))
        return time.perf_counter() - start

    return run


def main() -> None:
    parser = common_arguments(__doc__.split("\n", 1)[0])
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--batches", type=int, default=5, help="length-sorted batches of one run")
    parser.add_argument("--batch-tokens", type=int, default=1024, help="source tokens of a batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", action="append", default=[], choices=["clearhead", "transformers", "ctranslate2"])
    arguments = parser.parse_args()
    size = {"vocab": arguments.vocab, "d_model": 512, "d_ff": 2048, "heads": 8, "layers": 6}
    if arguments.quick:
        size = {"vocab": 1000, "d_model": 64, "d_ff": 128, "heads": 4, "layers": 3}
        arguments.batches, arguments.batch_tokens, arguments.rounds = 2, 128, 1

    import torch

    if "clearhead" not in arguments.without:
        import clearhead.nn.linear  # noqa: F401 (the header names its way of multiplying)

    torch.set_num_threads(arguments.threads)
    batches = sentences(arguments.batches, arguments.batch_tokens, size["vocab"], arguments.seed)
    work = float(sum(len(batch) * length for batch, length in zip(batches, lengths(batches), strict=True)))
    facts = header(arguments.threads)
    print_header("Translation, fp32, forced lengths", facts)
    count = sum(len(batch) for batch in batches)
    print(
        f"size {size}, beam {arguments.beam}, {count} sentences in {len(batches)} batches, "
        f"{work:.0f} target tokens, {work / count:.2f} a sentence"
    )

    sides: list[Side] = []
    steps = {"clearhead": Steps(), "transformers": Steps()}
    unit = "target tokens/s"
    with tempfile.TemporaryDirectory() as scratch:
        if "clearhead" not in arguments.without:
            run = clearhead_side(size, batches, arguments.beam, arguments.seed, steps["clearhead"])
            sides.append(Side("clearhead", run, work, unit))
        if not {"transformers", "ctranslate2"} <= set(arguments.without):
            model = marian(size, arguments.seed)
            print(f"transformers attention: {model.config._attn_implementation}")
        if "transformers" not in arguments.without:
            run = transformers_side(model, batches, arguments.beam, steps["transformers"])
            sides.append(Side("transformers", run, work, unit))
        if "ctranslate2" not in arguments.without:
            for name, workers, threads in dict.fromkeys(
                [
                    (f"ctranslate2 {arguments.threads}x1", arguments.threads, 1),
                    (f"ctranslate2 1x{arguments.threads}", 1, arguments.threads),
                ]
            ):
                run = ctranslate2_side(
                    model, size, batches, arguments.beam, workers=workers, threads=threads, folder=Path(scratch) / "ct2"
                )
                sides.append(Side(name, run, work, unit))
        alternate(sides, arguments.rounds)

    per_sentence = {name: each.mean for name, each in steps.items() if each.mean is not None}
    first = sides[0]
    rows = []
    compared = {}
    for side in sides:
        ratio = ratios(first, side)
        compared[side.name] = ratio
        rows.append(
            [
                side.name,
                f"{side.median:.2f}",
                f"{side.rate:.0f}",
                f"{per_sentence[side.name]:.2f}" if side.name in per_sentence else "not told",
                f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})",
            ]
        )
    text = table(["side", "seconds", unit, "decoder steps a sentence", f"{first.name} is × as fast"], rows)
    print(text)
    if arguments.record:
        result = {
            "size": size,
            "beam": arguments.beam,
            "target_tokens": work,
            "target_tokens_a_sentence": work / count,
            "decoder_steps_a_sentence": per_sentence,
            "sides": {side.name: {"seconds": side.seconds, "rate": side.rate} for side in sides},
            f"{first.name} over": compared,
        }
        record("translate_speed", facts, result, text)


if __name__ == "__main__":
    sys.exit(main())
