"""Saving while the disk refuses, and what is kept: a run goes on, and what was there before stays usable."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from clearhead.base.errors import TrainingError
from clearhead.bundle import bundle as bundles
from clearhead.bundle.bundle import load_bundle
from clearhead.bundle.manifest import MANIFEST
from clearhead.bundle.resolve import resolve, steps
from clearhead.training import saving
from clearhead.training.checkpoint import checkpoint_path, is_valid, newest_valid
from clearhead.training.config import TrainingConfig
from clearhead.training.events import Best, MetricsFile, read_metrics
from clearhead.training.progress import Outcome, Update, Validated
from clearhead.training.saving import Checkpoints
from clearhead.training.signals import stop_on_signals
from clearhead.training.trainer import Handler, Trainer
from tests.faults import Call, DiskFault
from tests.unit.recipes.tiny import tiny_bundle

from .test_checkpoint import put

Make = Callable[..., Trainer]
ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO]


class Breaking(Handler):
    """Turns a fault on for the updates given, and looks at the run after each of them."""

    def __init__(self, run: Path, fault: DiskFault, updates: set[int]) -> None:
        self.run, self.fault, self.updates = run, fault, updates
        self.seen: dict[int, tuple[str | None, list[str]]] = {}

    def before(self, number: int) -> None:
        self.fault.on, self.fault.calls = number in self.updates, 0

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.fault.on = False
        newest = newest_valid(self.run)
        files = sorted(path.name for path in (self.run / "checkpoints").glob("*"))
        self.seen[update.number] = (newest.name[-1] if newest else None, files)


class Before(Handler):
    def __init__(self, after: Breaking) -> None:
        self.after = after

    def updated(self, trainer: Trainer, update: Update) -> None:
        self.after.before(update.number)

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        self.after.before(trainer.progress.update + 1)


def trained(make: Make, run: Path, fault: DiskFault, failing: set[int], updates: int = 6, **settings: Any) -> Breaking:
    """A run that saves every second update, with the fault on at some of them (at the end: one more than the last)."""
    config = TrainingConfig(updates=updates, save_every=2, **settings)
    breaking = Breaking(run, fault, failing)
    checkpoints = Checkpoints(run, config, Best("nll"), lambda trainer: tiny_bundle(), {})
    handlers = [Before(breaking), checkpoints, breaking]
    make(updates=updates, handlers=handlers, save_every=2, **settings).run()
    return breaking


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="clearhead")
    return caplog


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize(("call", "at"), [("write", 1), ("write", 4), ("fsync", 1), ("fsync", 9), ("rename", 1)])
def test_a_save_that_fails_leaves_what_was_there_and_training_goes_on(
    make_trainer: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logged: pytest.LogCaptureFixture,
    call: Call,
    at: int,
    error: int,
) -> None:
    fault = DiskFault(monkeypatch, call, error, where="step-00000004", at=at)
    seen = trained(make_trainer, tmp_path, fault, {4}).seen
    assert seen[4] == ("2", ["step-00000002"])  # nothing half done, no temporary
    assert seen[5] == ("2", ["step-00000002"])
    assert [update for update, _ in steps(tmp_path)] == [2, 6]
    load_bundle(tmp_path)
    warned = [record.getMessage() for record in logged.records if record.levelno == logging.WARNING]
    assert len(warned) == 1
    assert warned[0].startswith(f"{checkpoint_path(tmp_path, 4)}: the checkpoint of update 4 cannot be saved: ")
    assert os.strerror(error) in warned[0]
    assert re.search(r"it takes about [\d.]+ MiB, [\d,.]+ MiB are free there", warned[0])
    assert "training goes on" in warned[0]
    assert "step-00000002" in warned[0]


def test_the_naive_way_leaves_ruins(make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: written in place, the same fault leaves a directory that is no checkpoint."""

    @contextmanager
    def in_place(path: Path, **_: Any) -> Iterator[Path]:
        path.mkdir(parents=True)
        yield path

    monkeypatch.setattr(bundles, "atomic_directory", in_place)
    fault = DiskFault(monkeypatch, "write", errno.ENOSPC, where="step-00000004", at=4)
    seen = trained(make_trainer, tmp_path, fault, {4}).seen
    assert seen[4][1] == ["step-00000002", "step-00000004"]
    assert not is_valid(checkpoint_path(tmp_path, 4))


def test_three_failures_in_a_row_end_the_run(
    make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = DiskFault(monkeypatch, "fsync", errno.ENOSPC, where="checkpoints")
    with pytest.raises(
        TrainingError, match=r"No space left .* 3 saves in a row have failed; .* step-00000002"
    ) as caught:
        trained(make_trainer, tmp_path, fault, {4, 6, 8}, updates=12)
    assert caught.value.exit_code == 1
    assert newest_valid(tmp_path) == checkpoint_path(tmp_path, 2)
    # Two, a success, and two again are not three in a row.
    trained(make_trainer, tmp_path / "other", fault, {2, 4, 8, 10}, updates=13)
    assert [update for update, _ in steps(tmp_path / "other")] == [6, 12, 13]


def test_a_failure_at_the_end_is_an_error(make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = DiskFault(monkeypatch, "rename", errno.EIO, where="checkpoints")
    with pytest.raises(TrainingError, match=r"Input/output error.*the end of the run, .* step-00000002") as caught:
        trained(make_trainer, tmp_path, fault, {4}, updates=3)
    assert caught.value.exit_code == 1


def test_the_best_that_could_not_be_saved_does_not_push_out_the_one_before_it(
    make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Best at 1 and again, better, at 3, whose save fails: the checkpoint of 1 is the best one that there is."""
    fault = DiskFault(monkeypatch, "write", errno.ENOSPC, where="step-00000003")
    fault.on = True
    best = Best("nll")
    config = TrainingConfig(updates=8, save_every=2, keep_last=1)
    checkpoints = Checkpoints(tmp_path, config, best, lambda trainer: tiny_bundle(), {})

    class Scores(Handler):
        def updated(self, trainer: Trainer, update: Update) -> None:
            trainer.publish(Validated(update.number, {"nll": {1: 5.0, 3: 4.0}.get(update.number, 9.0)}))

    make_trainer(updates=8, handlers=[Scores(), best, checkpoints]).run()
    assert best.update == 3
    assert [update for update, _ in steps(tmp_path)] == [1, 8]
    assert json.loads((tmp_path / "best.json").read_text())["value"] == 5.0
    assert resolve(tmp_path) == checkpoint_path(tmp_path, 1)


def test_metrics_wait_for_a_disk_that_is_full(
    make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    """Half a line is taken, then nothing for two updates: every line is there in the end, once and whole."""
    path = tmp_path / "metrics.jsonl"
    handler = MetricsFile(path, 1)

    class Full(Handler):
        def updated(self, trainer: Trainer, update: Update) -> None:
            if update.number == 3:
                assert handler._file is not None
                monkeypatch.setattr(handler, "_file", Half(handler._file))
            if update.number == 5:
                handler._file = handler._file.file  # type: ignore[union-attr]

    class Half:
        def __init__(self, file: Any) -> None:
            self.file, self.calls = file, 0
            self.truncate, self.close = file.truncate, file.close

        def write(self, data: bytes) -> int:
            self.calls += 1
            if self.calls == 1:
                return int(self.file.write(data[:10]))
            raise OSError(errno.ENOSPC, "No space left on device")

    make_trainer(updates=6, handlers=[Full(), handler]).run()
    assert [line["update"] for line in read_metrics(path)] == [1, 2, 3, 4, 5, 6]
    assert len(path.read_text().splitlines()) == 6
    assert len([record for record in logged.records if "its lines wait" in record.getMessage()]) == 1


def test_a_signal_while_saving_lets_the_save_end(
    make_trainer: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signalled(directory: Path) -> None:
        if "00000002" in str(directory):
            signal.raise_signal(signal.SIGTERM)
        write(directory)

    write = bundles.write_manifest
    monkeypatch.setattr(bundles, "write_manifest", signalled)
    config = TrainingConfig(updates=6, save_every=2)
    checkpoints = Checkpoints(tmp_path, config, Best("nll"), lambda trainer: tiny_bundle(), {})
    trainer = make_trainer(updates=6, handlers=[checkpoints])
    with stop_on_signals(trainer):
        assert trainer.run().signal == signal.SIGTERM
    assert trainer.progress.update == 2
    assert newest_valid(tmp_path) == checkpoint_path(tmp_path, 2)


@pytest.mark.parametrize(("free", "warned"), [(1 << 40, False), (1 << 20, True)])
def test_little_room_is_told_at_the_start(
    make_trainer: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logged: pytest.LogCaptureFixture,
    free: int,
    warned: bool,
) -> None:
    """Line has three numbers of 8 bytes, times 3 for Adam's moments, and 1 MiB for the rest: 1.2 × 4 × 1 MiB."""
    monkeypatch.setattr(saving, "free_bytes", lambda path: free)
    fault = DiskFault(monkeypatch, "write", errno.EIO)
    trained(make_trainer, tmp_path, fault, set(), updates=2, keep_last=3)
    told = [record.getMessage() for record in logged.records if "are free" in record.getMessage()]
    assert bool(told) == warned
    if warned:
        assert "1.0 MiB are free, and the checkpoints to come take about 4.8 MiB" in told[0]


def test_surplus_and_leftovers_go_at_the_start(make_trainer: Make, tmp_path: Path) -> None:
    for update in (2, 4, 6):
        put(tmp_path, update)
    (checkpoint_path(tmp_path, 2) / MANIFEST).unlink()  # a removal that was killed
    left = tmp_path / "checkpoints" / ".step-00000008.tmp.0123456789abcdef"
    left.mkdir()
    config = TrainingConfig(updates=8, save_every=2, keep_last=1)
    Checkpoints(tmp_path, config, Best("nll"), lambda trainer: tiny_bundle(), {}).started(make_trainer())
    assert [update for update, _ in steps(tmp_path)] == [6]
    assert not left.exists()


class Sequences(RuleBasedStateMachine):
    """Saves, kills in saves and in removals, damage, clocks that go backwards, new bests and restarts, in any order.

    Always: the newest valid checkpoint survives, as do the newest `keep_last` valid ones and the best; order is by
    update whatever the clock says; what is not valid does not count.
    """

    @initialize(keep_last=st.integers(1, 3), keep_every=st.sampled_from([0, 2]))
    def begin(self, keep_last: int, keep_every: int) -> None:
        import tempfile

        self.run = Path(tempfile.mkdtemp())
        self.keep_last = keep_last
        self.config = TrainingConfig(save_every=1, keep_last=keep_last, keep_every=keep_every)
        self.update = 0
        self.best = Best("nll")
        self.restart()

    def teardown(self) -> None:
        shutil.rmtree(self.run)

    def checked(self, act: Callable[[], None]) -> None:
        """`act`, which may remove checkpoints, and what must be true of it."""
        before = {update for update, path in steps(self.run) if is_valid(path)}
        act()
        after = {update for update, path in steps(self.run) if is_valid(path)}
        # Only those that this process wrote or verified count; each restart verifies all.
        assert not before or max(before) in after
        assert self.best.update not in before or self.best.update in after
        assert set(sorted(before)[-self.config.keep_last :]) <= after
        if after:
            assert newest_valid(self.run) == checkpoint_path(self.run, max(after))

    @rule()
    def restart(self) -> None:
        self.handler = Checkpoints(self.run, self.config, self.best, lambda trainer: tiny_bundle(), {})
        self.checked(self.handler.tidy)
        assert not list((self.run / "checkpoints").glob(".*")) if self.update else True

    @rule(better=st.lists(st.booleans(), min_size=1, max_size=4))
    def save(self, better: list[bool]) -> None:
        for each in better:
            self.update += 1
            self.best.update = self.update if each else self.best.update
            self.handler.valid.add(put(self.run, self.update))
            self.checked(self.handler._prune)

    @rule()
    def killed_while_saving(self) -> None:
        self.update += 1
        left = self.run / "checkpoints" / f".step-{self.update:08d}.tmp.0123456789abcdef"
        left.mkdir(parents=True)
        (left / "bundle.toml").write_text("half")
        self.restart()

    @rule(after=st.integers(0, 2))
    def killed_while_removing(self, after: int) -> None:
        """The process dies in the removal of the tree of one: its manifest is gone, its files are not."""
        left = [after]

        def dies(path: Path, ignore_errors: bool = False) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            remove(path)

        remove = shutil.rmtree
        self.handler.config = self.config = self.config.model_copy(update={"keep_last": 1})  # else nothing is surplus
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shutil, "rmtree", dies)

            def act() -> None:
                with suppress(KeyboardInterrupt):
                    self.handler._prune()

            self.checked(act)
        self.handler.config = self.config = self.config.model_copy(update={"keep_last": self.keep_last})

    @precondition(lambda self: steps(self.run))
    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        update, path = data.draw(st.sampled_from(steps(self.run)))
        if len([1 for _, each in steps(self.run) if is_valid(each)]) > 1:
            (path / "bundle.toml").write_text("damaged")
            self.best.update = None if self.best.update == update else self.best.update
            self.restart()

    @rule(data=st.data())
    def clocks(self, data: st.DataObject) -> None:
        """Set at random, and then another save, whose own time is that of now."""
        for _, path in steps(self.run):
            moment = data.draw(st.integers(0, 2_000_000_000))
            os.utime(path, (moment, moment))
        self.save([False])


Sequences.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
TestSequences = Sequences.TestCase
