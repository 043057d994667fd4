"""An ensemble votes with probabilities; the laws of tests/laws hold for it as for any model."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import BundleError
from clearhead.models import Seq2Seq
from clearhead.models.ensemble import EnsembleDecoder, ensemble
from clearhead.nn.padding import Padded
from tests.laws.model_laws import PREFIXES, SOURCES, transformer

SOURCE, PREFIX = Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES)


def check_mean(models: list[Seq2Seq]) -> None:
    ours = ensemble(models)(SOURCE, PREFIX)
    mean = torch.stack([model(SOURCE, PREFIX).softmax(-1) for model in models]).mean(0)
    torch.testing.assert_close(ours.exp(), mean, rtol=1e-10, atol=1e-12)


def members() -> list[Seq2Seq]:
    return [transformer(1), transformer(2, d_model=8), transformer(3, norm="pre", embeddings="separate")]


def test_the_mean_of_probabilities() -> None:
    check_mean(members())


def test_the_mean_of_logits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def project(self: EnsembleDecoder, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        parts = zip(self._decoders, hidden.split(self._widths, -1))
        return torch.stack([decoder.project(part) for decoder, part in parts]).mean(0).log_softmax(-1)

    monkeypatch.setattr(EnsembleDecoder, "project", project)
    with pytest.raises(AssertionError):
        check_mean(members())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_model_with_itself_is_the_model(count: int) -> None:
    model = transformer()
    ours = ensemble([model] * count)(SOURCE, PREFIX)
    torch.testing.assert_close(ours, model(SOURCE, PREFIX).log_softmax(-1), rtol=1e-10, atol=1e-12)


def test_a_copy_shares_nothing() -> None:
    whole = ensemble(members())
    twin = copy.deepcopy(whole)
    before = whole(SOURCE, PREFIX)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(whole(SOURCE, PREFIX), before)
    assert torch.equal(twin(SOURCE, PREFIX).exp().sum(-1).round(), torch.ones(len(before), dtype=torch.float64))


def test_evaluation_reaches_every_member() -> None:
    whole = ensemble([model.train() for model in members()]).eval()
    assert not any(module.training for model in whole.encoder.models for module in model.modules())


def test_the_shortest_reach_counts() -> None:
    reach: Callable[[int], Seq2Seq] = lambda n: transformer(positions={"kind": "learned", "max_positions": n})  # noqa: E731
    assert ensemble([transformer(), reach(9), reach(7)]).max_positions == 7
    assert ensemble([transformer()]).max_positions is None


def test_nobody_cannot_vote() -> None:
    with pytest.raises(BundleError, match="at least one"):
        ensemble([])
