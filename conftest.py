"""What holds for every test: a skip is a failure in CI, GPU tests need a GPU, hypothesis has no deadline."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

IN_CI = bool(os.environ.get("CI"))

# The machine may be shared and slow: time limits belong to pytest-timeout. CI draws the same examples every time.
settings.register_profile("clearhead", deadline=None, derandomize=IN_CI, print_blob=True)
settings.load_profile("clearhead")


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `gpu` where there is no CUDA device; torch is asked only if there are such tests."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    import torch

    if not torch.cuda.is_available():
        config.hook.pytest_deselected(items=wanting)
        items[:] = [item for item in items if item not in wanting]
