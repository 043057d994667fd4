"""Pairs of a source and a target, read by teacher forcing: what all evidence about a model is measured on.

Row t of everything that a decoder computes is the query that has read the prefix up to position t and predicts token t
of `gold`, which is token t + 1 of the prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS, PAD

__all__ = ["Pairs", "gold_log_probs", "next_logits"]


@dataclass(frozen=True)
class Pairs:
    """A batch of pairs: `source` ends with EOS, `prefix` is BOS and the target, `gold` the target and EOS.

    Shapes: `source` [R, S]; `prefix` and `gold` [R, T], of equal lengths.
    """

    source: Padded
    prefix: Padded
    gold: Padded

    @classmethod
    def of(
        cls,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        device: torch.device | str | None = None,
    ) -> Pairs:
        """From ids without BOS and EOS; InputError if a target holds PAD, BOS or EOS, or if the counts differ."""
        if len(sources) != len(targets):
            raise InputError(f"{len(sources)} sources and {len(targets)} targets: give as many of each")
        for target in targets:
            if reserved := {PAD, BOS, EOS}.intersection(target):
                raise InputError(f"the target holds the reserved token {min(reserved)}: remove it")
        return cls(
            Padded.from_lists([[*source, EOS] for source in sources], device),
            Padded.from_lists([[BOS, *target] for target in targets], device),
            Padded.from_lists([[*target, EOS] for target in targets], device),
        )

    def __len__(self) -> int:
        return len(self.source)

    def rows(self, index: Tensor) -> Pairs:
        """The pairs that `index` [N] names, in its order."""
        return Pairs(self.source.rows(index), self.prefix.rows(index), self.gold.rows(index))

    def repeated(self, times: int) -> Pairs:
        """Every pair `times` times, side by side: row r·times + k is pair r."""
        index = torch.arange(len(self), device=self.source.ids.device).repeat_interleave(times)
        return self.rows(index)


def next_logits(model: Seq2Seq, pairs: Pairs) -> Float[Tensor, "R T V"]:
    """The logits of the next token after each position of each prefix; what stands at padded places means nothing."""
    state = model.decoder.start(model.encoder(pairs.source))
    hidden, _ = model.decoder.advance(pairs.prefix, state)
    return model.decoder.project(hidden)


def gold_log_probs(model: Seq2Seq, pairs: Pairs) -> Float[Tensor, "R T"]:
    """The natural log of the probability of every gold token; 0 at padded places."""
    logits = next_logits(model, pairs)
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chosen = exact.gather(-1, pairs.gold.ids[:, :, None]).squeeze(-1) - exact.logsumexp(-1)
    return chosen.masked_fill(~pairs.gold.mask, 0.0)
