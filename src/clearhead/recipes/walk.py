"""One sentence through a translator, with everything that is computed on the way: what `clearhead walk` shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Hypothesis
from clearhead.inspection.replay import Replay, replay
from clearhead.inspection.search_account import SearchAccount, account_of_search
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder, TransformerEncoder
from clearhead.recipes.one_sentence import asked_hypothesis, check_one_line, check_one_search, sentence_ids
from clearhead.recipes.translator import Translator
from clearhead.text.config import SPACE_MARK
from clearhead.text.symbols import UNK
from clearhead.text.tokenizer import Tokenizer

__all__ = ["Walk", "unknown_pieces", "walk"]


@dataclass(frozen=True)
class Walk:
    """What one sentence becomes.

    `text` is the sentence, `source_pieces` and `prefix_pieces` name the rows of what encoder and decoder compute
    (`replay.source`, `replay.prefix`), `vocabulary` every id of the target. `account` is the search; `best` its result
    and `translation` that as text. `walked` is the target that the replay read: the result of the search, or the
    target that was asked for (`asked` is then True). `source_unknown` and `target_unknown` are what was written where a
    row is named `<unk>`, in order: the vocabulary has no piece for it.
    """

    text: str
    languages: tuple[str, str]
    model: Seq2Seq
    source_pieces: tuple[str, ...]
    prefix_pieces: tuple[str, ...]
    vocabulary: tuple[str, ...]
    config: DecodingConfig
    account: SearchAccount
    best: Hypothesis
    translation: str
    walked: Hypothesis
    walked_text: str
    asked: bool
    replay: Replay
    source_unknown: tuple[str, ...] = ()
    target_unknown: tuple[str, ...] = ()


def walk(translator: Translator, text: str, config: DecodingConfig, target: str | None = None) -> Walk:
    """Search for the translation of `text` as `Translator.translate` does, then replay it, or `target`, once.

    Raises InputError for a model that is no Transformer, for a text without anything to translate, for one that is
    longer than the translator takes in one piece, for a target that is longer than the model can read, for a line break
    in either, and for a search that is none (samples, `reproducible`).
    """
    check_one_search(config, "a walk")
    encoder, decoder = translator.model.encoder, translator.model.decoder
    if not isinstance(encoder, TransformerEncoder) or not isinstance(decoder, TransformerDecoder):
        raise InputError("a walk covers the Transformer (model.kind = 'transformer'); this model is of another kind")
    for name, each in (("the text", text), ("--target", target or "")):
        check_one_line(name, each, "a walk")
    tokenizers = translator.tokenizers
    ids = sentence_ids(translator, text)
    unknown = unknown_pieces(tokenizers.source, text, ids)
    if translator.tag is not None:
        ids = [tokenizers.source.symbol(translator.tag), *ids]
    config = translator.within_positions(config)
    account = account_of_search(translator.model, ids, config)
    best = account.hypotheses[0]
    walked = best if target is None else asked_hypothesis(translator, ids, target, config)
    found = replay(translator.model, ids, walked.tokens)
    return Walk(
        text,
        translator.languages,
        translator.model,
        tuple(tokenizers.source.pieces(found.source)),
        tuple(tokenizers.target.pieces(found.prefix)),
        tuple(tokenizers.target.pieces(range(tokenizers.target.vocab_size))),
        config,
        account,
        best,
        tokenizers.target.decode(best.tokens),
        walked,
        tokenizers.target.decode(walked.tokens),
        target is not None,
        found,
        unknown,
        () if target is None else unknown_pieces(tokenizers.target, target, walked.tokens),
    )


def unknown_pieces(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> tuple[str, ...]:
    """What stands in `text` where its `ids` say UNK, one for each, in order: what no piece of the vocabulary spells."""
    found: list[str] = []
    rest = f" {text}"  # what the tokenizer reads
    runs = [(unknown, list(run)) for unknown, run in groupby(ids, key=lambda each: each == UNK)]
    for place, (unknown, run) in enumerate(runs):
        if not unknown:
            rest = rest[len(_spelt(tokenizer, run)) :]
            continue
        following = _spelt(tokenizer, runs[place + 1][1]) if place + 1 < len(runs) else ""
        end = rest.find(following, 1) if following else len(rest)
        # A ▁ of the text is always an id of its own; what else is unknown is one as long as it lasts.
        written = re.findall(rf"{SPACE_MARK}|[^{SPACE_MARK}]+", rest[:end])
        found += written if len(written) == len(run) else [rest[:end], *[""] * (len(run) - 1)]
        rest = rest[end:]
    return tuple(found)


def _spelt(tokenizer: Tokenizer, ids: list[int]) -> str:
    return "".join(tokenizer.pieces(ids)).replace(SPACE_MARK, " ")
