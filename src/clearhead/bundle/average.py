"""Checkpoint averaging: the mean of the parameters of several bundles (Vaswani et al. 2017, §6.1).

The paper averages the last 5 checkpoints of the base model and the last 20 of the big one. This is not a moving
average: every bundle weighs the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.base.errors import BundleError
from clearhead.bundle.bundle import WEIGHTS, Bundle, load_bundle, save_bundle
from clearhead.bundle.manifest import read_manifest
from clearhead.bundle.weights import state_tensors

__all__ = ["average_bundles", "is_average_of", "mean_bundle", "weights_of"]

NAMES, DIGESTS, SCORES = "averaged", "averaged_weights", "average_scores"


def average_bundles(paths: Sequence[Path], out: Path) -> Bundle:
    """Write the `mean_bundle` of `paths` to `out` and return it. Raises `BundleError`, also when `out` exists."""
    averaged = replace(mean_bundle(paths), path=out)
    save_bundle(out, averaged)
    return averaged


def mean_bundle(paths: Sequence[Path]) -> Bundle:
    """The average of the raw weights of `paths`, in memory.

    Sums run in float64 and the mean is rounded once to the weights' own type (float32), so the average of equal
    weights is those weights. Tied parameters are averaged once; integer buffers are those of the last bundle, and so
    are tokenizer and summary. The summary says what was averaged: by name, and by the SHA-256 of the weights. Raises
    `BundleError` if the bundles do not share model, tokenizer and languages.
    """
    if not paths:
        raise BundleError("nothing to average: name at least one bundle")
    sums: dict[str, Tensor] = {}
    first: Bundle | None = None
    for path in paths:
        bundle = load_bundle(path, weights="raw")
        first = first or bundle
        _agree(first, bundle)
        for name, tensor in state_tensors(bundle.model)[0].items():
            if tensor.is_floating_point():
                sums[name] = sums[name] + tensor.double() if name in sums else tensor.double()
    tensors, _ = state_tensors(bundle.model)
    with torch.no_grad():
        for name, total in sums.items():
            tensors[name].copy_(total / len(paths))
    summary = {key: value for key, value in bundle.training.items() if key != SCORES}
    summary |= {NAMES: [Path(path).name for path in paths], DIGESTS: weights_of(paths)}
    return Bundle(bundle.model, bundle.tokenizers, bundle.languages, bundle.config, summary)


def weights_of(paths: Sequence[Path]) -> list[str]:
    """What tells the weights of bundles apart whatever their names: the SHA-256 that each manifest has for them."""
    return [read_manifest(path).get(WEIGHTS, (0, ""))[1] for path in paths]


def is_average_of(training: Mapping[str, Any], paths: Sequence[Path]) -> bool:
    """Whether a bundle with this summary is the average of exactly these bundles, as they are now."""
    return training.get(DIGESTS) == weights_of(paths)


def _agree(first: Bundle, other: Bundle) -> None:
    for what, one, two in (
        ("model configuration", first.config, other.config),
        ("tokenizer", first.tokenizers.fingerprint, other.tokenizers.fingerprint),
        ("languages", first.languages, other.languages),
    ):
        if one != two:
            raise BundleError(f"{other.path}: its {what} is not that of {first.path}; they cannot be averaged")
