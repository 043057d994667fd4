"""Files that are either whole or absent: atomic writes, atomic directories, locks and checksums.

Every write goes to a temporary sibling named `.NAME.tmp.RANDOM`, reaches the disk (fsync) and is then renamed over
its target, so a reader, or a process that starts after a crash, sees the old content or the new, never a part. A
temporary is held by a lock (flock) while its writer lives; `sweep_temporaries` removes those that nobody holds.
"""

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import re
import secrets
import shutil
import socket
import stat
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, ClassVar

from clearhead.base.errors import ClearheadError, InputError
from clearhead.base.log import logger

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "DirectoryLock",
    "atomic_directory",
    "atomic_stream",
    "atomic_write",
    "file_error",
    "sha256_file",
    "sweep_temporaries",
]

_TEMPORARY = re.compile(r"^\.(?P<name>.+)\.(?P<role>tmp|old)\.[0-9a-f]{16}$", re.DOTALL)

# What the user can put right by giving another path; anything else (a full disk, a broken one) fails at run time.
_USER_ERRNOS = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EEXIST, errno.ENOTEMPTY, errno.EINVAL,
}  # fmt: skip


def file_error(path: str | Path, doing: str, error: OSError) -> ClearheadError:
    """The error to raise for an OSError: `file_error("a.txt", "read", error)` says "a.txt: cannot be read: …".

    An InputError (exit 2) where another path would help, a ClearheadError (exit 1) otherwise; a full disk is told
    with the room that is left.
    """
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(_existing_parent(Path(path))).free
            reason = f"{reason} ({free / 2**20:.1f} MiB free); make room or choose another place"
    kind = InputError if error.errno in _USER_ERRNOS else ClearheadError
    return kind(f"{path}: cannot be {doing}: {reason}")


def atomic_write(path: str | Path, data: bytes | str) -> None:
    """Write a whole file (text as UTF-8) so that a crash leaves the old file or the new one. Raises `file_error`'s."""
    content = data.encode("utf-8") if isinstance(data, str) else data
    with atomic_stream(path) as stream:
        stream.write(content)


@contextlib.contextmanager
def atomic_stream(path: str | Path) -> Iterator[BinaryIO]:
    """A binary stream whose content becomes the file `path` when the block ends, and vanishes if the block fails.

    A symbolic link is followed, so the link stays; what is no regular file (a pipe, /dev/null) is written directly.
    An OSError of opening, writing or finishing the file becomes `file_error`, but not BrokenPipeError, which is the end
    of a pipe's reader; an OSError that the block raises for something else passes through.
    """
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            special = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
        else:
            special, target = None, Path(os.path.realpath(target))
    except OSError as error:
        raise file_error(path, "written", error) from None
    if special is not None:
        with io.BufferedWriter(_Named(special, path)) as stream:
            yield stream
        return
    temporary = _temporary_name(target, "tmp")
    try:  # begun before the file is there, since a signal may strike as soon as it is
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            _hold(descriptor)
        except OSError as error:
            raise file_error(path, "written", error) from None
        with io.BufferedWriter(_Named(descriptor, path)) as stream:
            yield stream
            try:
                stream.flush()
                _keep_mode(target, stream.fileno())
                os.fsync(stream.fileno())
                os.replace(temporary, target)
                _fsync_directory(target.parent)
            except OSError as error:
                raise file_error(path, "written", error) from None
    except BaseException:
        with contextlib.suppress(OSError):  # where it could not be made, it cannot be removed
            temporary.unlink()
        raise


@contextlib.contextmanager
def atomic_directory(path: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """A temporary directory that becomes `path`, flushed to disk, when the block ends; it vanishes if the block fails.

    Missing parents are made. A `path` that exists is refused (InputError) before the block and again after it,
    unless `replace`: then it is moved aside, the new one moved in, and the old one removed. A crash between the two
    moves leaves the old directory under a temporary name, from where `sweep_temporaries` brings it back.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _refuse_existing(target, replace)
    except OSError as error:
        raise file_error(path, "written", error) from None
    temporary, descriptor = _temporary_name(target, "tmp"), None
    try:  # begun before the directory is there, since a signal may strike as soon as it is
        try:
            temporary.mkdir()
            descriptor = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise file_error(path, "written", error) from None
        _hold(descriptor)
        yield temporary
        try:
            _fsync_tree(temporary)
            _refuse_existing(target, replace)
            _move_in(temporary, target)
        except OSError as error:
            raise file_error(path, "written", error) from None
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)


def sweep_temporaries(parent: str | Path) -> list[Path]:
    """Remove what crashed writers left in `parent`, and bring back a directory whose replacement was cut short.

    Temporaries of living writers are left alone. Returns the paths removed; a `parent` that does not exist has none.
    """
    removed = []
    for entry in sorted(Path(parent).glob(".*")) if Path(parent).is_dir() else []:
        match = _TEMPORARY.match(entry.name)
        if match is None or not _abandoned(entry):
            continue
        target = entry.with_name(match["name"])
        if match["role"] == "old" and not os.path.lexists(target):
            os.rename(entry, target)
            logger.warning("%s: brought back; a crash had cut its replacement short", target)
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
        removed.append(entry)
    return removed


def sha256_file(path: str | Path) -> str:
    """The SHA-256 of a file's bytes in hexadecimal, read in pieces."""
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise file_error(path, "read", error) from None


class DirectoryLock:
    """One holder at a time for a directory, by `flock` on its file LOCK; the system frees it when the process dies.

    Use it in a `with` statement, or `acquire` and `release`. A second holder, in this process or another, gets an
    InputError that names the process id and host of the first.
    """

    _held: ClassVar["weakref.WeakSet[DirectoryLock]"] = weakref.WeakSet()

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._stream: BinaryIO | None = None

    def acquire(self) -> None:
        """Take the lock or raise InputError."""
        if self._stream is not None:
            raise InputError(f"{self.path}: already locked by this process")
        try:
            stream: BinaryIO = open(self.path / "LOCK", "a+b")  # noqa: SIM115 (kept open while the lock is held)
        except OSError as error:
            raise file_error(self.path / "LOCK", "opened", error) from None
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read(300).decode("utf-8", "replace").strip() or "another process"
            stream.close()
            raise InputError(
                f"{self.path}: in use by {holder}; wait until it ends, stop it, or choose another directory"
            ) from None
        except OSError as error:
            # Some network file systems have no locks. Refusing to work there would help nobody.
            logger.warning(
                "%s: this file system has no locks (%s); do not use it twice at once", self.path, error.strerror
            )
        stream.truncate(0)
        stream.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        stream.flush()
        self._stream = stream
        self._held.add(self)

    def release(self) -> None:
        """Give the lock back; the file LOCK stays, empty. Releasing twice does no harm."""
        if self._stream is not None:
            # Emptied while still held, so that a later holder's name cannot be wiped; never unlinked, because a
            # process that has the unlinked file open would lock a file that nobody else can see.
            self._stream.truncate(0)
            self._stream.close()
            self._stream = None
            self._held.discard(self)

    @classmethod
    def _let_go_after_fork(cls) -> None:
        """A forked worker shares its parent's lock and would keep it beyond the parent's death; it closes its copy."""
        for lock in list(cls._held):
            if lock._stream is not None:
                lock._stream.close()
                lock._stream = None
        cls._held.clear()

    def __enter__(self) -> "DirectoryLock":
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


os.register_at_fork(after_in_child=DirectoryLock._let_go_after_fork)

# -------------------------------------------------------------------------------------------------------- the parts


class _Named(io.FileIO):
    """The bytes of one file on their way to the disk; what the disk says against them is told with the file's name.

    Whoever writes to several files at once could not tell otherwise which of them the disk did not take.
    """

    def __init__(self, descriptor: int, path: str | Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, data: "ReadableBuffer", /) -> int | None:  # type: ignore[override]
        """Write some of `data`; raises `file_error`'s."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise file_error(self._path, "written", error) from None


def _temporary_name(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.{role}.{secrets.token_hex(8)}")


def _hold(descriptor: int) -> None:
    """Mark a temporary as alive. Where the file system has no locks it stays unmarked, and no sweep touches it."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _abandoned(entry: Path) -> bool:
    """Whether no living writer holds a temporary."""
    if entry.is_symlink():
        return False
    try:
        descriptor = os.open(entry, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _refuse_existing(target: Path, replace: bool) -> None:
    if os.path.lexists(target) and not replace:
        raise InputError(f"{target}: exists already; remove it or choose another name")


def _move_in(temporary: Path, target: Path) -> None:
    if os.path.lexists(target):
        aside = _temporary_name(target, "old")
        os.rename(target, aside)
        try:
            os.rename(temporary, target)
        except BaseException:
            os.rename(aside, target)
            raise
        _fsync_directory(target.parent)
        if aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)
    else:
        os.rename(temporary, target)
        _fsync_directory(target.parent)


def _keep_mode(target: Path, descriptor: int) -> None:
    """Give the new content the permissions of the file that it replaces."""
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))


def _fsync_tree(directory: Path) -> None:
    for folder, _, names in os.walk(directory, topdown=False):
        for name in names:
            file = Path(folder, name)
            if not file.is_symlink():
                _fsync(file, os.O_RDONLY)
        _fsync_directory(Path(folder))


def _fsync_directory(directory: Path) -> None:
    _fsync(directory, os.O_RDONLY | os.O_DIRECTORY)


def _fsync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # A few file systems refuse fsync on a directory; there the rename alone has to do.
        if not (flags & os.O_DIRECTORY and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(descriptor)


def _existing_parent(path: Path) -> Path:
    return next(folder for folder in [path, *path.absolute().parents] if folder.exists())
