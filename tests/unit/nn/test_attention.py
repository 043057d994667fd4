"""Multi-head attention against the handbook's two-head example and a loop over heads with sliced weights."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from clearhead.base.errors import ConfigError
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.visibility import Visibility


def attention(d_model: int, **config: Any) -> Attention:
    made = Attention(AttentionConfig(**config), d_model).double().eval()
    generator = torch.Generator().manual_seed(d_model)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return made


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def everything(rows: int, keys: int) -> Visibility:
    return Visibility.of_keys(torch.ones(rows, keys, dtype=torch.bool))


def test_the_two_head_example() -> None:
    """The handbook's §7: head 1 reads the first coordinate, head 2 the second, and W_O is [[1, 1], [0, 1]]."""
    layer = attention(2, heads=2)
    with torch.no_grad():
        for projection in (layer.query, layer.key, layer.value):
            projection.weight.copy_(torch.eye(2))
        layer.output.weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 1.0]]).t())  # [out, in]: x·Wᵀ
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]], dtype=torch.float64)
    seen = layer(x, layer.remember(x, x), everything(1, 3))[0]
    truth = [
        [0.8446375965030364, 1.5113042631697031],
        [2 / 3, 1.5113042631697031],
        [0.8446375965030364, 1.68927519300607],
    ]
    torch.testing.assert_close(seen, torch.tensor(truth, dtype=torch.float64), rtol=0, atol=1e-14)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("head_dim", [None, 3])
def test_heads_are_slices_of_the_weights(bias: bool, head_dim: int | None) -> None:
    """Head h owns rows h·E … (h+1)·E of the query map and the same columns of the output map."""
    layer, x, z = attention(8, heads=4, bias=bias, head_dim=head_dim), draw(2, 3, 8), draw(2, 5, 8)
    width = head_dim or 2
    total = torch.zeros(2, 3, 8, dtype=torch.float64)
    for head in range(4):
        own = slice(head * width, (head + 1) * width)
        query, key, value = (
            source @ part.weight[own].t() + (0.0 if part.bias is None else part.bias[own])
            for source, part in [(x, layer.query), (z, layer.key), (z, layer.value)]
        )
        total += (query @ key.mT / width**0.5).softmax(-1) @ value @ layer.output.weight[:, own].t()
    total += 0.0 if layer.output.bias is None else layer.output.bias
    torch.testing.assert_close(layer(x, layer.remember(z, z), everything(2, 5)), total, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_shared_heads_are_repeated_heads(kv_heads: int) -> None:
    """GQA equals MHA whose key and value maps repeat each group's rows for the heads of the group."""
    shared = attention(8, heads=4, kv_heads=kv_heads, bias=True)
    full = attention(8, heads=4, bias=True)
    full.query, full.output = copy.deepcopy(shared.query), copy.deepcopy(shared.output)
    with torch.no_grad():
        for name in ("key", "value"):
            few, many = getattr(shared, name), getattr(full, name)
            many.weight.copy_(few.weight.view(kv_heads, 2, 8).repeat_interleave(4 // kv_heads, 0).reshape(8, 8))
            many.bias.copy_(few.bias.view(kv_heads, 2).repeat_interleave(4 // kv_heads, 0).flatten())
    x = draw(3, 5, 8)
    kept = shared.remember(x, x)
    assert kept.keys.shape == (3, kv_heads, 5, 2)  # the cache holds the shared heads only
    ours, truth = shared(x, kept, everything(3, 5)), full(x, full.remember(x, x), everything(3, 5))
    torch.testing.assert_close(ours, truth, rtol=1e-12, atol=1e-12)


def test_tiled_heads_are_not_repeated_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that the test above catches."""
    from clearhead.nn import cores

    monkeypatch.setattr(cores, "spread", lambda part, heads: part.repeat(1, heads // part.shape[1], 1, 1))
    with pytest.raises(AssertionError):
        test_shared_heads_are_repeated_heads(2)


def test_hypotheses_share_a_source_without_copies() -> None:
    layer, x, z = attention(8, heads=2), draw(6, 4, 8), draw(2, 5, 8)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    ours = layer(x, layer.remember(z, z), Visibility.of_keys(mask))
    wide = z.repeat_interleave(3, 0)
    truth = layer(x, layer.remember(wide, wide), Visibility.of_keys(mask.repeat_interleave(3, 0)))
    torch.testing.assert_close(ours, truth, rtol=1e-12, atol=1e-12)


def test_self_attention_knows_no_order() -> None:
    layer, x = attention(8, heads=2), draw(2, 5, 8)
    order = torch.tensor([3, 0, 4, 1, 2])
    moved = x[:, order]
    ours = layer(moved, layer.remember(moved, moved), everything(2, 5))
    torch.testing.assert_close(ours, layer(x, layer.remember(x, x), everything(2, 5))[:, order], rtol=1e-12, atol=1e-12)


def test_keys_and_values_may_come_from_different_places() -> None:
    layer, x, z = attention(8, heads=2), draw(2, 3, 8), draw(2, 5, 8)
    same_values = torch.zeros(2, 5, 8, dtype=torch.float64)
    seen = layer(x, layer.remember(z, same_values), everything(2, 5))
    assert torch.equal(seen, torch.zeros_like(seen))


def test_parameters_without_and_with_biases() -> None:
    """4·d² maps, and 4·d more with biases; the paper's formula has none."""
    plain, biased = (sum(p.numel() for p in attention(16, heads=4, bias=bias).parameters()) for bias in (False, True))
    assert (plain, biased) == (4 * 256, 4 * 256 + 4 * 16)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"heads": 3}, "d_model 16 is not a multiple of attention.heads 3"),
        ({"heads": 4, "kv_heads": 3}, "heads 4 is not a multiple of kv_heads 3"),
    ],
)
def test_heads_that_do_not_fit_are_refused(config: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Attention(AttentionConfig(**config), 16)


def test_any_head_width_can_be_asked_for() -> None:
    layer = attention(16, heads=3, head_dim=5)
    x = draw(1, 2, 16)
    assert layer(x, layer.remember(x, x), everything(1, 2)).shape == (1, 2, 16)
