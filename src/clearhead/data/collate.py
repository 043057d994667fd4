"""From pairs of token ids to the tensors that a model reads. The only module of this floor that imports torch."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS

__all__ = ["Batch", "collate"]


@dataclass(frozen=True)
class Batch:
    """One batch of a translation task.

    `source` is each source with EOS; `prefix` is BOS and the target, what the decoder reads; `gold` is the target and
    EOS, what it should say at each place of the prefix. Shapes: [R, S], [R, T], [R, T]; row r of prefix and gold have
    one length.
    """

    source: Padded
    prefix: Padded
    gold: Padded

    @property
    def pairs(self) -> int:
        """Number of pairs, R."""
        return len(self.source)

    @property
    def tokens(self) -> int:
        """Number of gold tokens, EOS included: what a loss is summed over."""
        return int(self.gold.lengths.sum())

    @property
    def source_tokens(self) -> int:
        """Number of source tokens, EOS included."""
        return int(self.source.lengths.sum())

    def rows(self, start: int, stop: int) -> "Batch":
        """Pairs `start` to `stop` alone, each side padded no further than its longest row needs."""
        return Batch(*(_cut(side, start, stop) for side in (self.source, self.prefix, self.gold)))


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], device: torch.device | str | None = None) -> Batch:
    """Make a batch of (source ids, target ids) without BOS and EOS.

    Prefix and gold are each built from the target and then padded; making one from the other after padding would
    lose the EOS of the longest row or turn it into padding.
    """
    return Batch(
        source=Padded.from_lists([[*source, EOS] for source, _ in pairs], device),
        prefix=Padded.from_lists([[BOS, *target] for _, target in pairs], device),
        gold=Padded.from_lists([[*target, EOS] for _, target in pairs], device),
    )


def _cut(side: Padded, start: int, stop: int) -> Padded:
    lengths = side.lengths[start:stop]
    width = int(lengths.max()) if len(lengths) else 0
    return Padded(side.ids[start:stop, :width], lengths)
