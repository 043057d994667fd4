"""A translator that knows nothing, made in a moment: for everything that does not depend on what a model has learnt."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

from clearhead.bundle.bundle import Bundle, save_bundle
from clearhead.models import build, presets
from clearhead.models.config import ModelConfig
from clearhead.recipes.translator import Translator
from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

__all__ = ["VOCABULARY", "save_tiny", "tiny_bundle", "tiny_tokenizers", "tiny_translator"]

VOCABULARY = 360
PAIRS = [
    (f"the cat {name} sat on the mat. Really, it did!", f"die Katze {name} sass auf der Matte. Wirklich!")
    for name in ("Anna", "Bert", "Carl", "Dora", "Emil", "Frida", "Gustav", "Hanna", "Ida", "Jan")
] * 3


@cache
def tiny_tokenizers() -> Tokenizers:
    return Tokenizers.train(TokenizerConfig(vocab_size=VOCABULARY), lambda: PAIRS)


def tiny_bundle(seed: int = 0, languages: tuple[str, str] = ("en", "de"), **overrides: Any) -> Bundle:
    """Random weights, drawn wide so that different sentences get different translations."""
    config: ModelConfig = presets.tiny(
        vocab_size=VOCABULARY,
        **{"d_model": 16, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1, "attention": {"heads": 2}, **overrides},
    )
    model = build(config, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return Bundle(model.eval(), tiny_tokenizers(), languages, config, {"updates": 3})


def tiny_translator(seed: int = 0, languages: tuple[str, str] = ("en", "de"), **overrides: Any) -> Translator:
    bundle = tiny_bundle(seed, languages, **overrides)
    return Translator(bundle.model, bundle.tokenizers, bundle.languages)


def save_tiny(path: Path, seed: int = 0, languages: tuple[str, str] = ("en", "de"), **overrides: Any) -> Path:
    save_bundle(path, tiny_bundle(seed, languages, **overrides))
    return path
