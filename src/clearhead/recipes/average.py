"""Averaging from the command line: the last checkpoints of a run, or bundles by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clearhead.base.errors import ConfigError
from clearhead.bundle.average import average_bundles
from clearhead.bundle.bundle import Bundle
from clearhead.bundle.resolve import CHECKPOINTS, is_bundle, resolve, steps
from clearhead.config.toml import load_toml
from clearhead.training.checkpoint import is_valid

__all__ = ["average", "last_checkpoints"]


def last_checkpoints(run: Path, last: int, *, save_every: int | None = None) -> list[Path]:
    """The checkpoints of a run that "the last K" means, wherever it is said: oldest first, at most `last`, all valid.

    They are the newest of those at multiples of `save_every`, so that what was saved in between, as the best or at an
    interruption, changes nothing; where there are fewer than `last` of those, the newest of all. `save_every` is that
    of the run's config.toml unless given (0: no multiples).
    """
    every = _save_every(run) if save_every is None else save_every
    valid = [(update, path) for update, path in steps(run) if is_valid(path)]
    regular = [path for update, path in valid if every and update % every == 0]
    return (regular if len(regular) >= last else [path for _, path in valid])[-last:]


def average(paths: Sequence[Path | str], out: Path, *, last: int = 0) -> Bundle:
    """Average bundles into `out`. One run directory with `last` stands for its `last_checkpoints`.

    Raises `ConfigError` for fewer than two bundles (the mean of one is a copy of it, and most often `last` was
    forgotten), for fewer checkpoints than `last`, or for `last` without a run; `BundleError` for bundles that do not
    fit.
    """
    given = [Path(path) for path in paths]
    if last and (len(given) != 1 or is_bundle(given[0]) or not (given[0] / CHECKPOINTS).is_dir()):
        raise ConfigError("--last K takes one run directory; without it, name the bundles to average")
    if (last or len(given)) < 2:
        raise ConfigError("an average takes at least two: name more bundles, or a run directory with --last K, K ≥ 2")
    if not last:
        return average_bundles([resolve(path) for path in given], out)
    chosen = last_checkpoints(given[0], last)
    if len(chosen) < last:
        raise ConfigError(
            f"{given[0]}: {len(chosen)} valid checkpoints, {last} asked for; ask for fewer (--last), or train with a "
            "smaller training.save_every or a larger training.keep_last"
        )
    return average_bundles(chosen, out)


def _save_every(run: Path) -> int:
    where = run / "config.toml"
    training = load_toml(where).get("training") if where.is_file() else None
    value = training.get("save_every", 0) if isinstance(training, dict) else 0
    return value if isinstance(value, int) else 0
