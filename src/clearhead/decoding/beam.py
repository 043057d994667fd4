"""Beam search, many sentences at a time; with a beam of one it is greedy search.

A sentence keeps `beam` live hypotheses and, apart from them, its best finished ones. Each step looks at the
2·beam best continuations of its live hypotheses: EOS among the first `beam` of them finishes a hypothesis, and the
best `beam` of the others live on, so that no ending ever thins the beam. At its length limit a hypothesis can only
end, and pays the model's own price for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Finished, Hypothesis, Limits
from clearhead.decoding.penalties import attainable
from clearhead.decoding.prefill import Start
from clearhead.decoding.select import best_first, top_tokens, wide
from clearhead.models.protocols import Decoder
from clearhead.nn.padding import Padded
from clearhead.text.symbols import EOS, PAD

__all__ = ["Beams", "Candidates", "Guide", "Likeliest", "beam_search"]


@dataclass(frozen=True)
class Beams:
    """The live hypotheses of the sentences still searched, forced prefixes left out.

    `sentences` are places in the batch as it was given. A hypothesis with log-probability −inf is only a filler.
    Shapes: `log_probs` [B, K] (prefix included); `tokens` int64 [B, K, T]; `token_log_probs` [B, K, T].
    """

    sentences: list[int]
    log_probs: Tensor
    tokens: Tensor
    token_log_probs: Tensor

    @classmethod
    def first(cls, start: Start, width: int = 1) -> Beams:
        """Nothing generated yet, every sentence with `width` equal hypotheses."""
        device = start.hidden.device
        totals = [[sum(each)] * width for each in start.prefix_log_probs]
        shape = (len(totals), width, 0)
        return cls(
            list(range(len(totals))),
            torch.tensor(totals, dtype=wide(device), device=device).reshape(shape[:2]),
            torch.zeros(shape, dtype=torch.int64, device=device),
            torch.zeros(shape, dtype=wide(device), device=device),
        )

    @property
    def steps(self) -> int:
        """How many tokens were generated so far."""
        return self.tokens.shape[2]

    def endings(
        self, limits: Sequence[Limits], prefixes: Sequence[Sequence[int]]
    ) -> tuple[Tensor | None, Tensor | None]:
        """Whether each row may end now, and whether it must: bool [B·K] each; None: all may, and none must."""
        device, width = self.tokens.device, self.tokens.shape[1]
        held = [len(prefixes[sentence]) + self.steps for sentence in self.sentences]
        may = [count >= limits[sentence].shortest for count, sentence in zip(held, self.sentences, strict=True)]
        must = [count >= limits[sentence].longest for count, sentence in zip(held, self.sentences, strict=True)]
        return (
            None if all(may) else torch.tensor(may, device=device).repeat_interleave(width),
            torch.tensor(must, device=device).repeat_interleave(width) if any(must) else None,
        )

    def chosen(self, origins: Tensor, tokens: Tensor, token_log_probs: Tensor, log_probs: Tensor) -> Beams:
        """The beams that follow when hypothesis `origins` [B, K'] of each sentence takes `tokens` [B, K']."""
        back = origins[:, :, None].expand(-1, -1, self.steps)
        return Beams(
            self.sentences,
            log_probs,
            torch.cat([self.tokens.gather(1, back), tokens[:, :, None]], dim=2),
            torch.cat([self.token_log_probs.gather(1, back), token_log_probs[:, :, None]], dim=2),
        )

    def close(self, rows: list[int]) -> Beams:
        """Every sentence in its place, but only those on these lines alive: all that the others hold is filler."""
        kept = torch.full_like(self.log_probs, -torch.inf)
        kept[rows] = self.log_probs[rows]
        return replace(self, log_probs=kept)

    def keep(self, rows: list[int]) -> Beams:
        """Only the sentences on these lines."""
        index = torch.tensor(rows, dtype=torch.int64, device=self.tokens.device)
        return Beams(
            [self.sentences[row] for row in rows],
            self.log_probs.index_select(0, index),
            self.tokens.index_select(0, index),
            self.token_log_probs.index_select(0, index),
        )


@dataclass(frozen=True)
class Candidates:
    """The 2·beam best continuations of each sentence, best first: four tensors [B, 2·K].

    `origins` says which live hypothesis each continues.
    """

    log_probs: Tensor
    tokens: Tensor
    origins: Tensor
    token_log_probs: Tensor


class Guide(Protocol):
    """Who chooses the candidates of each step. What it knows of a hypothesis goes where the hypothesis goes."""

    def candidates(self, logits: Tensor, beams: Beams, start: Start, limits: Sequence[Limits], beam: int) -> Candidates:
        """Logits [B·K, V] → the 2·`beam` continuations of each sentence to choose from, in their order."""

    def follow(self, origins: Tensor, tokens: Tensor) -> Guide:
        """The guide after hypothesis `origins` [B, K] of each sentence took `tokens` [B, K]."""

    def keep(self, rows: list[int]) -> Guide:
        """Only the sentences on these lines."""


def beam_search(
    decoder: Decoder, start: Start, limits: Sequence[Limits], config: DecodingConfig, guide: Guide | None = None
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses that the beam finds for each sentence, best first; the likeliest without a guide."""
    guide = guide or Likeliest()
    finished = [Finished(config.n_best) for _ in limits]
    beams, state = Beams.first(start), start.state
    hidden = start.hidden
    while beams.sentences:
        width = beams.tokens.shape[1]
        candidates = guide.candidates(decoder.project(hidden), beams, start, limits, config.beam)
        _finish(candidates, beams, start, limits, config, finished)
        beams, origins = _survivors(candidates, beams, config.beam)
        guide = guide.follow(origins, beams.tokens[:, :, -1])
        going_on = _going_on(beams, start, limits, config, finished)
        if not going_on:
            break
        index = origins + width * torch.arange(len(origins), device=origins.device)[:, None]
        evicted = not config.reproducible and len(going_on) < len(beams.sentences)
        if evicted:
            beams, guide = beams.keep(going_on), guide.keep(going_on)
            index = index[torch.tensor(going_on, device=index.device)]
        elif config.reproducible:
            beams = beams.close(going_on)
        if evicted or width > 1 or config.beam > 1:
            state = state.rows(index)
        hidden, state = decoder.advance(Padded.full(beams.tokens[:, :, -1].reshape(-1, 1)), state)
        hidden = hidden[:, 0]
    return [each.best for each in finished]


class Likeliest:
    """The likeliest continuations; equal ones by lower token, then earlier hypothesis."""

    def candidates(self, logits: Tensor, beams: Beams, start: Start, limits: Sequence[Limits], beam: int) -> Candidates:
        may_end, must_end = beams.endings(limits, start.prefixes)
        sentences, width = beams.log_probs.shape
        values, tokens = top_tokens(logits, 2 * beam, may_end, must_end)
        values = values.to(beams.log_probs.dtype)
        totals = (beams.log_probs.reshape(-1, 1) + values).reshape(sentences, -1)
        origins = torch.arange(width, device=logits.device).repeat_interleave(values.shape[1]).expand(sentences, -1)
        tokens, values = tokens.reshape(sentences, -1), values.reshape(sentences, -1)
        order = best_first(totals, tokens * width + origins)[:, : 2 * beam]
        missing = (0, 2 * beam - order.shape[1])  # a vocabulary smaller than the beam
        pad = torch.nn.functional.pad
        return Candidates(
            pad(totals.gather(1, order), missing, value=-torch.inf),
            pad(tokens.gather(1, order), missing, value=PAD),
            pad(origins.gather(1, order), missing, value=0),
            pad(values.gather(1, order), missing, value=-torch.inf),
        )

    def follow(self, origins: Tensor, tokens: Tensor) -> Likeliest:
        return self

    def keep(self, rows: list[int]) -> Likeliest:
        return self


def _finish(
    candidates: Candidates,
    beams: Beams,
    start: Start,
    limits: Sequence[Limits],
    config: DecodingConfig,
    finished: list[Finished],
) -> None:
    """Move the hypotheses that end with one of the `beam` best continuations to `finished`."""
    first = candidates.tokens[:, : config.beam] == EOS
    for row, column in (first & (candidates.log_probs[:, : config.beam] > -torch.inf)).nonzero().tolist():
        sentence = beams.sentences[row]
        origin = int(candidates.origins[row, column])
        closing = float(candidates.token_log_probs[row, column])
        tokens = (*start.prefixes[sentence], *beams.tokens[row, origin].tolist())
        log_probs = (*start.prefix_log_probs[sentence], *beams.token_log_probs[row, origin].tolist(), closing)
        in_time = len(tokens) < limits[sentence].longest
        finished[sentence].add(Hypothesis.of(config, tokens, log_probs, in_time))


def _survivors(candidates: Candidates, beams: Beams, beam: int) -> tuple[Beams, Tensor]:
    """The `beam` best continuations that do not end, and which hypothesis each comes from [B, K]."""
    ended = candidates.tokens == EOS
    order = ended.to(torch.int8).argsort(dim=1, stable=True)[:, :beam]
    origins = candidates.origins.gather(1, order)
    log_probs = candidates.log_probs.masked_fill(ended, -torch.inf).gather(1, order)
    tokens, values = candidates.tokens.gather(1, order), candidates.token_log_probs.gather(1, order)
    return beams.chosen(origins, tokens, values, log_probs), origins


def _going_on(
    beams: Beams, start: Start, limits: Sequence[Limits], config: DecodingConfig, finished: Sequence[Finished]
) -> list[int]:
    """The lines of the sentences in which a live hypothesis can still win a place among the n best.

    A beam of one has made its choice as soon as it ends: greedy search never weighs one length against another.
    """
    rows = []
    for row, best in enumerate(beams.log_probs.amax(dim=1).tolist()):
        sentence = beams.sentences[row]
        if best == -torch.inf or (config.beam == 1 and finished[sentence].best):
            continue
        held = len(start.prefixes[sentence]) + beams.steps
        divisor = attainable(config, max(held, limits[sentence].shortest) + 1, limits[sentence].longest + 1)
        if finished[sentence].beaten_by(best / divisor):
            rows.append(row)
    return rows
