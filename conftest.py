"""What holds for every test: the same start from any shell, a skip fails in CI, GPU tests need a GPU, no deadlines."""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

IN_CI = bool(os.environ.get("CI"))

# The machine may be shared and slow: time limits belong to pytest-timeout. CI draws the same examples every time.
settings.register_profile("clearhead", deadline=None, derandomize=IN_CI, print_blob=True)
settings.load_profile("clearhead")


def pytest_sessionstart() -> None:
    """Give every program that a test starts what it has in a terminal: no input to wait for, and no signal ignored.

    A shell that starts the tests in the background ignores SIGINT for them, `nohup` SIGHUP, and both may leave an
    input that never ends.
    """
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI nothing may be left untested unnoticed: turn a skip into a failure that gives the skip's reason."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{reason}\nA skipped test fails in CI: .ci/run must bring what the test needs."


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """What a test printed may hold half a character, which pytest-xdist cannot send to the process that reports it."""
    return sendable((yield))


def sendable(value: object) -> object:
    """The same with escapes for what no encoding has."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {key: sendable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(sendable(each) for each in value)
    return value


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `gpu` where there is no CUDA device; torch is asked only if there are such tests."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    import torch

    if not torch.cuda.is_available():
        config.hook.pytest_deselected(items=wanting)
        items[:] = [item for item in items if item not in wanting]
