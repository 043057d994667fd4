"""Where the log goes and what it looks like."""

import io
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead.base.log import FileLog, logger, setup


@pytest.fixture(autouse=True)
def clean_logger() -> Iterator[None]:
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


def speak() -> None:
    logger.debug("detail")
    logger.info("step %d", 3)
    logger.warning("careful")


@pytest.mark.parametrize(
    ("verbose", "quiet", "lines"),
    [
        (False, False, ["step 3", "warning: careful"]),
        (True, False, ["detail", "step 3", "warning: careful"]),
        (False, True, ["warning: careful"]),
    ],
)
def test_the_log_goes_to_standard_error_only(
    capsys: pytest.CaptureFixture[str], verbose: bool, quiet: bool, lines: list[str]
) -> None:
    setup(verbose, quiet)
    speak()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == lines


def test_setting_up_twice_says_things_once(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    setup(quiet=True)
    setup()
    logger.info("once")
    assert capsys.readouterr().err == "once\n"


def test_another_handler_is_left_alone() -> None:
    mine = logging.NullHandler()
    logger.addHandler(mine)
    setup()
    assert mine in logger.handlers


def test_control_characters_cannot_forge_lines_or_colours(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    logger.info("a\x1b[31mb\rc\u2028d\x85e\tf\ud800 \u202eg\u2066h\x7f")
    assert capsys.readouterr().err == "a\\u001b[31mb\\u000dc\\u2028d\\u0085e\tf\\ud800 \\u202eg\\u2066h\\u007f\n"
    logger.warning("%s: cannot be read", "name\nerror: forged")
    assert capsys.readouterr().err == "warning: name\\u000aerror: forged: cannot be read\n"
    logger.warning("wrong keys:\n  one\n  two")  # as our own messages of several lines are
    assert capsys.readouterr().err == "warning: wrong keys:\n  one\n  two\n"


def test_a_log_file_has_the_same_words_and_outlives_a_full_disk(tmp_path: Path) -> None:
    handler = FileLog(tmp_path / "train.log")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.info("a\x1b[31mb")
    handler.close()
    logger.removeHandler(handler)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d I a\\u001b\[31mb\n", (tmp_path / "train.log").read_text())


def test_a_full_disk_is_no_reason_to_fill_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    handler = FileLog("/dev/full")
    logger.addHandler(handler)
    logger.error("lost")
    handler.close()
    logger.removeHandler(handler)
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_rich_writes_the_words_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    setup()
    assert "Rich" in type(logger.handlers[-1]).__name__
    logger.warning("[bold]not markup[/bold]")
    assert "[bold]not markup[/bold]" in terminal.getvalue()


def test_rich_is_loaded_only_for_a_terminal() -> None:
    source = "import sys; from clearhead.base import log; log.setup(); print('rich' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
