"""Maxout over neighbours, and RNNsearch's readout, by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.nn.maxout import MaxoutReadout, maxout


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_neighbours_are_paired() -> None:
    """(1, 2), (3, 4), …, as in the appendix; halves against each other would give 5, 4, 7."""
    assert maxout(tensor([[1.0, 2.0, 7.0, 5.0, 4.0, 3.0]])).tolist() == [[2.0, 7.0, 4.0]]
    assert maxout(torch.zeros(3, 5, 8)).shape == (3, 5, 4)


def test_the_gradient_goes_to_the_greater() -> None:
    x = tensor([1.0, 2.0, 7.0, 5.0]).requires_grad_()
    (maxout(x) * tensor([10.0, 20.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 10.0, 20.0, 0.0]


def test_the_readout_by_hand() -> None:
    """l = 1: U_o·s = (1·2, 3·2), V_o·Ey = (10, −20), C_o·c = (0.5·4, 0), bias (0.25, 30): max(14.25, 16)."""
    readout = MaxoutReadout(1, 1, 1, 1).double()
    assert readout.state.bias is not None
    with torch.no_grad():
        readout.state.weight.copy_(tensor([[1.0], [3.0]]))
        readout.state.bias.copy_(tensor([0.25, 30.0]))
        readout.embedding.weight.copy_(tensor([[10.0], [-20.0]]))
        readout.context.weight.copy_(tensor([[0.5], [0.0]]))
    assert readout(tensor([[2.0]]), tensor([[1.0]]), tensor([[4.0]])).tolist() == [[16.0]]
    assert readout(tensor([[2.0]]), tensor([[2.0]]), tensor([[4.0]])).tolist() == [[24.25]]


def test_a_whole_target_at_once() -> None:
    """Each position by itself, whatever the widths of the three."""
    readout = MaxoutReadout(3, 4, 5, 6)
    generator = torch.Generator().manual_seed(0)
    for parameter in readout.double().parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    state, embedded, context = (torch.randn(2, 7, w, generator=generator, dtype=torch.float64) for w in (3, 4, 5))
    whole = readout(state, embedded, context)
    assert whole.shape == (2, 7, 6)
    torch.testing.assert_close(whole[:, 3], readout(state[:, 3], embedded[:, 3], context[:, 3]), rtol=0, atol=1e-14)
    assert [name for name, _ in readout.named_parameters()] == [
        "state.weight",
        "state.bias",
        "embedding.weight",
        "context.weight",
    ]
