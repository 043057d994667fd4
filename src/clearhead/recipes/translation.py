"""What a translator returns."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Scored", "Translation"]


@dataclass(frozen=True)
class Translation:
    """The translation of one text.

    Attributes:
        text: always one line; empty for a blank text.
        score: what translations are ranked by: `log_prob` over the length penalty; nearer to 0 is better.
        tokens: the pieces of the text, without BOS and EOS.
        flags: what to know before trusting it —
            "blank": nothing but space came in, and the model was not asked;
            "split": the text was too long for the model and was translated in pieces, `score` being that of all;
            "max_length": the length limit ended it, so it may be incomplete;
            "newline": a line break that the model wrote was replaced by a space;
            "glossary": a term of the glossary is missing in it;
           "placeholders_repaired": the model had broken placeholders or tags of the text, and all are there now;
           "placeholders": it did, and they are not all there, or not where they may stand;
           "failed": it could not be translated, see the log; the text is empty;
           "unknown_replaced": words that the model did not know were replaced by way of its attention;
           "unaligned": links were asked for and could not be made, see the log.
        log_prob: natural log of P(translation | text) under the model.
        alternatives: the other translations of an n-best list, best first.
        links: (source word, target word) of each link, from 0, if links were asked for.
    """

    text: str
    score: float
    tokens: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    log_prob: float = 0.0
    alternatives: tuple[Translation, ...] = ()
    links: frozenset[tuple[int, int]] | None = None


@dataclass(frozen=True)
class Scored:
    """How likely the model finds a given translation, by teacher forcing.

    Attributes:
        score: `log_prob` over the length penalty, comparable with `Translation.score`.
        log_prob: natural log of P(target, EOS | source).
        tokens: the pieces of the target, without EOS.
        token_log_probs: the log-probability of each token, that of EOS last; their sum is `log_prob`.
        flags: ("failed",) if the pair could not be scored, see the log; the figures are then not numbers.
        links: (source word, target word) of each link, from 0, if links were asked for and could be made.
    """

    score: float
    log_prob: float
    tokens: tuple[str, ...] = ()
    token_log_probs: tuple[float, ...] = ()
    flags: tuple[str, ...] = ()
    links: frozenset[tuple[int, int]] | None = None

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a token, EOS included."""
        return math.exp(-self.log_prob / len(self.token_log_probs)) if self.token_log_probs else math.nan
