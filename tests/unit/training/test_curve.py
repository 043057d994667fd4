from __future__ import annotations

import builtins
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.training.curve import LearningCurve, draw_curve
from clearhead.training.events import MetricsFile
from clearhead.training.trainer import Trainer

PNG = b"\x89PNG\r\n\x1a\n"


def write(path: Path, scored: bool) -> None:
    lines: list[dict[str, Any]] = []
    for update in range(10, 110, 10):
        nll = 7 * 0.8 ** (update / 10)
        lines.append({"update": update, "nll": nll, "perplexity": 2.718**nll, "seconds": update})
        if update % 20 == 0:
            dev = {"dev_bleu": update / 4, "dev_chrf": update / 2} if scored else {}
            lines.append({"update": update, "dev_nll": nll, "dev_perplexity": 2.718**nll, "seconds": update, **dev})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def size(image: Path) -> tuple[int, int]:
    data = image.read_bytes()
    assert data.startswith(PNG)
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def test_one_panel_without_scores_and_two_with_them(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for scored in (False, True):
        write(tmp_path / "m", scored)
        draw_curve(tmp_path / "m", tmp_path / f"{scored}.png", "en → de  (测试)")
    assert size(tmp_path / "False.png") == (960, 630)
    assert size(tmp_path / "True.png") == (1500, 630)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["False.png", "True.png", "m"]


def test_nothing_to_draw_makes_no_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_curve(tmp_path / "absent", tmp_path / "c.png", "x")
    assert not (tmp_path / "c.png").exists()


def test_without_matplotlib_training_goes_on(
    make_trainer: Callable[..., Trainer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    caplog.set_level(logging.INFO, logger="clearhead")
    curve = LearningCurve(tmp_path / "m", tmp_path / "c.png", "x")
    make_trainer(updates=3, handlers=[MetricsFile(tmp_path / "m", 1), curve]).run()
    assert "pip install 'clearhead[plots]'" in caplog.text
