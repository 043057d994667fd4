"""A recurrent layer over sequences of unequal length, by two roads that compute the same (a third is in `sweep.py`).

`loop` is the meaning: a Python loop over the steps, for every cell. `fused` hands the whole sequence to PyTorch's
kernel (`torch.lstm`, `torch.gru`, `torch.rnn_tanh`, by which `torch.nn.LSTM` and its like run too), for the cells whose
`kernel` names one. In float64 the two agree to 1e-12; a test holds them to it.

On either road a row ends with its own last token: what stands in the padding is not read, outputs there are exactly 0,
and the final state is that after the last real token, or the first state where a row is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from clearhead.nn.cells import Cell, CellState

__all__ = ["are_apart", "fused", "loop", "reverse_within", "rows_apart"]

_APART: ContextVar[bool] = ContextVar("rows_apart", default=False)


@contextmanager
def rows_apart() -> Iterator[None]:
    """Within it no road is taken on which the last bits of a row depend on the rows beside it (`decoding.fixed`).

    `fused` is one: packing sorts the rows by length and multiplies those that go on, so a product has as many rows as
    the company allows.
    """
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def are_apart() -> bool:
    """Whether `rows_apart` holds here."""
    return _APART.get()


def reverse_within(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row of `x` [R, T, …] turned round within its own length [R]; the padding stays where it is.

    >>> reverse_within(torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([3, 2])).tolist()
    [[7, 6, 5], [9, 8, 0]]
    """
    steps = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths[:, None] - 1 - steps
    index = torch.where(mirrored >= 0, mirrored, steps)  # [R, T]
    return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand_as(x))


def loop(
    cell: Cell, x: Float[Tensor, "R T I"], lengths: Tensor, state: CellState
) -> tuple[Float[Tensor, "R T H"], CellState]:
    """Outputs and final state by one `recur` a step."""
    if x.shape[1] == 0:
        return x.new_zeros(x.shape[0], 0, cell.width), state
    alive = (torch.arange(x.shape[1], device=x.device) < lengths[:, None])[:, :, None]  # [R, T, 1]
    everyone = int(lengths.min()) if len(lengths) else 0  # up to here no row has ended
    outputs = []
    for step, drive in enumerate(cell.drive(x).unbind(1)):
        after = cell.recur(drive, state)
        if step >= everyone:
            after = tuple(torch.where(alive[:, step], new, old) for new, old in zip(after, state, strict=True))
        state = after
        outputs.append(state[0])
    stacked = torch.stack(outputs, 1)
    return (stacked if everyone == x.shape[1] else stacked.masked_fill(~alive, 0.0)), state


def fused(
    cell: Cell, x: Float[Tensor, "R T I"], lengths: Tensor, state: CellState
) -> tuple[Float[Tensor, "R T H"], CellState]:
    """Outputs and final state by the kernel that `cell.kernel` names; `ValueError` where it names none."""
    if x.numel() == 0:
        return loop(cell, x, lengths, state)
    on_host = lengths.cpu()
    packed = pack_padded_sequence(x, on_host.clamp(min=1), batch_first=True, enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    sorted_state = tuple(part[order][None] for part in state)  # [1, R, H]: one layer
    data, final = _kernel(cell, packed, sorted_state)
    outputs, _ = pad_packed_sequence(
        PackedSequence(data, packed.batch_sizes, order, back), batch_first=True, total_length=x.shape[1]
    )
    after = tuple(part[0][back] for part in final)
    if int(on_host.min()) == 0:  # packing knows no empty row: it was given a step that is taken back here
        empty = (lengths == 0)[:, None]
        outputs = outputs.masked_fill(empty[:, :, None], 0.0)
        after = tuple(torch.where(empty, old, new) for new, old in zip(after, state, strict=True))
    return outputs, after


def _kernel(cell: Cell, packed: PackedSequence, state: CellState) -> tuple[Tensor, CellState]:
    """One layer in one direction, without dropout: the outputs in packed order, and the final state."""
    weights = _beside_each_other(cell.kernel_weights())
    training = torch.is_grad_enabled()
    if cell.kernel == "lstm":
        data, hidden, memory = torch.lstm(
            packed.data, packed.batch_sizes, state, weights, True, 1, 0.0, training, False
        )
        return data, (hidden, memory)
    if cell.kernel == "gru":
        data, hidden = torch.gru(packed.data, packed.batch_sizes, state[0], weights, True, 1, 0.0, training, False)
        return data, (hidden,)
    if cell.kernel == "rnn_tanh":
        data, hidden = torch.rnn_tanh(packed.data, packed.batch_sizes, state[0], weights, True, 1, 0.0, training, False)
        return data, (hidden,)
    raise ValueError(f"{type(cell).__name__} has no fused kernel; take the loop")


def _beside_each_other(weights: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The same weights, on a GPU as views of one buffer: cuDNN wants them so, and would copy them with a warning."""
    if not weights[0].is_cuda:
        return weights
    buffer = torch.cat([weight.reshape(-1) for weight in weights])
    parts = buffer.split([weight.numel() for weight in weights])
    return tuple(part.view_as(weight) for part, weight in zip(parts, weights, strict=True))
