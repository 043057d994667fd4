"""Checkpoints: a bundle plus everything that the next update depends on, so that resuming changes no bit.

    step-00001000/                     a bundle: the raw weights, the moving average, the tokenizer
        training/optimizer.safetensors moments by parameter name
        training/state.json            progress, data position, random states, handlers, threads, configuration

Nothing is pickled and nothing sound is overwritten: each save is a new directory that appears whole, and only a damaged
one of the same update makes room for it. A checkpoint is believed only after its manifest was verified. It is never
removed while it is the best one, or unless enough valid ones remain.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clearhead.base.errors import BundleError, ClearheadError, TrainingError
from clearhead.base.log import logger
from clearhead.bundle.bundle import DESCRIPTION, EMA, TOKENIZER, WEIGHTS, Bundle, save_bundle, versions
from clearhead.bundle.manifest import read_manifest, require_listed, verify_manifest
from clearhead.bundle.regular import read_regular
from clearhead.bundle.resolve import CHECKPOINTS, STEP, steps
from clearhead.bundle.weights import expected, read_tensors, state_tensors, write_tensors
from clearhead.training.optim import optimizer_tensors, restore_optimizer
from clearhead.training.trainer import Trainer

__all__ = [
    "checkpoint_bytes",
    "checkpoint_path",
    "free_bytes",
    "is_valid",
    "newest_valid",
    "prune",
    "read_state",
    "restore_trainer",
    "save_checkpoint",
    "seed_everything",
]

FORMAT = 1
LARGEST_STATE = 64 * 2**20  # bytes
SMALL_FILES = 2**20  # bytes: tokenizer, state and description
NEEDED = frozenset({"progress", "random", "handlers", "average_count", "threads", "precision", "device", "versions"})
STATE = "training/state.json"
OPTIMIZER = "training/optimizer.safetensors"


def checkpoint_path(run: Path, update: int) -> Path:
    """Where the checkpoint of `update` lives."""
    return run / CHECKPOINTS / f"step-{update:08d}"


def checkpoint_bytes(trainer: Trainer) -> int:
    """About what a checkpoint takes on disk: the weights, their moving average, two moments a parameter, the rest."""
    tensors, _ = state_tensors(trainer.model)
    weights = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    return weights * (3 if trainer.average is None else 4) + SMALL_FILES


def free_bytes(path: Path) -> int | None:
    """The room left on the disk of `path`, or of the nearest directory above it that exists; None if nobody knows."""
    for folder in (path, *path.absolute().parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(folder).free
    return None


def save_checkpoint(
    run: Path, trainer: Trainer, bundle: Bundle, identity: Mapping[str, Any], *, renew: bool = False
) -> Path:
    """Save the trainer at an update boundary and return the new directory, or the sound one that was there already.

    A damaged one, which the run had to go back behind, is replaced, and with `renew` a sound one, too. `identity` says
    what the run is made of (configuration, data); it is what a resume is compared with.

    Raises `TrainingError` where the disk does not take it; what was there is untouched, and nothing is left over.
    """
    path = checkpoint_path(run, trainer.progress.update)
    if not renew and is_valid(path):
        return path
    state = capture_state(trainer) | {"identity": dict(identity)}

    def add(unfinished: Path) -> None:
        (unfinished / STATE).parent.mkdir()
        (unfinished / STATE).write_text(json.dumps(state, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        write_tensors(unfinished / OPTIMIZER, optimizer_tensors(trainer.optimizer, trainer.model))

    average = None if trainer.average is None else trainer.average.tensors
    try:
        save_bundle(path, bundle, ema=average, extra=add, replace=True)
    except (OSError, ClearheadError) as error:
        raise _not_saved(path, trainer, error) from None
    return path


def _not_saved(path: Path, trainer: Trainer, error: Exception) -> TrainingError:
    # `file_error` drops the cause from what is shown, not from the exception.
    cause = error if isinstance(error, OSError) else error.__context__
    reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(error)
    free = free_bytes(path)
    room = "" if free is None else f", {free / 2**20:,.1f} MiB are free there"
    return TrainingError(
        f"{path}: the checkpoint of update {trainer.progress.update} cannot be saved: {reason} "
        f"(it takes about {checkpoint_bytes(trainer) / 2**20:,.1f} MiB{room})"
    )


def capture_state(trainer: Trainer) -> dict[str, Any]:
    """Everything beside tensors, as JSON values."""
    return {
        "format": FORMAT,
        "progress": trainer.progress.to_dict(),
        "random": random_state(trainer.compute.device),
        "handlers": {handler.name: handler.state() for handler in trainer.handlers if handler.state()},
        "average_count": 0 if trainer.average is None else trainer.average.count,
        "threads": torch.get_num_threads(),
        "precision": trainer.compute.precision,
        "device": str(trainer.compute.device),
        "versions": versions(),
    }


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The state of a checkpoint whose manifest was verified; that manifest must list all that a resume reads.

    Raises `BundleError`.
    """
    where = checkpoint / STATE
    try:
        state = json.loads(read_regular(where, LARGEST_STATE))
    except FileNotFoundError:
        raise BundleError(f"{where}: missing; {checkpoint} is a bundle but not a checkpoint to go on from") from None
    except OSError as error:
        raise BundleError(f"{where}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise BundleError(f"{where}: damaged (not a training state)") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise BundleError(f"{where}: not a training state of format {FORMAT}")
    if missing := sorted(NEEDED - state.keys()):
        raise BundleError(f"{where}: damaged (it lacks {', '.join(missing)})")
    averaged = (EMA,) if state["average_count"] else ()
    needed = (DESCRIPTION, WEIGHTS, STATE, OPTIMIZER, *averaged)
    require_listed(checkpoint, read_manifest(checkpoint), *needed, folder=TOKENIZER)
    return state


def restore_trainer(checkpoint: Path, trainer: Trainer, state: Mapping[str, Any]) -> None:
    """Put the trainer where `checkpoint` stood. Raises `BundleError` or `TrainingError`; then nothing may go on."""
    tensors, _ = state_tensors(trainer.model)
    with torch.no_grad():
        for name, tensor in read_tensors(checkpoint / WEIGHTS, expected(tensors)).items():
            tensors[name].copy_(tensor)
    restore_optimizer(trainer.optimizer, trainer.model, read_tensors(checkpoint / OPTIMIZER))
    if trainer.average is not None:
        trainer.average.restore(read_tensors(checkpoint / EMA, expected(tensors)), int(state["average_count"]))
    trainer.progress.restore(state["progress"])
    for handler in trainer.handlers:
        if handler.name in state["handlers"]:
            handler.restore(state["handlers"][handler.name])
    restore_random(state["random"], trainer.compute.device)


def seed_everything(seed: int) -> None:
    """Start every global generator that a checkpoint keeps from a 64-bit seed."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed([seed >> 32, seed & 0xFFFFFFFF])


def random_state(device: torch.device) -> dict[str, Any]:
    """Every global generator: torch's, Python's, numpy's and, when training there, the CUDA device's."""
    version, words, gauss = random.getstate()
    numpy = np.random.get_state(legacy=False)
    assert isinstance(numpy, dict)
    state = {
        "torch": _encoded(torch.get_rng_state()),
        "python": [version, list(words), gauss],
        "numpy": [numpy["state"]["key"].tolist(), numpy["state"]["pos"], numpy["has_gauss"], numpy["gauss"]],
    }
    if device.type == "cuda":
        state["cuda"] = _encoded(torch.cuda.get_rng_state(device))
    return state


def restore_random(state: Mapping[str, Any], device: torch.device) -> None:
    """Set every global generator to a saved state."""
    try:
        torch.set_rng_state(_decoded(state["torch"]))
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
        key, position, has_gauss, cached = state["numpy"]
        np.random.set_state(("MT19937", np.array(key, dtype=np.uint32), position, has_gauss, cached))
        if device.type == "cuda" and "cuda" in state:
            torch.cuda.set_rng_state(_decoded(state["cuda"]), device)
    except (LookupError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise TrainingError(f"the checkpoint's random state cannot be restored ({error})") from None


def newest_valid(run: Path) -> Path | None:
    """The newest checkpoint whose every byte is as it was written; None only if there is none at all.

    A damaged newer one is passed over with one warning. Raises `BundleError` if all are damaged: starting again
    from scratch must be the user's decision.
    """
    damage: list[str] = []
    for path in _claimed(run):
        try:
            verify_manifest(path)
        except BundleError as error:
            damage.append(str(error))
            continue
        if damage:
            logger.warning("%s; going on from %s instead", "; ".join(damage), path.name)
        return path
    if damage:
        raise BundleError(
            f"{run}: no checkpoint is usable ({'; '.join(damage)}); restore one, or start again with --fresh"
        )
    return None


def _claimed(run: Path) -> list[Path]:
    """Everything that has the name of a checkpoint, newest first: what is no directory is a damaged one, not none."""
    where = run / CHECKPOINTS
    if not where.exists():
        return []
    if not where.is_dir():
        raise BundleError(f"{where}: not a directory, so it holds no checkpoint; remove it, or train elsewhere (--out)")
    named = [(STEP.fullmatch(path.name), path) for path in where.iterdir()]
    return [path for _, path in sorted(((int(match[1]), path) for match, path in named if match), reverse=True)]


def is_valid(checkpoint: Path) -> bool:
    """Whether every byte of it is as it was written."""
    try:
        verify_manifest(checkpoint)
    except BundleError:
        return False
    return True


def prune(
    run: Path, *, keep_last: int, keep_every: int, save_every: int, best: int | None, valid: set[Path]
) -> list[Path]:
    """Remove old checkpoints; return those removed.

    Kept are the newest `keep_last` valid ones, and of those that `save_every` called for as many (an interruption's
    extra checkpoint must not push out one that averaging needs), every valid one whose update is a multiple of
    `keep_every` (0: none), and the `best`. `valid` names the checkpoints that this process wrote or verified: damaged
    ones do not count, and go once enough valid ones are newer.
    """
    found = steps(run)
    sound = [update for update, path in found if path in valid]
    newest = sound[-keep_last:]
    if save_every:
        newest = [update for update in sound if update % save_every == 0][-keep_last:] + newest
    if not newest:
        return []
    removed = []
    for update, path in found:
        kept = update == best or (keep_every and update % keep_every == 0 and path in valid)
        if not kept and update not in newest and update < max(newest):
            # The manifest goes first: a removal cut short leaves something that is plainly not a checkpoint.
            (path / "MANIFEST.json").unlink(missing_ok=True)
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def _encoded(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode("ascii")


def _decoded(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text, validate=True)), dtype=torch.uint8)
