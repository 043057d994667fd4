"""Forked children that are killed: a fork has torch loaded already, so two hundred of them take seconds."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Child", "fork"]


@dataclass
class Child:
    """A forked process and the end of the pipe in which it reports lines."""

    pid: int
    reports: int

    def line(self) -> bytes:
        """The next line that it reports; b"" once it is dead and all is read."""
        found = b""
        while not found.endswith(b"\n"):
            if not (byte := os.read(self.reports, 1)):
                return b""
            found += byte
        return found.strip()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its status: 0, or minus the number of the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def rest(self) -> list[bytes]:
        """All further lines; then the pipe is closed."""
        data = b""
        while piece := os.read(self.reports, 1 << 16):
            data += piece
        os.close(self.reports)
        return data.split(b"\n")[:-1]


def fork(work: Callable[[Callable[[object], None]], None]) -> Child:
    """Run `work(report)` in a fork of this process; `report` sends one line."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    status = 1
    try:
        os.close(reading)
        work(lambda value: (os.write(writing, f"{value}\n".encode()), None)[1])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
