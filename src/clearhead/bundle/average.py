"""Checkpoint averaging: the mean of the parameters of several bundles (Vaswani et al. 2017, §6.1).

The paper averages the last 5 checkpoints of the base model and the last 20 of the big one. This is not a moving
average: every bundle weighs the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from clearhead.base.errors import BundleError
from clearhead.bundle.bundle import Bundle, load_bundle, save_bundle
from clearhead.bundle.weights import state_tensors

__all__ = ["average_bundles"]


def average_bundles(paths: Sequence[Path], out: Path) -> Bundle:
    """Average the raw weights of `paths`, write the result to `out` and return it.

    Sums run in float64 and the mean is rounded once to the weights' own type (float32), so the average of equal
    weights is those weights. Tied parameters are averaged once; integer buffers are those of the last bundle, and so
    are tokenizer and summary. Raises `BundleError` if the bundles do not share model, tokenizer and languages.
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
    training = {**bundle.training, "averaged": [Path(path).name for path in paths]}
    averaged = Bundle(bundle.model, bundle.tokenizers, bundle.languages, bundle.config, training, out)
    save_bundle(out, averaged)
    return averaged


def _agree(first: Bundle, other: Bundle) -> None:
    for what, one, two in (
        ("model configuration", first.config, other.config),
        ("tokenizer", first.tokenizers.fingerprint, other.tokenizers.fingerprint),
        ("languages", first.languages, other.languages),
    ):
        if one != two:
            raise BundleError(f"{other.path}: its {what} is not that of {first.path}; they cannot be averaged")
