"""Training in processes: what is done stays done, what fails is told by name, what is changed is done anew."""

import json
from pathlib import Path
from typing import Any

from clearhead.recipes.compare.running import make_job, train_all


def table(directory: Path, **training: Any) -> dict[str, Any]:
    directory.mkdir(exist_ok=True)
    for name, text in (("s", "ba be bi\n"), ("t", "da de di\n")):
        (directory / name).write_text(text * 40)
    files = {"source": str(directory / "s"), "target": str(directory / "t")}
    return {
        "data": {"languages": ["en", "de"], "train": files, "dev": files, "batch_tokens": 64},
        "tokenizer": {"vocab_size": 270},
        "model": {"preset": "tiny", "d_model": 8, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1},
        "training": {"updates": 2, "threads": 1, "validate_every": 2, "save_every": 2, **training},
    }


def test_a_failure_is_told_with_its_log_and_the_others_go_on(tmp_path: Path) -> None:
    good = make_job(tmp_path / "models", "good", table(tmp_path / "c"))
    bad = make_job(tmp_path / "models", "bad", table(tmp_path / "c", clip_norm=-1.0))
    failed = train_all([bad, good], 1, together=True)
    assert set(failed) == {"bad"}
    assert "training.clip_norm" in failed["bad"]
    assert "bad.log" in failed["bad"]
    assert good.trained is not None
    assert good.trained.updates == 2
    assert bad.trained is None
    assert good.progress[0] in (0, 2)

    # Again: only what failed is tried. The good one's outcome is planted, so that training it anew would show.
    outcome = good.recipe.with_suffix(".outcome.json")
    planted = json.loads(outcome.read_text()) | {"reason": "planted"}
    outcome.write_text(json.dumps(planted))
    assert set(train_all([bad, good], 1, together=False)) == {"bad"}
    assert good.trained is not None
    assert good.trained.reason == "planted"

    # A recipe that says something else has not been trained.
    assert make_job(tmp_path / "models", "good", table(tmp_path / "c", updates=3)).trained is None
