"""Parameters by formula against the tensors of real models, and against what is known of the paper's."""

from fractions import Fraction

import pytest

from clearhead.analysis.parameters import implied_vocabulary, parameters
from clearhead.analysis.printed import common_vocabularies, printed
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.config import ModelConfig
from tests.unit.analysis.configurations import CONFIGURATIONS

# The first beginning and infix that fit a parameter's name say where it belongs.
PLACES = [
    (".input.embedding.", "embeddings"),
    (".input.positions.", "positions"),
    ("norm.", "norms"),
    ("decoder.output.", "output projection"),
    (".cross_attention.", "cross-attention"),
    (".self_attention.", "self-attention"),
    (".attention.", "self-attention"),
    (".feedforward.", "feed-forward"),
]


def counted(config: ModelConfig) -> dict[str, int]:
    """Numbers of real tensors by part; a tied one where it is named first."""
    counts = dict.fromkeys(parameters(config), 0)
    for name, tensor in build(config, device="meta").named_parameters():
        part = next(part for infix, part in PLACES if infix in name)
        shared = part in ("embeddings", "positions", "output projection")
        counts[part if shared else f"{name.partition('.')[0]} {part}"] += tensor.numel()
        counts["total"] += tensor.numel()
    return counts


@pytest.mark.parametrize("config", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_part_is_that_of_the_real_model(config: ModelConfig) -> None:
    assert parameters(config) == counted(config)


@pytest.mark.parametrize("name", presets.TRANSFORMERS)
def test_every_preset(name: str) -> None:
    config = presets.TRANSFORMERS[name](vocab_size=37000)
    assert parameters(config) == counted(config)


def test_the_papers_models_to_the_last_parameter() -> None:
    totals = [
        parameters(preset(vocab_size=37000, attention={"bias": bias}))["total"]
        for preset in (presets.base, presets.big)
        for bias in (False, True)
    ]
    assert totals == [63_045_632, 63_082_496, 214_171_648, 214_245_376]
    base = parameters(presets.base(vocab_size=37000))
    encoder, decoder = (
        sum(count for part, count in base.items() if part.startswith(s)) for s in ("encoder", "decoder")
    )
    assert (base["embeddings"], encoder, decoder) == (18_944_000, 18_902_016, 25_199_616)
    # Erratum E21: a norm has 1,024 numbers, a layer two or three of them; residual connections none at all.
    assert (base["encoder norms"] // 6, base["decoder norms"] // 6) == (2048, 3072)
    assert base["encoder norms"] + base["decoder norms"] == 30_720


@pytest.mark.parametrize("config", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_the_implied_vocabulary_is_the_inverse_of_the_count(config: ModelConfig) -> None:
    larger = config.model_copy(update={"vocab_size": 1234})
    if config.embeddings == "tied":
        assert config.source_vocab_size is None
    assert implied_vocabulary(config, parameters(larger)["total"]) == 1234


def test_no_vocabulary_explains_both_printed_counts() -> None:
    # Erratum E20: 65M asks for some 40,800 entries, 213M for some 35,900.
    base = printed("base", presets.base(vocab_size=37000))
    big = printed("big", presets.big(vocab_size=37000))
    assert base.implied == Fraction(65_000_000 - 63_045_632, 512) + 37000
    assert round(float(base.implied), 1) == 40817.1
    assert round(float(big.implied), 1) == 35855.8
    for name, found in (("base", base), ("big", big)):
        for vocabulary, inside in (
            (found.between[0] - 1, False),
            (found.between[0], True),
            (found.between[1], True),
            (found.between[1] + 1, False),
        ):
            total = parameters(presets.TRANSFORMERS[name](vocab_size=vocabulary))["total"]
            assert (abs(total - found.printed) <= 500_000) is inside, (name, vocabulary)
    assert base.between[0] > big.between[1]
    assert common_vocabularies() is None
