"""Translations out of hypotheses: the pieces of a text joined, its score, and what is to be known about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.penalties import score as penalised
from clearhead.decoding.search import Hypothesis
from clearhead.recipes.plans import Plan
from clearhead.recipes.translation import Scored, Translation
from clearhead.text.tokenizer import Tokenizer

__all__ = ["assemble", "scored"]


def assemble(
    plan: Plan, found: Sequence[Sequence[Hypothesis]], config: DecodingConfig, target: Tokenizer, space: str
) -> Translation:
    """The translation of a text out of the n-best list of each of its pieces, which `space` joins.

    The n-th translation of a text in pieces is made of the n-th of every piece, as far as all have one.
    """
    if not plan.pieces:
        return Translation("", 0.0, flags=plan.flags)
    if not all(found):
        return Translation("", 0.0, flags=(*plan.flags, "failed"))
    ranked = [_joined(each, plan.flags, config, target, space) for each in zip(*found, strict=False)]
    best, *others = sorted(ranked, key=lambda each: -each.score)
    return Translation(best.text, best.score, best.tokens, best.flags, best.log_prob, tuple(others))


def scored(hypothesis: Hypothesis | None, target: Tokenizer) -> Scored:
    """What a forced hypothesis says of its pair; None: that the pair failed."""
    if hypothesis is None:
        return Scored(math.nan, math.nan, flags=("failed",))
    pieces = tuple(target.pieces(hypothesis.tokens))
    return Scored(hypothesis.score, hypothesis.log_prob, pieces, hypothesis.token_log_probs)


def _joined(
    hypotheses: Sequence[Hypothesis], flags: tuple[str, ...], config: DecodingConfig, target: Tokenizer, space: str
) -> Translation:
    text = space.join(target.decode(each.tokens) for each in hypotheses)
    if not all(each.finished for each in hypotheses):
        flags += ("max_length",)
    if "\n" in text:
        text, flags = text.replace("\n", " "), (*flags, "newline")
    log_prob = sum(each.log_prob for each in hypotheses)
    length = sum(len(each.token_log_probs) for each in hypotheses)
    pieces = target.pieces(chain.from_iterable(each.tokens for each in hypotheses))
    return Translation(text, penalised(config, log_prob, length), tuple(pieces), flags, log_prob)
