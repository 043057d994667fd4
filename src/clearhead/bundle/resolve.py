"""Where a bundle is asked for, a run directory may stand: its best checkpoint, else its newest valid one."""

from __future__ import annotations

import json
import re
from pathlib import Path

from clearhead.base.errors import BundleError
from clearhead.bundle.manifest import verify_manifest
from clearhead.bundle.regular import read_regular

__all__ = ["BEST", "CHECKPOINTS", "LARGEST_NOTE", "STEP", "is_bundle", "resolve", "steps"]

CHECKPOINTS = "checkpoints"
BEST = "best.json"
LARGEST_NOTE = 64 * 1024  # bytes; best.json has about a hundred
STEP = re.compile(r"step-(\d{8,})")


def is_bundle(path: Path) -> bool:
    """Whether `path` looks like a bundle (nothing is verified)."""
    return (path / "bundle.toml").is_file()


def steps(run: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a run, finished or not, oldest first: by update, never by file time.

    Only names of exactly the form `step-00001000` count, so the leftovers of a killed save do not.
    """
    try:
        entries = sorted((run / CHECKPOINTS).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    named = [(STEP.fullmatch(path.name), path) for path in entries]
    return sorted((int(match.group(1)), path) for match, path in named if match and path.is_dir())


def resolve(path: Path | str) -> Path:
    """The bundle that `path` means: itself, or the best checkpoint of a run directory, else its newest valid one.

    Raises `BundleError` when `path` is neither, or a run without a valid checkpoint.
    """
    path = Path(path)
    if is_bundle(path):
        return path
    if not path.exists():
        raise BundleError(f"{path}: there is no such bundle or run directory")
    if not (path / CHECKPOINTS).is_dir():
        raise BundleError(f"{path}: neither a bundle (no bundle.toml) nor a run directory (no {CHECKPOINTS}/)")
    if (best := _best(path)) is not None:
        return best
    damage = "it has no checkpoint yet"
    for _, checkpoint in reversed(steps(path)):
        try:
            verify_manifest(checkpoint)
        except BundleError as error:
            damage = str(error)
        else:
            return checkpoint
    raise BundleError(f"{path}: no usable checkpoint ({damage})")


def _best(run: Path) -> Path | None:
    """The bundle that `best.json` names, if it is there; the caller verifies it when loading."""
    try:
        named = json.loads(read_regular(run / BEST, LARGEST_NOTE))["path"]
        best = run / named
        return best if is_bundle(best) and best.resolve().is_relative_to(run.resolve()) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
