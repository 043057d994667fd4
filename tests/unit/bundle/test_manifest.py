from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from clearhead.base.errors import BundleError
from clearhead.bundle.bundle import load_bundle
from clearhead.bundle.manifest import MANIFEST, verify_manifest, write_manifest


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.bin").write_bytes(bytes(range(64)))
    (tmp_path / "deep" / "b.txt").write_text("text\n")
    write_manifest(tmp_path)
    return tmp_path


def test_lists_every_file_with_its_hash(directory: Path) -> None:
    files = json.loads((directory / MANIFEST).read_text())["files"]
    assert files["deep/b.txt"] == {
        "size": 5,
        "sha256": "b9e68e1bea3e5b19ca6b2f98b73a54b73daafaa250484902e09982e07a12e733",  # printf 'text\n' | sha256sum
    }
    assert verify_manifest(directory) == {"a.bin", "deep/b.txt"}


def test_every_flipped_bit_is_found(directory: Path) -> None:
    """In every byte of every file, the manifest's own included, one bit or (of the first bytes) each."""
    for path in (directory / "a.bin", directory / "deep" / "b.txt", directory / MANIFEST):
        whole = path.read_bytes()
        for bit in [*range(64), *(8 * place + place % 8 for place in range(8, len(whole)))]:
            if bit >= 8 * len(whole):
                continue
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            with pytest.raises(BundleError, match="damaged"):
                verify_manifest(directory)
        path.write_bytes(whole)
    verify_manifest(directory)


@pytest.mark.parametrize("cut", [0, 1, 30])
@pytest.mark.parametrize("name", ["a.bin", MANIFEST])
def test_truncation_is_found(directory: Path, name: str, cut: int) -> None:
    path = directory / name
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BundleError, match=r"damaged"):
        verify_manifest(directory)


def test_missing_file_and_missing_manifest(directory: Path) -> None:
    (directory / "a.bin").unlink()
    with pytest.raises(BundleError, match=r"a\.bin: missing"):
        verify_manifest(directory)
    (directory / MANIFEST).unlink()
    with pytest.raises(BundleError, match="never finished"):
        verify_manifest(directory)


def test_a_manifest_cannot_lead_out_of_its_directory(directory: Path) -> None:
    outside = directory / "x"
    outside.write_text("x")
    inner = directory / "deep"
    write_manifest(inner)
    text = (inner / MANIFEST).read_text()
    (inner / MANIFEST).unlink()
    body = json.loads(text)["files"]
    from clearhead.bundle import manifest

    (inner / MANIFEST).write_bytes(manifest._canonical({"../x": body["b.txt"]}))
    with pytest.raises(BundleError, match="outside its directory"):
        verify_manifest(inner)


def test_flipped_bits_in_a_real_bundle(saved: Path) -> None:
    """Any bit of any file makes loading fail with a BundleError and nothing else."""
    draw = random.Random(5)
    files = [path for path in saved.rglob("*") if path.is_file()]
    for trial in range(60):
        path = files[trial % len(files)]
        whole = path.read_bytes()
        damaged = bytearray(whole)
        place = draw.randrange(len(whole))
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(BundleError):
            load_bundle(saved)
        path.write_bytes(whole)
    load_bundle(saved)


@pytest.mark.timeout(20)
def test_a_pipe_among_the_files_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"")
    write_manifest(tmp_path)
    (tmp_path / "weights").unlink()
    os.mkfifo(tmp_path / "weights")
    with pytest.raises(BundleError, match="not a regular file"):
        verify_manifest(tmp_path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "zero", "directory"])
def test_a_manifest_that_is_no_file_is_refused_and_not_read(directory: Path, kind: str) -> None:
    where = directory / MANIFEST
    where.unlink()
    if kind == "pipe":
        os.mkfifo(where)
    elif kind == "zero":
        where.symlink_to("/dev/zero")
    else:
        where.mkdir()
    with pytest.raises(BundleError, match=r"MANIFEST\.json: cannot be read"):
        verify_manifest(directory)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("\ud800", {}),
        ("a" * 5000, {}),
        ("a.bin", {"size": 64.0}),
        ("a.bin", {"size": True}),
        ("a.bin", {"size": -1}),
        ("a.bin", {"size": [64]}),
        ("a.bin", {"sha256": 3}),
        ("a.bin", {"sha256": "0" * 5000}),
    ],
    ids=lambda value: str(value)[:20].encode("ascii", "replace").decode(),
)
def test_a_sealed_manifest_of_what_no_bundle_has(directory: Path, name: str, change: dict[str, Any]) -> None:
    """As an attacker would write it: in the canonical form, with the right seal."""
    from clearhead.bundle import manifest

    entry = json.loads((directory / MANIFEST).read_text())["files"]["a.bin"]
    (directory / MANIFEST).write_bytes(manifest._canonical({name: entry | change}))
    with pytest.raises(BundleError, match="damaged") as caught:
        verify_manifest(directory)
    told = str(caught.value)
    told.encode()
    assert len(told) < len(str(directory)) + 150


def test_a_number_of_many_digits(directory: Path) -> None:
    (directory / MANIFEST).write_text('{"files":{"a":{"size":' + "9" * 10_000 + ',"sha256":""}}}')
    with pytest.raises(BundleError, match=r"damaged \(not a manifest\)$"):
        verify_manifest(directory)
