from __future__ import annotations

import logging
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.base.errors import BundleError, TrainingError
from clearhead.bundle.manifest import MANIFEST, write_manifest
from clearhead.bundle.resolve import steps
from clearhead.training.checkpoint import (
    checkpoint_path,
    is_valid,
    newest_valid,
    prune,
    random_state,
    read_state,
    restore_random,
    seed_everything,
)

CPU = torch.device("cpu")


def put(run: Path, update: int) -> Path:
    """Something that passes for a checkpoint: a directory with a manifest that fits."""
    path = checkpoint_path(run, update)
    path.mkdir(parents=True)
    (path / "bundle.toml").write_text(f"update {update}\n")
    write_manifest(path)
    return path


def updates(run: Path) -> list[int]:
    return [update for update, _ in steps(run)]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, logger="clearhead")
    return caplog


def test_the_newest_valid_one_is_used_with_one_warning(tmp_path: Path, logged: pytest.LogCaptureFixture) -> None:
    for update in (5, 10, 15, 20):
        put(tmp_path, update)
    assert newest_valid(tmp_path) == checkpoint_path(tmp_path, 20)
    assert not logged.records
    (checkpoint_path(tmp_path, 20) / "bundle.toml").write_text("update 21\n")
    (checkpoint_path(tmp_path, 15) / MANIFEST).unlink()
    assert newest_valid(tmp_path) == checkpoint_path(tmp_path, 10)
    assert len(logged.records) == 1
    message = logged.records[0].getMessage()
    assert "step-00000020/bundle.toml: damaged" in message
    assert "step-00000015" in message
    assert "going on from step-00000010" in message


def test_nothing_saved_is_no_error_but_nothing_usable_is(tmp_path: Path) -> None:
    assert newest_valid(tmp_path) is None
    put(tmp_path, 5)
    (checkpoint_path(tmp_path, 5) / MANIFEST).write_text("{}")
    with pytest.raises(BundleError, match="no checkpoint is usable .*--fresh"):
        newest_valid(tmp_path)


@pytest.mark.parametrize("kind", ["empty", "a file", "cut short", "a loose link"])
def test_what_has_the_name_of_a_checkpoint_is_never_taken_for_none(
    tmp_path: Path, logged: pytest.LogCaptureFixture, kind: str
) -> None:
    """Or a run would begin again from scratch without a word."""
    path = checkpoint_path(tmp_path, 9)
    if kind == "cut short":
        put(tmp_path, 9)
        (path / MANIFEST).write_bytes((path / MANIFEST).read_bytes()[:-20])
    else:
        path.parent.mkdir()
        if kind == "empty":
            path.mkdir()
        elif kind == "a file":
            path.write_text("")
        else:
            path.symlink_to("nowhere")
    with pytest.raises(BundleError, match="no checkpoint is usable .*step-00000009.*--fresh"):
        newest_valid(tmp_path)
    put(tmp_path, 7)
    assert newest_valid(tmp_path) == checkpoint_path(tmp_path, 7)
    assert "step-00000009" in logged.records[-1].getMessage()


def test_a_file_in_the_place_of_all_checkpoints_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(BundleError, match="checkpoints: not a directory"):
        newest_valid(tmp_path)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"keep_last": 2}, [40, 50]),
        ({"keep_last": 1, "best": 20}, [20, 50]),
        ({"keep_last": 1, "keep_every": 20}, [20, 40, 50]),
        ({"keep_last": 9}, [10, 20, 30, 40, 50]),
    ],
)
def test_retention(tmp_path: Path, options: dict[str, int], kept: list[int]) -> None:
    valid = {put(tmp_path, update) for update in (10, 20, 30, 40, 50)}
    removed = prune(tmp_path, **{"keep_every": 0, "save_every": 0, "best": None, "valid": valid, **options})
    assert updates(tmp_path) == kept
    assert len(removed) == 5 - len(kept)


def test_damaged_ones_do_not_count(tmp_path: Path) -> None:
    """Counted, the one in the middle would push out the first, and go itself when it is next in turn."""
    valid = {put(tmp_path, update) for update in (10, 20, 30)} - {checkpoint_path(tmp_path, 20)}
    prune(tmp_path, keep_last=2, keep_every=0, save_every=0, best=None, valid=valid)
    assert updates(tmp_path) == [10, 30]


def test_an_interruption_pushes_out_no_regular_checkpoint(tmp_path: Path) -> None:
    valid = {put(tmp_path, update) for update in (10, 20, 30, 33, 37)}
    prune(tmp_path, keep_last=2, keep_every=0, save_every=10, best=None, valid=valid)
    assert updates(tmp_path) == [20, 30, 33, 37]


@settings(max_examples=40)
@given(
    history=st.lists(st.sampled_from(["save", "damage newest", "damage oldest", "prune", "new best"]), max_size=14),
    keep_last=st.integers(1, 3),
    keep_every=st.sampled_from([0, 2, 3]),
)
def test_whatever_happens_a_valid_one_and_the_best_remain(
    tmp_path_factory: pytest.TempPathFactory, history: list[str], keep_last: int, keep_every: int
) -> None:
    """Any order of saving, damage and pruning: the newest valid checkpoint and the best are never removed."""
    run = tmp_path_factory.mktemp("run")
    update, best = 0, None
    for event in history:
        found = [path for _, path in steps(run)]
        if event == "save":
            update += 1
            put(run, update)
        elif event.startswith("damage") and found:
            (found[-1 if "newest" in event else 0] / "bundle.toml").write_text("damaged")
        elif event == "new best":
            best = update if update in updates(run) else best
        elif event == "prune":
            valid = {path for path in found if is_valid(path)}
            before = set(updates(run))
            prune(run, keep_last=keep_last, keep_every=keep_every, save_every=1, best=best, valid=valid)
            after = set(updates(run))
            sound = sorted(int(path.name[5:]) for path in valid)
            assert set(sound[-keep_last:]) <= after
            assert best is None or best in after or best not in before
            assert bool(after) == bool(before)
    shutil.rmtree(run)


def test_state_must_be_there_and_of_this_format(tmp_path: Path) -> None:
    path = put(tmp_path, 1)
    with pytest.raises(BundleError, match="not a checkpoint to go on from"):
        read_state(path)
    (path / "training").mkdir()
    for text in ("{", "[]", '{"format": 2}', '{"format": 1, "progress": {}}'):
        (path / "training" / "state.json").write_text(text)
        with pytest.raises(BundleError, match=r"state\.json"):
            read_state(path)


def draws() -> tuple[list[float], float, float, float]:
    return torch.rand(3).tolist(), random.random(), random.gauss(0, 1), float(np.random.standard_normal())  # noqa: NPY002


def test_every_generator_goes_on_where_it_was() -> None:
    seed_everything(123456789012345)
    random.gauss(0, 1)  # leaves a second normal number cached, as does numpy's
    np.random.standard_normal()  # noqa: NPY002
    state = random_state(CPU)
    expected = draws()
    assert draws() != expected
    restore_random(state, CPU)
    assert draws() == expected
    seed_everything(123456789012345)
    first = draws()
    seed_everything(123456789012345)
    assert draws() == first


def test_a_random_state_that_is_none_is_refused() -> None:
    state = random_state(CPU)
    for key, value in (("torch", "AAAA"), ("torch", "!"), ("python", [3, [1, 2], None]), ("numpy", [[1], 0, 0, 0.0])):
        with pytest.raises(TrainingError, match="random state"):
            restore_random(state | {key: value}, CPU)
