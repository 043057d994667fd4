"""Products: against numpy integers, float64 and each other, row by row."""

from __future__ import annotations

import logging
import mmap
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.base.errors import BundleError, ConfigError
from clearhead.engine import arena as arena_module
from clearhead.engine import products, products_int8, products_onednn
from clearhead.engine.arena import AT_ONCE, Arena
from clearhead.engine.library import library
from clearhead.engine.products import (
    Bfloat16Product,
    NativeProduct,
    PlainProduct,
    Precision,
    Product,
    RoundedProduct,
    make_product,
)
from clearhead.engine.products_int8 import ROADS, Int8Product, int8_road, quantise
from clearhead.engine.products_onednn import OneDNNProduct, onednn_works

Patch = pytest.MonkeyPatch
native = pytest.mark.skipif(library() is None, reason="there is no native library")


def numbers(*shape: int, seed: int = 1) -> Tensor:
    """Rows of very different sizes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    return x * torch.logspace(-2, 2, shape[0])[:, None] if len(shape) == 2 else x


def by_integers(x: Tensor, weight: Tensor, bias: Tensor | None) -> np.ndarray:
    """(float(Σ q·w)·scale of the output)·scale of the row + bias, in numpy, with 64-bit integers for the sums."""

    def quantised(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        most = np.abs(rows).max(1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            q = np.where(most > 0, np.rint(rows * (np.float32(127) / most)), 0).astype(np.int64)
        return q, (most / np.float32(127)).astype(np.float32)

    q, row_scales = quantised(x.numpy())
    w, scales = quantised(weight.numpy())
    y = (q @ w.T).astype(np.float32) * scales.T * row_scales
    return y if bias is None else y + bias.numpy()


MAKERS: dict[str, Callable[[Tensor, Tensor | None], Product]] = {
    road: lambda weight, bias, road=road: Int8Product.pack(weight, bias, road)  # type: ignore[misc]
    for road in ROADS
} | {"native": lambda weight, bias: make_product(weight, bias, "int8", native=True)}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 4, 3), (5, 37, 70), (33, 1500, 64)])
def test_int8_is_integer_arithmetic(
    make: Callable[[Tensor, Tensor | None], Product], rows: int, inputs: int, outputs: int
) -> None:
    if make is MAKERS["native"] and library() is None:
        pytest.skip("there is no native library")
    x, weight, bias = numbers(rows, inputs), numbers(outputs, inputs, seed=2), numbers(outputs, seed=3)
    x[0, 0] = 0.0
    weight[0] = 0.0  # a row without scale
    if rows > 1:
        x[1] = 0.0
    for each in (bias, None):
        product = make(weight, each)
        truth = by_integers(x, weight, each)
        # The same integers and the same order of factors; a last addition may be fused with a multiplication.
        np.testing.assert_allclose(product(x).numpy(), truth, rtol=3e-7, atol=3e-7 * np.abs(truth).max())
        assert (product.inputs, product.outputs) == (inputs, outputs)
    if rows > 1:
        assert torch.equal(make(weight, bias)(x)[1], bias)


def test_halves_go_to_the_even_number() -> None:
    rows, scales = quantise(torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5, 0.49999997]]))
    assert (rows[0].int() - 128).tolist() == [127, 0, 2, 2, 0, -2, -126, 0]
    assert scales.tolist() == [[1.0]]


PRECISIONS: list[tuple[Precision, bool]] = [(name, road) for name in ("fp32", "bf16", "int8") for road in (True, False)]


@pytest.mark.parametrize(("precision", "by_library"), PRECISIONS)
def test_error_is_that_of_the_precision(precision: Precision, by_library: bool) -> None:
    if by_library and library() is None:
        pytest.skip("there is no native library")
    x, weight, bias = numbers(9, 200), numbers(70, 200, seed=2), numbers(70, seed=3)
    product = make_product(weight, bias, precision, native=by_library)
    if precision == "bf16":
        exact = x.bfloat16().double() @ weight.bfloat16().double().T + bias.double()
    else:
        exact = x.double() @ weight.double().T + bias.double()
    size = x.double().norm(dim=1)[:, None] * weight.double().norm(dim=1) + bias.abs()
    error = ((product(x).double() - exact).abs() / size).max().item()
    assert error < {"fp32": 1e-6, "bf16": 1e-6, "int8": 1e-2}[precision]
    if precision == "int8":
        assert error > 1e-5  # it did round
    several = product(x.view(3, 3, 200))
    assert several.shape == (3, 3, 70)
    torch.testing.assert_close(several.view(9, 70), product(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("precision", "by_library"), PRECISIONS)
def test_rows_are_what_a_one_picks(precision: Precision, by_library: bool) -> None:
    if by_library and library() is None:
        pytest.skip("there is no native library")
    weight = numbers(70, 40)
    product = make_product(weight, numbers(70, seed=3), precision, native=by_library)
    ids = torch.tensor([[3, 69], [0, 3]])
    bare = make_product(weight, None, precision, native=by_library)
    columns = bare(torch.eye(40)).T  # a 1 is exact in every precision
    torch.testing.assert_close(product.rows(ids), columns[ids], rtol=1e-6, atol=1e-6)
    assert product.rows(ids).shape == (2, 2, 40)


def rows_stand_alone(product: Product) -> None:
    """A row has the same bits whatever stands beside it."""
    x = numbers(40, product.inputs, seed=5)
    together = product(x)
    for row in (0, 17, 39):
        assert torch.equal(product(x[row : row + 1])[0], together[row])


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_int8_rows_stand_alone(make: Callable[[Tensor, Tensor | None], Product]) -> None:
    if make is MAKERS["native"] and library() is None:
        pytest.skip("there is no native library")
    rows_stand_alone(make(numbers(96, 600), numbers(96, seed=3)))


def test_one_scale_for_all_rows_is_caught(monkeypatch: Patch) -> None:
    amax = Tensor.amax
    product = Int8Product.pack(numbers(96, 600), None)
    monkeypatch.setattr(Tensor, "amax", lambda self, dim, keepdim=False: amax(self).expand(len(self), 1).clone())
    with pytest.raises(AssertionError):
        rows_stand_alone(product)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("by_library", [True, False])
def test_a_row_that_is_no_number_stays_one(precision: Precision, bad: float, by_library: bool) -> None:
    if by_library and library() is None:
        pytest.skip("there is no native library")
    product, x = make_product(numbers(8, 12), None, precision, native=by_library), numbers(3, 12, seed=2)
    clean = product(x)
    x[1, 4] = bad
    y = product(x)
    assert not y[1].isfinite().any()
    assert torch.equal(y[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("by_library", [True, False])
def test_weights_that_are_no_numbers_are_refused(by_library: bool) -> None:
    if by_library and library() is None:
        pytest.skip("there is no native library")
    weight = numbers(8, 12)
    weight[3, 5] = float("nan")
    with pytest.raises(BundleError, match="not finite"):
        make_product(weight, None, "int8", native=by_library)


# ------------------------------------------------------------------------------------------------- which road is taken


def test_float64_is_never_rounded() -> None:
    weight, x = numbers(5, 7).double(), numbers(3, 7).double()
    for precision in ("fp32", "bf16", "int8"):
        product = make_product(weight, None, precision)
        assert isinstance(product, PlainProduct)
        assert torch.equal(product(x), x @ weight.T)


@native
def test_float64_in_the_native_library() -> None:
    weight, bias, x = numbers(70, 50).double(), numbers(70, seed=2).double(), numbers(9, 50, seed=3).double()
    product = make_product(weight, bias, "int8", native=True)
    assert isinstance(product, NativeProduct)
    assert product.kind == 3
    torch.testing.assert_close(product(x), x @ weight.T + bias, rtol=1e-12, atol=1e-12)
    assert torch.equal(product.rows(torch.tensor([69, 0])), weight[[69, 0]])
    with pytest.raises(IndexError):
        product.rows(torch.tensor([70]))


@native
def test_native_arrays_are_aligned_and_padded() -> None:
    product = make_product(numbers(70, 50), numbers(70, seed=2), "int8")
    assert isinstance(product, NativeProduct)
    for each in (product.words, product.scales, product.offsets, product.bias):
        assert each is not None
        assert each.data_ptr() % 64 == 0
    for each in (product.scales, product.offsets, product.bias):
        assert each is not None
        assert each.shape == (128,)
        assert not each[70:].any()


@native
def test_int8_by_the_library_and_by_operators_agree() -> None:
    weight, bias, x = numbers(200, 300), numbers(200, seed=2), numbers(50, 300, seed=3)
    ours, theirs = (make_product(weight, bias, "int8", native=road)(x) for road in (True, False))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_without_the_library_it_is_onednn(monkeypatch: Patch) -> None:
    monkeypatch.setattr(products, "library", lambda: None)
    weight = numbers(8, 8)
    if onednn_works():
        assert isinstance(make_product(weight, None, "fp32"), OneDNNProduct)
    assert isinstance(make_product(weight, None, "int8"), Int8Product)
    assert isinstance(make_product(weight, None, "bf16"), RoundedProduct)
    with pytest.raises(BundleError, match="no native library"):
        make_product(weight, None, "fp32", native=True)


def test_without_onednn_it_is_pytorch(monkeypatch: Patch, caplog: pytest.LogCaptureFixture) -> None:
    onednn_works.cache_clear()
    monkeypatch.setattr(products_onednn, "_multiply", lambda x, packed, bias: torch.zeros(len(x), 40))
    try:
        with caplog.at_level(logging.INFO, "clearhead"):
            made = [make_product(numbers(8, 8), None, "fp32", native=False) for _ in range(2)]
        assert all(isinstance(each, PlainProduct) for each in made)
        assert len(caplog.records) == 1
    finally:
        onednn_works.cache_clear()


def broken(*_: object) -> Callable[[Tensor], Tensor]:
    raise RuntimeError("no such operator")


def inexact(quantised: Tensor, scales: Tensor) -> Callable[[Tensor], Tensor]:
    """Sums in float16, as one could think that they are."""
    return lambda rows: ((rows.float() - 128).half() @ quantised.half().T).float() * scales


def test_int8_falls_back_with_a_line_for_each_road(monkeypatch: Patch, caplog: pytest.LogCaptureFixture) -> None:
    int8_road.cache_clear()
    monkeypatch.setitem(products_int8.ROADS, "oneDNN", broken)
    monkeypatch.setitem(products_int8.ROADS, "PyTorch's integer product", inexact)
    try:
        with caplog.at_level(logging.INFO, "clearhead"):
            product = make_product(numbers(8, 8), None, "int8", native=False)
        assert product.description == "int8 products by exact float arithmetic"
        assert len(caplog.records) == 2
    finally:
        int8_road.cache_clear()


def test_bfloat16_with_units_for_it() -> None:
    weight, bias, x = numbers(9, 30), numbers(9, seed=2), numbers(4, 30, seed=3)
    product = Bfloat16Product(weight.bfloat16(), bias)
    exact = x.bfloat16().double() @ weight.bfloat16().double().T + bias.double()
    torch.testing.assert_close(product(x).double(), exact, rtol=1e-2, atol=1e-2)
    assert product(x).dtype == product.rows(torch.tensor([1])).dtype == torch.float32


def test_sums_that_would_not_hold_in_32_bits_are_refused() -> None:
    most = products_int8.MOST_INPUTS
    assert most * 255 * 127 < 2**31 <= (most + 1) * 255 * 127
    weight = torch.ones(1, most + 1)
    with pytest.raises(ConfigError, match=r"66,312 inputs: in int8 66,311 .*fp32 or bf16"):
        make_product(weight, None, "int8", native=False)
    if library() is not None:
        with pytest.raises(ConfigError, match="66,312 inputs"):
            make_product(weight, None, "int8", native=True)
        largest = make_product(weight[:, :most], None, "int8", native=True)
        assert largest(torch.ones(1, most)).item() == pytest.approx(most, rel=1e-5)
        assert largest(-torch.ones(1, most)).item() == pytest.approx(-most, rel=1e-5)


# ----------------------------------------------------------------------------------------------------------- arena


def test_an_arena_gives_out_separate_aligned_pieces() -> None:
    arena = Arena()
    pieces = [arena.take(size) for size in (1, 64, 100, AT_ONCE + 5, 7)]
    for number, piece in enumerate(pieces):
        assert piece.data_ptr() % 64 == 0
        assert not piece[:200].any()
        piece[:200] = number + 1
    assert [len(piece) for piece in pieces] == [1, 64, 100, AT_ONCE + 5, 7]
    assert all(bool((piece[:200] == number + 1).all()) for number, piece in enumerate(pieces))


def test_a_kernel_without_large_pages_serves_small_ones(monkeypatch: Patch) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, *_: int) -> None:
            asked.append(1)
            raise OSError(22, "Invalid argument")

    asked: list[int] = []
    monkeypatch.setattr(arena_module, "_mapping", lambda size: Refusing(-1, size))
    piece = Arena().take(100)
    assert len(piece) == 100 and not piece.any()
    assert len(asked) == hasattr(mmap, "MADV_HUGEPAGE")
