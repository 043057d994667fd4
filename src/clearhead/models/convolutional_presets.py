"""The convolutional translators as printed, and a small one of each that trains in minutes on two cores.

>>> convs2s(vocab_size=40000).encoder.blocks[0].times
10
"""

from __future__ import annotations

from typing import Any

from clearhead.config.toml import merge
from clearhead.models.config import MixedConfig
from clearhead.models.recurrent_presets import mixed_preset

__all__ = ["bytenet", "bytenet_tiny", "convs2s", "convs2s_tiny"]


def convs2s(vocab_size: int, **overrides: Any) -> MixedConfig:
    """For English–German: 15 layers a side, of 512 (ten), 768 (three) and 2048 (two, kernel 1); words of 512.

    Layers: Gehring et al. 2017, §5.1, where the last two are called linear mappings with a single input; words: §4.2;
    40,000 pieces: §4.1. The paper names no rate of dropout for this model; 0.1 is ours.
    """
    blocks = [
        {"width": 512, "kernel": 3, "times": 10},
        {"width": 768, "kernel": 3, "times": 3},
        {"width": 2048, "kernel": 1, "times": 2},
    ]
    figures = {"embedding": 512, "blocks": blocks, "dropout": 0.1}
    return mixed_preset({"kind": "convolutional", **figures}, {"kind": "convs2s", **figures}, vocab_size, overrides)


def bytenet(vocab_size: int, **overrides: Any) -> MixedConfig:
    """30 blocks a side in six sets of dilations 1 to 16, d 800, kernel 3, with rectifiers; no dropout is named.

    Kalchbrenner et al. 2016, §6. It reads and writes characters there; here it takes whatever the tokenizer makes.
    """
    figures = {"width": 800, "kernel": 3, "dilations": [1, 2, 4, 8, 16], "sets": 6}
    return mixed_preset({"kind": "dilated", **figures}, {"kind": "bytenet", **figures}, vocab_size, overrides)


def convs2s_tiny(vocab_size: int, **overrides: Any) -> MixedConfig:
    """`convs2s` with three layers of 128."""
    figures = {"embedding": 128, "blocks": [{"width": 128, "kernel": 3, "times": 3}], "dropout": 0.1}
    parts = {"encoder": {"kind": "convolutional", **figures}, "decoder": {"kind": "convs2s", **figures}}
    return convs2s(vocab_size, **merge(parts, overrides))


def bytenet_tiny(vocab_size: int, **overrides: Any) -> MixedConfig:
    """`bytenet` with d 64 and one set of dilations 1, 2 and 4."""
    figures = {"width": 64, "dilations": [1, 2, 4], "sets": 1, "dropout": 0.1}
    parts = {"encoder": {"kind": "dilated", **figures}, "decoder": {"kind": "bytenet", **figures}}
    return bytenet(vocab_size, **merge(parts, overrides))
