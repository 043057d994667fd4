"""clearhead's side of `translate_speed.py`: its engines over a model with random weights or a trained one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from translate_corpus import EOS, Corpus

__all__ = ["BATCH_TOKENS", "Counted", "Ours", "clock", "engine", "forced", "forced_run"]

BATCH_TOKENS = 4096
"""Sentences × longest source × hypotheses at once: the default of `clearhead translate` on a CPU."""
NEVER_SHORTER = 100_000
"""As `min_length` it is cut to each sentence's own longest: no translation ends before that."""


def clock(threads: int) -> Callable[[], float]:
    """Processor time for one thread, which a neighbour on the machine cannot lengthen; wall time for more."""
    return time.process_time if threads == 1 else time.perf_counter


def forced(beam: int) -> Any:
    """A search that writes exactly as many tokens as the source has, and then EOS."""
    from clearhead.decoding import DecodingConfig

    return DecodingConfig(beam=beam, max_length_ratio=1.0, max_length_extra=0, min_length=NEVER_SHORTER)


@dataclass
class Ours:
    """An engine and how many threads it may use; `steps` are the decoder steps a sentence of its last search."""

    engine: Any
    threads: int
    steps: float | None = None

    def search(self, sources: Sequence[Sequence[int]], config: Any) -> list[Any]:
        """The best hypothesis of each source (without EOS), in one call of the native search where there is one."""
        ended = [[*source, EOS] for source in sources]
        native = self.engine.native
        if native is None:
            return self._generic(ended, config)
        found = native.search(ended, config, batch_tokens=BATCH_TOKENS, threads=self.threads)
        steps, searched = native.steps
        self.steps = steps / searched
        if None in found:
            raise SystemExit("clearhead's engine failed on a sentence")
        return [hypotheses[0] for hypotheses in found]

    def _generic(self, ended: list[list[int]], config: Any) -> list[Any]:
        """Batches of equal lengths through the search of `decoding/`, those of the fast engine abreast."""
        import torch

        from clearhead.decoding import search
        from clearhead.engine.abreast import abreast
        from clearhead.nn.padding import Padded
        from clearhead.recipes.batching import batches

        def run(model: Any, places: list[int]) -> tuple[list[Any], int]:
            counted = Counted(model, config.beam)
            with torch.inference_mode():
                found = search(counted, Padded.from_lists([ended[place] for place in places]), config)
            return [hypotheses[0] for hypotheses in found], counted.steps

        torch.set_num_threads(self.threads)
        order = sorted(range(len(ended)), key=lambda place: len(ended[place]))
        # Of a long file every thread gets many batches; of these few sentences it shall get three at least.
        budget = min(BATCH_TOKENS // config.beam, sum(map(len, ended)) // (3 * self.threads))
        parts = [*batches(order, budget, lambda place: len(ended[place]))]
        parts.reverse()  # the longest first, so that two threads end together
        threads = self.threads if self.engine.name == "fast" else 1
        found: list[Any] = [None] * len(ended)
        steps = 0
        for places, (best, taken) in zip(parts, abreast(self.engine.model, parts, run, threads), strict=True):
            steps += taken
            for place, hypothesis in zip(places, best, strict=True):
                found[place] = hypothesis
        self.steps = steps / len(ended)
        return found


class Counted:
    """A model whose decoder counts, over all sentences, how often it ran for each."""

    def __init__(self, model: Any, beam: int) -> None:
        self.encoder, self._decoder, self._beam = model.encoder, model.decoder, beam
        self.decoder = self
        self.project = model.decoder.project
        self.steps = 0
        self._rows_a_sentence = 1

    def start(self, memory: Any) -> Any:
        """One row a sentence, until the first tokens are chosen."""
        self._rows_a_sentence = 1
        return self._decoder.start(memory)

    def advance(self, tokens: Any, state: Any) -> Any:
        """Every sentence that is still searched has its rows in `tokens`."""
        self.steps += tokens.ids.shape[0] // self._rows_a_sentence
        self._rows_a_sentence = self._beam
        return self._decoder.advance(tokens, state)


def engine(config: Any, precision: str, seed: int, kind: str = "fast") -> Any:
    """An engine over a model of `config` with random weights; the same seed gives the same model."""
    from clearhead.engine.choose import choose_engine
    from clearhead.models import build

    return choose_engine(build(config, seed=seed).eval(), kind, precision, consume=kind == "fast")


def forced_run(ours: Ours, corpus: Corpus, beam: int, *, singly: bool = False) -> Callable[[], float]:
    """One run over the corpus, all sentences in one call or each in its own; the seconds, and the lengths checked."""
    config, now = forced(beam), clock(ours.threads)
    sources = corpus.sources

    def run() -> float:
        start = now()
        calls = [[source] for source in sources] if singly else [sources]
        found = [each for call in calls for each in ours.search(call, config)]
        seconds = now() - start
        if [len(each.tokens) for each in found] != [len(source) for source in sources]:
            raise SystemExit("clearhead wrote translations of other lengths than were forced")
        return seconds

    return run
