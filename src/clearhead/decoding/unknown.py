"""A model that may write UNK, which a search never does.

A search passes over PAD, UNK and BOS (`decoding/select.py`). Where an unknown word is wanted, to be replaced afterwards
(Luong et al. 2015b, "Addressing the Rare Word Problem", §3; by what attention links it to: Jean et al. 2015, §3.3), the
model is shown with one token more, the last, whose probability is that of UNK and which is read as UNK. So nothing in
the search changes, and neither does any probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.decoding.hypotheses import Hypothesis
from clearhead.models.protocols import Decoder, Memory, State
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.text.symbols import UNK

__all__ = ["with_unknown", "written"]


class _UnknownDecoder(nn.Module):
    """A decoder whose token V is UNK; UNK itself has no probability."""

    def __init__(self, decoder: Decoder, vocab_size: int) -> None:
        super().__init__()
        self._decoder = [decoder]  # in a list, so that it is no part of this module
        self._vocab_size = vocab_size

    def start(self, memory: Memory) -> State:
        return self._decoder[0].start(memory)

    def advance(self, tokens: Padded, state: Any) -> tuple[Tensor, State]:
        ids = tokens.ids.masked_fill(tokens.ids == self._vocab_size, UNK)
        return self._decoder[0].advance(Padded(ids, tokens.lengths), state)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        if vocabulary is not None:
            # The words in question, UNK under its other name among them perhaps.
            return self._decoder[0].project(hidden, vocabulary.masked_fill(vocabulary == self._vocab_size, UNK))
        logits = self._decoder[0].project(hidden)
        unknown = logits[..., UNK : UNK + 1].clone()
        logits[..., UNK] = -torch.inf
        return torch.cat([logits, unknown], -1)


def with_unknown(model: Seq2Seq, vocab_size: int) -> Seq2Seq:
    """`model` for a search that may write UNK, as token `vocab_size`; `written` gives it its own name again."""
    return Seq2Seq(model.encoder, _UnknownDecoder(model.decoder, vocab_size), model.max_positions)


def written(hypotheses: Sequence[Hypothesis], vocab_size: int) -> list[Hypothesis]:
    """The hypotheses of such a search with UNK where they have token `vocab_size`."""
    return [
        replace(each, tokens=tuple(UNK if token == vocab_size else token for token in each.tokens))
        for each in hypotheses
    ]
