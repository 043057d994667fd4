"""The fused model in the precisions it is used in, and as a value that threads share."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F

from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.search import Hypothesis, search
from clearhead.engine import fused
from clearhead.engine.fused import FusedModel, attend
from clearhead.engine.library import library
from clearhead.engine.weights import fuse
from clearhead.nn.padding import Padded
from tests.laws.model_laws import PREFIXES, SOURCES, transformer


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (4, 2), (3, 1)])
def test_attention_is_its_formula(explicit: bool, heads: int, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "EXPLICIT_UP_TO", 10**6 if explicit else -1)
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(2, 5, heads, 6, generator=generator, dtype=torch.float64)
    kept = torch.randn(2, 2, groups, 9, 6, generator=generator, dtype=torch.float64)[:, :, :, 1:8]
    bias = torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)
    ours = attend(query, kept, bias, 0.3).view(2, 5, heads, 6)
    for b in range(2):
        for h in range(heads):
            keys, values = kept[:, b, h // (heads // groups)]
            truth = F.softmax(0.3 * query[b, :, h] @ keys.T + bias[b], -1) @ values
            torch.testing.assert_close(ours[b, :, h], truth)


@pytest.mark.parametrize("by_library", [True, False])
@pytest.mark.parametrize(("precision", "most"), [("fp32", 1e-4), ("bf16", 0.3), ("int8", 0.5)])
def test_precisions_are_near_the_plain_model(precision: str, most: float, by_library: bool) -> None:
    if by_library and library() is None:
        pytest.skip("there is no native library")
    sources, prefixes = Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES)
    truth = transformer()(sources, prefixes)
    ours = FusedModel(fuse(transformer().float(), precision, native=by_library))(sources, prefixes)
    error = (ours.double() - truth).abs().max().item()
    assert error < most
    assert precision == "fp32" or error > 1e-3


def test_a_sentence_in_int8_does_not_change_with_its_company() -> None:
    ours = FusedModel(fuse(transformer().float(), "int8", native=False))
    config = DecodingConfig(max_length=12, min_length=12)
    together = search(ours, Padded.from_lists([*SOURCES, [4] * 30]), config)
    for source, found in zip(SOURCES, together):
        (other,) = search(ours, Padded.from_lists([source]), config)
        assert other[0].tokens == found[0].tokens


def test_threads_may_share_one() -> None:
    ours = FusedModel(fuse(transformer().float(), "int8", native=False))
    config = DecodingConfig(max_length=20, min_length=20)
    texts = [[[4 + (row + thread) % 9, 5, 6 + row, 3] for row in range(5)] for thread in range(4)]
    found: dict[int, list[list[Hypothesis]]] = {}

    def work(thread: int) -> None:
        found[thread] = search(ours, Padded.from_lists(texts[thread]), config)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [found[number] for number in range(4)] == [search(ours, Padded.from_lists(text), config) for text in texts]


def test_it_tells_its_type_and_length() -> None:
    model = FusedModel(fuse(transformer(positions={"kind": "learned", "max_positions": 9}), "fp32"))
    parameter = next(model.parameters())
    assert (parameter.dtype, parameter.requires_grad, model.max_positions) == (torch.float64, False, 9)
