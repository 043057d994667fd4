"""The one logger, and where its lines go: to standard error, because standard output carries results only."""

import contextlib
import logging
import re
import sys
from pathlib import Path
from typing import TextIO

__all__ = ["FileLog", "logger", "printable", "setup"]

logger = logging.getLogger("clearhead")

# Controls (C0, C1, DEL), those that turn the direction of writing, the separators that some viewers break lines at,
# halves of surrogate pairs. A tab may stay, and so may a line feed before an indented line: our own messages have no
# others, and a file's name with one in it cannot begin a line of its own.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\n(?!  )"
)


def printable(text: str) -> str:
    """`text` as one message that a terminal shows and does not obey: what could move its cursor, colour it, turn its
    writing round or begin another line becomes an escape.

    >>> print(printable("a\\x1b[31mb"), printable("error:\\n  one"), printable("a\\nb"))
    a\\u001b[31mb error:
      one a\\u000ab
    """
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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

    def __init__(self, mark: bool, layout: str = "%(message)s") -> None:
        super().__init__(layout, "%Y-%m-%d %H:%M:%S")
        self.mark = mark

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """The message of one record, without a traceback that may follow it."""
        record.message = printable(record.message)
        text = super().formatMessage(record)
        marked = self.mark and record.levelno >= logging.WARNING
        return f"{record.levelname.lower()}: {text}" if marked else text


class FileLog(logging.FileHandler):
    """A log file with the time of each line. Lines that the disk does not take wait for the next one, in silence."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self.setFormatter(_Plain(mark=False, layout="%(asctime)s %(levelname).1s %(message)s"))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Silent for the disk's errors; any other is a bug and told."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        """Close the file, also when what it still holds cannot be written."""
        with contextlib.suppress(OSError):
            super().close()


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
