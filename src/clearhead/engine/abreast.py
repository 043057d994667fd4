"""Several batches at once, each on one thread of the processor: two in two threads beat one that two threads share.

Measured at base size, beam 4, int8 by oneDNN, on two cores: 900 target tokens a second against 490. The small operators
of a step share badly, and Python's lock is free while an operator runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from clearhead.decoding.hypotheses import Model
from clearhead.models.protocols import Decoder, Encoder, Memory, State
from clearhead.nn.padding import Padded

__all__ = ["abreast"]

P = TypeVar("P")
Q = TypeVar("Q")


class _Stopped(BaseException):
    """Nobody waits for the result any longer; no exception that a call might take for a failure of its own."""


@dataclass(frozen=True)
class _Watched:
    """A model whose decoder looks, once a step, whether anybody still waits for what it does."""

    encoder: Encoder
    inner: Decoder
    stopped: threading.Event

    @property
    def decoder(self) -> _Watched:
        return self

    def start(self, memory: Memory) -> State:
        return self.inner.start(memory)

    def advance(self, tokens: Padded, state: Any) -> tuple[Tensor, State]:
        if self.stopped.is_set():
            raise _Stopped
        return self.inner.advance(tokens, state)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        return self.inner.project(hidden, vocabulary)


def abreast(model: Model, parts: Sequence[P], run: Callable[[Model, P], Q], threads: int) -> Iterator[Q]:
    """`run(model, part)` for each of `parts`, in their order, `threads` of them at a time.

    What a call raises, the iterator raises in its place, and the calls under way stop at their next decoder step; so
    they do when the iterator is closed, or interrupted from the keyboard. With one thread, or one part, it is a loop in
    which PyTorch uses its threads as ever.
    """
    if threads < 2 or len(parts) < 2:
        for part in parts:
            yield run(model, part)
        return
    before, stopped = torch.get_num_threads(), threading.Event()
    watched = _Watched(model.encoder, model.decoder, stopped)
    workers = ThreadPoolExecutor(threads, "batch", initializer=torch.set_num_threads, initargs=(1,))
    try:
        for future in [workers.submit(run, watched, part) for part in parts]:
            yield future.result()
    finally:
        stopped.set()
        workers.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # MKL's number is one for all threads
