"""What stands where a small file should be must neither hang its reader nor fill the memory."""

import os
from pathlib import Path

import pytest

from clearhead.bundle.regular import read_regular

pytestmark = pytest.mark.timeout(20)


def test_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff" * 5)
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "file") == read_regular(tmp_path / "link", 5) == b"\xff" * 5
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(tmp_path / "file", 4)


def test_what_is_not(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")
