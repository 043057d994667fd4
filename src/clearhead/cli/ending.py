"""How SIGTERM, SIGHUP and Ctrl-C end a command: as an exception that unwinds what is open."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Ended", "end_at_once", "unwinding_on_signals"]

AGAIN = 0.005  # seconds until it is looked again whether the import is done
USUAL: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class Ended(KeyboardInterrupt):
    """SIGTERM or SIGHUP, as an exception: like Ctrl-C it unwinds what is open, so that no temporary file is left."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number
        self.name = signal.Signals(number).name


def end_at_once() -> None:
    """Have Ctrl-C kill the process as the other signals do, while there is nothing to unwind."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP raise `Ended`, and SIGINT raises KeyboardInterrupt.

    An import is waited for: compiled modules such as torch's swallow an exception that strikes what they import, and go
    on with half of it. Whatever else becomes of the exception on its way, the block ends with it. A second SIGTERM, as
    `timeout` sends it, does not cut the unwinding short. Who has a signal ignored, as `nohup` has, means it. Outside
    the main thread nothing is installed, because Python allows it nowhere else.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (*USUAL, signal.SIGALRM)}
    taken = [number for number, usual in USUAL.items() if before[number] in (signal.SIG_DFL, usual)]
    strike = _Strike()
    for number in (*taken, signal.SIGALRM):
        signal.signal(number, strike.heard)
    try:
        yield
    except BaseException as error:
        if strike.number is None or isinstance(error, KeyboardInterrupt):
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (*taken, signal.SIGALRM):
            if signal.getsignal(number) == strike.heard:  # one that has struck stays ignored
                signal.signal(number, before[number])
    if strike.number is not None:  # SentencePiece, for one, makes a RuntimeError of what its reader raises
        raise strike.exception() from None


class _Strike:
    """The first signal that came, told as an exception as soon as that is safe."""

    def __init__(self) -> None:
        self.number: int | None = None

    def heard(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal, or the alarm of one that waits."""
        if number != signal.SIGALRM:
            self.number = number
            if number != signal.SIGINT:
                signal.signal(number, signal.SIG_IGN)
        if _importing(frame):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
        elif self.number is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise self.exception()

    def exception(self) -> KeyboardInterrupt:
        """What the signal is as an exception."""
        assert self.number is not None
        return KeyboardInterrupt() if self.number == signal.SIGINT else Ended(self.number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False
