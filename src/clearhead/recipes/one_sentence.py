"""One sentence and one translation of it as ids, for the commands that look at a single pair: `walk` and `inspect`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Hypothesis
from clearhead.decoding.search import force
from clearhead.nn.padding import Padded
from clearhead.recipes.translator import Translator
from clearhead.text.symbols import EOS

__all__ = ["asked_hypothesis", "check_one_line", "check_one_search", "sentence_ids"]


def check_one_search(config: DecodingConfig, command: str) -> None:
    """Raises InputError unless `config` asks for a beam search of a sentence in a batch of its own."""
    if config.sampling is not None or config.reproducible:
        raise InputError(f"{command} shows a beam search of one sentence: leave out sampling and reproducible")


def check_one_line(name: str, text: str, command: str) -> None:
    """Raises InputError if `text` has a line break, or what is no text at all, telling where."""
    if alone := re.search(r"[\ud800-\udfff]", text):
        raise InputError(f"{name} is not UTF-8, at character {alone.start() + 1} ({alone[0]!r}): give it as UTF-8")
    if broken := re.search(r"[\r\n]", text):
        raise InputError(
            f"{name} has a line break, at character {broken.start() + 1}: {command} takes one sentence on one line"
        )


def sentence_ids(translator: Translator, text: str) -> list[int]:
    """The ids of one sentence, without EOS, and without the translator's tag.

    Raises InputError if there is nothing to translate, or more than the translator takes in one piece.
    """
    ids = translator.tokenizers.source.encode(text)
    if not text.strip() or not ids:
        raise InputError("there is nothing to translate: give a sentence")
    if len(ids) > translator.max_source_length:
        raise InputError(
            f"the text has {len(ids)} tokens, and the translator takes {translator.max_source_length} at once: "
            "give one sentence of it"
        )
    return ids


def asked_hypothesis(
    translator: Translator, source: Sequence[int], target: str, config: DecodingConfig, name: str = "--target"
) -> Hypothesis:
    """`target` as if a search had found it: its ids, scored. `source` has the tag, but no EOS.

    Raises InputError if it is longer than the model can read.
    """
    tokens = translator.tokenizers.target.encode(target)
    limit = translator.model.max_positions
    if limit is not None and len(tokens) >= limit:
        raise InputError(f"{name} has {len(tokens)} tokens, and the model can read {limit - 1}: give a shorter one")
    read = Padded.from_lists([[*source, EOS]], translator.device)
    return force(translator.model, read, [tokens], config)[0]
