"""Grouping of many texts into pairs and batches, and what happens when one of them makes its batch fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from clearhead.base.errors import InputError
from clearhead.base.log import logger

__all__ = ["attempt", "batches", "paired", "windows"]

T = TypeVar("T")
R = TypeVar("R")


def windows(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Consecutive lists of `size` items, the last one shorter."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part


def batches(items: Sequence[T], budget: int, length: Callable[[T], int]) -> Iterator[list[T]]:
    """Runs of `items`, which come by rising length, so long that rows × longest just fits `budget`; none is empty."""
    batch: list[T] = []
    for item in items:
        if batch and (len(batch) + 1) * length(item) > budget:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def attempt(batch: Sequence[T], call: Callable[[Sequence[T]], Sequence[R]], name: Callable[[T], str]) -> list[R | None]:
    """The result for each of `batch`; where the call fails, halves are tried, down to the one that is to blame (None).

    A text must not take others with it, whatever went wrong with it, so every exception counts as its failure.
    """
    try:
        return list(call(batch))
    except Exception as error:
        if len(batch) > 1:
            logger.debug("a batch of %d failed (%s); trying its halves", len(batch), error)
            middle = len(batch) // 2
            return [*attempt(batch[:middle], call, name), *attempt(batch[middle:], call, name)]
        logger.warning("%s failed: %s: %s", name(batch[0]), type(error).__name__, error)
        logger.debug("the failure in full", exc_info=True)
        return [None]


def paired(texts: Iterable[str], others: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each text with its other; InputError when they are not equally many."""
    try:
        yield from zip(texts, others, strict=True)
    except ValueError as error:
        if not str(error).startswith("zip()"):
            raise
        raise InputError("there must be as many on one side as on the other, one a text") from None
