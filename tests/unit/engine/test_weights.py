"""Fused weights: which rows come from where, what is shared, what is freed, which models fit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from clearhead.engine import weights as module
from clearhead.engine.library import library
from clearhead.engine.products import NativeProduct, PlainProduct, Product
from clearhead.engine.weights import Norm, Weights, fits, fuse
from clearhead.models import build, presets
from clearhead.nn.cores import ScaledDotProduct
from tests.laws.model_laws import PAIRS, transformer

native = pytest.mark.skipif(library() is None, reason="there is no native library")
GROUPED = {"heads": 4, "kv_heads": 2, "head_dim": 6, "bias": True}


def matrix(product: Product) -> Tensor:
    return product.rows(torch.arange(product.outputs))


def test_rows_lie_where_the_seam_says() -> None:
    model = transformer(attention=GROUPED)
    fused = fuse(model, "fp32")
    layer, plain = fused.decoder[1], model.decoder.layers[1]
    own, cross = plain.self_attention, plain.cross_attention
    assert torch.equal(matrix(layer.attention.qkv), torch.cat([own.query.weight, own.key.weight, own.value.weight]))
    assert isinstance(layer.attention.qkv, PlainProduct)
    assert torch.equal(layer.attention.qkv.bias, torch.cat([own.query.bias, own.key.bias, own.value.bias]))
    assert torch.equal(matrix(layer.cross.keys_values), torch.cat([cross.key.weight, cross.value.weight]))
    assert torch.equal(matrix(layer.cross.query), cross.query.weight)
    assert torch.equal(matrix(layer.cross.output), cross.output.weight)
    assert torch.equal(matrix(layer.feedforward.inner), plain.feedforward.inner.weight)
    assert (fused.heads, fused.kv_heads, fused.head_dim, fused.head_width) == (4, 2, 6, 6)
    assert fused.source.factor == fused.target.factor == 4.0
    assert layer.cross_norm.epsilon == 1e-6


@native
def test_heads_are_padded_with_zeros_for_the_library() -> None:
    model = transformer(attention=GROUPED)
    fused = fuse(model, "fp32", native=True)
    own = model.encoder.layers[0].attention
    assert (fused.head_dim, fused.head_width) == (6, 16)
    rows = matrix(fused.encoder[0].attention.qkv).view(8, 16, 16)  # 4 + 2 + 2 heads, their width, d_model
    assert torch.equal(rows[:, :6].flatten(0, 1), torch.cat([own.query.weight, own.key.weight, own.value.weight]))
    assert not rows[:, 6:].any()
    product = fused.encoder[0].attention.qkv
    assert isinstance(product, NativeProduct)
    assert product.bias is not None
    assert torch.equal(
        product.bias.view(8, 16)[:, :6].flatten(), torch.cat([own.query.bias, own.key.bias, own.value.bias])
    )
    columns = matrix(fused.encoder[0].attention.output).view(16, 4, 16)
    assert torch.equal(columns[:, :, :6].flatten(1), own.output.weight)
    assert not columns[:, :, 6:].any()


@pytest.mark.parametrize(("embeddings", "shared"), [("tied", {0, 1, 2}), ("output", {1, 2}), ("separate", set())])
@pytest.mark.parametrize("consume", [False, True])
def test_tied_matrices_are_packed_once(embeddings: str, shared: set[int], consume: bool) -> None:
    size = {} if embeddings == "tied" else {"source_vocab_size": 11}
    model = transformer(embeddings=embeddings, **size).float()
    expected = [each.detach().clone() for each in (model.encoder.input.embedding.weight, model.decoder.output.weight)]
    fused = fuse(model, "fp32", consume=consume)
    products = [fused.source.table, fused.target.table, fused.projection]
    assert {place for place, each in enumerate(products) if sum(each is other for other in products) > 1} == shared
    assert torch.equal(matrix(fused.source.table), expected[0])
    assert torch.equal(matrix(fused.projection), expected[1])


@pytest.mark.parametrize("by_library", [True, False])
def test_consuming_frees_the_matrices(by_library: bool) -> None:
    if by_library and library() is None:
        pytest.skip("there is no native library")
    kept, given = transformer(output_bias=True).float(), transformer(output_bias=True).float()
    left, right = (fuse(m, "int8", consume=m is given, native=by_library) for m in (kept, given))
    assert all(len(each) for each in kept.parameters())
    assert {name for name, each in given.named_parameters() if each.dim() == 2} == set()
    assert not any(each.numel() for name, each in given.named_parameters() if "norm" not in name and "bias" not in name)
    assert torch.equal(matrix(left.decoder[0].attention.qkv), matrix(right.decoder[0].attention.qkv))


def test_packing_goes_one_matrix_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the last matrix is packed, all before it are freed: loading never holds two whole copies."""
    model = transformer().float()
    left: list[int] = []
    make = module.make_product

    def watched(*arguments: object, **named: object) -> Product:
        left.append(sum(each.numel() for each in set(model.parameters()) if each.dim() == 2))
        return make(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "make_product", watched)
    fuse(model, "int8", consume=True)
    assert left == sorted(left, reverse=True)
    assert left[-1] == 16 * 24  # the outer matrix of the last feed-forward net


def test_a_bias_of_the_output_is_not_taken_for_the_embedding() -> None:
    model = transformer(output_bias=True)
    fused = fuse(model, "fp32")
    assert torch.equal(matrix(fused.target.table), model.decoder.output.weight)
    hidden = torch.randn(3, 16, dtype=torch.float64)
    torch.testing.assert_close(fused.projection(hidden), model.decoder.project(hidden))


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "one-embedding"][::5])
def test_mixed_models_do_not_fit(name: str) -> None:
    reason = fits(PAIRS[name]())
    assert reason is not None
    assert "model" in reason
    with pytest.raises(ValueError, match="fuse: "):
        fuse(PAIRS[name](), "fp32")


class Other(ScaledDotProduct):
    """An attention of another kind."""


def test_what_else_does_not_fit() -> None:
    model = transformer()
    assert fits(model) is None
    model.encoder.layers[1].attention.core = Other()
    assert "softmax" in str(fits(model))
    wide = transformer()
    wide.decoder.layers[1] = transformer(attention={"heads": 2}).decoder.layers[1]
    assert "one shape" in str(fits(wide))


def test_sizes_of_the_base_preset() -> None:
    fused: Weights = fuse(build(presets.bench_tiny(100), seed=1), "fp32", native=False)
    assert len(fused.encoder) == len(fused.decoder) == 4
    assert fused.encoder[0].attention.qkv.outputs == 768
    assert (fused.d_model, fused.norm, fused.activation, fused.max_positions) == (256, "post", "relu", None)
    assert fused.encoder_norm is fused.decoder_norm is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_norms_have_the_type_of_the_products(dtype: torch.dtype) -> None:
    """The library reads them by address: half as many bytes would have it read past their end."""
    model = transformer(norm="pre", attention=GROUPED).to(dtype)
    fused = fuse(model, "fp32")
    parts = [part for layer in (*fused.encoder, *fused.decoder) for part in vars(layer).values()]
    norms = [part for part in (*parts, fused.encoder_norm, fused.decoder_norm) if isinstance(part, Norm)]
    assert len(norms) == 2 * 2 + 2 * 3 + 2
    for norm in norms:
        assert norm.weight.dtype == norm.bias.dtype == torch.float32
        assert norm.weight.is_contiguous() and norm.bias.is_contiguous()
    assert torch.equal(norms[0].weight, model.encoder.layers[0].attention_residual.norm.weight.float())
    double = fuse(transformer(), "fp32")
    assert double.encoder[0].attention_norm.weight.dtype == torch.float64
