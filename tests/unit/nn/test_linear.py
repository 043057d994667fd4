"""`linear` is x·Wᵀ + b by whichever library; the oneDNN road is taken by force, so that it is tested on every CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.nn import linear as module
from clearhead.nn.linear import Linear, LinearPath, linear, linear_path

ROADS = {
    "plain": LinearPath("mkl", "mkl", "mkl"),
    "zen4": LinearPath("onednn", "onednn", "by shape"),
    "zen5": LinearPath("onednn", "onednn", "onednn"),
}


@pytest.fixture(params=ROADS, ids=ROADS.keys())
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "plain" and not module._onednn_works():
        pytest.skip("this build of PyTorch has no oneDNN")
    monkeypatch.setattr(module, "linear_path", lambda: ROADS[request.param])
    return str(request.param)


def inputs(*shape: int, outputs: int = 5, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(len(shape))
    made = [torch.randn(size, generator=generator, dtype=dtype) for size in [shape, (outputs, shape[-1]), (outputs,)]]
    return made[0].requires_grad_(), made[1].requires_grad_(), made[2].requires_grad_()


def agrees(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Result and all gradients are those of `F.linear` in float64."""
    product = linear(x, weight, bias)
    cotangent = torch.linspace(-1, 1, product.numel()).view(product.shape)
    leaves = [part for part in (x, weight, bias) if part is not None and part.requires_grad]
    ours = torch.autograd.grad(product, leaves, cotangent.to(product.dtype))
    exact = [part if part is None else part.double() for part in (x, weight, bias)]
    truth = F.linear(*exact)  # type: ignore[arg-type]
    torch.testing.assert_close(product.double(), truth, rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(ours, torch.autograd.grad(truth, leaves, cotangent.double()), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 7), (2, 7), (3, 4, 7), (1, 1, 7), (2, 1, 3, 7), (7,), (0, 7), (2, 0, 7)])
def test_results_and_gradients_are_those_of_plain_linear(road: str, shape: tuple[int, ...]) -> None:
    x, weight, bias = inputs(*shape)
    agrees(x, weight, bias)
    agrees(x, weight, None)


@pytest.mark.parametrize("outputs", [3, 7, 11])
def test_weights_may_be_wide_square_or_tall(road: str, outputs: int) -> None:
    x, weight, bias = inputs(2, 4, 7, outputs=outputs)
    agrees(x, weight, bias)
    linear(x, weight, bias).sum().backward()
    assert weight.grad is not None
    assert weight.grad.is_contiguous()  # as the optimizer's own tensors are


def test_inputs_need_not_be_contiguous(road: str) -> None:
    x, weight, bias = inputs(6, 4, 7)
    agrees(x.transpose(0, 1), weight, bias)
    agrees(x[::2, 1:], weight, bias)
    agrees(x.transpose(1, 2), inputs(3, 4)[1], bias)
    agrees(x, torch.randn(7, 5).t().requires_grad_(), bias)
    agrees(torch.randn(4, 1).expand(4, 7).requires_grad_(), weight, bias)


def test_onednn_is_given_no_strided_matrix(road: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no fast kernel for some columns of a matrix, or for one step of a sequence: a thousand times slower."""
    seen: list[tuple[Tensor, ...]] = []
    exact = module._onednn

    def noted(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        seen.append((x, weight))
        return exact(x, weight, bias)

    monkeypatch.setattr(module, "_onednn", noted)
    sequence, weight, bias = inputs(6, 4, 7)
    for x, chosen in ((sequence[:, 1], weight), (sequence[:, 1, 2:], weight[:, 2:]), (sequence, weight)):
        y = linear(x, chosen, bias)
        y.backward(torch.ones(*y.shape[:-1], 2 * y.shape[-1])[..., ::2])  # a gradient with gaps as well
    assert all(part.is_contiguous() or part.t().is_contiguous() for pair in seen for part in pair)
    assert bool(seen) is (road != "plain")


@pytest.mark.parametrize("learnt", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1)])
def test_each_of_the_three_may_be_frozen(road: str, learnt: tuple[int, int, int]) -> None:
    x, weight, bias = (part.detach().requires_grad_(bool(on)) for part, on in zip(inputs(3, 7), learnt))
    agrees(x, weight, bias)


def test_a_second_derivative_is_exact(road: str) -> None:
    """∂/∂W of |∂(Σ y²)/∂x|² by hand: y = x·Wᵀ, ∂x = 2·y·W."""
    x, weight, _ = inputs(3, 7)
    (slope,) = torch.autograd.grad(linear(x, weight).pow(2).sum(), x, create_graph=True)
    (ours,) = torch.autograd.grad(slope.pow(2).sum(), weight)
    wide, heavy = x.detach().double(), weight.detach().double().requires_grad_()
    (truth,) = torch.autograd.grad((2 * wide @ heavy.t() @ heavy).pow(2).sum(), heavy)
    torch.testing.assert_close(ours.double(), truth, rtol=1e-4, atol=1e-3)


def test_gradcheck_in_float64(road: str) -> None:
    assert torch.autograd.gradcheck(linear, inputs(2, 3, 4, dtype=torch.float64))


def test_without_gradients_nothing_is_recorded(road: str) -> None:
    x, weight, bias = inputs(3, 7)
    with torch.no_grad():
        product = linear(x, weight, bias)
    assert not product.requires_grad
    torch.testing.assert_close(product, F.linear(x, weight, bias).detach(), rtol=1e-5, atol=1e-5)


def test_autocast_decides_the_type(road: str) -> None:
    x, weight, bias = inputs(3, 7)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = linear(x, weight, bias)
    assert product.dtype is torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_types_are_plain_linear_to_the_bit(road: str, dtype: torch.dtype) -> None:
    x, weight, bias = inputs(3, 7, dtype=dtype)
    assert torch.equal(linear(x, weight, bias), F.linear(x, weight, bias))


def test_the_road_is_really_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, the tests above would hold for a `linear` that always calls `F.linear`."""
    calls: list[int] = []
    monkeypatch.setattr(module, "linear_path", lambda: ROADS["zen5"])
    monkeypatch.setattr(module, "_onednn", lambda x, w, b: calls.append(x.shape[0]) or F.linear(x, w, b))
    x, weight, bias = inputs(3, 7)
    linear(x, weight, bias).sum().backward()
    assert calls == [3, 3, 5]  # forward, ∂x, ∂W


@pytest.mark.parametrize(
    ("outputs", "calls"),
    [
        (5, [(3, 7), (3, 5), (5, 3)]),  # forward, ∂x, then ∂W with its longer side as rows
        (9, [(3, 7), (3, 9), (7, 3)]),  # (∂W)ᵀ, for the same reason
        (7, [(3, 7), (3, 7)]),  # a square ∂W is left to MKL
    ],
)
def test_the_road_by_shape(outputs: int, calls: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    monkeypatch.setattr(module, "linear_path", lambda: ROADS["zen4"])
    monkeypatch.setattr(module, "_onednn", lambda x, w, b: seen.append(tuple(x.shape)) or F.linear(x, w, b))
    x, weight, bias = inputs(3, 7, outputs=outputs)
    linear(x, weight, bias).sum().backward()
    assert seen == calls


@pytest.mark.parametrize(
    ("vendor", "family", "expected"),
    [
        ("AuthenticAMD", 25, ("onednn", "onednn", "by shape")),
        ("AuthenticAMD", 26, ("onednn", "onednn", "onednn")),
        ("GenuineIntel", 6, ("mkl", "mkl", "mkl")),
        ("", 0, ("mkl", "mkl", "mkl")),
    ],
)
def test_the_rule_by_processor(
    vendor: str, family: int, expected: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_processor", lambda: (vendor, family))
    monkeypatch.setattr(module, "_onednn_works", lambda: True)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert linear_path.__wrapped__() == LinearPath(*expected)


def test_no_onednn_means_plain_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_processor", lambda: ("AuthenticAMD", 26))
    monkeypatch.setattr(module, "_onednn_works", lambda: False)
    assert linear_path.__wrapped__().forward != "onednn"


def test_the_path_reads_well_in_a_run_header() -> None:
    assert str(ROADS["zen4"]) == "onednn (∂W: by shape)"
    assert str(ROADS["zen5"]) == "onednn"


def test_a_layer_says_what_it_is() -> None:
    assert str(Linear(3, 5, bias=False)) == "Linear(3 → 5, bias=False)"
    assert [name for name, _ in Linear(3, 5, bias=False).named_parameters()] == ["weight"]
