"""What the evidence about heads is measured in: the mean negative log likelihood of the gold tokens of each pair.

Only real positions are projected onto the vocabulary, and no more of them at once than a processor's cache can use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.twin import twin
from clearhead.models.protocols import Decoder
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded

__all__ = ["BATCH_TOKENS", "NO_PAIRS", "batches", "mean_losses", "taken", "unchanged_losses"]

BATCH_TOKENS = 4096
"""Source and target positions in one batch, padding included."""

NO_PAIRS = "there are no pairs to look at: give at least one"

_LOGITS = 1 << 22
"""Logits that are held at once: 16 MiB in float32. Measured: with more a processor's cache no longer helps."""

_FIRST_ROWS = 128
"""At least so many rows at a time, whatever the vocabulary: fewer make a slow matrix product."""


def batches(pairs: Pairs, batch_tokens: int) -> Iterator[tuple[Tensor, Pairs]]:
    """`pairs` in batches of at most `batch_tokens` padded positions, or one pair; with the rows that are in each.

    Pairs of like length come together, so that little is padding; InputError if `batch_tokens` is below 1.
    """
    if batch_tokens < 1:
        raise InputError(f"batch_tokens is {batch_tokens}: at least one position must fit in a batch")
    sizes = list(zip(pairs.source.lengths.tolist(), pairs.prefix.lengths.tolist(), strict=True))
    chosen: list[int] = []
    longest = (0, 0)
    for row in sorted(range(len(pairs)), key=lambda each: sum(sizes[each])):
        grown = (max(longest[0], sizes[row][0]), max(longest[1], sizes[row][1]))
        if chosen and (len(chosen) + 1) * sum(grown) > batch_tokens:
            yield taken(pairs, chosen)
            chosen, grown = [], sizes[row]
        chosen.append(row)
        longest = grown
    if chosen:
        yield taken(pairs, chosen)


def taken(pairs: Pairs, rows: Sequence[int]) -> tuple[Tensor, Pairs]:
    """Some rows of `pairs` without the columns that are padding in all of them, and their numbers as a tensor."""
    index = torch.tensor(rows, device=pairs.source.ids.device)
    found = pairs.rows(index)
    return index, Pairs(_trimmed(found.source), _trimmed(found.prefix), _trimmed(found.gold))


def _trimmed(padded: Padded) -> Padded:
    """Without the columns that are padding in every row."""
    return Padded(padded.ids[:, : int(padded.lengths.max())], padded.lengths)


def mean_losses(decoder: Decoder, hidden: Float[Tensor, "N T D"], gold: Padded) -> Float[Tensor, " N"]:
    """The mean negative log likelihood of each row's gold tokens, nats a token, in float32 or finer.

    `hidden` has one row or several for each row of `gold`, side by side: row r·k + i is number i of pair r.
    """
    times = hidden.shape[0] // len(gold)
    mask = gold.mask.repeat_interleave(times, 0)
    wanted = gold.ids.repeat_interleave(times, 0)[mask]
    states = hidden[mask]
    parts = []
    start, size = 0, _FIRST_ROWS
    while start < len(states):
        logits = decoder.project(states[start : start + size])
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        parts.append(F.cross_entropy(exact, wanted[start : start + size], reduction="none"))
        start, size = start + size, max(_FIRST_ROWS, _LOGITS // logits.shape[-1])
    each = torch.cat(parts)
    total = each.new_zeros(mask.shape).masked_scatter(mask, each).sum(1)
    return total / gold.lengths.repeat_interleave(times)


@torch.no_grad()
def unchanged_losses(model: Seq2Seq, pairs: Pairs, *, batch_tokens: int = BATCH_TOKENS) -> Float[Tensor, " R"]:
    """The mean negative log likelihood of the gold tokens of each pair, nats a token; InputError if there are none.

    Without dropout, whatever mode the model is in.
    """
    reader = twin(model, lambda *_: None).eval()
    found: list[Tensor] = []
    order: list[Tensor] = []
    for rows, batch in batches(pairs, batch_tokens):
        hidden, _ = reader.decoder.advance(batch.prefix, reader.decoder.start(reader.encoder(batch.source)))
        found.append(mean_losses(reader.decoder, hidden, batch.gold))
        order.append(rows)
    if not found:
        raise InputError(NO_PAIRS)
    return torch.cat(found)[torch.cat(order).argsort()]
