"""Ctrl-C and SIGTERM as requests: finish the update, save, leave."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from clearhead.base.log import logger
from clearhead.training.trainer import Trainer

__all__ = ["stop_on_signals"]

AT_ONCE: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@contextmanager
def stop_on_signals(trainer: Trainer) -> Iterator[None]:
    """Inside the block the first SIGINT or SIGTERM stops the trainer at its next update boundary; a second one at once.

    Outside the main thread nothing is installed, because Python allows it nowhere else.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: FrameType | None) -> None:
        for each, handler in before.items():
            # A shell that starts a job in the background has it ignore SIGINT; who sends it twice means it.
            signal.signal(each, AT_ONCE[each] if handler is signal.SIG_IGN else handler)
        name = signal.Signals(number).name
        trainer.stop(f"interrupted by {name}", signal=number)
        logger.warning("%s: saving as soon as this update is done; once more stops at once", name)

    for number in before:
        signal.signal(number, request)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
