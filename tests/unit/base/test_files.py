"""Whole or absent: what is left after a crash, a kill, a full disk, a second writer."""

import contextlib
import errno
import fcntl
import hashlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clearhead.base import files
from clearhead.base.errors import ClearheadError, InputError
from clearhead.base.files import (
    DirectoryLock,
    atomic_directory,
    atomic_stream,
    atomic_write,
    sha256_file,
    sweep_temporaries,
)


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


@contextlib.contextmanager
def script(source: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs `source`; killed at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


# ------------------------------------------------------------------------------------------------------------ files


def test_a_file_is_written_whole_as_bytes_or_as_utf8(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a", b"\x00\xff")
    atomic_write(tmp_path / "b", "ü\r\n\u2028")
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_bytes() == "ü\r\n\u2028".encode()
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_file_and_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "a"
    atomic_write(path, "old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(
        ClearheadError, match=r"a: cannot be written: No space left on device \([\d.]+ MiB free\)"
    ) as caught:
        atomic_write(path, "new")
    assert caught.value.exit_code == 1
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_the_data_reach_the_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(descriptor: int) -> None:
        calls.append("directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        fsync(descriptor)

    def note_replace(source: Path, target: Path) -> None:
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(files.os, "fsync", note_fsync)
    monkeypatch.setattr(files.os, "replace", note_replace)
    atomic_write(tmp_path / "a", "x")
    assert calls == ["file", "rename", "directory"]


def test_links_are_followed_and_permissions_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to("real")
    atomic_write(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640
    previous = os.umask(0o027)
    try:
        atomic_write(tmp_path / "fresh", "x")
    finally:
        os.umask(previous)
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with script("import sys; sys.stdout.write(open(sys.argv[1]).read())", pipe) as reader:
        atomic_write(pipe, "through")
        assert reader.communicate()[0] == "through"
    assert pipe.is_fifo()


@pytest.mark.parametrize("target", ["missing/a", "file/a", "directory"])
def test_a_place_that_cannot_be_written_is_the_users_to_change(tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "directory").mkdir()
    with pytest.raises(InputError, match=f"{target}: cannot be written: "):
        atomic_write(tmp_path / target, "x")


def test_a_disk_that_takes_no_more_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    def fill(path: Path) -> None:
        with atomic_stream(path) as stream, atomic_stream(tmp_path / "other") as other:
            other.write(b"x")
            for _ in range(1000):
                stream.write(b"x" * 1000)

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(ClearheadError, match=r"big: cannot be written: File too large") as told:
            fill(tmp_path / "big")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert told.value.exit_code == 1
    assert names(tmp_path) == []
    with pytest.raises(ClearheadError, match=r"/dev/full: cannot be written: No space left.*MiB free"):
        fill(Path("/dev/full"))


def test_a_pipe_whose_reader_has_gone_stays_a_broken_pipe(tmp_path: Path) -> None:
    def write(path: str) -> None:
        with atomic_stream(path) as stream:
            os.close(end)
            stream.write(b"x" * 100_000)

    end, other = os.pipe()
    try:
        with pytest.raises(BrokenPipeError):
            write(f"/dev/fd/{other}")
    finally:
        os.close(other)


def test_a_failing_block_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with atomic_stream(tmp_path / "a") as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert names(tmp_path) == []


def test_checksums_are_those_of_sha256(tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    (tmp_path / "a").write_bytes(data)
    assert sha256_file(tmp_path / "a") == hashlib.sha256(data).hexdigest()
    with pytest.raises(InputError, match="gone: cannot be read"):
        sha256_file(tmp_path / "gone")


# ------------------------------------------------------------------------------------------------------ directories


def fill(directory: Path, text: str) -> None:
    (directory / "sub").mkdir()
    (directory / "sub" / "file").write_text(text)


def test_a_directory_appears_whole_with_its_parents(tmp_path: Path) -> None:
    target = tmp_path / "runs" / "first"
    with atomic_directory(target) as temporary:
        assert temporary.parent == target.parent
        fill(temporary, "x")
        assert not target.exists()
    assert (target / "sub" / "file").read_text() == "x"
    assert names(target.parent) == ["first"]


def test_a_failing_block_leaves_no_directory(tmp_path: Path) -> None:
    def fail() -> None:
        with atomic_directory(tmp_path / "a") as temporary:
            fill(temporary, "x")
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        fail()
    assert names(tmp_path) == []


def test_every_file_and_directory_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    monkeypatch.setattr(files.os, "fsync", note)
    with atomic_directory(tmp_path / "a") as temporary:
        fill(temporary, "x")
    assert synced == ["file", "sub", temporary.name, tmp_path.name]


def test_an_existing_directory_is_refused_before_the_work_and_after_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="a: exists already"), atomic_directory(tmp_path / "a"):
        pytest.fail("the block must not run")

    def race() -> None:
        with atomic_directory(tmp_path / "b"):
            (tmp_path / "b").mkdir()
            fill(tmp_path / "b", "other")

    with pytest.raises(InputError, match="b: exists already"):
        race()
    assert (tmp_path / "b" / "sub" / "file").read_text() == "other"
    assert names(tmp_path) == ["a", "b"]


def test_replacing_a_directory_leaves_the_new_one_only(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with atomic_directory(tmp_path / "a", replace=True) as temporary:
            fill(temporary, text)
    assert (tmp_path / "a" / "sub" / "file").read_text() == "new"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_replacement_that_fails_puts_the_old_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    with atomic_directory(tmp_path / "a") as temporary:
        fill(temporary, "old")
    rename, calls = os.rename, []

    def fail(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == failing:
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    def replace() -> None:
        with atomic_directory(tmp_path / "a", replace=True) as temporary:
            fill(temporary, "new")
            monkeypatch.setattr(files.os, "rename", fail)

    with pytest.raises(ClearheadError, match="a: cannot be written: Input/output error"):
        replace()
    assert (tmp_path / "a" / "sub" / "file").read_text() == "old"
    assert names(tmp_path) == ["a"]


CRASH_IN_REPLACEMENT = """
import os, sys
from clearhead.base import files
rename, calls = os.rename, []
def die(source, target):
    calls.append(target)
    if len(calls) == 2:
        os.kill(os.getpid(), 9)
    rename(source, target)
files.os.rename = die
with files.atomic_directory(sys.argv[1], replace=True) as temporary:
    (temporary / "new").touch()
"""


def test_a_kill_between_the_two_moves_is_healed_by_the_sweep(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "a") as temporary:
        fill(temporary, "old")
    with script(CRASH_IN_REPLACEMENT, tmp_path / "a") as process:
        assert process.wait(30) == -signal.SIGKILL
    assert not (tmp_path / "a").exists()
    assert len(names(tmp_path)) == 2
    sweep_temporaries(tmp_path)
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a" / "sub" / "file").read_text() == "old"


WRITER = """
import sys
from clearhead.base.files import atomic_directory, atomic_stream
with atomic_directory(sys.argv[1] + "/d") as temporary, atomic_stream(sys.argv[1] + "/f") as stream:
    (temporary / "half").touch()
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_the_sweep_spares_living_writers_and_clears_up_after_dead_ones(tmp_path: Path) -> None:
    for name in (".hidden", ".a.tmp.short", "a.tmp.0123456789abcdef"):
        (tmp_path / name).write_text("not ours")
    with script(WRITER, tmp_path) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        assert sweep_temporaries(tmp_path) == []
        assert len(names(tmp_path)) == 5
    assert len(sweep_temporaries(tmp_path)) == 2
    assert names(tmp_path) == [".a.tmp.short", ".hidden", "a.tmp.0123456789abcdef"]
    assert sweep_temporaries(tmp_path / "absent") == []


# ------------------------------------------------------------------------------------------------------------ locks


HOLDER = """
import os, sys, time
from clearhead.base.files import DirectoryLock
lock = DirectoryLock(sys.argv[1])
lock.acquire()
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)  # the child says it: only then has it let go of what it shares
    time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


def test_a_second_holder_learns_who_the_first_is_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with script(HOLDER, tmp_path / "b") as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(InputError, match=rf"b: in use by process {holder.pid} on \S+; wait until it ends"):
                DirectoryLock(tmp_path / "b").acquire()
            holder.kill()
            holder.wait()
            # The forked worker lives on, and does not keep its parent's lock.
            os.kill(child, 0)
            with DirectoryLock(tmp_path / "b"):
                assert f"process {os.getpid()} on" in (tmp_path / "b" / "LOCK").read_text()
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_lock_keeps_out_the_same_process_and_can_be_taken_again_after_release(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        with pytest.raises(InputError, match=f"in use by process {os.getpid()} "):
            DirectoryLock(tmp_path).acquire()
        # The refused attempt has not disturbed the holder.
        with pytest.raises(InputError, match=f"in use by process {os.getpid()} "):
            DirectoryLock(tmp_path).acquire()
    lock = DirectoryLock(tmp_path)
    lock.acquire()
    with pytest.raises(InputError, match="already locked by this process"):
        lock.acquire()
    lock.release()
    lock.release()
    assert (tmp_path / "LOCK").read_text() == ""


def test_a_directory_that_is_not_there_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="LOCK: cannot be opened: No such file"):
        DirectoryLock(tmp_path / "absent").acquire()


def test_a_file_system_without_locks_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with DirectoryLock(tmp_path):
        assert "has no locks" in caplog.text
    atomic_write(tmp_path / "a", "x")
    assert sweep_temporaries(tmp_path) == []


@pytest.mark.parametrize("write", [files.atomic_stream, files.atomic_directory])
def test_a_signal_that_strikes_as_soon_as_the_temporary_is_there_leaves_nothing(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def struck(name: Any, *arguments: Any) -> int:
        monkeypatch.undo()
        os.close(opened(name, *arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", struck)
    with pytest.raises(KeyboardInterrupt), write(tmp_path / "out"):
        pytest.fail("it was opened")
    assert list(tmp_path.iterdir()) == []
