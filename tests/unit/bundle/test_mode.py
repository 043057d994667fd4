"""Who may read a saved file."""

from pathlib import Path

import torch

from clearhead.bundle.weights import write_tensors


def test_weights_are_as_readable_as_other_new_files(tmp_path: Path) -> None:
    write_tensors(tmp_path / "weights.safetensors", {"a": torch.ones(2)})
    (tmp_path / "other").touch()
    assert (tmp_path / "weights.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode
