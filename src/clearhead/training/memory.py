"""What to do when a batch does not fit memory: halve it and go on with the same update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, Self, runtime_checkable

import torch

from clearhead.base.errors import TrainingError
from clearhead.base.log import logger
from clearhead.training.progress import Drawn

__all__ = ["Divisible", "halved", "is_out_of_memory"]

# torch has a class for it on devices only; on a CPU it says so in words.
WORDS = ("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory")


@runtime_checkable
class Divisible(Protocol):
    """A batch whose rows can be had apart."""

    @property
    def tokens(self) -> int: ...

    @property
    def source_tokens(self) -> int: ...

    def rows(self, start: int, stop: int) -> Self: ...


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory did not suffice."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in WORDS)


def halved(drawn: Sequence[Drawn[Any]], place: int, update: int) -> list[Drawn[Any]]:
    """The batches of `update` with the one at `place`, which did not fit, in two; said in the log.

    Raises `TrainingError` when it is one pair, or of a kind that cannot be divided.
    """
    micro = drawn[place]
    count = len(micro.pairs)
    if count < 2 or not isinstance(micro.batch, Divisible):
        named = ", ".join(str(int(pair) + 1) for pair in micro.pairs[:20]) + (" and more" if count > 20 else "")
        raise TrainingError(
            f"update {update}: memory does not suffice for {'pair' if count < 2 else 'pairs'} {named} "
            f"({micro.source_tokens} source and {micro.tokens} target tokens); lower data.max_length, take a smaller "
            "model, or free memory"
        )
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = count // 2
    logger.warning(
        "update %d: a batch of %d pairs does not fit memory; it is computed in two parts, of %d and %d. Lower "
        "data.batch_tokens to save the time that this costs",
        *(update, count, middle, count - middle),
    )
    parts = []
    for start, stop in ((0, middle), (middle, count)):
        batch = micro.batch.rows(start, stop)
        parts.append(
            replace(
                micro,
                batch=batch,
                pairs=micro.pairs[start:stop],
                tokens=batch.tokens,
                source_tokens=batch.source_tokens,
            )
        )
    return [*drawn[:place], *parts, *drawn[place + 1 :]]
