from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clearhead.base.errors import BundleError
from clearhead.bundle.average import average_bundles
from clearhead.bundle.bundle import Bundle, load_bundle, save_bundle

Make = Callable[..., Bundle]


def save(make: Make, directory: Path, values: list[float]) -> list[Path]:
    """Bundles whose every weight is one number."""
    paths = []
    for number, value in enumerate(values):
        bundle = make()
        with torch.no_grad():
            for parameter in bundle.model.parameters():
                parameter.fill_(value)
        save_bundle(directory / f"b{number}", bundle)
        paths.append(directory / f"b{number}")
    return paths


def test_the_mean_of_each_weight(make: Make, tmp_path: Path) -> None:
    paths = save(make, tmp_path, [1.0, 2.0, 6.0])
    average_bundles(paths, tmp_path / "mean")
    loaded = load_bundle(tmp_path / "mean")
    assert all(bool((parameter == 3.0).all()) for parameter in loaded.model.parameters())
    assert loaded.training["averaged"] == ["b0", "b1", "b2"]


def test_rounded_once(make: Make, tmp_path: Path) -> None:
    """Summing in float32 would lose the small one: 2^24 + 1 is 2^24 there."""
    paths = save(make, tmp_path, [2.0**24, 1.0, 1.0, -(2.0**24)])
    average_bundles(paths, tmp_path / "mean")
    assert all(bool((tensor == 0.5).all()) for tensor in load_file(tmp_path / "mean" / "weights.safetensors").values())


def test_equal_bundles_average_to_themselves(make: Make, tmp_path: Path) -> None:
    for name in "abc":
        save_bundle(tmp_path / name, make(5))
    average_bundles([tmp_path / name for name in "abc"], tmp_path / "mean")
    mean, one = (load_file(tmp_path / name / "weights.safetensors") for name in ("mean", "a"))
    assert all(torch.equal(mean[name], one[name]) for name in one)


def test_raw_weights_are_averaged_and_not_the_moving_average(make: Make, tmp_path: Path) -> None:
    bundle = make(1)
    save_bundle(tmp_path / "a", bundle, ema=dict(make(2).model.named_parameters()))
    average_bundles([tmp_path / "a"], tmp_path / "mean")
    mean = load_file(tmp_path / "mean" / "weights.safetensors")
    assert all(torch.equal(mean[name], tensor) for name, tensor in bundle.model.state_dict().items() if name in mean)


def test_what_does_not_fit_is_refused(make: Make, tmp_path: Path) -> None:
    save_bundle(tmp_path / "a", make())
    save_bundle(tmp_path / "b", make(d_ff=24))
    with pytest.raises(BundleError, match="its model configuration is not that of"):
        average_bundles([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    with pytest.raises(BundleError, match="nothing to average"):
        average_bundles([], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
