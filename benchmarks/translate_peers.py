"""CTranslate2 and transformers as peers of `translate_speed.py`, on the same weights as ours.

CTranslate2 gets what its users would give it: workers × threads and batch sizes are tried and the two best settings
take part in the alternated rounds; calls are asynchronous, longest first; scores are not asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translate_corpus import BOS, EOS, PAD, Batches, Corpus, name
from translate_ours import clock

__all__ = ["CTranslate2", "Setting", "missing", "transformers_model", "transformers_run"]


def missing(package: str) -> str | None:
    """Why a side that needs `package` is left out, or None."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        return f"{package} is not installed: benchmarks/README.md says how"
    return None


@dataclass(frozen=True)
class Setting:
    """How CTranslate2 is run: workers (inter_threads), threads of each (intra_threads), sentences a batch (0: all)."""

    workers: int
    threads: int
    batch: int = 0

    def __str__(self) -> str:
        return f"{self.workers}x{self.threads}, batch {self.batch or 'whole'}"


class CTranslate2:
    """One of our models in CTranslate2, written to `folder` in fp32; its precision is chosen at load."""

    def __init__(self, model: Any, config: Any, folder: Path) -> None:
        from clearhead.export.ctranslate import to_ctranslate2

        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        source, target = name(range(config.source_vocab_size or config.vocab_size)), name(range(config.vocab_size))
        to_ctranslate2(model, config, source, target, folder)

    def translator(self, compute: str, workers: int, threads: int) -> Any:
        """Its translator at "int8" or "float32"; threads and workers as given."""
        import ctranslate2

        return ctranslate2.Translator(
            str(self.folder), device="cpu", inter_threads=workers, intra_threads=threads, compute_type=compute
        )

    def forced(
        self, translator: Any, corpus: Corpus, beam: int, batch: int, now: Callable[[], float]
    ) -> Callable[[], float]:
        """One run, every sentence to one token more than its source has; the seconds by the clock `now`."""
        named = [[name(sentence) for sentence in group] for group in corpus.longest_first]

        def run() -> float:
            start = now()
            waiting = []
            for group in named:
                length = len(group[0]) + 1
                results = translator.translate_batch(
                    group,
                    beam_size=beam,
                    min_decoding_length=length,
                    max_decoding_length=length,
                    length_penalty=0.6,
                    max_batch_size=batch,
                    asynchronous=True,
                )
                waiting.append((length, results))
            written = [(length, result.result().hypotheses[0]) for length, results in waiting for result in results]
            seconds = now() - start
            if any(length != len(tokens) for length, tokens in written):
                raise SystemExit("CTranslate2 wrote translations of other lengths than were forced")
            return seconds

        return run

    def singly(self, translator: Any, corpus: Corpus, beam: int, now: Callable[[], float]) -> Callable[[], float]:
        """One run, a call a sentence, each awaited before the next; the seconds by the clock `now`."""
        named = [name(sentence) for sentence in corpus.sources]

        def run() -> float:
            start = now()
            for sentence in named:
                length = len(sentence) + 1
                translator.translate_batch(
                    [sentence],
                    beam_size=beam,
                    min_decoding_length=length,
                    max_decoding_length=length,
                    length_penalty=0.6,
                )
            return now() - start

        return run

    def best(
        self, compute: str, corpus: Corpus, beam: int, threads: int, sizes: Sequence[int] = (0, 32, 16), keep: int = 2
    ) -> list[tuple[Setting, Callable[[], float]]]:
        """The `keep` quickest of all settings for `threads` threads in one trial each, warmed up before."""
        shapes = dict.fromkeys([(threads, 1), (1, threads)])
        trials = []
        for workers, each in shapes:
            translator = self.translator(compute, workers, each)
            for place, batch in enumerate(sizes):
                setting = Setting(workers, each, batch)
                run = self.forced(translator, corpus, beam, batch, clock(threads))
                if place == 0:
                    run()
                trials.append((run(), setting, run))
                print(f"  ctranslate2 {compute} {setting}: {trials[-1][0]:.2f} s", file=sys.stderr, flush=True)
        trials.sort(key=lambda trial: trial[0])
        return [(setting, run) for _, setting, run in trials[:keep]]


def transformers_model(model: Any, config: Any, *, bf16: bool = False) -> Any:
    """The same weights as transformers' Marian, in fp32 or bf16."""
    import torch

    from clearhead.export.marian import to_marian

    marian = to_marian(model, config).eval()
    return marian.to(torch.bfloat16) if bf16 else marian


def transformers_run(model: Any, corpus: Corpus, beam: int, threads: int) -> Callable[[], float]:
    """One run of `generate`, a call a group; the seconds."""
    import torch

    now = clock(threads)
    groups = corpus.longest_first

    def run() -> float:
        torch.set_num_threads(threads)
        start = now()
        with torch.inference_mode():
            for group in groups:
                _generate(model, group, beam)
        return now() - start

    return run


def _generate(model: Any, group: Batches, beam: int) -> None:
    import torch

    length = len(group[0]) + 1
    ids = torch.tensor([[*sentence, EOS] for sentence in group])
    output = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        num_beams=beam,
        do_sample=False,
        min_new_tokens=length,
        max_new_tokens=length,
        bad_words_ids=[[PAD], [EOS]],
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        length_penalty=0.6,
    )
    if output.shape[1] != length + 1:
        raise SystemExit(f"transformers wrote {output.shape[1] - 1} tokens, not {length}")
