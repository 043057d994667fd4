"""What a search returns, and what it keeps while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.penalties import score
from clearhead.models.protocols import Decoder, Encoder

__all__ = ["Finished", "Hypothesis", "Limits", "Model"]


class Model(Protocol):
    """All that a search knows of a model: `Seq2Seq`, an ensemble, or anything else made of these two."""

    @property
    def encoder(self) -> Encoder:
        """Reads the source."""
        ...

    @property
    def decoder(self) -> Decoder:
        """Writes the target."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One complete translation in token ids.

    `log_prob` is the model's own natural log of P(tokens, EOS | source), a forced prefix included; it is the sum of
    `token_log_probs`, which has one entry more than `tokens`, the last for EOS. `score` is `log_prob` over the length
    penalty of |Y| = len(tokens) + 1. `finished` is False when the length limit ended it, so that EOS was the only
    token left to choose and the text may be incomplete.
    """

    tokens: tuple[int, ...]
    score: float
    log_prob: float
    token_log_probs: tuple[float, ...]
    finished: bool = True

    @classmethod
    def of(
        cls, config: DecodingConfig, tokens: tuple[int, ...], token_log_probs: tuple[float, ...], finished: bool = True
    ) -> Hypothesis:
        """Complete `tokens` given the log-probability of each, EOS last."""
        log_prob = sum(token_log_probs)
        return cls(tokens, score(config, log_prob, len(token_log_probs)), log_prob, token_log_probs, finished)

    @property
    def rank(self) -> tuple[float, int, tuple[int, ...]]:
        """Sort key, best first: higher score, then shorter, then lower tokens."""
        return (-self.score, len(self.tokens), self.tokens)


@dataclass(frozen=True)
class Limits:
    """How many tokens one sentence's hypotheses may hold, EOS not counted, forced prefix included."""

    shortest: int
    longest: int

    @classmethod
    def of(cls, config: DecodingConfig, source_tokens: int, prefix: int) -> Limits:
        """From the sentence's own length, never its neighbours'; a forced prefix always fits.

        `source_tokens` does not count the source's EOS.
        """
        longest = int(config.max_length_ratio * source_tokens) + config.max_length_extra
        if config.max_length is not None:
            longest = min(longest, config.max_length)
        longest = max(longest, prefix)
        return cls(min(config.min_length, longest), longest)


@dataclass
class Finished:
    """The best complete hypotheses of one sentence so far, kept apart from its live beam."""

    wanted: int
    best: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis) -> None:
        """Keep `hypothesis` if it is among the `wanted` best."""
        self.best.append(hypothesis)
        self.best.sort(key=lambda each: each.rank)
        del self.best[self.wanted :]

    def beaten_by(self, bound: float) -> bool:
        """Whether a hypothesis that scores `bound` would still find a place.

        One that only equals the worst does not: it would be longer, and the shorter ranks first.
        """
        return len(self.best) < self.wanted or bound > self.best[-1].score
