"""Where an inspection writes: what is in the way is told before the minutes of work, not after."""

from __future__ import annotations

import os
from pathlib import Path

from clearhead.base.errors import InputError

__all__ = ["check_places"]


def check_places(report: str, save: str | None, export: str | None) -> None:
    """Raises InputError for a place where the report, the records or the exported files could not be written.

    The folder of the records is one of its own, since a later run replaces it.
    """
    if report == "-":
        raise InputError("--output: the report is written to a file, not to standard output; give it a name")
    for option, name in (("--output", report), ("--save", save), ("--export", export)):
        if name is not None and not name.strip():
            raise InputError(f"{option}: the name is empty; give one")
    if save is not None:
        from clearhead.inspection.record_files import check_folder

        check_folder(save)
        for option, name in (("--export", export), ("--output", report)):
            if name is not None and _within(name, save):
                raise InputError(
                    f"{option}: {name} is in the folder of --save, which holds records only; choose another"
                )
    if export is not None:
        _check_folder(Path(export))
    if Path(report).is_dir():
        raise InputError(f"--output: {report} is a folder; give the report a file name")
    folder = Path(report).parent
    if folder.is_dir() and not Path(report).exists() and not os.access(folder, os.W_OK):
        raise InputError(f"--output: {report}: nothing can be written into {folder}; choose another place")
    if not folder.is_dir() and not (export is not None and _same(folder, export)):
        raise InputError(f"--output: {report}: there is no folder {folder}; make it, or choose another place")


def _check_folder(path: Path) -> None:
    """What is there of a folder that is to be made must be one."""
    there = next(each for each in (path, *path.absolute().parents) if each.exists() or each.is_symlink())
    if not there.is_dir():
        raise InputError(f"--export: {path}: {there} is there and no folder; choose another name")


def _within(name: str, folder: str) -> bool:
    return Path(name).resolve().is_relative_to(Path(folder).resolve())


def _same(folder: Path, name: str) -> bool:
    return folder.resolve() == Path(name).resolve()
