"""What models of others have and the paper's have not obeys the laws of every model; the fast engine does it, too."""

from collections.abc import Callable

import pytest
import torch

from clearhead.analysis.parameters import parameters
from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.search import search
from clearhead.engine.choose import choose_engine
from clearhead.models import build, count_parameters, presets
from clearhead.models.config import TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from tests.laws.model_laws import LAWS, SOURCES, VOCABULARY

FOREIGN = {
    "d_model": 12,
    "d_ff": 20,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "attention": {"heads": 4, "bias": True},
    "dropout": 0.0,
    "activation": "silu",
    "positions": {"kind": "sinusoidal", "max_positions": 40},
    "layer_norm_epsilon": 1e-3,
    "scale_embeddings": False,
    "output_bias": True,
}


def foreign() -> Seq2Seq:
    model = build(presets.base(VOCABULARY, **FOREIGN), seed=4).double().eval()
    drawn = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.randn(parameter.shape, generator=drawn) * 0.4 + ("norm.weight" in name))
            else:
                parameter.mul_(1.5)
    return model


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_it_obeys_every_law(law: Callable[[Seq2Seq], None]) -> None:
    law(foreign())


@pytest.mark.parametrize("beam", [1, 4])
def test_the_fast_engine_translates_alike(beam: int) -> None:
    model = foreign().float()
    source = Padded.from_lists(SOURCES)
    config = DecodingConfig(beam=beam, max_length_extra=12)
    plain = search(model, source, config)
    engine = choose_engine(model, "fast", "fp32", consume=False)
    found = [search(engine.model, source, config)]
    if engine.native is not None:
        found.append([each or [] for each in engine.native.search(SOURCES, config, batch_tokens=4096, threads=1)])
    for results in found:
        for ours, theirs in zip(plain, results, strict=True):
            assert [each.tokens for each in ours] == [each.tokens for each in theirs]
            assert [each.log_prob for each in ours] == pytest.approx([each.log_prob for each in theirs], abs=1e-4)


def test_positions_end_where_they_are_said_to() -> None:
    model = foreign()
    assert model.max_positions == 40
    model.encoder(Padded.from_lists([[5] * 40]))
    with pytest.raises(InputError, match="position 40 asked of a model that ends after 40 positions"):
        model.encoder(Padded.from_lists([[5] * 41]))


def test_the_defaults_are_the_papers() -> None:
    config = TransformerConfig(vocab_size=9)
    assert (config.layer_norm_epsilon, config.scale_embeddings, config.output_bias) == (1e-6, True, False)
    assert config.max_positions is None
    model = build(config, device="meta")
    assert not any(name.endswith("output.bias") and "attention" not in name for name, _ in model.named_parameters())


def test_the_bias_is_counted_and_starts_at_zero() -> None:
    config = presets.base(VOCABULARY, **FOREIGN)
    model = build(config, seed=1)
    assert parameters(config)["total"] == count_parameters(model)
    assert not model.state_dict()["decoder.output.bias"].any()
