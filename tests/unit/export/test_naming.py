"""The order of Marian's residual axis, and that every parameter has its counterpart."""

import pytest
import torch

from clearhead.base.errors import InputError
from clearhead.export.marian import check_marian, marian_config, marian_tensors
from clearhead.export.naming import by_turns, in_halves, layer_pairs
from clearhead.models import build, presets
from clearhead.nn.positions import sinusoidal_table


def test_halved_sinusoids_are_all_sines_then_all_cosines() -> None:
    """By hand for D = 4: sin p, sin p/100 | cos p, cos p/100."""
    p = torch.arange(5, dtype=torch.float64)
    expected = torch.stack([p.sin(), (p / 100).sin(), p.cos(), (p / 100).cos()], 1)
    torch.testing.assert_close(in_halves(sinusoidal_table(5, 4), 1), expected)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_one_order_undoes_the_other(axis: int | None) -> None:
    drawn = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(by_turns(in_halves(drawn, axis), axis), drawn)


@pytest.mark.parametrize("bias", [False, True])
def test_every_parameter_of_the_layers_is_named_once(bias: bool) -> None:
    config = presets.base(50, attention={"bias": bias}, encoder_layers=2, decoder_layers=3)
    names = [pair.ours for pair in layer_pairs(2, 3, bias)]
    layers = [name for name, _ in build(config, device="meta").named_parameters() if ".layers." in name]
    assert sorted(names) == sorted(layers)
    assert len({pair.theirs for pair in layer_pairs(2, 3, bias)}) == len(names)


def test_missing_biases_are_zeros() -> None:
    config = presets.named("tiny", 20, {"norm": "post"})
    tensors = marian_tensors(build(config, seed=1), config)
    assert tensors["model.decoder.layers.2.encoder_attn.k_proj.bias"].shape == (128,)
    assert not tensors["model.decoder.layers.2.encoder_attn.k_proj.bias"].any()
    assert tensors["final_logits_bias"].shape == (1, 20)


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ({"norm": "pre"}, "model.norm = 'pre'"),
        ({"positions": {"kind": "learned"}}, "model.positions.kind = 'learned'"),
        ({"positions": {"kind": "none"}}, "model.positions.kind = 'none'"),
        ({"activation": "swiglu"}, "model.activation = 'swiglu'"),
        ({"attention": {"kv_heads": 2}}, "model.attention.kv_heads = 2"),
        ({"attention": {"head_dim": 7}}, "model.attention.head_dim = 7"),
        ({"d_model": 9, "attention": {"heads": 3}}, "model.d_model = 9"),
    ],
)
def test_what_has_no_counterpart_is_named(overrides: dict[str, object], key: str) -> None:
    with pytest.raises(InputError, match=key):
        check_marian(presets.base(50, **overrides))


def test_a_limit_of_positions_is_kept() -> None:
    assert marian_config(presets.base(50))["max_position_embeddings"] == 1024
    config = presets.base(50, positions={"kind": "sinusoidal", "max_positions": 77})
    assert marian_config(config)["max_position_embeddings"] == 77
