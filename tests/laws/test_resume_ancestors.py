"""The law of resume with the papers' optimisers, stopped inside a halving: bit for bit, and what breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.recipes import train as recipe
from clearhead.recipes.run_config import compose
from tests.laws.test_resume import STOP, UPDATES, corpus, differing, disturb, fingerprint, table

__all__ = ["corpus"]

HALVING = {"kind": "halving", "peak": 0.5, "after": 0.7, "every": 0.4}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"kind": "sgd"},
    "nesterov": {"kind": "sgd", "momentum": 0.9, "nesterov": True},
    "adadelta": {"kind": "adadelta"},
}


def train(corpus: Path, out: Path, optimizer: str, updates: int = UPDATES) -> dict[str, Any]:
    chosen = {"optimizer": OPTIMIZERS[optimizer], "initialisation": {"kind": "uniform"}, "log_every": 1}
    chosen |= {"schedule": HALVING, "validate_every": 0, "patience": 0}
    recipe.train(compose(table(corpus, out, updates=updates, **chosen)))
    return fingerprint(max((out / "checkpoints").iterdir()))


def rates(run: dict[str, Any]) -> list[float]:
    return [line["learning_rate"] for line in run["metrics"] if "learning_rate" in line]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_stopped_inside_the_halving_and_resumed(corpus: Path, tmp_path: Path, optimizer: str) -> None:
    whole = train(corpus, tmp_path / "whole", optimizer)
    seen = rates(whole)
    assert len(seen) == UPDATES
    assert seen[0] == 0.5 > seen[STOP - 1] > seen[-1]  # it stops between two cuts
    assert all(after in (before, before / 2) for before, after in zip(seen, seen[1:], strict=False))
    train(corpus, tmp_path / "run", optimizer, STOP)
    disturb()
    resumed = train(corpus, tmp_path / "run", optimizer)
    # The run that ended at STOP measured itself there once more than the whole one.
    resumed["metrics"] = [each for each in resumed["metrics"] if not ("dev_nll" in each and each["update"] == STOP)]
    resumed["state"]["handlers"]["best"] = whole["state"]["handlers"]["best"]
    assert differing(whole, resumed) == set()


def test_forgetting_the_place_breaks_the_law(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault: epochs counted from where this process began."""
    whole = train(corpus, tmp_path / "whole", "sgd")
    train(corpus, tmp_path / "run", "sgd", STOP)
    right, begun = recipe.rate, []

    def wrong(*given: Any, epochs: float, **more: Any) -> float:
        begun.append(epochs)
        return right(*given, epochs=epochs - begun[0], **more)

    monkeypatch.setattr(recipe, "rate", wrong)
    assert "weights.safetensors" in differing(whole, train(corpus, tmp_path / "run", "sgd"))
