"""Files of a bundle or a run, read so that nothing else in their place can hang the reader or fill its memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_regular", "read_regular"]


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also for what is none (a pipe, a device)."""
    # Without O_NONBLOCK a pipe is waited for before one can see that it is one.
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return open(opened, "rb")
    os.close(opened)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_regular(path: Path, largest: int | None = None) -> bytes:
    """The bytes of a regular file of at most `largest` bytes.

    Raises OSError, also for what is no regular file (a pipe, a device) and for a larger one.
    """
    with open_regular(path) as stream:
        if largest is None:
            return stream.read()
        content = stream.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"it is larger than {largest:,} bytes", str(path))
    return content
