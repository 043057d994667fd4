"""What a search is asked for: beam, length penalty, limits on the length, sampling."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from clearhead.config.strict import Config

__all__ = ["DecodingConfig", "Penalty", "Sampling"]

Penalty = Literal["gnmt", "length", "none"]


class Sampling(Config):
    """Draw each token from the model's distribution instead of searching for the likeliest sequence.

    The logits are divided by `temperature`; then only the `top_k` likeliest tokens stay, then the smallest set of
    the likeliest whose probability reaches `top_p` (nucleus sampling, Holtzman et al. 2020, §3.1); what stays is
    renormalised. A temperature towards 0 is greedy search.
    """

    temperature: float = Field(default=1.0, gt=0.0)
    """Above 1 flatter, below 1 more peaked."""
    top_k: int | None = Field(default=None, ge=1)
    """How many tokens to choose from; none: all of them."""
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    """The probability that the tokens to choose from must reach together; none: all of it."""


class DecodingConfig(Config):
    """How to find the translation; the defaults are those of Vaswani et al. 2017, §6.1.

    Lengths in this table count tokens without BOS and EOS. A hypothesis may hold at most
    `max_length_ratio` × (source tokens) + `max_length_extra` tokens, and never more than `max_length`.
    """

    beam: int = Field(default=4, ge=1, le=100_000)
    """Hypotheses kept alive per sentence; 1 is greedy search."""
    n_best: int = Field(default=1, ge=1, le=100_000)
    """Translations to return per sentence, at most `beam`; with sampling, the number of samples."""
    penalty: Penalty = "gnmt"
    """What divides the log-probability: ((5 + |Y|) / 6)^alpha, |Y|^alpha, or nothing."""
    alpha: float = Field(default=0.6, ge=-20, le=20)
    """Exponent of the length penalty: the larger, the longer the translations."""
    max_length_ratio: float = Field(default=1.0, ge=0.0)
    max_length_extra: int = Field(default=50, ge=0)
    max_length: int | None = Field(default=None, ge=0)
    """A ceiling for every sentence, whatever its source; none: only the two values above."""
    min_length: int = Field(default=0, ge=0)
    """No hypothesis ends before it holds so many tokens (or its own maximum, if that is less)."""
    sampling: Sampling | None = None
    """Draw tokens at random instead of searching."""
    seed: int = 0
    """Which random numbers the samples use; the same seed gives the same samples in any batch."""
    reproducible: bool = False
    """Give each sentence the same scores, to the last bit, whatever stands beside it; on CPUs only.

    The native library does so in any case; other engines take longer over it.
    """

    @model_validator(mode="after")
    def _fits(self) -> DecodingConfig:
        if self.sampling is None and self.n_best > self.beam:
            raise ValueError(f"n_best {self.n_best} is more than beam {self.beam}: raise beam or ask for fewer")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is more than max_length {self.max_length}")
        return self
