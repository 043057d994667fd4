"""A run's own average: made of its last checkpoints when it ends, measured once, and the best if it is."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from clearhead.base.errors import BundleError
from clearhead.base.log import logger
from clearhead.bundle.average import SCORES, is_average_of, mean_bundle
from clearhead.bundle.bundle import read_info, save_bundle
from clearhead.bundle.manifest import verify_manifest
from clearhead.recipes.average import last_checkpoints
from clearhead.training.events import Best, Validation
from clearhead.training.saving import note_best, write_note
from clearhead.training.trainer import Trainer

__all__ = ["AVERAGE", "settle_average"]

AVERAGE = "average"


def settle_average(run: Path, trainer: Trainer, validation: Validation | None, best: Best) -> None:
    """Leave in `average/` the mean of the run's last checkpoints, and in best.json whichever is better, it or `best`.

    The average says in its summary which weights it is the mean of and how it scored. So one that stands for the
    checkpoints of now is neither made nor measured again; another one (of a shorter run, or damaged) is removed. With
    `training.average_last` 0 none is made. It appears only when it was measured: a kill leaves all or nothing.
    """
    config, out = trainer.config, run / AVERAGE
    summary = _summary(out)
    wanted = config.average_last or len((summary or {}).get("averaged", ()))
    if not wanted:
        return
    chosen = last_checkpoints(run, wanted, save_every=config.save_every)
    if summary is not None and not (is_average_of(summary, chosen) and _measured(summary, validation, best)):
        summary = None
    if summary is None:
        _remove(out)
        if config.average_last:
            summary = _make(trainer, validation, chosen, out)
    value = (summary or {}).get(SCORES, {}).get(best.metric)
    if value is not None and best.better(value):
        best.value = value
        write_note(run, trainer.progress.update, AVERAGE, best)
    else:
        note_best(run, best)


def _make(trainer: Trainer, validation: Validation | None, chosen: list[Path], out: Path) -> Mapping[str, Any] | None:
    """Average, measure, save; the summary, or None where there are no two to average."""
    if len(chosen) < trainer.config.average_last:
        wanted = trainer.config.average_last
        logger.warning("training.average_last is %d, but only %d checkpoints are there", wanted, len(chosen))
    if len(chosen) < 2:
        return None
    bundle = mean_bundle(chosen)
    scores: Mapping[str, float] = {}
    if validation is not None:
        bundle.model.to(trainer.compute.device)
        scores = validation.measure(trainer, bundle.model, scored=trainer.config.score_every > 0)
    told = {SCORES: dict(scores)} if scores else {}
    bundle = replace(bundle, training=bundle.training | told, path=out)
    save_bundle(out, bundle)
    shown = "".join(f"  dev {name} {value:.4g}" for name, value in scores.items())
    logger.info("averaged the last %d checkpoints into %s%s", len(chosen), out, shown)
    return bundle.training


def _summary(average: Path) -> Mapping[str, Any] | None:
    """The summary of an average that is whole; None where there is none, or a damaged one."""
    try:
        verify_manifest(average)
        return read_info(average).training
    except BundleError:
        return None


def _measured(summary: Mapping[str, Any], validation: Validation | None, best: Best) -> bool:
    return validation is None or best.metric in summary.get(SCORES, {})


def _remove(average: Path) -> None:
    if average.is_dir() and not average.is_symlink():
        logger.info("%s: damaged, or not of the checkpoints that are there now; removed", average)
        shutil.rmtree(average)
    else:
        average.unlink(missing_ok=True)
