"""The sweep gives what one full pass a head gives; what it must not recall, and which row it gates, would be seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection import losses as measured
from clearhead.inspection import sweep
from clearhead.inspection.ablation import mean_contexts
from clearhead.inspection.interventions import Change, Interventions
from clearhead.inspection.losses import batches, mean_losses, unchanged_losses
from clearhead.inspection.sites import Head, Site, attention_sites
from clearhead.inspection.structural import without_heads
from clearhead.inspection.sweep import gated_losses
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.models import Seq2Seq, build, presets
from tests.laws.model_laws import ARCHITECTURES, PAIRS

SOME = Pairs.of([[5, 6, 7], [8], [9, 10, 5, 6, 7, 11]], [[5, 6, 9], [7, 8, 9, 10, 4], [10]])

MODELS: dict[str, Callable[[], Seq2Seq]] = {
    name: make for name, make in ARCHITECTURES.items() if name != "ensemble"
} | {
    name: PAIRS[name]
    for name in (
        "transformer-transformer",
        "transformer-bahdanau",
        "transformer-luong-concat-local-m",
        "transformer-bytenet",
        "two-way-gru-transformer",
        "two-way-gru-bahdanau",
        "reversed-lstm-luong-local-p",
        "convolutional-convs2s",
        "dilated-luong-location",
        "reversed-lstm-seq2seq",
    )
}


def some_gates(sites: list[Site]) -> dict[Site, Tensor]:
    """For every site each head closed, all closed, and one line of numbers between."""
    return {
        site: torch.cat(
            [1 - torch.eye(site.heads), torch.zeros(1, site.heads), torch.linspace(0.2, 0.9, site.heads)[None]]
        )
        for site in sites
    }


def losses(model: Seq2Seq, pairs: Pairs) -> Tensor:
    return -gold_log_probs(model, pairs).sum(1) / pairs.gold.lengths


def a_sweep_is_one_pass_a_line(model: Seq2Seq, batch_tokens: int, filled: bool) -> None:
    """The law: every line of every site, by a pass of its own through the whole model."""
    sites = attention_sites(model)
    gates = some_gates(sites)
    fills = None
    if filled:
        fills = {site: 2 * mean.sin() + 0.1 for site, mean in mean_contexts(model, SOME).items()}  # any numbers
    plain = Interventions(model)
    unchanged, found = gated_losses(model, SOME, gates, fills, batch_tokens=batch_tokens)
    with torch.no_grad():
        torch.testing.assert_close(unchanged, losses(model, SOME), rtol=1e-10, atol=1e-10)
        assert list(found) == sites
        for site in sites:
            for line, gate in enumerate(gates[site]):
                fill = None if fills is None else fills[site]
                with plain.using({site.path: Change(gates=gate, fill=fill)}) as changed:
                    truth = losses(changed, SOME)
                torch.testing.assert_close(found[site][:, line], truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_a_sweep_is_one_pass_a_line(make: Callable[[], Seq2Seq]) -> None:
    a_sweep_is_one_pass_a_line(make(), 4096, filled=False)


@pytest.mark.parametrize("name", ["pre-norm", "grouped-heads", "transformer-bahdanau", "convolutional-convs2s"])
def test_so_it_is_in_small_batches_and_with_a_fill(name: str) -> None:
    a_sweep_is_one_pass_a_line(MODELS[name](), 30, filled=True)


def test_so_it_is_where_layers_have_lost_all_their_heads() -> None:
    """Sites are numbered without such layers; the sweep goes by their places."""
    gone = [Head(stack, 1, head) for stack in ("encoder", "decoder") for head in range(1, 5)]  # type: ignore[arg-type]
    a_sweep_is_one_pass_a_line(without_heads(MODELS["transformer"](), gone), 4096, filled=False)


def test_a_layer_recalled_that_had_to_be_worked_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = sweep._entered
    monkeypatch.setattr(sweep, "_entered", lambda stack, layer, states: entered(stack, layer + 1, states))
    with pytest.raises((AssertionError, ValueError, RuntimeError, IndexError)):
        a_sweep_is_one_pass_a_line(MODELS["transformer"](), 4096, filled=False)


def test_what_a_lower_head_changes_is_not_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of lower heads must pass through the layer where others join, not be given what was noted there."""
    run = sweep._Sublayer._run

    def forgetful(self: sweep._Sublayer, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        noted = self._notes.entered.get(self._path)
        return run(self, x if noted is None else noted.expand_as(x), sublayer)

    monkeypatch.setattr(sweep._Sublayer, "_run", forgetful)
    with pytest.raises(AssertionError):
        a_sweep_is_one_pass_a_line(MODELS["transformer"](), 4096, filled=False)


def test_a_gate_on_the_wrong_row_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    attended = sweep._Sweep._attended
    monkeypatch.setattr(
        sweep._Sweep, "_attended", lambda self, site, gates, fill: attended(self, site, gates.roll(1, 0), fill)
    )
    with pytest.raises(AssertionError):
        a_sweep_is_one_pass_a_line(MODELS["transformer"](), 4096, filled=False)


def test_no_more_rows_run_at_once_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def counted(decoder: object, hidden: Tensor, gold: object) -> Tensor:
        rows.append(hidden.shape[0] * hidden.shape[1])
        return mean_losses(decoder, hidden, gold)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep, "mean_losses", counted)
    for name in ("transformer", "two-way-gru-bahdanau"):
        model = MODELS[name]()
        gated_losses(model, SOME, some_gates(attention_sites(model)), batch_tokens=40)
    assert max(rows) <= 40


@pytest.mark.parametrize("budget", [1, 14, 25, 1000])
def test_every_pair_is_in_one_batch_and_no_batch_is_too_large(budget: int) -> None:
    seen = []
    for rows, batch in batches(SOME, budget):
        seen += rows.tolist()
        cost = batch.source.ids.numel() + batch.prefix.ids.numel()
        assert cost <= budget or len(batch) == 1
        assert batch.source.ids.shape[1] == int(batch.source.lengths.max())
        assert torch.equal(batch.gold.lengths, SOME.gold.lengths[rows])
    assert sorted(seen) == [0, 1, 2]


def test_losses_of_several_rows_a_pair_stand_in_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Projected a few rows at a time, as at once; against log-probabilities gathered one by one."""
    model = MODELS["transformer"]()
    hidden = torch.randn(6, SOME.prefix.ids.shape[1], 16, generator=torch.Generator().manual_seed(1)).double()
    monkeypatch.setattr(measured, "_FIRST_ROWS", 2)
    monkeypatch.setattr(measured, "_LOGITS", 40)
    with torch.no_grad():
        found = mean_losses(model.decoder, hidden, SOME.gold)
        table = model.decoder.project(hidden).log_softmax(-1)
    for row in range(6):
        gold = SOME.gold.ids[row // 2, : int(SOME.gold.lengths[row // 2])].tolist()
        truth = -sum(float(table[row, t, token]) for t, token in enumerate(gold)) / len(gold)
        assert float(found[row]) == pytest.approx(truth, abs=1e-12)


def test_the_model_is_left_as_it_is_and_dropout_is_off() -> None:
    model = build(presets.tiny(13, d_model=16, d_ff=24, encoder_layers=1, decoder_layers=1, dropout=0.5), seed=1)
    model.train()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    gates = {site: torch.zeros(1, site.heads) for site in attention_sites(model)}
    unchanged, first = gated_losses(model, SOME, gates)
    again, second = gated_losses(model, SOME, gates)
    assert torch.equal(unchanged, again)
    assert all(torch.equal(first[site], second[site]) for site in gates)
    torch.testing.assert_close(unchanged, unchanged_losses(model, SOME))
    assert model.training
    assert all(module.training for module in model.modules())
    assert all(each.grad is None for each in model.parameters())
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())


def test_what_cannot_be_swept_is_told() -> None:
    model = MODELS["transformer"]()
    nothing = Pairs.of([], [])
    gates = some_gates(attention_sites(model))
    with pytest.raises(InputError, match="no pairs"):
        gated_losses(model, nothing, gates)
    with pytest.raises(InputError, match="no pairs"):
        unchanged_losses(model, nothing)
    with pytest.raises(InputError, match="batch_tokens is 0"):
        unchanged_losses(model, SOME, batch_tokens=0)
    with pytest.raises(InputError, match="ensemble"):
        gated_losses(ARCHITECTURES["ensemble"](), SOME, gates)
