from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.bundle.bundle import Bundle, save_bundle
from clearhead.models import build, presets
from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

SIZES = {"d_model": 8, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1, "attention": {"heads": 2}}


@pytest.fixture(scope="session")
def tokenizers() -> Tokenizers:
    text = [("the red door", "die rote Tür"), ("open the window", "öffne das Fenster")] * 20
    return Tokenizers.train(TokenizerConfig(vocab_size=300), lambda: text)


@pytest.fixture
def make(tokenizers: Tokenizers) -> Callable[..., Bundle]:
    """A bundle in memory with weights from `seed`."""

    def make(seed: int = 1, **overrides: object) -> Bundle:
        config = presets.tiny(vocab_size=300, **{**SIZES, **overrides})
        return Bundle(build(config, seed=seed), tokenizers, ("en", "de"), config, {"updates": seed})

    return make


@pytest.fixture
def saved(make: Callable[..., Bundle], tmp_path: Path) -> Path:
    save_bundle(tmp_path / "bundle", make())
    return tmp_path / "bundle"
