"""From a batch of sources to its translations, or to the scores of given ones: the doors of this package.

Nothing here knows what the model is: only `encoder`, and `start`, `advance`, `project` and `rows` of its decoder.
The model should be in evaluation mode; a search changes no mode and keeps nothing between calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from clearhead.base.errors import DecodingError
from clearhead.decoding.beam import beam_search
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Hypothesis, Limits, Model
from clearhead.decoding.prefill import prefill, read
from clearhead.decoding.sampling import sample
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS, PAD

__all__ = ["Hypothesis", "Model", "force", "search"]


@torch.no_grad()
def search(
    model: Model,
    source: Padded,
    config: DecodingConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    keys: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The best translations of each sentence of `source`: one list a sentence in its order, best first, `n_best` long.

    A list is shorter only if fewer sequences exist within the limits. `source` rows end with EOS, which is not
    counted in the source's length. `prefixes` force the first tokens of each sentence; they belong to the
    hypothesis, its log-probability and its length. `keys` number the sentences for sampling (their places by
    default): a sentence draws the same numbers in whatever batch it comes. PAD, UNK and BOS are never emitted; ties
    go to the lower token, then to the earlier hypothesis.

    Raises DecodingError if `prefixes` or `keys` do not match the sentences, or the model's output is not a number.
    """
    count = len(source)
    prefixes = [()] * count if prefixes is None else prefixes
    keys = range(count) if keys is None else keys
    if len(prefixes) != count or len(keys) != count:
        raise DecodingError(
            f"{count} sentences, {len(prefixes)} prefixes and {len(keys)} keys: give one of each a sentence"
        )
    if count == 0:
        return []
    limits = [
        Limits.of(config, max(0, length - 1), len(prefix))
        for length, prefix in zip(source.lengths.tolist(), prefixes, strict=True)
    ]
    start = prefill(model, source, prefixes)
    if config.sampling is None:
        return beam_search(model.decoder, start, limits, config)
    return sample(model.decoder, start, limits, config, keys)


@torch.no_grad()
def force(
    model: Model, source: Padded, target: Sequence[Sequence[int]], config: DecodingConfig | None = None
) -> list[Hypothesis]:
    """Score given translations (ids without BOS and EOS) by teacher forcing: what a search would report for them.

    `config` supplies the length penalty (the default one if none). Raises DecodingError if there are not as many
    targets as sources, or a target holds PAD, BOS or EOS.
    """
    if len(target) != len(source):
        raise DecodingError(f"{len(source)} sources and {len(target)} targets: give one target a source")
    for number, tokens in enumerate(target):
        if reserved := {PAD, BOS, EOS}.intersection(tokens):
            raise DecodingError(f"target {number} holds the reserved token {min(reserved)}: remove it")
    if not target:
        return []
    config = config or DecodingConfig()
    _, _, log_probs = read(model, source, target, close=True)
    return [Hypothesis.of(config, tuple(tokens), each) for tokens, each in zip(target, log_probs, strict=True)]
