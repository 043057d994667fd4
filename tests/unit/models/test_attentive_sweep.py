"""RNNsearch's one pass with the gradient by hand: against the loop, against finite differences, and with faults."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.config.strict import structure
from clearhead.models import Seq2Seq, attentive_decoders, build
from clearhead.models.attentive_decoders import AttentiveState
from clearhead.models.config import MixedConfig
from clearhead.nn import attentive_sweep
from clearhead.nn.attentive_sweep import Source, swept_with_attention
from clearhead.nn.gru import GruBeforeCell
from clearhead.nn.padding import Padded
from clearhead.nn.scores import Additive, tanh_in_place
from clearhead.nn.visibility import Visibility

SOURCES = Padded.from_lists([[5, 6, 7, 3], [4, 3], []])
TARGETS = Padded.from_lists([[2, 4, 5], [2], [2, 7, 7, 7, 5]])


def rnnsearch(cell: str = "gru-before") -> Seq2Seq:
    """Every width another, float64, no parameter at zero."""
    reads = {"kind": "recurrent", "cell": "gru-before", "bidirectional": True, "embedding": 5, "width": 4}
    writes = {"kind": "bahdanau", "cell": cell, "embedding": 7, "width": 6, "attention": 3, "readout": 2}
    made = build(structure(MixedConfig, {"vocab_size": 9, "encoder": reads, "decoder": writes}), seed=1).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.5)
    return made


def everything(made: Seq2Seq) -> list[Tensor]:
    """What is read out, the states that stand in the end, and every gradient."""
    decoder: Any = made.decoder
    hidden, state = decoder.advance(TARGETS, decoder.start(made.encoder(SOURCES)))
    read_out = hidden * TARGETS.mask[:, :, None]
    (final,) = state.own.layers[0]
    weights = torch.linspace(-1, 1, read_out.numel(), dtype=torch.float64).view_as(read_out)
    loss = (read_out * weights).sum() + final.sin().sum()
    learnt = [each for name, each in made.named_parameters() if not name.startswith("decoder.output")]
    return [read_out.detach(), final.detach(), *torch.autograd.grad(loss, learnt)]


def by_the_loop(made: Seq2Seq, patch: pytest.MonkeyPatch) -> list[Tensor]:
    with patch.context() as context:
        context.setattr(made.decoder, "_sweeps", lambda tokens, state: False)
        return everything(made)


def apart(one: list[Tensor], other: list[Tensor]) -> float:
    return max(float((mine - theirs).abs().max()) for mine, theirs in zip(one, other, strict=True))


def test_the_pass_and_the_loop_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of unequal length on both sides, one source of them empty."""
    made, called = rnnsearch(), []
    right = swept_with_attention
    monkeypatch.setattr(attentive_decoders, "swept_with_attention", lambda *given: called.append(1) or right(*given))
    found = everything(made)
    assert called
    assert apart(found, by_the_loop(made, monkeypatch)) < 1e-11
    assert len(called) == 1


def no_gradient_through_the_keys(made: Seq2Seq, patch: pytest.MonkeyPatch) -> None:
    right = swept_with_attention

    def wrong(cell: GruBeforeCell, score: Additive, words: Tensor, state: Tensor, source: Source) -> Any:
        return right(
            cell, score, words, state, Source(source.keys.detach() + 0 * source.keys, source.values, source.mask)
        )

    patch.setattr(attentive_decoders, "swept_with_attention", wrong)


def the_padding_is_read(made: Seq2Seq, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attentive_sweep, "Visibility", lambda mask: Visibility(torch.ones_like(mask)))


def update_and_reset_exchanged(made: Seq2Seq, patch: pytest.MonkeyPatch) -> None:
    right = swept_with_attention

    def wrong(cell: Any, score: Additive, words: Tensor, state: Tensor, source: Source) -> Any:
        other = GruBeforeCell(cell.inputs, cell.width).double()
        for name, value in cell.named_parameters():
            delattr(other, name)
            setattr(other, name, torch.cat([value[6:12], value[:6], value[12:]]))
        return right(other, score, words, state, source)

    patch.setattr(attentive_decoders, "swept_with_attention", wrong)


@pytest.mark.parametrize("fault", [no_gradient_through_the_keys, the_padding_is_read, update_and_reset_exchanged])
def test_the_law_of_two_roads_catches(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rnnsearch()
    wanted = by_the_loop(made, monkeypatch)
    fault(made, monkeypatch)
    assert apart(everything(made), wanted) > 1e-3


def test_the_gradient_by_hand_against_finite_differences() -> None:
    cell, score = GruBeforeCell(2 + 4, 3).double(), Additive(3, 4, 2).double()
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    mask = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    names = ("input_weight", "hidden_weight", "bias")

    def run(*given: Tensor) -> tuple[Tensor, Tensor]:
        words, start, keys, values, query, energy, *gates = given
        for module, name, value in (
            *((cell, name, value) for name, value in zip(names, gates, strict=True)),
            (score.query, "weight", query),
            (score.energy, "weight", energy),
        ):
            assert isinstance(module, nn.Module)
            delattr(module, name)
            setattr(module, name, value)  # a plain tensor, so that the check may vary it
        return swept_with_attention(cell, score, words, start, Source(keys, values, mask))

    own = [draw(9, 6), draw(9, 3), draw(9)]
    inputs = [draw(3, 3, 2), draw(3, 3), draw(3, 3, 2), draw(3, 3, 4), draw(2, 3), draw(1, 2), *own]
    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize(
    ("cell", "beam", "gradients"), [("lstm", 1, True), ("gru-before", 2, True), ("gru-before", 1, False)]
)
def test_elsewhere_the_loop_serves(cell: str, beam: int, gradients: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another cell, several hypotheses a sentence, no gradient to record: the pass must not be asked."""
    monkeypatch.setattr(attentive_decoders, "swept_with_attention", None)
    decoder: Any = rnnsearch(cell).decoder
    made = rnnsearch(cell)
    with torch.set_grad_enabled(gradients):
        state: AttentiveState = decoder.start(made.encoder(SOURCES))
        state = state.rows(torch.arange(3)[:, None].expand(-1, beam))
        ids = torch.tensor([[2, 4], [2, 5], [2, 7]]).repeat_interleave(beam, 0)
        assert decoder.advance(Padded.full(ids), state)[0].shape == (3 * beam, 2, 2)


def test_tanh_in_place_is_tanh() -> None:
    x = torch.linspace(-100, 100, 40001, dtype=torch.float64)
    torch.testing.assert_close(tanh_in_place(x.clone()), x.tanh(), rtol=0, atol=0)
    torch.testing.assert_close(tanh_in_place(x.float()).double(), x.float().double().tanh(), rtol=0, atol=2e-7)
