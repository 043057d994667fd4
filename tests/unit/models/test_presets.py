"""The presets' figures against the papers, their round trip, and what a mistake is told."""

from __future__ import annotations

from typing import Any

import pytest

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure, unstructure
from clearhead.models import TransformerConfig, presets

# Layers, d_model, d_ff, heads, P_drop. base and big: Vaswani et al. 2017, Table 3.
FIGURES = {
    "tiny": (3, 128, 512, 4, 0.1),
    "small": (6, 256, 1024, 4, 0.2),
    "base": (6, 512, 2048, 8, 0.1),
    "big": (6, 1024, 4096, 16, 0.3),
    "bench-tiny": (4, 256, 1024, 4, 0.1),
}


@pytest.mark.parametrize("name", presets.TRANSFORMERS)
def test_figures(name: str) -> None:
    config = presets.named(name, 37000)
    layers, d_model, d_ff, heads, dropout = FIGURES[name]
    assert (config.encoder_layers, config.decoder_layers) == (layers, layers)
    assert (config.d_model, config.d_ff, config.attention.heads, config.dropout) == (d_model, d_ff, heads, dropout)
    # The smallest two are pre-norm, the paper's post-norm; the rest is the paper's in all of them.
    assert config.norm == ("pre" if name in ("tiny", "small") else "post")
    assert (config.activation, config.positions.kind, config.embeddings) == ("relu", "sinusoidal", "tied")
    assert (config.attention.dropout, config.attention.bias, config.attention.kv_heads) == (0.0, False, None)


def test_every_preset_is_listed() -> None:
    assert set(presets.TRANSFORMERS) == set(FIGURES)


@pytest.mark.parametrize("name", presets.TRANSFORMERS)
@pytest.mark.parametrize(
    "overrides",
    [{}, {"positions": {"kind": "learned", "max_positions": 99}}, {"embeddings": "output", "source_vocab_size": 77}],
)
def test_round_trip(name: str, overrides: dict[str, Any]) -> None:
    config = presets.named(name, 1000, overrides)
    table = unstructure(config)
    assert None not in table.values()
    assert structure(TransformerConfig, table) == config


def test_an_override_changes_its_figure_and_no_other() -> None:
    config = presets.base(1000, dropout=0.2, attention={"kv_heads": 2})
    assert (config.dropout, config.attention.kv_heads, config.attention.heads, config.d_model) == (0.2, 2, 8, 512)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"d_model": 100, "attention": {"heads": 8}}, "model: d_model 100 is not a multiple of attention.heads 8"),
        ({"attention": {"kv_heads": 3}}, "attention.heads 8 is not a multiple of attention.kv_heads 3"),
        ({"droput": 0.2}, r"model\.droput: unknown key \(did you mean 'dropout'\?\)"),
        ({"attention": {"heds": 8}}, r"model\.attention\.heds: unknown key \(did you mean 'heads'\?\)"),
        ({"source_vocab_size": 500}, "embeddings = 'tied' needs one vocabulary.*'output'"),
        ({"dropout": 1.0}, r"model\.dropout"),
        ({"dropout": -0.1}, r"model\.dropout"),
        ({"d_model": 0}, r"model\.d_model"),
        ({"d_model": 3_200_000_000_000}, r"model\.d_model"),
        ({"encoder_layers": 3_000_000}, r"model\.encoder_layers"),
        ({"norm": "middle"}, r"model\.norm"),
        ({"positions": {"kind": "rotary"}}, r"model\.positions"),
        ({"d_model": "512"}, r"model\.d_model"),
    ],
)
def test_mistakes_are_named(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        presets.base(1000, **overrides)


def test_an_unknown_preset_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown preset 'bsae' \(did you mean 'base'\?\); there are tiny, small"):
        presets.named("bsae", 1000)


def test_head_dim_frees_the_width() -> None:
    assert presets.base(1000, d_model=100, attention={"head_dim": 32}).d_model == 100
