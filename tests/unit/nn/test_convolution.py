"""Convolutions against PyTorch's own, gates and scales against numbers worked out by hand, steps against the whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.base.errors import ConfigError
from clearhead.nn.convolution import SQRT_HALF, Convolution, DilatedBlock, GatedBlock
from clearhead.nn.dropout import Dropout
from clearhead.nn.linear import Linear

M = TypeVar("M", bound=nn.Module)


def drawn(module: M, seed: int = 1) -> M:
    """In float64 and evaluation, every parameter away from zero."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return module


def numbers(*shape: int, seed: int = 2) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(ours: Tensor, truth: Tensor) -> None:
    torch.testing.assert_close(ours, truth, rtol=1e-12, atol=1e-12)


# -------------------------------------------------------------------------------------------------------- convolution


def by_torch(convolution: Convolution, x: Tensor) -> Tensor:
    """The same with PyTorch's kernel, whose weights are [outputs, inputs, taps]."""
    weight = convolution.weight.view(-1, convolution.kernel, convolution.inputs).transpose(1, 2)
    before = (convolution.kernel - 1) * convolution.dilation
    after = 0
    if not convolution.causal:
        before = after = before // 2
    padded = F.pad(x.transpose(1, 2), (before, after))
    return F.conv1d(padded, weight, convolution.bias, dilation=convolution.dilation).transpose(1, 2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dilation", [1, 2, 4])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_it_is_pytorch_s_convolution(kernel: int, dilation: int, causal: bool) -> None:
    """Sequences longer than the reach, shorter than it, and of one position."""
    convolution = drawn(Convolution(3, 4, kernel, dilation=dilation, causal=causal))
    for length in (1, 2, 9, 20):
        x = numbers(2, length, 3)
        close(convolution(x), by_torch(convolution, x))


def test_the_taps_by_hand() -> None:
    """W = (1, 10, 100) over 1, 2, 3, 4, and a bias of ½: beyond the ends stand zeros."""
    x = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]], dtype=torch.float64)

    def outputs(**how: int) -> list[float]:
        convolution = Convolution(1, 1, 3, **how).double()  # type: ignore[arg-type]
        with torch.no_grad():
            convolution.weight.copy_(torch.tensor([[1.0, 10.0, 100.0]]))
            convolution.bias.fill_(0.5)
        found: list[float] = convolution(x).flatten().tolist()
        return found

    assert outputs() == [210.5, 321.5, 432.5, 43.5]
    assert outputs(causal=True) == [100.5, 210.5, 321.5, 432.5]
    assert outputs(causal=True, dilation=2) == [100.5, 200.5, 310.5, 420.5]
    assert outputs(dilation=2) == [310.5, 420.5, 31.5, 42.5]


def test_an_even_kernel_has_no_middle() -> None:
    with pytest.raises(ConfigError, match="kernel of 2 has no middle"):
        Convolution(3, 3, 2)
    x = numbers(1, 6, 3)
    even = drawn(Convolution(3, 3, 2, causal=True))
    close(even(x), by_torch(even, x))


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (3, 1), (3, 4), (2, 3)])
def test_going_on_is_the_whole(kernel: int, dilation: int) -> None:
    """Rows read unequal shares, some nothing at all; what stands in the padding is never looked back at."""
    convolution = drawn(Convolution(3, 2, kernel, dilation=dilation, causal=True))
    shares = [[3, 0, 1, 2], [0, 5, 0, 1], [1, 1, 1, 1]]
    texts = [numbers(sum(row), 3, seed=place) for place, row in enumerate(shares)]
    past, at = convolution.start(3, texts[0]), [0, 0, 0]
    parts: list[list[Tensor]] = [[], [], []]
    for step in range(4):
        widest = max(row[step] for row in shares)
        x = torch.full((3, widest, 3), 1e6, dtype=torch.float64)
        for row, text in enumerate(texts):
            x[row, : shares[row][step]] = text[at[row] : at[row] + shares[row][step]]
        made, past = convolution.advance(x, torch.tensor([row[step] for row in shares]), past)
        assert past.shape == (3, (kernel - 1) * dilation, 3)
        for row in range(3):
            parts[row].append(made[row, : shares[row][step]])
            at[row] += shares[row][step]
    for row, text in enumerate(texts):
        close(torch.cat(parts[row]), convolution(text[None])[0])
        seen = torch.cat([torch.zeros(convolution.reach, 3, dtype=torch.float64), text])
        assert torch.equal(past[row], seen[len(seen) - convolution.reach :])


def test_gradients_are_pytorch_s() -> None:
    convolution = drawn(Convolution(3, 4, 3, dilation=2, causal=True))
    found = []
    for compute in (convolution, lambda x: by_torch(convolution, x)):
        x = numbers(2, 7, 3).requires_grad_()
        convolution.zero_grad()
        compute(x).pow(3).sum().backward()
        grads = [x.grad, convolution.weight.grad, convolution.bias.grad]
        found.append([grad.clone() for grad in grads if grad is not None])
    for ours, truth in zip(*found, strict=True):
        close(ours, truth)


# ------------------------------------------------------------------------------------------------------------- blocks

Block = GatedBlock | DilatedBlock


def gated(causal: bool, *, width: int = 4, dropout: float = 0.0) -> GatedBlock:
    return drawn(GatedBlock(4, width, 3, causal=causal, dropout=dropout))


def dilated(causal: bool, *, dropout: float = 0.0) -> DilatedBlock:
    return drawn(DilatedBlock(2, 3, 2, causal=causal, dropout=dropout))


BLOCKS: list[Callable[[bool], Block]] = [gated, lambda causal: gated(causal, width=6), dilated]
blocks = pytest.mark.parametrize("make", BLOCKS, ids=["gated", "gated-wider", "dilated"])


def test_a_gate_by_hand() -> None:
    """x = 2; A = 3·2 + 1 = 7, B = ln 3, which lets ¾ pass: (5.25 + 2)·√½."""
    block = GatedBlock(1, 1, 1, causal=False, dropout=0.0).double().eval()
    with torch.no_grad():
        block.convolution.weight.copy_(torch.tensor([[3.0], [0.0]]))
        block.convolution.bias.copy_(torch.tensor([1.0, math.log(3.0)], dtype=torch.float64))
    x = torch.tensor([[[2.0]]], dtype=torch.float64)
    mask = torch.ones(1, 1, dtype=torch.bool)
    assert block(x, mask).item() == pytest.approx(7.25 / math.sqrt(2), abs=1e-12)
    assert pytest.approx(0.5, abs=1e-15) == SQRT_HALF**2


def test_a_wider_gate_maps_what_passes_it() -> None:
    block = gated(False, width=6)
    x, mask = numbers(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    both = by_torch(block.convolution, x)
    passed = both[..., :6] * torch.sigmoid(both[..., 6:])
    assert isinstance(block.past, Linear) and block.past.bias is not None
    past = x @ block.past.weight.T + block.past.bias
    close(block(x, mask), (passed + past) / math.sqrt(2))


def test_a_dilated_block_is_its_figure() -> None:
    """Kalchbrenner et al. 2016, figure 3, left, with PyTorch's layer norm and convolution."""
    block = dilated(True)
    x, mask = numbers(2, 9, 4), torch.ones(2, 9, dtype=torch.bool)

    def norm(y: Tensor, layer: nn.LayerNorm) -> Tensor:
        centred = y - y.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + layer.eps).sqrt() * layer.weight + layer.bias

    y = norm(x, block.narrow_norm).clamp(min=0) @ block.narrow.weight.T + block.narrow.bias
    y = by_torch(block.convolution, norm(y, block.norm).clamp(min=0))
    y = norm(y, block.widen_norm).clamp(min=0) @ block.widen.weight.T + block.widen.bias
    close(block(x, mask), x + y)


@blocks
def test_a_causal_block_steps_as_it_reads(make: Callable[[bool], Block]) -> None:
    block = make(True)
    x, mask = numbers(2, 9, 4), torch.ones(2, 9, dtype=torch.bool)
    past, parts = block.start(2, x), []
    for step in range(9):
        made, past = block.advance(x[:, step : step + 1], torch.ones(2, dtype=torch.int64), past)
        parts.append(made)
    close(torch.cat(parts, 1), block(x, mask))


@blocks
def test_a_causal_block_sees_nothing_later(make: Callable[[bool], Block]) -> None:
    """Not by a bit; and a plain one does see it, so the test can fail."""
    mask = torch.ones(1, 9, dtype=torch.bool)
    for causal in (True, False):
        block, x = make(causal), numbers(1, 9, 4)
        other = x.clone()
        other[:, 5:] = numbers(1, 4, 4, seed=9)  # not a shift, which the norms take out
        assert torch.equal(block(x, mask)[:, :5], block(other, mask)[:, :5]) is causal


@blocks
def test_padding_is_zero_to_the_others(make: Callable[[bool], Block]) -> None:
    """As if the sequence ended there, whatever stands behind its end."""
    block, x = make(False), numbers(2, 9, 4)
    mask = torch.tensor([[True] * 9, [True] * 5 + [False] * 4])
    x[1, 5:] = 1e6
    found = block(x, mask)
    close(found[1, :5], block(x[1:, :5], mask[1:, :5])[0])
    close(found[0], block(x[:1], mask[:1])[0])


@pytest.mark.parametrize("make", [gated, dilated])
def test_dropout_stands_where_it_is_said_to(make: Callable[..., Block]) -> None:
    """Gated: on what enters the convolution, and not on what passes it. Dilated: on what the block adds."""
    block = make(False, dropout=0.999)
    places = [name for name, module in block.named_modules() if isinstance(module, Dropout)]
    assert places == ["dropout"]
    x, mask = numbers(1, 3, 4), torch.ones(1, 3, dtype=torch.bool)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.mul_(1e-3)  # so that one that survives, times 1000, is no more than the others were
    torch.manual_seed(1)
    found = block.train()(x, mask)
    if isinstance(block, GatedBlock):
        bias = block.convolution.bias
        expected = (bias[:4] * torch.sigmoid(bias[4:]) + x) / math.sqrt(2)
    else:
        expected = x
    close(found, expected.expand_as(found))
    assert not torch.allclose(block.eval()(x, mask), expected.expand_as(found), rtol=0, atol=1e-9)


# ------------------------------------------------------------------------------------------------------ first weights


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_variance_is_kept(dropout: float) -> None:
    """Ten gated layers on noise of variance 0.01, where σ is nearly straight (Gehring et al. 2017, §3.5).

    The share that is wrong by a factor of two in each layer would be off by (1.5)¹⁰ = 58 or (0.75)¹⁰ = 0.06.
    """
    generator = torch.Generator().manual_seed(3)
    torch.manual_seed(4)
    layers = [GatedBlock(128, 128, 3, causal=False, dropout=dropout).train() for _ in range(10)]
    for layer in layers:
        layer.convolution.initialise(generator)
    x, mask = torch.randn(8, 64, 128, generator=generator) * 0.1, torch.ones(8, 64, dtype=torch.bool)
    before = x.var().item()
    with torch.no_grad():
        for layer in layers:
            x = layer(x, mask)
    assert x.var().item() == pytest.approx(before, rel=0.2)


def test_weights_are_drawn_by_the_fan_in() -> None:
    convolution = Convolution(50, 400, 3, gain=4.0)
    torch.nn.init.ones_(convolution.bias)
    convolution.initialise(torch.Generator().manual_seed(1))
    assert convolution.weight.var().item() == pytest.approx(4 / 150, rel=0.03)
    assert convolution.weight.mean().item() == pytest.approx(0, abs=0.003)
    assert not convolution.bias.any()
    assert GatedBlock(5, 7, 3, causal=True, dropout=0.25).convolution.gain == 3.0
