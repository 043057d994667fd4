"""Fetching a package that carries parallel text, and reading it without installing anything."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clearhead.base.errors import DataError, InputError

__all__ = ["ZipReader", "download_debs", "download_wheel", "read_deb"]

MAX_MEMBERS = 200_000
MAX_MEMBER_BYTES = 8 * 2**20
MAX_TOTAL_BYTES = 512 * 2**20
MAX_RATIO = 200
DOWNLOAD_SECONDS = 900


def download_wheel(requirement: str, python_version: str, directory: Path) -> Path:
    """Let pip put one pure-Python wheel into `directory`; nothing is installed, no code of it runs.

    `requirement` is pinned ("name==version"); `python_version` is what the wheel asks for, which need not be ours.
    Raises InputError, saying what to do, when pip is missing or cannot fetch it.
    """
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", python_version, "--dest", str(directory), requirement]
    advice = (
        f"Check the network or the package index and try again, or fetch it where there is a network with\n"
        f"  pip download --no-deps --only-binary=:all: --python-version {python_version} {requirement}\n"
        f"  and give the file with --wheel FILE"
    )
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(f"{requirement} did not arrive within {DOWNLOAD_SECONDS} seconds. {advice}") from None
    wheels = sorted(directory.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = lines[-1].strip() if lines else f"exit code {done.returncode}"
        raise InputError(f"pip could not download {requirement} ({said}). {advice}")
    return wheels[0]


def download_debs(names: Sequence[str], directory: Path) -> list[Path]:
    """Let apt-get put Debian packages into `directory`, without installing them; root is not needed.

    Raises InputError, saying what to do, when there is no apt-get or it cannot fetch them.
    """
    wanted = " ".join(names)
    advice = f"On a Debian-like machine run\n  apt-get download {wanted}\n  and give the directory with --package DIR"
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise InputError(f"{wanted}: fetching Debian packages needs apt-get and dpkg-deb. {advice}")
    command = ["apt-get", "download", *names]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False, cwd=directory
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{wanted} did not arrive within {DOWNLOAD_SECONDS} seconds. {advice}") from None
    files = sorted(directory.glob("*.deb"))
    if done.returncode != 0 or len(files) != len(set(names)):
        lines = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        said = lines[0] if lines else f"exit code {done.returncode}"
        raise InputError(f"apt-get could not download {wanted} ({said}); its lists may need 'apt-get update'. {advice}")
    return files


def read_deb(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each regular file of a Debian package whose whole name matches; nothing is unpacked to disk.

    Raises InputError if the file or dpkg-deb is missing, DataError if the package is damaged or beyond the caps.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if shutil.which("dpkg-deb") is None:
        raise InputError(f"{path}: reading a Debian package needs the program dpkg-deb")
    total = members = 0
    command = ["dpkg-deb", "--fsys-tarfile", str(path)]
    # Leaving the block early closes the pipe, and dpkg-deb ends when it writes into it.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    members += 1
                    if members > MAX_MEMBERS:
                        raise DataError(f"{path}: more than the {MAX_MEMBERS} members that are read")
                    if not member.isreg() or not wanted.fullmatch(member.name):
                        continue
                    total += member.size
                    if member.size > MAX_MEMBER_BYTES or total > MAX_TOTAL_BYTES:
                        raise DataError(f"{path}: {member.name} claims {member.size} bytes, {total} in all: too many")
                    content = archive.extractfile(member)
                    yield member.name, content.read() if content is not None else b""
            process.stdout.read()  # to the end, so that dpkg-deb can finish and tell whether all was sound
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DataError(f"{path}: not a sound Debian package ({error}): download it again") from None
    if process.returncode != 0:
        raise DataError(f"{path}: not a sound Debian package (dpkg-deb exit code {process.returncode})")


class ZipReader:
    """Reads members of an archive that we did not make, within caps on number, size and compression ratio.

    Nothing is unpacked to disk, so member names cannot escape a directory. Raises DataError naming archive and
    member when a cap is passed or the archive is damaged.
    """

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self._archive = archive
        self._path = path
        self._read_bytes = 0
        self._members = {info.filename: info for info in archive.infolist()}
        if len(self._members) > MAX_MEMBERS:
            raise DataError(f"{path}: {len(self._members)} members, more than the {MAX_MEMBERS} that are read")

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator["ZipReader"]:
        """Open `path`; InputError if it is not there, DataError if it is not a zip archive."""
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        try:
            with zipfile.ZipFile(path) as archive:
                yield cls(archive, path)
        except zipfile.BadZipFile as error:
            raise DataError(f"{path}: not a sound zip archive ({error}): download it again") from None

    @property
    def names(self) -> Iterable[str]:
        """Names of all members, in the archive's order."""
        return self._members

    def read(self, name: str) -> bytes:
        """The bytes of member `name`."""
        info = self._members[name]
        if info.file_size > MAX_MEMBER_BYTES or info.file_size > MAX_RATIO * max(info.compress_size, 1):
            raise DataError(f"{self._path}: {name} claims {info.file_size} bytes, too many for a text file")
        self._read_bytes += info.file_size
        if self._read_bytes > MAX_TOTAL_BYTES:
            raise DataError(f"{self._path}: more than {MAX_TOTAL_BYTES} bytes of text in all")
        # zipfile stops at the declared size and checks the CRC, so a member cannot be longer than it claims.
        try:
            return self._archive.read(info)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            RuntimeError,
        ) as error:  # RuntimeError: encrypted
            raise DataError(f"{self._path}: {name} cannot be read ({error}): download the archive again") from None

    def read_json(self, name: str) -> Any:
        """Member `name` as JSON in UTF-8."""
        try:
            return json.loads(self.read(name).decode("utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{self._path}: {name} is not JSON in UTF-8 ({error})") from None
