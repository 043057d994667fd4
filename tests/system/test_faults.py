"""The rows of `benchmarks/faults.py` at counts that fit here: nothing is lost, and each control loses.

The code is that of the benchmark, in a process a row. `python benchmarks/faults.py` runs the full counts.
"""

from __future__ import annotations

import pytest

from benchmarks.faults.rows import ROWS, Result, run_row


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name in ROWS if name != "crafted"])  # it measures time
def test_nothing_is_lost_and_the_control_loses(name: str) -> None:
    result = run_row(name, ROWS[name].ci, timeout=280)
    assert result.failures == []
    assert result.control_failed, f"the control did not fail: {result.control}"
    assert result.count > 0


def test_a_row_is_green_only_if_nothing_failed_and_the_control_did() -> None:
    assert Result(1, "", "", control_failed=True).green
    assert not Result(1, "", "", control_failed=False).green
    assert not Result(0, "", "", control_failed=True).green
    assert not Result(1, "", "", control_failed=True, failures=["lost"]).green


def test_a_row_whose_process_dies_is_red() -> None:
    result = run_row("masked", 1, seed="no number")  # the process ends before it measures anything
    assert not result.green
    assert "ended with status" in result.failures[0]
