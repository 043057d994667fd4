"""The native library's products, held to integers and to float64; every instruction set that the processor has."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from clearhead.engine.library import LEVELS, Library, absence, library

F32, BF16, INT8, F64 = range(4)
KINDS = {"f32": F32, "bf16": BF16, "int8": INT8, "f64": F64}
PANEL = 64
Array = npt.NDArray[np.float32] | npt.NDArray[np.float64]


def aligned(count: int, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """`count` numbers that begin at a cache line; all bytes are set, so that none is taken for a zero by chance."""
    size = np.dtype(dtype).itemsize
    memory = np.full(count * size + 64, 0xA5, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count * size].view(dtype)


def guarded(rows: int, columns: int, dtype: npt.DTypeLike) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    """Room for [rows, columns] numbers, and the 64 bytes behind it, which nobody may write."""
    size = np.dtype(dtype).itemsize
    memory = aligned(rows * columns * size + 64, np.uint8)
    return memory[:-64].view(dtype).reshape(rows, columns), memory[-64:]


def real(kind: int) -> type[np.floating]:
    return np.float64 if kind == F64 else np.float32


@dataclass
class Packed:
    """A packed matrix and what is needed to multiply by it."""

    native: Library
    kind: int
    weight: Array
    bias: Array | None

    def __post_init__(self) -> None:
        out, inputs = self.weight.shape
        columns = -(-out // PANEL) * PANEL
        self.words = aligned(self.native.packed_bytes(self.kind, out, inputs), np.uint8)
        self.scales = aligned(columns, np.float32)
        self.offsets = aligned(columns, np.int32)
        weight = np.ascontiguousarray(self.weight, dtype=real(self.kind))
        arrays = (self.words.ctypes.data, self.scales.ctypes.data, self.offsets.ctypes.data)
        self.good = bool(self.native.pack(self.kind, weight.ctypes.data, out, inputs, *arrays))
        self.padded_bias = None
        if self.bias is not None:
            self.padded_bias = aligned(columns, real(self.kind))
            self.padded_bias[:] = 0
            self.padded_bias[:out] = self.bias

    def arguments(self) -> tuple[int, ...]:
        return self.kind, self.words.ctypes.data, self.scales.ctypes.data, self.offsets.ctypes.data

    def __call__(self, x: Array, threads: int = 1) -> Array:
        out, inputs = self.weight.shape
        x = np.ascontiguousarray(x, dtype=real(self.kind))
        y, behind = guarded(len(x), self.columns, real(self.kind))
        bias = None if self.padded_bias is None else self.padded_bias.ctypes.data
        done = self.native.product(*self.arguments(), bias, out, inputs, x.ctypes.data, len(x), y.ctypes.data, threads)
        assert done and (behind == 0xA5).all()
        return y

    @property
    def columns(self) -> int:
        return -(-len(self.weight) // PANEL) * PANEL

    def rows(self, ids: list[int]) -> Array:
        out, inputs = self.weight.shape
        wanted = np.array(ids, dtype=np.int32)
        y, behind = guarded(len(ids), inputs, real(self.kind))
        self.native.embed(*self.arguments(), out, inputs, wanted.ctypes.data, len(ids), y.ctypes.data)
        assert (behind == 0xA5).all()
        return y


def to_bytes(rows: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Each row as integers of at most 127 and their scale, as native/kernels.h has it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.abs(rows).max(axis=1).astype(np.float32)
        numbers = np.rint(rows.astype(np.float32) * (np.float32(127) / largest)[:, None])
    return np.where(largest[:, None] > 0, numbers, 0).astype(np.int64), largest / np.float32(127)


def to_halves(rows: Array) -> Array:
    """Rounded to bf16, ties to even, by arithmetic alone: 8 bits are left of each number's 24."""
    fraction, exponent = np.frexp(rows.astype(np.float64))
    return np.ldexp(np.rint(fraction * 256), exponent - 8)


def expected(packed: Packed, x: Array) -> Array:
    """The product in float64 of the operands as the kind sees them; of int8 the exact float32 result."""
    bias = np.zeros(len(packed.weight)) if packed.bias is None else packed.bias
    if packed.kind == INT8:
        weights, scales = to_bytes(packed.weight)
        numbers, row_scales = to_bytes(x)
        sums = (numbers @ weights.T).astype(np.float32)
        return sums * scales * row_scales[:, None] + bias.astype(np.float32)
    if packed.kind == BF16:
        return to_halves(x) @ to_halves(packed.weight).T + bias
    return x.astype(np.float64) @ packed.weight.astype(np.float64).T + bias


def tolerance(packed: Packed, x: Array) -> Array:
    """By how much each result may be off: every product and sum rounds, by half a unit of the partial sums."""
    if packed.kind == INT8:
        return np.zeros((len(x), len(packed.weight)))
    magnitude = np.abs(x).astype(np.float64) @ np.abs(packed.weight).astype(np.float64).T
    if packed.bias is not None:
        magnitude = magnitude + np.abs(packed.bias)
    unit = np.finfo(real(packed.kind)).eps
    return magnitude * unit * (packed.weight.shape[1] + 2) / 2 * (1.01 if packed.kind == BF16 else 1)


def matrix(native: Library, kind: int, out: int, inputs: int, *, bias: bool = True, seed: int = 0) -> Packed:
    generator = np.random.default_rng(seed + 1000 * out + inputs)
    weight = generator.normal(size=(out, inputs)).astype(real(kind))
    return Packed(native, kind, weight, generator.normal(size=out).astype(real(kind)) if bias else None)


def activations(rows: int, inputs: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=(rows, inputs)).astype(np.float32)


@pytest.fixture(params=LEVELS)
def native(request: pytest.FixtureRequest) -> Iterator[Library]:
    found = library()
    if found is None:
        pytest.skip(f"no native library: {absence()}")
    before = found.level
    if not found.select(request.param):
        pytest.skip(f"this processor or this build lacks {request.param}")
    yield found
    found.select(before)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_products_are_those_of_exact_arithmetic(native: Library, kind: int) -> None:
    """Odd and even sizes; int8 equals numpy's integers to the last bit."""
    for out, inputs in [(1, 1), (64, 4), (65, 3), (3, 200), (127, 31), (200, 64), (128, 129), (66, 1100)]:
        for rows in (1, 2, 5, 13):
            packed = matrix(native, kind, out, inputs, bias=out % 2 == 0)
            x = activations(rows, inputs)
            y = packed(x)
            difference = np.abs(y[:, :out].astype(np.float64) - expected(packed, x))
            assert (difference <= tolerance(packed, x)).all(), (out, inputs, rows, difference.max())
            assert (y[:, out:] == 0).all(), (out, inputs, rows)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_wrong_weight_is_noticed(native: Library, kind: int) -> None:
    """The tolerance above is narrow enough to tell one step of one weight."""
    packed = matrix(native, kind, 65, 31)
    x = activations(4, 31)
    y = packed(x)[:, :65]
    step = np.abs(packed.weight[3]).max() / 127
    packed.weight[3, 30] += step
    assert (np.abs(y - expected(packed, x)) > tolerance(packed, x))[:, 3].all()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_rows_do_not_see_each_other(native: Library, kind: int) -> None:
    """A row has the same bits alone and among any number of others, at any place, on any number of threads."""
    packed = matrix(native, kind, 200, 77)
    x = activations(29, 77)
    alone = np.concatenate([packed(x[i : i + 1]) for i in range(len(x))])
    for rows in [*range(2, 14), 29]:
        for threads in (1, 3):
            np.testing.assert_array_equal(packed(x[:rows], threads), alone[:rows])
            np.testing.assert_array_equal(packed(x[-rows:], threads), alone[-rows:])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_no_number_stays_in_its_row(native: Library, kind: int) -> None:
    packed = matrix(native, kind, 70, 37)
    x = activations(9, 37)
    clean = packed(x)
    x[2, 36] = np.nan
    x[5, 0] = np.inf
    x[8, 17] = -np.inf
    y = packed(x)
    assert np.isnan(y[2, :70]).all()
    assert not np.isfinite(y[[5, 8], :70]).any()
    if kind == INT8:
        assert np.isnan(y[[5, 8], :70]).all()
    kept = [0, 1, 3, 4, 6, 7]
    np.testing.assert_array_equal(y[kept], clean[kept])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_rows_of_zeros_and_of_the_smallest_numbers(native: Library, kind: int) -> None:
    packed = matrix(native, kind, 70, 37)
    x = activations(3, 37)
    x[0] = 0
    x[1] = np.finfo(np.float32).smallest_subnormal
    y = packed(x)[:, :70]
    assert packed.bias is not None
    np.testing.assert_array_equal(y[0], packed.bias)
    np.testing.assert_allclose(y[1], packed.bias, atol=1e-30)
    packed.weight[4] = 0
    zeroed = Packed(native, kind, packed.weight, packed.bias)
    np.testing.assert_array_equal(zeroed(x)[:, 4], np.repeat(packed.bias[4], 3))
    np.testing.assert_array_equal(np.delete(zeroed(x), 4, axis=1), np.delete(packed(x), 4, axis=1))


def test_bytes_round_ties_to_even_and_reach_127(native: Library) -> None:
    """With amax 127 a number is its own integer; halves go to the even neighbour, by weight and by activation."""
    numbers = np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -126.5, -127], dtype=np.float32)
    rounded = np.array([127, 0, 2, 2, 0, -2, -2, 126, -126, -127], dtype=np.float32)
    identity = Packed(native, INT8, np.diag(np.full(10, 127, dtype=np.float32)), None)
    np.testing.assert_array_equal(identity(numbers[None])[0, :10], rounded * 127)
    packed = Packed(native, INT8, numbers[None], None)
    np.testing.assert_array_equal(packed.rows([0])[0], rounded)


def test_the_largest_sums_of_bytes_are_exact(native: Library) -> None:
    """All at ±127: the sums at which arithmetic of 16 bits, or of floats, would break."""
    weight = np.ones((2, 4096), dtype=np.float32)
    weight[1] = -1
    packed = Packed(native, INT8, weight, None)
    x = np.ones((2, 4096), dtype=np.float32)
    x[1, ::2] = -1
    x[1, 1] = -1
    scale = np.float32(1) / np.float32(127)
    for row, total in ((0, 4096), (1, -2)):
        for column, sign in ((0, 1), (1, -1)):
            assert packed(x)[row, column] == np.float32(sign * total * 127**2) * scale * scale


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_rows_of_the_matrix(native: Library, kind: int) -> None:
    packed = matrix(native, kind, 131, 45)
    ids = [0, 130, 64, 63, 5, 5]
    weight = packed.weight[ids]
    if kind == BF16:
        weight = to_halves(weight)
    if kind == INT8:
        numbers, scales = to_bytes(packed.weight)
        weight = numbers.astype(np.float32)[ids] * scales[ids][:, None]
    np.testing.assert_array_equal(packed.rows(ids), weight)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_refused(native: Library, kind: int, bad: float) -> None:
    weight = np.ones((70, 9), dtype=real(kind))
    assert Packed(native, kind, weight, None).good
    weight[69, 8] = bad
    assert not Packed(native, kind, weight, None).good


def test_sets_agree_on_integers() -> None:
    """Scaling is rounded step by step, so all instruction sets give int8 the same bits."""
    found = library()
    if found is None:
        pytest.skip(f"no native library: {absence()}")
    before = found.level
    results = []
    for level in found.levels():
        assert found.select(level)
        results.append(matrix(found, INT8, 190, 333)(activations(7, 333)))
    found.select(before)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
