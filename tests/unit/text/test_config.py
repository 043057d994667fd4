"""Contradictions in the tokenizer's configuration are named before any text is read."""

from typing import Any

import pytest

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure, unstructure
from clearhead.text.config import TokenizerConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 260}, "261 or more"),
        ({"vocab_size": 302, "symbols": [f"s{i}" for i in range(60)]}, "321 or more"),
        ({"byte_fallback": False, "vocab_size": 8, "symbols": ["a", "b", "c", "d"]}, "9 or more"),
        ({"sampling": 1.5}, "between 0 and 1"),
        ({"sampling": -0.1}, "sampling"),
        ({"symbols": ["{a}", "{b}", "{a}"]}, "'{a}' stands there twice"),
        ({"symbols": [""]}, "empty symbol"),
        ({"symbols": ["<unk>"]}, "reserved"),
        ({"symbols": ["<0x7F>"]}, "reserved"),
        ({"symbols": ["a b"]}, "white space"),
        ({"symbols": ["a\u2581"]}, "U\\+2581"),
        ({"character_coverage": 0.5}, "character_coverage"),
        ({"kind": "word"}, "kind"),
        ({"vocabsize": 400}, "did you mean 'vocab_size'"),
    ],
)
def test_a_contradiction_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        structure(TokenizerConfig, settings, where="tokenizer")


def test_what_is_sound_passes_and_comes_back() -> None:
    config = TokenizerConfig(kind="unigram", vocab_size=300, sampling=2, symbols=("{name}", "<b>"))
    assert structure(TokenizerConfig, unstructure(config)) == config
    assert TokenizerConfig().kind == "bpe"
