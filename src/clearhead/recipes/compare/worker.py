"""A process that trains some of the line-up, one recipe after another; `running.py` starts it.

`python -m clearhead.recipes.compare.worker A.toml B.toml` does what `clearhead train A.toml` and `clearhead train
B.toml` would, with their logs and outcomes beside the recipes. It ends as if by SIGTERM when its standard input ends:
whoever started it has gone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from clearhead.base.errors import ClearheadError
from clearhead.base.files import atomic_write
from clearhead.base.log import FileLog, logger

__all__ = ["Trained", "main", "outcome_of", "recipe_digest"]

LOST = 75
"""What a worker exits with when a model failed; no signal and no shell has this code."""


@dataclass(frozen=True)
class Trained:
    """How the training of one recipe ended: `error` is empty unless it failed; `digest` is the recipe's."""

    updates: int
    reason: str
    signal: int | None
    error: str
    digest: str


def recipe_digest(recipe: Path) -> str:
    """Of the recipe's text: a recipe that was changed has not been trained."""
    return hashlib.sha256(recipe.read_bytes()).hexdigest()


def outcome_of(recipe: Path) -> Trained | None:
    """What the worker wrote about this recipe as it stands, or None."""
    path = recipe.with_suffix(".outcome.json")
    try:
        found = Trained(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.digest == recipe_digest(recipe) else None


def main(recipes: Sequence[str]) -> int:
    """Train each; 0 when all are done, 128 + the signal that stopped one (the rest is not begun), or LOST."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logger.setLevel(logging.INFO)
    code = 0
    for recipe in map(Path, recipes):
        log = FileLog(recipe.with_suffix(".log"))
        logger.addHandler(log)
        try:
            trained = _train(recipe)
        finally:
            logger.removeHandler(log)
            log.close()
        atomic_write(recipe.with_suffix(".outcome.json"), json.dumps(asdict(trained)) + "\n")
        if trained.signal is not None:
            return 128 + trained.signal
        if trained.error:
            code = LOST
    return code


def _train(recipe: Path) -> Trained:
    from clearhead.config.toml import load_toml
    from clearhead.recipes.run_config import compose
    from clearhead.recipes.train import train

    digest = recipe_digest(recipe)
    try:
        result = train(compose(load_toml(recipe), where=str(recipe)))
    except ClearheadError as error:
        logger.error("%s", error)
        return Trained(0, "failed", None, str(error), digest)
    except Exception as error:  # a fault of ours: the other models go on, and this one's log says where it was
        logger.error("%s", traceback.format_exc())
        return Trained(0, "failed", None, f"{type(error).__name__}: {error}", digest)
    return Trained(result.update, result.outcome.reason, result.outcome.signal, "", digest)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
