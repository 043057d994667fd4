"""Room for the packed matrices of one model: side by side in memory that the system may map in large pages.

A matrix that is read once a step comes from main memory, and the processor's table of small pages is then what limits
it: measured on Zen 4, 17–20 GB/s in pages of 4 KB and 30–32 GB/s in pages of 2 MB.
"""

from __future__ import annotations

import contextlib
import mmap

import torch
from torch import Tensor

__all__ = ["Arena"]

PAGE = 2 << 20
"""A large page on x86-64, and on most others."""
AT_ONCE = 64 << 20
"""Bytes of address space taken at once; what nobody writes to takes no memory."""
LINE = 64


class Arena:
    """Gives out pieces of memory one behind the other. It lives as long as one of its pieces does."""

    def __init__(self) -> None:
        self._free = torch.empty(0, dtype=torch.uint8)

    def take(self, size: int) -> Tensor:
        """`size` bytes (uint8) that begin at a multiple of 64, all zero; MemoryError if there are none."""
        if size > len(self._free):
            self._free = _mapped(max(AT_ONCE, -(-size // PAGE) * PAGE))
        piece, self._free = self._free[:size], self._free[-(-size // LINE) * LINE :]
        return piece


def _mapped(size: int) -> Tensor:
    try:
        memory = _mapping(size + PAGE)
    except OSError as error:
        raise MemoryError(f"no memory for {size} bytes of weights") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without large pages refuses; small ones do
            memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    return whole[-whole.data_ptr() % PAGE :][:size]


def _mapping(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):  # shared memory, the default, has large pages by other rules
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
