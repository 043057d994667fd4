"""Fetching a package that carries parallel text, and reading it without installing anything."""

import json
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clearhead.base.errors import DataError, InputError

__all__ = ["ZipReader", "download_wheel"]

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
        f"and give the file with --wheel FILE"
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
