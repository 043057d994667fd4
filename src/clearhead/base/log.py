"""The one logger, and where its lines go: to standard error, because standard output carries results only."""

import logging
import re
import sys
from typing import TextIO

__all__ = ["logger", "setup"]

logger = logging.getLogger("clearhead")

# Control characters and the separators that some viewers break lines at; a line feed and a tab may stay.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def setup(verbose: bool = False, quiet: bool = False) -> None:
    """Send the log to standard error: information and warnings, with `verbose` details too, with `quiet` warnings only.

    On a terminal the lines are coloured by rich, elsewhere plain. Calling it again replaces what it did before.
    """
    for handler in list(logger.handlers):
        if getattr(handler, "clearhead", False):
            logger.removeHandler(handler)
            handler.close()
    handler = _terminal_handler() if sys.stderr is not None and sys.stderr.isatty() else _plain_handler()
    handler.clearhead = True  # type: ignore[attr-defined]
    logger.addHandler(handler)
    # The level of silence is the handler's: a log file beside it still gets everything.
    handler.setLevel(logging.WARNING if quiet else logging.NOTSET)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to whatever `sys.stderr` is at that moment: a progress bar or a test may have replaced it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        raise AttributeError("the stream is always sys.stderr")


class _Plain(logging.Formatter):
    """The message alone, warnings and errors marked, control characters shown as escapes."""

    def __init__(self, mark: bool) -> None:
        super().__init__("%(message)s")
        self.mark = mark

    def format(self, record: logging.LogRecord) -> str:
        """One record as text."""
        text = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", super().format(record))
        marked = self.mark and record.levelno >= logging.WARNING
        return f"{record.levelname.lower()}: {text}" if marked else text


def _plain_handler() -> logging.Handler:
    handler = _StandardError()
    handler.setFormatter(_Plain(mark=True))
    return handler


def _terminal_handler() -> logging.Handler:
    from rich.console import Console
    from rich.logging import RichHandler

    handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False, markup=False)
    handler.setFormatter(_Plain(mark=False))
    return handler
