"""The twin agrees with the model to the last bit, and leaves it untouched; what it records is what was computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.search import search
from clearhead.inspection.recorders import CoreRecorder, ModuleRecorder, recording_twin
from clearhead.inspection.search_account import account_of_search
from clearhead.inspection.twin import twin
from clearhead.nn import cores
from clearhead.nn.padding import Padded
from tests.laws.model_laws import ARCHITECTURES, PREFIXES, SOURCES

Patch = pytest.MonkeyPatch
Make = Callable[[], Any]
every_architecture = pytest.mark.parametrize("make", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())


def both_roads(road: str, monkeypatch: Patch) -> None:
    if road == "fused":
        monkeypatch.setattr(cores, "_EXPLICIT_UP_TO", -1)


def picture(model: nn.Module) -> list[tuple[str, type, bool, int, int]]:
    """All that a twin could disturb: the modules with their modes and hooks, and where the tensors are."""
    modules = [
        (path, type(each), each.training, id(each), len(each._forward_hooks) + len(each._forward_pre_hooks))
        for path, each in model.named_modules()
    ]
    tensors = [
        (name, type(each), each.requires_grad, id(each), each.data_ptr()) for name, each in model.named_parameters()
    ]
    return modules + tensors


@pytest.mark.parametrize("road", ["explicit", "fused"])
@pytest.mark.parametrize("precision", [torch.float64, torch.float32], ids=["float64", "float32"])
@every_architecture
def test_the_twin_agrees_to_the_last_bit_and_leaves_the_model_untouched(
    make: Make, precision: torch.dtype, road: str, monkeypatch: Patch
) -> None:
    both_roads(road, monkeypatch)
    model = make().to(precision)
    source, prefix = Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES)
    with torch.no_grad():
        truth, before = model(source, prefix), picture(model)
        copied, recording = recording_twin(model)
        assert torch.equal(copied(source, prefix), truth)
        assert picture(model) == before
        assert torch.equal(model(source, prefix), truth)
    assert recording.attention and recording.outputs
    assert not any(isinstance(each, CoreRecorder | ModuleRecorder) for each in model.modules())


@every_architecture
def test_the_twin_shares_every_tensor(make: Make) -> None:
    model = make()
    copied, _ = recording_twin(model)
    ours = {each.data_ptr() for each in copied.parameters()}
    assert ours == {each.data_ptr() for each in model.parameters()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
        source, prefix = Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES)
        assert torch.equal(copied(source, prefix), model(source, prefix))


@pytest.mark.parametrize("road", ["explicit", "fused"])
@every_architecture
def test_recorded_weights_are_those_that_mixed_the_values(make: Make, road: str, monkeypatch: Patch) -> None:
    """weights · V is what left the core: to 1e-10 in float64, by either road; hidden keys have exactly no weight."""
    both_roads(road, monkeypatch)
    copied, recording = recording_twin(make())
    with torch.no_grad():
        copied(Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES))
    for record in recording.attention.values():
        value = record.value.repeat_interleave(record.query.shape[1] // record.value.shape[1], dim=1)
        torch.testing.assert_close(record.weights @ value, record.mixed, rtol=1e-10, atol=1e-10)
        assert bool((record.weights[~record.visible] == 0).all())
        sums = record.weights.sum(-1)
        seen = record.visible.any(-1)
        torch.testing.assert_close(sums[seen], torch.ones_like(sums[seen]))
        assert record.scores is not None
        masked = record.scores.masked_fill(~record.visible, -torch.inf).softmax(-1)
        torch.testing.assert_close(masked[seen], record.weights[seen], rtol=1e-10, atol=1e-10)


@every_architecture
def test_recorded_weights_agree_with_the_fused_kernel_in_float32(make: Make, monkeypatch: Patch) -> None:
    """To 1e-5, since a fused kernel sums in an order of its own."""
    both_roads("fused", monkeypatch)
    copied, recording = recording_twin(make().float())
    with torch.no_grad():
        copied(Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES))
    for record in recording.attention.values():
        value = record.value.repeat_interleave(record.query.shape[1] // record.value.shape[1], dim=1)
        largest = record.value.abs().max().clamp(min=1.0)
        assert float((record.weights @ value - record.mixed).abs().max() / largest) <= 1e-5


@every_architecture
def test_steps_join_to_what_one_pass_records(make: Make) -> None:
    """T = 1 calls, as greedy search makes them, give the record of the whole target at once."""
    target, source = PREFIXES[2], Padded.from_lists(SOURCES[:1])
    whole, once = recording_twin(make())
    stepped, joined = recording_twin(make())
    with torch.no_grad():
        whole.decoder.advance(Padded.from_lists([target]), whole.decoder.start(whole.encoder(source)))
        state: Any = stepped.decoder.start(stepped.encoder(source))
        for token in target:
            _, state = stepped.decoder.advance(Padded.from_lists([[token]]), state)
    assert once.attention.keys() == joined.attention.keys()
    for path, record in once.attention.items():
        other = joined.attention[path]
        for name in ("query", "key", "value", "weights", "mixed"):
            torch.testing.assert_close(getattr(other, name), getattr(record, name), rtol=1e-10, atol=1e-10)
        assert torch.equal(other.visible, record.visible)
    for path in once.outputs:
        torch.testing.assert_close(joined.left(path), once.left(path), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("beam", [1, 4])
@every_architecture
def test_an_account_changes_nothing_of_a_search(make: Make, beam: int) -> None:
    """The account's hypotheses are the search's own, and its steps lead to them."""
    model = make().float()
    for penalty, most, best in (("gnmt", 7, 1), ("none", 3, beam), ("length", 0, 1)):
        config = DecodingConfig(beam=beam, n_best=best, penalty=penalty, max_length=most)
        for source in SOURCES[:3]:
            truth = search(model, Padded.from_lists([source]), config)[0]
            account = account_of_search(model, source[:-1], config)
            assert list(account.hypotheses) == truth
            told = [(each.tokens, each.score, each.log_prob) for each in account.finished]
            assert told[: len(truth)] == [(each.tokens, each.score, each.log_prob) for each in truth]
            for before, after in zip(account.steps, account.steps[1:]):
                kept = [(each.tokens, each.log_prob) for each in before.candidates if each.fate == "kept"]
                assert list(after.live) == kept


# ------------------------------------------------------------------------------------------------------------- faults


def test_a_recorder_that_computes_otherwise_is_caught(monkeypatch: Patch) -> None:
    def own(self: CoreRecorder, query: Tensor, key: Tensor, value: Tensor, visibility: Any) -> Tensor:
        return (self.core.weights(query, key, visibility) * (1 + 1e-12)) @ value

    model = ARCHITECTURES["transformer"]()
    source, prefix = Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES)
    monkeypatch.setattr(CoreRecorder, "forward", own)
    copied, _ = recording_twin(model)
    with torch.no_grad():
        assert not torch.equal(copied(source, prefix), model(source, prefix))


def test_a_copy_that_shares_no_tensors_is_caught() -> None:
    import copy

    model = ARCHITECTURES["transformer"]()
    assert {each.data_ptr() for each in copy.deepcopy(model).parameters()}.isdisjoint(
        each.data_ptr() for each in model.parameters()
    )


def test_tensors_in_lists_and_dictionaries_are_shared_too() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.kept = [self.weight * 2, (torch.zeros(1),)]  # the first is no leaf, which deepcopy refuses
            self.named = {"table": torch.zeros(3)}

    holder = Holder()
    copied = twin(holder, lambda path, module: None)
    assert copied is not holder and copied.kept is not holder.kept
    assert copied.kept[0] is holder.kept[0] and copied.kept[1][0] is holder.kept[1][0]
    assert copied.named["table"] is holder.named["table"]


def test_a_module_under_two_paths_is_replaced_under_both() -> None:
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = self.second = nn.Identity()

    offered = []
    stand_in = nn.Flatten()

    def swap(path: str, module: nn.Module) -> nn.Module:
        offered.append(path)
        return stand_in

    copied = twin(Doubled(), swap)
    assert offered == ["first"]
    assert copied.first is stand_in and copied.second is stand_in
