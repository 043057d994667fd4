"""Huge pages are claimed where the kernel really gives them: each case in a process of its own."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.recipes.run_config import compose
from clearhead.training import huge_pages

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
CODE = """
import pathlib, sys, torch
import clearhead.recipes.train  # no module may make a tensor while it is imported
from clearhead.training.huge_pages import ask_for_huge_pages
if "early" in sys.argv:
    torch.zeros(3)
line = ask_for_huge_pages() or ""
block = torch.ones(64 << 20, dtype=torch.uint8)
smaps = pathlib.Path("/proc/self/smaps_rollup").read_text()
print("huge pages" in line, sum(int(text.split()[1]) for text in smaps.splitlines() if text.startswith("AnonHuge")))
"""


def claim_and_truth(*arguments: str, **environment: str) -> tuple[bool, int]:
    """What the header line claims, and the KiB in huge pages that the kernel counts with 64 MiB in use."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "THP_"))}
    command = [sys.executable, "-W", "ignore", "-c", CODE, *arguments]
    done = subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=True)
    claim, kibibytes = done.stdout.split()
    return claim == "True", int(kibibytes)


def kernel_waits_to_be_asked() -> bool:
    """Where it always or never gives huge pages, there is less to see."""
    return SETTING.exists() and "[madvise]" in SETTING.read_text("ascii")


def test_what_is_claimed_is_what_the_kernel_counts() -> None:
    claim, kibibytes = claim_and_truth()
    assert claim or not kernel_waits_to_be_asked()
    assert not claim or kibibytes >= 32 << 10


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["early"], {}), ([], {"THP_MEM_ALLOC_ENABLE": "0"})],
    ids=["a tensor came first", "the user says no"],
)
def test_what_was_not_had_is_not_claimed(arguments: list[str], environment: dict[str, str]) -> None:
    claim, kibibytes = claim_and_truth(*arguments, **environment)
    assert not claim
    assert kibibytes == 0 or not kernel_waits_to_be_asked()


def test_a_kernel_without_huge_pages_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = tmp_path / "enabled"
    setting.write_text("always madvise [never]\n", "ascii")
    for place in (setting, tmp_path / "missing"):
        monkeypatch.setattr(huge_pages, "SETTING", place)
        monkeypatch.delenv("THP_MEM_ALLOC_ENABLE", raising=False)
        assert huge_pages.ask_for_huge_pages() is None
        assert "THP_MEM_ALLOC_ENABLE" not in os.environ


def test_training_asks_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch looks once, at its first tensor: a checkpoint read before would be the end of huge pages."""

    class Called(Exception):
        pass

    def called() -> None:
        raise Called

    recipe = importlib.import_module("clearhead.recipes.train")
    monkeypatch.setattr(recipe, "ask_for_huge_pages", called)
    data = {"languages": ["en", "de"], "train": {"source": "a.en", "target": "a.de"}}
    config = compose({"out": str(tmp_path / "run"), "data": data, "model": {"preset": "tiny"}})
    with pytest.raises(Called):
        recipe.train(config)
    assert not (tmp_path / "run").exists()
