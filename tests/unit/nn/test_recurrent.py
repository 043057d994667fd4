"""Recurrent stacks over rows of unequal length: both roads, both directions, and what padding must not do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from clearhead.base.errors import ConfigError
from clearhead.nn import recurrent
from clearhead.nn.cells import Cell, CellState
from clearhead.nn.dropout import Dropout
from clearhead.nn.kernels import fused, loop, reverse_within
from clearhead.nn.recurrent import BidirectionalRecurrent, CellKind, Read, Recurrent, make_cell
from clearhead.nn.sweep import swept

KINDS: tuple[CellKind, ...] = get_args(CellKind)
FUSED: tuple[CellKind, ...] = ("elman", "lstm", "gru-after")
FAST = [(fused, "elman"), (fused, "lstm"), (fused, "gru-after"), (swept, "gru-before")]
LENGTHS = torch.tensor([3, 6, 0, 1, 6, 2])

Stack = Recurrent | BidirectionalRecurrent
Road = Callable[[Cell, Tensor, Tensor, CellState], tuple[Tensor, CellState]]


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def filled(module: nn.Module, seed: int = 0) -> None:
    """Float64, every parameter from N(0, 0.6²)."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.6, generator=generator)


def one_way(kind: CellKind, layers: int = 2, dropout: float = 0.0, path: recurrent.PathChoice = "auto") -> Recurrent:
    stack = Recurrent(kind, 5, 4, layers, dropout=dropout, path=path)
    filled(stack)
    return stack


def both_ways(kind: CellKind, layers: int = 2, path: recurrent.PathChoice = "auto") -> BidirectionalRecurrent:
    stack = BidirectionalRecurrent(kind, 5, 4, layers, path=path)
    filled(stack)
    return stack


def parts(read: Read) -> list[Tensor]:
    """Everything that a read holds, in a fixed order."""
    return [read.outputs, *chain.from_iterable(read.final), *chain.from_iterable(read.backward)]


def close(found: Sequence[Tensor], wanted: Sequence[Tensor], atol: float = 1e-12) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=atol)


# ---------------------------------------------------------------------------------------------------- two roads


@pytest.mark.parametrize("lengths", [LENGTHS, torch.full((6,), 6), torch.tensor([0, 0, 0, 0, 0, 0])])
@pytest.mark.parametrize(("fast", "kind"), FAST)
def test_the_kernel_and_the_loop_agree(fast: Road, kind: CellKind, lengths: Tensor) -> None:
    """Outputs, final state and all gradients, from a state that is not zero."""
    cell = make_cell(kind, 5, 4)
    filled(cell)
    x = draw(6, 6, 5).requires_grad_()
    state = tuple(draw(6, 4, seed=part + 5).requires_grad_() for part in range(cell.parts))
    results = []
    for road in (fast, loop):
        outputs, final = road(cell, x, lengths, state)
        loss = sum(((part * draw(*part.shape, seed=9)).sum() for part in (outputs, *final)), torch.zeros(()))
        results.append([outputs, *final, *torch.autograd.grad(loss, [x, *state, *cell.parameters()])])
    close(*results)
    assert bool(results[0][0].any()) == bool(lengths.any())


@pytest.mark.parametrize("kind", FUSED)
def test_the_law_of_two_roads_notices_a_wrong_cell(kind: CellKind) -> None:
    """The fault that it must catch: a kernel given the gates in another order, or a bias twice."""
    cell = make_cell(kind, 5, 4)
    filled(cell)
    x, state = draw(6, 6, 5), cell.start(6, draw(1))
    wanted, _ = loop(cell, x, LENGTHS, state)
    weights = cell.kernel_weights()
    for fault in (
        (weights[0].roll(4, 0), weights[1].roll(4, 0), *weights[2:]) if len(cell.gates) > 1 else None,
        (*weights[:3], weights[2]),
    ):
        if fault is not None:
            cell.kernel_weights = lambda fault=fault: fault  # type: ignore[method-assign]
            assert not torch.allclose(fused(cell, x, LENGTHS, state)[0], wanted, atol=1e-3)


def test_the_gradient_by_hand_against_finite_differences() -> None:
    cell = make_cell("gru-before", 2, 3)
    filled(cell)
    lengths = torch.tensor([3, 1, 0, 2])

    def run(x: Tensor, hidden: Tensor, matrix: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        for name, value in (("hidden_weight", matrix), ("input_weight", weight)):
            delattr(cell, name)
            setattr(cell, name, value)  # a plain tensor, so that the check may vary it
        outputs, (final,) = swept(cell, x, lengths, (hidden,))
        return outputs, final

    matrix, weight = cell.hidden_weight.detach(), cell.input_weight.detach()
    inputs = [part.requires_grad_() for part in (draw(4, 3, 2), draw(4, 3, seed=2), matrix, weight)]
    assert torch.autograd.gradcheck(run, inputs)


def test_which_road_is_taken() -> None:
    assert {kind: Recurrent(kind, 2, 2).path for kind in KINDS} == {
        "linear": "loop",
        "elman": "fused",
        "lstm-1997": "loop",
        "lstm": "fused",
        "gru-before": "swept",
        "gru-after": "fused",
    }
    assert Recurrent("lstm", 2, 2, path="loop").path == "loop"
    assert "path=fused" in repr(Recurrent("lstm", 2, 2))
    with pytest.raises(
        ConfigError, match='"gru-before" cannot run "fused"; take path "swept", or one of: elman, lstm, gru-after'
    ):
        Recurrent("gru-before", 2, 2, path="fused")
    with pytest.raises(ConfigError, match='"lstm" cannot run "swept"; take path "fused", or one of: gru-before'):
        Recurrent("lstm", 2, 2, path="swept")
    with pytest.raises(ValueError, match="LstmCell is not the GRU"):
        swept(make_cell("lstm", 2, 2), torch.zeros(1, 1, 2), torch.ones(1, dtype=torch.int64), ())
    with pytest.raises(ValueError, match="GruBeforeCell has no fused kernel"):
        fused(make_cell("gru-before", 2, 2), torch.zeros(1, 1, 2), torch.ones(1, dtype=torch.int64), ())
    with pytest.raises(ConfigError, match="at least 1"):
        Recurrent("lstm", 2, 2, layers=0)


@pytest.mark.parametrize(("kind", "road"), [("lstm", "fused"), ("lstm", "loop"), ("gru-before", "swept")])
def test_the_stack_takes_the_road_that_it_names(
    kind: CellKind, road: recurrent.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    for name, function in (("fused", fused), ("swept", swept), ("loop", loop)):

        def noted(cell: Cell, x: Tensor, lengths: Tensor, state: CellState, name=name, function=function):  # type: ignore[no-untyped-def]
            taken.append(name)
            return function(cell, x, lengths, state)

        monkeypatch.setattr(recurrent, name, noted)
    both_ways(kind, path=road).run(draw(6, 6, 5), LENGTHS)
    assert taken == [road] * 4


# ---------------------------------------------------------------------------------------------------- PyTorch's stacks


@pytest.mark.parametrize("path", ["fused", "loop"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", FUSED)
def test_a_stack_against_pytorchs(kind: CellKind, bidirectional: bool, path: recurrent.Path) -> None:
    """Two layers, packed by true length; every final state of every layer and direction."""
    stack: Stack = both_ways(kind, path=path) if bidirectional else one_way(kind, path=path)
    peer = {"elman": nn.RNN, "lstm": nn.LSTM, "gru-after": nn.GRU}[kind](
        5, 4, 2, batch_first=True, bidirectional=bidirectional
    ).double()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weights = {}
    for layer in range(2):
        sides = (
            [(stack.cells, "")]
            if isinstance(stack, Recurrent)
            else [(stack.forwards, ""), (stack.backwards, "_reverse")]
        )
        for cells, ending in sides:
            for name, weight in zip(names, cells[layer].kernel_weights()):  # type: ignore[operator]
                weights[f"{name}_l{layer}{ending}"] = weight.detach()
    peer.load_state_dict(weights)
    lengths = LENGTHS.clamp(min=1)  # PyTorch knows no empty row
    x = draw(6, 6, 5)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    outputs, final = peer(packed)
    outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
    finals = final if isinstance(final, tuple) else (final,)  # each [layers·directions, R, H]
    states = [[part[row] for part in finals] for row in range(finals[0].shape[0])]
    forward, backward = (states[::2], states[1::2]) if bidirectional else (states, [])
    found = stack.run(x, lengths)
    close(parts(found), [outputs, *chain.from_iterable(forward), *chain.from_iterable(backward)])


# ---------------------------------------------------------------------------------------------------- laws


def stepped(stack: Recurrent, x: Tensor, lengths: Tensor) -> tuple[list[Tensor], list[tuple[CellState, ...]]]:
    """Each row by itself, a token at a time: outputs [length, H] and states of all layers at its end."""
    outputs, finals = [], []
    for row, length in enumerate(lengths.tolist()):
        states = stack.start(1, x)
        seen = [x.new_zeros(0, stack.width)]
        for step in range(length):
            output, states = stack.step(x[row : row + 1, step], states)
            seen.append(output)
        outputs.append(torch.cat(seen))
        finals.append(states)
    return outputs, finals


@pytest.mark.parametrize("kind", KINDS)
def test_running_is_stepping(kind: CellKind) -> None:
    stack, x = one_way(kind, layers=3), draw(6, 6, 5)
    read = stack.run(x, LENGTHS)
    outputs, finals = stepped(stack, x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        close([read.outputs[row, :length]], [outputs[row]])
        assert not read.outputs[row, length:].any()
        for mine, theirs in zip(read.final, finals[row], strict=True):
            close([part[row] for part in mine], [part[0] for part in theirs])


@pytest.mark.parametrize("path", ["fused", "loop"])
def test_reading_on_from_a_state(path: recurrent.Path) -> None:
    """Six tokens at once are two and then four."""
    stack, x = one_way("lstm", path=path), draw(6, 6, 5)
    whole = stack.run(x, torch.full((6,), 6))
    first = stack.run(x[:, :2], torch.full((6,), 2))
    second = stack.run(x[:, 2:], torch.full((6,), 4), first.final)
    close([torch.cat([first.outputs, second.outputs], 1), *parts(second)[1:]], parts(whole))


def unseen_padding(stack: Stack) -> bool:
    """Whether what stands in the padding, and how much of it there is, changes nothing to the last bit of a row."""
    x = draw(6, 6, 5)
    padding = torch.arange(6) >= LENGTHS[:, None]
    other = torch.where(padding[:, :, None], 1e3 * draw(6, 6, 5, seed=7), x)
    wider = torch.cat([other, draw(6, 3, 5, seed=8)], 1)
    plain = parts(stack.run(x, LENGTHS))
    widened = parts(stack.run(wider, LENGTHS))
    widened[0] = widened[0][:, :6]
    return all(
        torch.equal(mine, theirs) and torch.allclose(mine, more, rtol=0, atol=1e-13)
        for mine, theirs, more in zip(plain, parts(stack.run(other, LENGTHS)), widened)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_padding_cannot_be_seen(kind: CellKind) -> None:
    for stack in (one_way(kind), both_ways(kind)):
        assert unseen_padding(stack)
        stack.path = "loop"
        assert unseen_padding(stack)


def naive(cell: Cell, x: Tensor, lengths: Tensor, state: CellState) -> tuple[Tensor, CellState]:
    """The fault: every row read to the end of the rectangle."""
    return loop(cell, x, torch.full_like(lengths, x.shape[1]), state)


def flipped(x: Tensor, lengths: Tensor) -> Tensor:
    """The fault: the padded row turned round, not the sentence."""
    return x.flip(1)


@pytest.mark.parametrize(("name", "fault"), [("loop", naive), ("swept", naive), ("reverse_within", flipped)])
def test_the_law_of_padding_notices(name: str, fault: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, name, fault)
    assert not unseen_padding(both_ways("gru-before", path="loop" if name == "loop" else "auto"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_in_company_is_the_row_alone(kind: CellKind) -> None:
    """Forwards and backwards, where company means padding: the backward cell starts at the last real token."""
    stack, x = both_ways(kind), draw(6, 6, 5)
    together = stack.run(x, LENGTHS)
    for row in (0, 3, 5):
        length = int(LENGTHS[row])
        alone = stack.run(x[row : row + 1, :length], LENGTHS[row : row + 1])
        close([together.outputs[row, :length]], [alone.outputs[0]])
        close([part[row] for part in parts(together)[1:]], [part[0] for part in parts(alone)[1:]])


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_final_states_stand(kind: CellKind) -> None:
    """The forward one at the last real token, the backward one at the first: Bahdanau's ←h₁."""
    stack = both_ways(kind, layers=3)
    read = stack.run(draw(6, 6, 5), LENGTHS)
    assert (len(read.final), len(read.backward)) == (3, 3)
    for row, length in enumerate(LENGTHS.tolist()):
        if length:
            close([read.final[-1][0][row]], [read.outputs[row, length - 1, :4]], 0)
            close([read.backward[-1][0][row]], [read.outputs[row, 0, 4:]], 0)
        else:
            assert not any(part[row].any() for part in parts(read))


def test_the_backward_cell_is_the_forward_one_on_the_row_reversed() -> None:
    stack, x = both_ways("gru-before", layers=1), draw(6, 6, 5)
    mirror = both_ways("gru-before", layers=1)
    mirror.forwards, mirror.backwards = mirror.backwards, mirror.forwards
    read, mirrored = stack.run(x, LENGTHS), mirror.run(reverse_within(x, LENGTHS), LENGTHS)
    swapped = reverse_within(mirrored.outputs, LENGTHS).roll(4, -1)
    close(parts(read), [swapped, *chain.from_iterable(mirrored.backward), *chain.from_iterable(mirrored.final)], 0)


def test_nothing_to_read() -> None:
    for kind in KINDS:
        for path in ("auto", "loop"):
            for shape in ((2, 0, 5), (0, 4, 5), (0, 0, 5)):
                read = both_ways(kind, path=path).run(draw(*shape), torch.zeros(shape[0], dtype=torch.int64))
                assert read.outputs.shape == (shape[0], shape[1], 8)
                assert read.final[1][-1].shape == read.backward[1][-1].shape == (shape[0], 4)


# ---------------------------------------------------------------------------------------------------- dropout, types


@pytest.mark.parametrize("make", [one_way, both_ways])
def test_dropout_stands_between_layers_only(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two draws for three layers, each of a whole sequence of outputs, none of them inside the recurrence."""
    shapes: list[tuple[int, ...]] = []

    def noted(self: Dropout, x: Tensor) -> Tensor:
        shapes.append(tuple(x.shape))
        return x

    monkeypatch.setattr(Dropout, "forward", noted)
    stack = make("lstm", 3)  # type: ignore[operator]
    read = stack.run(draw(6, 6, 5), LENGTHS)
    assert shapes == [tuple(read.outputs.shape)] * 2
    if isinstance(stack, Recurrent):
        stack.step(draw(6, 5), stack.start(6, draw(1)))
        assert shapes[2:] == [(6, 4)] * 2


def test_dropout_draws_in_training_only() -> None:
    x = draw(6, 6, 5)
    torch.manual_seed(0)
    for layers, changed in ((1, False), (2, True)):
        stack = one_way("lstm", layers, dropout=0.5)
        quiet, noisy = stack.eval().run(x, LENGTHS), stack.train().run(x, LENGTHS)
        assert torch.equal(quiet.outputs, noisy.outputs) is not changed
        close(noisy.final[0], quiet.final[0], 0)  # below the first dropout nothing is random


@pytest.mark.parametrize(("kind", "path"), [("lstm", "fused"), ("lstm", "loop"), ("gru-before", "swept")])
def test_autocast_leaves_the_recurrence_in_full_precision(kind: CellKind, path: recurrent.Path) -> None:
    stack = one_way(kind, path=path).float()
    x = draw(6, 6, 5).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = stack.run(x, LENGTHS)
    assert narrow.outputs.dtype is torch.float32
    close(parts(narrow), parts(stack.run(x.float(), LENGTHS)), 0)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [*FUSED, "gru-before"])
def test_on_a_gpu_the_roads_agree_and_nothing_warns(kind: CellKind) -> None:
    """cuDNN warns about weights that are not one block of memory, and a warning is an error here."""
    stack, x, lengths = both_ways(kind).to("cuda"), draw(6, 6, 5).to("cuda"), LENGTHS.to("cuda")
    found = parts(stack.run(x, lengths))
    stack.path = "loop"
    close(found, parts(stack.run(x, lengths)), 1e-10)


# ---------------------------------------------------------------------------------------------------- reversal


def test_reversal_stays_within_the_true_length() -> None:
    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0], [9, 0, 0, 0], [0, 0, 0, 0]])
    lengths = torch.tensor([4, 2, 1, 0])
    turned = reverse_within(ids, lengths)
    assert turned.tolist() == [[8, 7, 6, 5], [6, 5, 0, 0], [9, 0, 0, 0], [0, 0, 0, 0]]
    assert torch.equal(reverse_within(turned, lengths), ids)
    vectors = draw(4, 4, 3)
    assert torch.equal(reverse_within(vectors, lengths)[1], vectors[1, [1, 0, 2, 3]])
