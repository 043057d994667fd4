"""One sentence and one translation of it, found by the search or given, as what an inspection reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Hypothesis
from clearhead.decoding.search import search
from clearhead.inspection.capture import capture
from clearhead.inspection.records import AttentionRecord, Provenance
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.recipes.inspect.tokens import tokens_of
from clearhead.recipes.one_sentence import asked_hypothesis, check_one_line, check_one_search, sentence_ids
from clearhead.recipes.translator import Translator
from clearhead.recipes.walk import unknown_pieces
from clearhead.text.languages import language
from clearhead.text.symbols import BOS, EOS

__all__ = ["InspectedPair", "as_given", "capture_pair", "choose_pair", "unknown_tokens"]

COMMAND = "an inspection"


@dataclass(frozen=True)
class InspectedPair:
    """What is read: `source` with the tag but without EOS, `target` without BOS and EOS; `lead` ids are the tag.

    `target_text` is the text that `target` was encoded from; None if the model wrote it. `rank` (from 1) and `score`
    are those of a hypothesis of the search, None of a given target.
    """

    source_text: str
    target_text: str | None
    source: tuple[int, ...]
    target: tuple[int, ...]
    lead: int
    origin: Literal["given", "search"]
    rank: int | None = None
    score: float | None = None


def choose_pair(
    translator: Translator, text: str, config: DecodingConfig, *, target: str | None = None, rank: int = 1
) -> InspectedPair:
    """`text` with `target`, or with the hypothesis number `rank` that the search of `config` finds.

    Raises InputError for text that is not one sentence on one line, is longer than the translator takes in one piece or
    the model can read, for a search that is none, and for a hypothesis that the search does not give.
    """
    check_one_search(config, COMMAND)
    check_one_line("the text", text, COMMAND)
    ids = [*translator.lead, *sentence_ids(translator, text)]
    config = translator.within_positions(config)
    if target is not None:
        check_one_line("--target", target, COMMAND)
        given = asked_hypothesis(translator, ids, target, config)
        return InspectedPair(text, target, tuple(ids), given.tokens, len(translator.lead), "given")
    found = _hypothesis(translator, ids, config, rank)
    return InspectedPair(text, None, tuple(ids), found.tokens, len(translator.lead), "search", rank, found.score)


def _hypothesis(translator: Translator, ids: list[int], config: DecodingConfig, rank: int) -> Hypothesis:
    if rank < 1:
        raise InputError(f"hypothesis {rank}: they are counted from 1, the best")
    if rank > config.beam:
        raise InputError(
            f"hypothesis {rank} of a beam of {config.beam}: make the beam larger, or ask for one within it"
        )
    wanted = config.model_copy(update={"n_best": max(config.n_best, rank)})
    found = search(translator.model, Padded.from_lists([[*ids, EOS]], translator.device), wanted)[0]
    if rank > len(found):
        raise InputError(f"hypothesis {rank}: the search found {len(found)}; ask for one of these")
    return found[rank - 1]


def capture_pair(
    translator: Translator, pair: InspectedPair, provenance: Provenance, model: Seq2Seq | None = None
) -> AttentionRecord:
    """What the translator's model, or another `model` with its vocabulary, attends to while it reads the pair."""
    tokenizers = translator.tokenizers
    scripts = [language(code).script for code in translator.languages]
    prefix = (BOS, *pair.target)
    target = pair.target_text
    return capture(
        translator.model if model is None else model,
        pair.source,
        pair.target,
        source_tokens=tokens_of(
            tokenizers.source, (*pair.source, EOS), pair.source_text, script=scripts[0], lead=pair.lead
        ),
        prefix_tokens=tokens_of(tokenizers.target, prefix, target, script=scripts[1]),
        gold_tokens=tokens_of(tokenizers.target, (*pair.target, EOS), target, script=scripts[1]),
        provenance=provenance,
        languages=translator.languages,
        texts=(pair.source_text, tokenizers.target.decode(pair.target) if target is None else target),
        origin=pair.origin,
        rank=pair.rank,
        score=pair.score,
    )


def unknown_tokens(translator: Translator, pair: InspectedPair) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What stands in the text, and in a given target, where the vocabulary has no piece; nothing of a found one."""
    tokenizers, lead = translator.tokenizers, pair.lead
    target = pair.target_text
    return (
        unknown_pieces(tokenizers.source, pair.source_text, pair.source[lead:]),
        () if target is None else unknown_pieces(tokenizers.target, target, pair.target),
    )


def as_given(pair: InspectedPair) -> InspectedPair:
    """The pair as one that another model did not find by its own search."""
    return replace(pair, origin="given", rank=None, score=None)
