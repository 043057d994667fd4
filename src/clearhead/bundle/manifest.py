"""The manifest of a saved directory: the size and the SHA-256 of every file, written last.

Neither safetensors nor TOML notices a flipped bit, so a directory is what its manifest says or it is refused.
A directory without a manifest was never finished. Files that the manifest does not list are never read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from pathlib import Path

from clearhead.base.errors import BundleError
from clearhead.base.files import sha256_file
from clearhead.bundle.regular import read_regular

__all__ = ["MANIFEST", "read_manifest", "require_listed", "verify_manifest", "write_manifest"]

MANIFEST = "MANIFEST.json"
FORMAT = 1
LONGEST_NAME = 1000  # characters
DIGEST = re.compile(r"[0-9a-f]{64}")
LARGEST_MANIFEST = 4 * 1024 * 1024  # bytes; a bundle has a few dozen files


def write_manifest(directory: Path) -> None:
    """Write `MANIFEST.json` over every file below `directory`; call it last."""
    files: dict[str, dict[str, int | str]] = {
        path.relative_to(directory).as_posix(): {"size": path.stat().st_size, "sha256": sha256_file(path)}
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    (directory / MANIFEST).write_bytes(_canonical(files))


def read_manifest(directory: Path) -> dict[str, tuple[int, str]]:
    """The manifest's files as `{relative path: (size, sha256)}`, well-formed but not yet compared with the disk.

    Raises `BundleError` when the manifest is missing, no regular file, not in its one canonical form, or names a path
    that leads out of the directory or that no bundle has.
    """
    path = directory / MANIFEST
    try:
        raw = read_regular(path, LARGEST_MANIFEST)
    except FileNotFoundError:
        raise BundleError(f"{directory}: no {MANIFEST}; not a bundle, or one that was never finished") from None
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        files = json.loads(raw)["files"]
        listed = {name: (entry["size"], entry["sha256"]) for name, entry in files.items()}
        if not all(_well_formed(size, digest) for size, digest in listed.values()):
            raise ValueError
        canonical = _canonical({name: {"size": size, "sha256": digest} for name, (size, digest) in listed.items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BundleError(f"{path}: damaged (not a manifest)") from None
    if canonical != raw:
        raise BundleError(f"{path}: damaged (not as it was written)")
    for name in listed:
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
            raise BundleError(f"{path}: names a file outside its directory: {name[:LONGEST_NAME]!r}")
        if len(name) > LONGEST_NAME or any("\ud800" <= character <= "\udfff" for character in name):
            raise BundleError(f"{path}: damaged (no file of a bundle is named {name[:50]!a}{'…' * (len(name) > 50)})")
    return listed


def require_listed(directory: Path, listed: Collection[str], *needed: str, folder: str | None = None) -> None:
    """Refuse what would be read without having been verified: each of `needed`, and whatever is in `folder`.

    Raises `BundleError`.
    """
    found = [] if folder is None else sorted((directory / folder).glob("*"))
    for name in (*needed, *(path.relative_to(directory).as_posix() for path in found)):
        if name not in listed:
            raise BundleError(f"{directory / MANIFEST}: does not list {name}; the bundle is not complete")


def verify_manifest(directory: Path) -> frozenset[str]:
    """Compare every listed file with the disk; return the names that may be read.

    Raises `BundleError` naming the first file that is missing, has another size or other contents.
    """
    listed = read_manifest(directory)
    for name, (size, digest) in listed.items():
        path = directory / name
        try:
            if path.exists() and not path.is_file():
                raise BundleError(f"{path}: damaged (it is not a regular file)")
            found = path.stat().st_size
            if found != size:
                raise BundleError(f"{path}: damaged (it has {found} bytes, {size} were written)")
            if sha256_file(path) != digest:
                raise BundleError(f"{path}: damaged (its contents changed since it was saved)")
        except FileNotFoundError:
            raise BundleError(f"{path}: missing") from None
        except OSError as error:
            raise BundleError(f"{path}: cannot be read ({error.strerror})") from None
    return frozenset(listed)


def _well_formed(size: object, digest: object) -> bool:
    return type(size) is int and size >= 0 and isinstance(digest, str) and DIGEST.fullmatch(digest) is not None


def _canonical(files: dict[str, dict[str, int | str]]) -> bytes:
    """The one way a manifest is written, so that a changed byte of the manifest itself shows."""
    body = json.dumps(files, indent=1, sort_keys=True, ensure_ascii=True)
    seal = hashlib.sha256(body.encode("ascii")).hexdigest()
    whole = {"format": FORMAT, "files": files, "seal": seal}
    return (json.dumps(whole, indent=1, sort_keys=True) + "\n").encode("ascii")
