"""A whole Transformer in the native library: many sentences in, their translations out, in one call.

The library encodes, decodes and searches by itself (native/session.h); here a model is handed to it, and a search is
put into its words and back. Its rules are those of `decoding/beam.py`, ties included. Of every sentence it calculates
the same bits, alone or in company, with any number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_int64

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.base.errors import DecodingError, InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Hypothesis, Limits
from clearhead.engine.library import Library
from clearhead.engine.native_structures import Search, Shape, declare, is_double, shape_of
from clearhead.engine.weights import Weights
from clearhead.nn.positions import LearnedPositions, NoPositions, sinusoidal_table
from clearhead.text.symbols import BOS, EOS, PAD

__all__ = ["REACH", "NativeModel"]

PENALTIES = ("gnmt", "length", "none")  # in the order of native/api.h
SLICE = 200
"""Milliseconds after which a search comes back to be asked whether it should go on."""
MOST_THREADS, MOST_TOKENS = 1024, 1 << 62
"""What the library's integers hold, and more than serves anybody."""
REACH = 1 << 13
"""Tokens that a hypothesis may be allowed here: vectors of all their positions are made before a search begins."""


class NativeModel:
    """`weights`, whose products are all native, as the library runs them. Threads may share one."""

    def __init__(self, weights: Weights, library: Library) -> None:
        self.weights = weights
        self.library = library
        declare(library.handle)
        shape: Shape = shape_of(weights)
        self._dtype = torch.float64 if is_double(weights) else torch.float32
        self._model: int | None = library.handle.ch_model_new(byref(shape))
        if self._model is None:
            raise MemoryError("no memory for the native model")
        self._tables: dict[nn.Module, Tensor] = {}
        self._last = threading.local()

    def __del__(self) -> None:
        if getattr(self, "_model", None) is not None:
            self.library.handle.ch_model_free(self._model)
            self._model = None

    @property
    def steps(self) -> tuple[int, int]:
        """Decoder steps and sentences of this thread's last search: a sentence takes part in a step, or not."""
        found: tuple[int, int] = getattr(self._last, "steps", (0, 0))
        return found

    @staticmethod
    def reaches(config: DecodingConfig, source_tokens: int, prefix: int = 0) -> bool:
        """Whether a sentence of so many tokens, EOS not counted, can be searched here as `config` allows it to grow."""
        return Limits.of(config, source_tokens, prefix).longest <= REACH

    def search(
        self,
        sources: Sequence[Sequence[int]],
        config: DecodingConfig,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        batch_tokens: int,
        threads: int,
        team: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis] | None]:
        """The best translations of each of `sources` (ids with their EOS), as `decoding.search` returns them.

        None stands for a sentence whose logits are not numbers. The longest sentences are taken up first. At most
        `batch_tokens` source tokens × hypotheses are searched at once by each thread, where a sentence counts for a
        quarter at least of what source and translation may come to; a few sentences are shared by as
        many threads as are worth it, or by `team` of them.
        `progress` is called with the number of sentences done; what it raises ends the search.

        Raises DecodingError for ids or prefixes that the model does not know and for sampling, InputError for a text
        longer than the positions that the model learnt and for a limit that this engine does not reach (`reaches`),
        MemoryError.
        """
        if config.sampling is not None:
            raise DecodingError("the native engine searches; samples are drawn by the other engines")
        prefixes = [()] * len(sources) if prefixes is None else prefixes
        self._check(sources, prefixes)
        self._last.steps = (0, len(sources))
        if not sources:
            return []
        order = sorted(range(len(sources)), key=lambda place: -len(sources[place]))
        limits = [Limits.of(config, max(0, len(sources[place]) - 1), len(prefixes[place])) for place in order]
        if (most := max(each.longest for each in limits)) > REACH:
            raise InputError(
                f"translations of {most:,} tokens: the native library writes up to {REACH:,}; set max_length"
            )
        tables = [
            self._positions(self.weights.source.positions, max(map(len, sources))),
            self._positions(self.weights.target.positions, most + 1),
        ]
        text, text_ends = _flat([sources[place] for place in order])
        forced, forced_ends = _flat([prefixes[place] for place in order])
        shortest = np.array([each.shortest for each in limits], dtype=np.int32)
        longest = np.array([each.longest for each in limits], dtype=np.int32)
        arrays = [text, text_ends, forced, forced_ends, shortest, longest]
        asked = Search(
            config.beam,
            config.n_best,
            PENALTIES.index(config.penalty),
            config.alpha,
            max(1, min(threads, MOST_THREADS)),
            max(0, min(team, MOST_THREADS)),
            max(1, min(batch_tokens, MOST_TOKENS)),
            len(order),
            *(each.ctypes.data for each in arrays),
            *(None if table is None else table.data_ptr() for table in tables),
        )
        found = self._run(asked, config, progress)
        results: list[list[Hypothesis] | None] = [None] * len(sources)
        for place, each in zip(order, found, strict=True):
            results[place] = each
        return results

    def _check(self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]]) -> None:
        """Nothing wrong may reach the library, which checks nothing."""
        if len(sources) != len(prefixes):
            raise DecodingError(f"{len(sources)} sentences and {len(prefixes)} prefixes: give one of each a sentence")
        known = self.weights.source.table.outputs, self.weights.target.table.outputs
        for number, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
            if len(source) == 0:
                raise DecodingError(f"sentence {number} is empty: it needs EOS at least")
            for ids, size in zip((source, prefix), known, strict=True):
                if wrong := {type(each).__name__ for each in ids if type(each) is not int}:
                    raise DecodingError(f"sentence {number} holds an id that is no int but a {min(wrong)}: convert it")
                if len(ids) and not (min(ids) >= 0 and max(ids) < size):
                    raise DecodingError(f"sentence {number} holds an id outside the vocabulary of {size}")
            if reserved := {PAD, BOS, EOS}.intersection(prefix):
                raise DecodingError(
                    f"the prefix of sentence {number} holds the reserved token {min(reserved)}: remove it"
                )

    def _positions(self, positions: nn.Module, count: int) -> Tensor | None:
        """The vectors of the first `count` positions, or of more: [≥ count, D]; None where the model has none."""
        if isinstance(positions, NoPositions):
            return None
        limit = positions.max_positions
        if isinstance(limit, int) and count > limit:
            raise InputError(f"position {count - 1} asked of a model with {limit} positions: cut the text")
        if isinstance(positions, LearnedPositions):
            return self._tables.setdefault(positions, positions.weight.detach().to(self._dtype).contiguous())
        known = self._tables.get(positions)
        if known is not None and len(known) >= count:
            return known
        table = sinusoidal_table(max(256, 1 << count.bit_length()), self.weights.d_model).to(self._dtype)
        self._tables[positions] = table  # grown by replacement: a search that reads the old one keeps it
        return table

    def _run(
        self, asked: Search, config: DecodingConfig, progress: Callable[[int], None] | None
    ) -> list[list[Hypothesis] | None]:
        handle, sentences = self.library.handle, asked.sentences
        session = handle.ch_session_new(self._model, byref(asked))
        if session is None:
            raise MemoryError("no memory for a search")
        try:
            done = 0
            while done < sentences:
                done = handle.ch_session_run(session, SLICE)
                if done < 0:
                    raise MemoryError(
                        "no memory for a search: choose fewer batch tokens, a narrower beam or fewer threads"
                    )
                if progress is not None:
                    progress(done)
            counts, steps = np.empty(sentences, dtype=np.int32), c_int64()
            total = handle.ch_session_counts(session, counts.ctypes.data, byref(steps))
            hypotheses = int(counts.clip(min=0).sum())
            lengths, in_time = np.empty(hypotheses, dtype=np.int32), np.empty(hypotheses, dtype=np.uint8)
            tokens, log_probs = np.empty(total, dtype=np.int32), np.empty(total + hypotheses, dtype=np.float64)
            places = (each.ctypes.data for each in (lengths, in_time, tokens, log_probs))
            handle.ch_session_read(session, *places)
        finally:
            handle.ch_session_free(session)
        self._last.steps = (steps.value, sentences)
        return _hypotheses(config, counts, lengths, in_time, tokens, log_probs)


def _flat(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """All rows one after the other, int32, and where each ends, int64."""
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    return np.array([token for row in rows for token in row], dtype=np.int32), ends


def _hypotheses(
    config: DecodingConfig,
    counts: np.ndarray,
    lengths: np.ndarray,
    in_time: np.ndarray,
    tokens: np.ndarray,
    log_probs: np.ndarray,
) -> list[list[Hypothesis] | None]:
    """What `ch_session_read` wrote, sentence by sentence."""
    ids, figures = tokens.tolist(), log_probs.tolist()
    each = iter(zip(lengths.tolist(), in_time.tolist(), strict=True))
    found: list[list[Hypothesis] | None] = []
    token = figure = 0
    for count in counts.tolist():
        best = []
        for _ in range(max(0, count)):
            length, early = next(each)
            words, prices = tuple(ids[token : token + length]), tuple(figures[figure : figure + length + 1])
            best.append(Hypothesis.of(config, words, prices, bool(early)))
            token, figure = token + length, figure + length + 1
        found.append(None if count < 0 else best)
    return found
