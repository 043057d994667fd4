"""What `translate_speed.py` translates: sizes of models, and random sentences whose translations have a forced length.

Random weights end a sentence where they like, so every side must write as many tokens as the source has. A decoder then
takes one step more than that: ours ends with EOS, the peers, whose EOS is forbidden, write one more token. So every
side's decoder runs equally often for a sentence, and a step counts as a token. All sentences of a group have the same
length, since CTranslate2 and transformers know one length a call.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness import length_buckets

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SIZES",
    "TOYS",
    "Corpus",
    "by_length",
    "lengths",
    "name",
    "one_by_one",
    "sentences",
    "transformer",
]

PAD, BOS, EOS = 0, 2, 3
SIZES: dict[str, dict[str, int]] = {
    "base": {"vocab": 32000, "d_model": 512, "d_ff": 2048, "heads": 8, "layers": 6},
    "bench-tiny": {"vocab": 8000, "d_model": 256, "d_ff": 1024, "heads": 4, "layers": 4},
}
"""The presets of the same names."""
TOYS: dict[str, dict[str, int]] = {
    "base": {"vocab": 1000, "d_model": 64, "d_ff": 128, "heads": 4, "layers": 2},
    "bench-tiny": {"vocab": 500, "d_model": 64, "d_ff": 64, "heads": 2, "layers": 1},
}
"""What stands in for them with `--quick`."""

Batches = list[list[list[int]]]


@dataclass(frozen=True)
class Corpus:
    """Sentences of ids without EOS, in groups of equal length."""

    groups: Batches

    @property
    def sources(self) -> list[list[int]]:
        """Every sentence, group by group."""
        return [sentence for group in self.groups for sentence in group]

    @property
    def steps(self) -> int:
        """Decoder steps of all sentences together: for each its length and one more."""
        return sum(len(sentence) + 1 for sentence in self.sources)

    @property
    def longest_first(self) -> Batches:
        """The groups from long to short: so two workers end together."""
        return sorted(self.groups, key=lambda group: -len(group[0]))


def sentences(count: int, batch_tokens: int, vocab: int, seed: int) -> Batches:
    """Random sentences with the length mix of real text, in length-sorted batches."""
    rng = random.Random(seed)
    buckets = length_buckets(count, batch_tokens, seed)
    return [[[rng.randrange(8, vocab) for _ in range(source)] for source, _ in bucket] for bucket in buckets]


def lengths(batches: Batches) -> list[int]:
    """The longest source of each batch."""
    return [max(len(sentence) for sentence in batch) for batch in batches]


def by_length(count: int, batch_tokens: int, vocab: int, seed: int) -> Corpus:
    """`count` groups of about so many tokens; each sentence is as long as the longest of its batch of `sentences`.

    >>> corpus = by_length(3, 200, 50, seed=1)
    >>> [len({len(sentence) for sentence in group}) for group in corpus.groups]
    [1, 1, 1]
    """
    rng = random.Random(seed + 1)
    batches = sentences(count, batch_tokens, vocab, seed)
    return Corpus(
        [
            [[*sentence, *(rng.randrange(8, vocab) for _ in range(length - len(sentence)))] for sentence in batch]
            for batch, length in zip(batches, lengths(batches), strict=True)
        ]
    )


def one_by_one(count: int, vocab: int, seed: int) -> Corpus:
    """`count` groups of a single sentence each, from short to long, with the lengths of real text.

    >>> [len(group) for group in one_by_one(4, 50, seed=1).groups]
    [1, 1, 1, 1]
    """
    every = sorted((each for batch in sentences(16, 256, vocab, seed) for each in batch), key=len)
    step = len(every) / count
    return Corpus([[every[int(step * (index + 0.5))]] for index in range(count)])


def name(ids: Sequence[int]) -> list[str]:
    """The tokens that stand for `ids` in the peers' vocabularies."""
    return [f"t{each}" for each in ids]


def transformer(size: dict[str, int]) -> Any:
    """clearhead's configuration of `size`: the paper's model with other figures."""
    from clearhead.models import presets

    return presets.base(
        vocab_size=size["vocab"],
        d_model=size["d_model"],
        d_ff=size["d_ff"],
        encoder_layers=size["layers"],
        decoder_layers=size["layers"],
        attention={"heads": size["heads"]},
    )
