"""Reading what is already known of a target: BOS and a forced prefix before a search, a whole target to score it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.base.errors import DecodingError
from clearhead.decoding.hypotheses import Model
from clearhead.decoding.select import BLOCK, NOT_A_NUMBER, wide
from clearhead.models.protocols import Decoder, State
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS, PAD

__all__ = ["Start", "prefill", "read", "read_whole"]


@dataclass(frozen=True)
class Start:
    """Where a search begins: one row a sentence, its prefix read and scored.

    Shapes: `hidden` [B, D], the hidden state that predicts the first free token; `state` B rows.
    """

    hidden: Tensor
    state: State
    prefixes: tuple[tuple[int, ...], ...]
    prefix_log_probs: tuple[tuple[float, ...], ...]


def prefill(model: Model, source: Padded, prefixes: Sequence[Sequence[int]]) -> Start:
    """Encode `source` and read BOS and each sentence's own prefix (they may differ in length) in one call.

    Raises DecodingError if a prefix holds PAD, BOS or EOS.
    """
    for number, prefix in enumerate(prefixes):
        if reserved := {PAD, BOS, EOS}.intersection(prefix):
            raise DecodingError(f"the prefix of sentence {number} holds the reserved token {min(reserved)}: remove it")
    hidden, state, log_probs = read(model, source, prefixes)
    last = torch.tensor([len(prefix) for prefix in prefixes], dtype=torch.int64, device=hidden.device)
    rows = torch.arange(len(prefixes), device=hidden.device)
    return Start(hidden[rows, last], state, tuple(tuple(prefix) for prefix in prefixes), log_probs)


def read(
    model: Model, source: Padded, targets: Sequence[Sequence[int]]
) -> tuple[Tensor, State, tuple[tuple[float, ...], ...]]:
    """Teacher-forced: hidden states [B, T, D] of BOS + target, the state, and log P of each target token."""
    decoder = model.decoder
    prefix = Padded.from_lists([[BOS, *target] for target in targets], source.ids.device)
    hidden, state = decoder.advance(prefix, decoder.start(model.encoder(source)))
    predicted = Padded.from_lists(targets, source.ids.device)
    return hidden, state, _table(decoder, hidden[:, : predicted.ids.shape[1]], predicted, predicted.mask)


def read_whole(
    model: Model, source: Padded, targets: Sequence[Sequence[int]], width: int | None = None
) -> tuple[tuple[float, ...], ...]:
    """The log-probability of each target token and of the EOS that follows the last.

    With `width` the targets, EOS included, are padded to so many positions and all of them are projected, so that no
    size depends on what the targets are. Raises DecodingError if the model's output is not a number.
    """
    decoder, device = model.decoder, source.ids.device
    prefix = Padded.from_lists([[BOS, *target] for target in targets], device)
    gold = Padded.from_lists([[*target, EOS] for target in targets], device)
    if width is None:
        projected = gold.mask
    else:
        missing = (0, width - gold.ids.shape[1])
        prefix, gold = (Padded(F.pad(each.ids, missing, value=PAD), each.lengths) for each in (prefix, gold))
        projected = torch.ones_like(gold.mask)
    hidden, _ = decoder.advance(prefix, decoder.start(model.encoder(source)))
    return _table(decoder, hidden, gold, projected)


def _table(decoder: Decoder, hidden: Tensor, gold: Padded, projected: Tensor) -> tuple[tuple[float, ...], ...]:
    """log P of the `gold` [B, T] of each row; of `hidden` [B, T, D] only the positions `projected` [B, T] are read."""
    found = hidden.new_zeros(projected.shape, dtype=wide(hidden.device))
    found[projected] = _log_probs(decoder, hidden[projected], gold.ids[projected])
    if bool(found[gold.mask].isnan().any()):
        raise DecodingError(NOT_A_NUMBER)
    return tuple(tuple(row[:length]) for row, length in zip(found.tolist(), gold.lengths.tolist(), strict=True))


def _log_probs(decoder: Decoder, hidden: Tensor, gold: Tensor) -> Tensor:
    """log P of each `gold` token: [N, D], [N] → [N].  In blocks, so that no [N, V] table is ever whole in memory."""
    found = []
    size = max(1, BLOCK // 4096)
    for first in range(0, len(gold), size):
        logits, tokens = decoder.project(hidden[first : first + size]), gold[first : first + size]
        dtype = logits.dtype if logits.dtype == torch.float64 else torch.float32
        log_probs = torch.log_softmax(logits.to(dtype), dim=-1).gather(1, tokens[:, None])[:, 0]
        found.append(log_probs.to(wide(hidden.device)))
    return torch.cat(found) if found else hidden.new_zeros(0, dtype=wide(hidden.device))
