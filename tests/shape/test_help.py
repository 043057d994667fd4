"""Every `--help` answers at once: at most 0.4 s of processor time, start of the interpreter included."""

import os
import resource
import subprocess
import sys

import pytest

from clearhead.cli.main import app
from tests.shape.command_line import commands

LIMIT = 0.4  # seconds, user + system
PATHS = [path for path, _ in commands(app)]


def processor_seconds(arguments: list[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
    """The user and system time that one run of the program took in all."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", "from clearhead.cli.main import main; main()", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done


def test_the_commands_of_the_contract_are_there() -> None:
    top = {"data", "train", "translate", "evaluate", "score", "average", "info"}
    assert {(name,) for name in top} | {("data", name) for name in ("list", "get", "check", "split")} <= set(PATHS)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: " ".join(path) or "clearhead")
def test_help_is_quick_and_says_how_to_call(path: tuple[str, ...]) -> None:
    taken = []
    for _ in range(3):  # the best of three: a first run may write byte code, a shared machine may stall
        seconds, done = processor_seconds([*path, "--help"])
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "Usage:" in done.stdout
        taken.append(seconds)
        if seconds <= LIMIT:
            return
    pytest.fail(
        f"--help took {min(taken):.2f} s of processor time, not {LIMIT} s: a heavy import at the top of a module?"
    )


def test_slow_starts_are_seen() -> None:
    # The measure itself: a process that imports torch is over the limit, so a heavy import cannot hide.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime > LIMIT
