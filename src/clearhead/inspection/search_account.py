"""What a beam search did, step by step, told by the search itself.

An observer stands before the guide that chooses a search's candidates. It passes every question on and writes down
the answers, so the search is the one of `decoding.beam` and its result that of `decoding.search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.decoding.beam import Beams, Candidates, Guide, Likeliest, beam_search
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Hypothesis, Limits, Model
from clearhead.decoding.prefill import Start, prefill
from clearhead.nn.padding import Padded
from clearhead.text.symbols import EOS

__all__ = ["Candidate", "SearchAccount", "SearchStep", "account_of_search"]


@dataclass(frozen=True)
class Candidate:
    """One continuation that a step looked at.

    `tokens` is the whole hypothesis with `token`, EOS left out; `log_prob` the sum that it has then. `fate` is "kept"
    (it lives on), "finished" (it ended in time for the best `beam`; `score` is then its log-probability over the
    length penalty) or "dropped".
    """

    origin: int
    token: int
    token_log_prob: float
    tokens: tuple[int, ...]
    log_prob: float
    fate: str
    score: float | None = None


@dataclass(frozen=True)
class SearchStep:
    """One step: the hypotheses it began with (tokens and log-probability), and what it made of their continuations."""

    live: tuple[tuple[tuple[int, ...], float], ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class SearchAccount:
    """A search of one sentence: its steps, its limits, and the hypotheses that `decoding.search` returns for it."""

    steps: tuple[SearchStep, ...]
    limits: Limits
    hypotheses: tuple[Hypothesis, ...]

    @property
    def finished(self) -> list[Candidate]:
        """Every hypothesis that ended, best first; the search returns the first `n_best` of them."""
        ended = [each for step in self.steps for each in step.candidates if each.fate == "finished"]
        return sorted(ended, key=lambda each: (-(each.score or 0.0), len(each.tokens), each.tokens))


@torch.no_grad()
def account_of_search(model: Model, source: Sequence[int], config: DecodingConfig) -> SearchAccount:
    """Search for the translation of one sentence (ids without EOS), and tell how it went.

    `hypotheses` equals `search(model, source, config)[0]` to the last bit. `config` must ask for a search, not for
    samples, and not for `reproducible`, whose batches hold more than one sentence.
    """
    assert config.sampling is None and not config.reproducible, "a search of one sentence in a batch of its own"
    device = next(iter(model.parameters())).device if isinstance(model, torch.nn.Module) else None
    limits = Limits.of(config, len(source), 0)
    start = prefill(model, Padded.from_lists([[*source, EOS]], device), [()])
    seen: list[tuple[Beams, Candidates]] = []
    hypotheses = beam_search(model.decoder, start, [limits], config, _Observer(Likeliest(), seen))[0]
    return SearchAccount(tuple(_step(*each, config, limits) for each in seen), limits, tuple(hypotheses))


@dataclass(frozen=True)
class _Observer:
    """Passes on what the guide says, and keeps it in `seen`."""

    guide: Guide
    seen: list[tuple[Beams, Candidates]]

    def candidates(self, logits: Tensor, beams: Beams, start: Start, limits: Sequence[Limits], beam: int) -> Candidates:
        found = self.guide.candidates(logits, beams, start, limits, beam)
        self.seen.append((beams, found))
        return found

    def follow(self, origins: Tensor, tokens: Tensor) -> _Observer:
        return _Observer(self.guide.follow(origins, tokens), self.seen)

    def keep(self, rows: list[int]) -> _Observer:
        return _Observer(self.guide.keep(rows), self.seen)


def _step(beams: Beams, found: Candidates, config: DecodingConfig, limits: Limits) -> SearchStep:
    """The first sentence's part of one step, in plain numbers."""
    before: list[list[int]] = beams.tokens[0].tolist()
    steps = beams.token_log_probs[0].tolist()
    live = [(tuple(tokens), total) for tokens, total in zip(before, beams.log_probs[0].tolist(), strict=True)]
    kept = 0
    candidates = []
    for place, (total, token, origin, own) in enumerate(
        zip(
            found.log_probs[0].tolist(),
            found.tokens[0].tolist(),
            found.origins[0].tolist(),
            found.token_log_probs[0].tolist(),
            strict=True,
        )
    ):
        if total == -torch.inf:
            continue  # a filler, where there are fewer continuations than places
        tokens = tuple(before[origin]) if token == EOS else (*before[origin], token)
        fate, score = "dropped", None
        if token == EOS and place < config.beam:
            in_time = len(tokens) < limits.longest
            fate, score = "finished", Hypothesis.of(config, tokens, (*steps[origin], own), in_time).score
        elif token != EOS and kept < config.beam:
            fate, kept = "kept", kept + 1
        candidates.append(Candidate(origin, token, own, tokens, total, fate, score))
    return SearchStep(tuple(each for each in live if each[1] > -torch.inf), tuple(candidates))
