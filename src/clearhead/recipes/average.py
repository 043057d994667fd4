"""Averaging from the command line: the last checkpoints of a run, or bundles by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clearhead.base.errors import ConfigError
from clearhead.bundle.average import average_bundles
from clearhead.bundle.bundle import Bundle
from clearhead.bundle.resolve import CHECKPOINTS, is_bundle, resolve, steps
from clearhead.training.checkpoint import is_valid

__all__ = ["average", "last_checkpoints"]


def last_checkpoints(run: Path, last: int, *, every: int = 0, fewer: bool = False) -> list[Path]:
    """The newest `last` valid checkpoints of a run, oldest first.

    With `every`, those at its multiples are preferred, so that an interruption's extra checkpoint changes nothing.
    Raises `ConfigError` when there are fewer than `last`, unless `fewer` takes what is there.
    """
    valid = [(update, path) for update, path in steps(run) if is_valid(path)]
    regular = [path for update, path in valid if every and update % every == 0]
    chosen = (regular if len(regular) >= last else [path for _, path in valid])[-last:]
    if len(chosen) < last and not fewer:
        raise ConfigError(
            f"{run}: {len(chosen)} valid checkpoints, {last} asked for; ask for fewer (--last), or train with a "
            "smaller training.save_every or a larger training.keep_last"
        )
    return chosen


def average(paths: Sequence[Path | str], out: Path, *, last: int = 0) -> Bundle:
    """Average bundles into `out`. One run directory with `last` stands for its last checkpoints.

    Raises `ConfigError` for fewer than two bundles or `last` without a run, `BundleError` for bundles that do not fit.
    """
    given = [Path(path) for path in paths]
    if last:
        if len(given) != 1 or is_bundle(given[0]) or not (given[0] / CHECKPOINTS).is_dir():
            raise ConfigError("--last K takes one run directory; without it, name the bundles to average")
        given = last_checkpoints(given[0], last)
    else:
        given = [resolve(path) for path in given]
    if not given:
        raise ConfigError("nothing to average: name at least two bundles, or a run directory with --last K")
    return average_bundles(given, out)
