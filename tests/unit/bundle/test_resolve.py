from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.base.errors import BundleError
from clearhead.bundle.bundle import Bundle, load_bundle, save_bundle
from clearhead.bundle.resolve import resolve, steps


@pytest.fixture
def run(make: Callable[..., Bundle], tmp_path: Path) -> Path:
    """A run with checkpoints 9 and 10000000000 (more digits, so names do not sort as numbers do) and leftovers."""
    for step in (9, 100, 10_000_000_000):
        save_bundle(tmp_path / "run" / "checkpoints" / f"step-{step:08d}", make(step % 97))
    for name in (".step-00000200.tmp.0123456789abcdef", "step-200", "step-00000300.old", "notes"):
        (tmp_path / "run" / "checkpoints" / name).mkdir()
    return tmp_path / "run"


def test_order_is_by_number_and_leftovers_do_not_count(run: Path) -> None:
    assert [step for step, _ in steps(run)] == [9, 100, 10_000_000_000]


def test_a_bundle_means_itself(run: Path) -> None:
    bundle = run / "checkpoints" / "step-00000009"
    assert resolve(bundle) == bundle


def test_the_best_comes_first(run: Path) -> None:
    (run / "best.json").write_text(json.dumps({"step": 100, "path": "checkpoints/step-00000100"}))
    assert resolve(run).name == "step-00000100"
    assert load_bundle(run).path == run / "checkpoints" / "step-00000100"


@pytest.mark.parametrize(
    "note", ["{", "[]", '{"path": "checkpoints/step-00000777"}', '{"path": "../../etc"}', '{"path": 3}', ""]
)
def test_else_the_newest(run: Path, note: str) -> None:
    (run / "best.json").write_text(note)
    assert resolve(run).name == "step-10000000000"


def test_a_best_outside_the_run_is_not_followed(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "checkpoints" / "step-00000009", tmp_path / "elsewhere")
    (run / "best.json").write_text(json.dumps({"path": "../elsewhere"}))
    assert resolve(run).name == "step-10000000000"


def test_a_damaged_newest_is_passed_over(run: Path) -> None:
    (run / "checkpoints" / "step-10000000000" / "bundle.toml").write_text("damaged")
    assert resolve(run).name == "step-00000100"


def test_no_usable_checkpoint(run: Path, tmp_path: Path) -> None:
    for _, path in steps(run):
        (path / "MANIFEST.json").unlink()
    with pytest.raises(BundleError, match=r"no usable checkpoint .*never finished"):
        resolve(run)
    (tmp_path / "new" / "checkpoints").mkdir(parents=True)
    with pytest.raises(BundleError, match="no checkpoint yet"):
        resolve(tmp_path / "new")
