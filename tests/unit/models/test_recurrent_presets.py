"""The ancestors' figures against their papers, their round trip, and what a mistake is told."""

from __future__ import annotations

from typing import Any

import pytest

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure, unstructure
from clearhead.models import build, count_parameters, presets
from clearhead.models.config import MixedConfig, ModelConfig, TransformerConfig
from clearhead.models.recurrent_config import BahdanauConfig, LuongConfig, RecurrentEncoderConfig, Seq2SeqConfig

ANCESTORS = ["seq2seq", "rnnsearch", "luong-local-p", "seq2seq-tiny", "rnnsearch-tiny", "luong-local-p-tiny"]


def counted(name: str, vocabulary: int, **more: Any) -> int:
    return count_parameters(build(presets.named(name, vocabulary, more), device="meta"))


def test_every_ancestor_is_listed() -> None:
    convolutional = {"convs2s", "bytenet", "convs2s-tiny", "bytenet-tiny"}  # test_convolutional.py
    assert set(presets.PRESETS) - set(presets.TRANSFORMERS) == {*ANCESTORS, *convolutional}


def test_figures_of_sutskever_2014() -> None:
    """§3.4, also that the model "has 384M parameters of which 64M are pure recurrent connections"."""
    config = presets.named("seq2seq", 80_000, {"source_vocab_size": 160_000})
    assert isinstance(config, MixedConfig)
    part = {"embedding": 1000, "cell": "lstm", "layers": 4, "width": 1000}
    assert config.encoder == RecurrentEncoderConfig(**part, reverse=True)
    assert config.decoder == Seq2SeqConfig(**part)
    recurrent = 2 * 4 * 4 * 1000 * (1000 + 1000)
    assert recurrent == 64_000_000
    words = 160_000 * 1000 + 80_000 * 1000 + 80_000 * 1000
    assert counted("seq2seq", 80_000, source_vocab_size=160_000) == words + recurrent + 2 * 4 * 4 * 1000  # and biases
    assert words + recurrent == 384_000_000


def test_figures_of_bahdanau_2015() -> None:
    """A.2.3: n 1000, m 620, l 500, n′ 1000; §4.2: 30,000 words."""
    config = presets.named("rnnsearch", 30_000)
    assert isinstance(config, MixedConfig)
    part = {"embedding": 620, "cell": "gru-before", "width": 1000}
    assert config.encoder == RecurrentEncoderConfig(**part, bidirectional=True)
    assert config.decoder == BahdanauConfig(**part, attention=1000, readout=500)
    m, n, two_n, readout = 620, 1000, 2000, 500
    encoder = 30_000 * m + 2 * 3 * (n * m + n * n + n)
    gates = 3 * (n * m + n * two_n + n * n + n)  # W E y, C c, U s and a bias
    alignment = n * n + n * two_n + n  # W_a, U_a, v_a
    deep = 2 * readout * (n + m + two_n) + 2 * readout
    decoder = 30_000 * m + gates + (n * n + n) + alignment + deep + 30_000 * readout
    assert counted("rnnsearch", 30_000) == encoder + decoder


def test_figures_of_luong_2015() -> None:
    """§4.1: 4 layers, 1000 cells, 1000-dimensional words, dropout 0.2; §3.2: D = 10; Table 1, last row but one."""
    config = presets.named("luong-local-p", 50_000)
    assert isinstance(config, MixedConfig)
    part = {"embedding": 1000, "cell": "lstm", "layers": 4, "width": 1000, "dropout": 0.2}
    assert config.encoder == RecurrentEncoderConfig(**part, reverse=True)
    assert config.decoder == LuongConfig(**part, score="general", window="local-p", half_width=10, input_feeding=True)


@pytest.mark.parametrize("name", ["seq2seq-tiny", "rnnsearch-tiny", "luong-local-p-tiny"])
def test_a_tiny_one_is_small_and_otherwise_its_paper_s(name: str) -> None:
    small, whole = presets.named(name, 8000), presets.named(name.removesuffix("-tiny"), 8000)
    assert isinstance(small, MixedConfig) and isinstance(whole, MixedConfig)
    assert small.d_model == 128
    assert counted(name, 8000) < 4_000_000 + 12 * 128 * 128 * 8
    sizes = {"embedding", "width", "layers", "attention", "readout", "dropout"}
    for ours, theirs in ((small.encoder, whole.encoder), (small.decoder, whole.decoder)):
        assert {k: v for k, v in unstructure(ours).items() if k not in sizes} == {
            k: v for k, v in unstructure(theirs).items() if k not in sizes
        }


@pytest.mark.parametrize("name", ANCESTORS)
@pytest.mark.parametrize(
    "overrides",
    [{}, {"source_vocab_size": 77}, {"decoder": {"width": 32}}, {"decoder": {"kind": "transformer"}}],
    ids=str,
)
def test_round_trip(name: str, overrides: dict[str, Any]) -> None:
    config = presets.named(name, 1000, overrides)
    table = unstructure(config)
    assert structure(ModelConfig, table) == config
    build(config, device="meta")


def test_a_changed_kind_replaces_the_whole_part() -> None:
    config = presets.named("rnnsearch", 1000, {"decoder": {"kind": "luong", "width": 64}})
    assert isinstance(config, MixedConfig)
    assert config.decoder == LuongConfig(width=64)


def test_a_table_that_was_saved_before_there_were_other_kinds_is_a_transformer() -> None:
    table = unstructure(presets.tiny(500))
    assert table["kind"] == "transformer"
    assert structure(ModelConfig, table) == presets.tiny(500)
    assert isinstance(structure(ModelConfig, table), TransformerConfig)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"d_model": 64}, r"model\.d_model: unknown key"),
        ({"decoder": {"widht": 64}}, r"model\.decoder\.widht: unknown key \(did you mean 'width'\?\)"),
        ({"encoder": {"cell": "gru"}}, r"model\.encoder\.cell: expected .*'gru-before' or 'gru-after'"),
        ({"decoder": {"kind": "loung"}}, r"model\.decoder\.kind: unknown kind 'loung' \(did you mean 'luong'\?\)"),
        ({"embeddings": "tied"}, "needs target vectors as wide as the output, not 620 beside 500"),
        ({"embeddings": "output"}, "needs target vectors as wide as the output, not 620 beside 500"),
        (
            {"embeddings": "tied", "decoder": {"kind": "luong", "embedding": 512}},
            "needs word vectors of one width, not 620 in the encoder beside 512 in the decoder",
        ),
        (
            {"embeddings": "tied", "source_vocab_size": 7, "decoder": {"kind": "luong"}, "encoder": {"embedding": 512}},
            "needs one vocabulary, not source_vocab_size 7",
        ),
        (
            {"decoder": {"kind": "luong", "score": "dot", "width": 1000}},
            "'dot' multiplies states of one width, not 2000 of the encoder and 1000 of the decoder",
        ),
        ({"decoder": {"kind": "transformer", "attention": {"heads": 7}}}, "d_model 512 is not a multiple"),
        ({"encoder": {"layers": 3_000_000}}, r"model\.encoder\.layers"),
    ],
)
def test_mistakes_are_named(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        presets.named("rnnsearch", 1000, overrides)


def test_the_least_of_both_stacks_limits_the_text() -> None:
    def stack(longest: int) -> dict[str, Any]:
        positions = {"kind": "learned", "max_positions": longest}
        return {"kind": "transformer", "d_model": 8, "layers": 1, "attention": {"heads": 1}, "positions": positions}

    def limit(**parts: Any) -> int | None:
        config = structure(MixedConfig, {"vocab_size": 20, **parts})
        assert build(config, device="meta").max_positions == config.max_positions
        return config.max_positions

    assert limit() is None
    assert limit(encoder=stack(9)) == 9
    assert limit(encoder=stack(9), decoder=stack(7)) == 7
