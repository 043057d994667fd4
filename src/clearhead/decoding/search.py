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
from clearhead.decoding.fixed import by_shape, rounded, take
from clearhead.decoding.hypotheses import Hypothesis, Limits, Model
from clearhead.decoding.prefill import prefill, read_whole
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
    go to the lower token, then to the earlier hypothesis. With `config.reproducible` the result of a sentence is the
    same to the last bit whatever the batch (see `fixed`).

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
    if not config.reproducible:
        return _search(model, source, config, prefixes, keys)
    # Prefixes of one length in a batch: behind padding of another length the next keys would come at another place.
    shapes = [(rounded(length), len(prefix)) for length, prefix in zip(source.lengths.tolist(), prefixes, strict=True)]

    def alike(shape: tuple[int, int], places: list[int]) -> list[list[Hypothesis]]:
        rows = take(source, places, shape[0])
        return _search(model, rows, config, [prefixes[place] for place in places], [keys[place] for place in places])

    return by_shape(shapes, alike)


def _search(
    model: Model, source: Padded, config: DecodingConfig, prefixes: Sequence[Sequence[int]], keys: Sequence[int]
) -> list[list[Hypothesis]]:
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

    `config` supplies the length penalty (the default one if none), and whether the figures of a pair are to be the
    same to the last bit whatever the batch. Raises DecodingError if there are not as many targets as sources, or a
    target holds PAD, BOS or EOS.
    """
    if len(target) != len(source):
        raise DecodingError(f"{len(source)} sources and {len(target)} targets: give one target a source")
    for number, tokens in enumerate(target):
        if reserved := {PAD, BOS, EOS}.intersection(tokens):
            raise DecodingError(f"target {number} holds the reserved token {min(reserved)}: remove it")
    if not target:
        return []
    config = config or DecodingConfig()
    if config.reproducible:
        lengths = zip(source.lengths.tolist(), target, strict=True)
        shapes = [(rounded(length), rounded(len(tokens) + 1)) for length, tokens in lengths]
        log_probs = by_shape(
            shapes,
            lambda shape, places: read_whole(
                model, take(source, places, shape[0]), [target[place] for place in places], shape[1]
            ),
        )
    else:
        log_probs = list(read_whole(model, source, target))
    return [Hypothesis.of(config, tuple(tokens), each) for tokens, each in zip(target, log_probs, strict=True)]
