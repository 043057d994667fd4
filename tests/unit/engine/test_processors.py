"""The processors that there are to use, by what the system says of them."""

import os
from pathlib import Path

import pytest

from clearhead.engine import processors
from clearhead.engine.processors import usable_processors


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000\n", 6),
        ("150000 100000\n", 2),
        ("200000 100000\n", 2),
        ("20000 100000\n", 1),
        ("900000 100000\n", 6),
        ("100000 0\n", 6),
        ("nonsense\n", 6),
        (None, 6),
    ],
)
def test_a_container_may_allow_fewer(
    quota: str | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(processors, "_QUOTA", tmp_path / "cpu.max")
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota, encoding="ascii")
    assert usable_processors() == expected
