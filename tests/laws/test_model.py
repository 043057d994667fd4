"""Every law on every architecture, by both roads of attention; then each law against faults that it must catch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.models import transformer as module
from clearhead.models.transformer import TransformerState
from clearhead.nn import cores
from clearhead.nn.attention import Attention
from clearhead.nn.cache import Kept
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.embedding import Projection
from clearhead.nn.padding import Padded
from clearhead.nn.visibility import Visibility
from tests.laws.model_laws import ARCHITECTURES, LAWS

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("road", ["explicit", "fused"])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize("make", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_law(make: Callable[[], Any], law: Callable[[Any], None], road: str, monkeypatch: Patch) -> None:
    if road == "fused":
        monkeypatch.setattr(cores, "_EXPLICIT_UP_TO", -1)
    law(make())


# ------------------------------------------------------------------------------------------------------------- faults


def positions_restart_each_call(patch: Patch) -> None:
    whole = module.InputLayer.forward
    patch.setattr(module.InputLayer, "forward", lambda self, ids, p: whole(self, ids, (p - p[:, :1]).clamp(min=0)))


def causal_mask_off_by_one(patch: Patch) -> None:
    patch.setattr(
        Visibility, "causal", staticmethod(lambda q, k: Visibility((k[:, None] <= q[:, :, None] + 1)[:, None], q))
    )


def causal_mask_by_place_in_the_cache(patch: Patch) -> None:
    """j ≤ i + (S − T): right for rows of one length, wrong as soon as a cache holds padding."""

    def causal(query: Tensor, key: Tensor) -> Visibility:
        lower = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool).tril(key.shape[1] - query.shape[1])
        return Visibility(lower.expand(query.shape[0], 1, -1, -1), query)

    patch.setattr(Visibility, "causal", staticmethod(causal))


def source_padding_is_read(patch: Patch) -> None:
    patch.setattr(Visibility, "of_keys", staticmethod(lambda mask: Visibility(torch.ones_like(mask)[:, None, None])))


def target_padding_is_read(patch: Patch) -> None:
    patch.setattr(module, "HIDDEN", 0)


def _rows(patch: Patch, **keep: Callable[[TransformerState, TransformerState], Any]) -> None:
    right = TransformerState.rows

    def rows(self: TransformerState, index: Tensor) -> TransformerState:
        after = right(self, index)
        return dataclasses.replace(after, **{name: choose(self, after) for name, choose in keep.items()})

    patch.setattr(TransformerState, "rows", rows)


def _first_rows(kept: tuple[Kept, ...], count: int) -> tuple[Kept, ...]:
    places = torch.arange(count) % kept[0].keys.shape[0]
    return tuple(each.rows(places) for each in kept)


def reorder_forgets_the_cache(patch: Patch) -> None:
    _rows(patch, layers=lambda before, after: _first_rows(before.layers, len(after.positions)))


def eviction_forgets_the_source(patch: Patch) -> None:
    _rows(patch, sources=lambda before, after: _first_rows(before.sources, len(after.source_mask)))


def reorder_forgets_the_source_mask(patch: Patch) -> None:
    _rows(patch, source_mask=lambda before, after: before.source_mask[: len(after.source_mask)])


def reorder_forgets_the_positions(patch: Patch) -> None:
    _rows(patch, positions=lambda before, after: torch.full_like(after.positions, int(before.positions.max())))


def beams_folded_the_wrong_way(patch: Patch) -> None:
    def fold(self: Attention, query: Tensor, sentences: int) -> Tensor:
        beams, length = query.shape[0] // sentences, query.shape[2]
        return query.reshape(sentences, self.heads, beams * length, self.head_dim)

    patch.setattr(Attention, "_fold", fold)


def heads_split_without_transposing(patch: Patch) -> None:
    patch.setattr(Attention, "_split", lambda self, x, heads: x.reshape(x.shape[0], heads, x.shape[1], self.head_dim))


def join_shows_what_it_padded(patch: Patch) -> None:
    pad = F.pad
    patch.setattr(module.F, "pad", lambda side, size, value=0: pad(side, size, value=0 if value else value))


def join_swaps_the_sources(patch: Patch) -> None:
    right = TransformerState.join

    def join(self: TransformerState, other: TransformerState) -> TransformerState:
        joined = right(self, other)
        return dataclasses.replace(
            joined, sources=tuple(theirs.join(mine) for mine, theirs in zip(self.sources, other.sources))
        )

    patch.setattr(TransformerState, "join", join)


def a_blank_query_reads_everything(patch: Patch) -> None:
    patch.setattr(Visibility, "blank", None)


def minus_infinity_for_hidden(patch: Patch) -> None:
    infinite = property(lambda self: torch.zeros(self.mask.shape).masked_fill(~self.mask, -torch.inf))
    patch.setattr(Visibility, "float32_bias", infinite)
    patch.setattr(Visibility, "blank", None)


def zeroed_after_the_softmax(patch: Patch) -> None:
    def weights(self: ScaledDotProduct, query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        scores = query @ cores.spread(key, query.shape[1]).mT / math.sqrt(query.shape[-1])
        return scores.softmax(-1) * visibility.mask

    patch.setattr(ScaledDotProduct, "weights", weights)


def fused_without_the_scale(patch: Patch) -> None:
    patch.setattr(cores, "_EXPLICIT_UP_TO", -1)
    fused = F.scaled_dot_product_attention
    patch.setattr(F, "scaled_dot_product_attention", lambda *args, **more: fused(*args, **more, scale=1.0))


def norm_over_the_batch(patch: Patch) -> None:
    def forward(self: nn.LayerNorm, x: Tensor) -> Tensor:
        return (x - x.mean((0, 1))) / (x.var((0, 1), correction=0) + 1e-6).sqrt()

    patch.setattr(nn.LayerNorm, "forward", forward)


def summary_divides_by_zero(patch: Patch) -> None:
    right = module.TransformerEncoder.forward

    def forward(self: module.TransformerEncoder, source: Padded) -> Any:
        memory = right(self, source)
        return dataclasses.replace(memory, summary=memory.keys.sum(1) / source.lengths[:, None])

    patch.setattr(module.TransformerEncoder, "forward", forward)


def chosen_words_in_order_of_number(patch: Patch) -> None:
    right = Projection.forward
    patch.setattr(Projection, "forward", lambda self, h, v=None: right(self, h, v if v is None else v.sort().values))


CAUGHT: list[tuple[str, Callable[[Patch], None]]] = [
    ("a_batch_is_its_rows", source_padding_is_read),
    ("a_batch_is_its_rows", norm_over_the_batch),
    ("stepping_is_teacher_forcing", positions_restart_each_call),
    ("stepping_is_teacher_forcing", causal_mask_off_by_one),
    ("ragged_chunks_are_one_pass", causal_mask_by_place_in_the_cache),
    ("ragged_chunks_are_one_pass", target_padding_is_read),
    ("ragged_chunks_are_one_pass", positions_restart_each_call),
    ("rows_commutes_with_advance", reorder_forgets_the_cache),
    ("rows_commutes_with_advance", eviction_forgets_the_source),
    ("rows_commutes_with_advance", reorder_forgets_the_source_mask),
    ("rows_commutes_with_advance", reorder_forgets_the_positions),
    ("rows_commutes_with_advance", beams_folded_the_wrong_way),
    ("join_keeps_every_row", join_shows_what_it_padded),
    ("join_keeps_every_row", join_swaps_the_sources),
    ("join_keeps_every_row", beams_folded_the_wrong_way),
    ("fan_out_is_copying", beams_folded_the_wrong_way),
    ("padding_cannot_be_seen", source_padding_is_read),
    ("padding_cannot_be_seen", norm_over_the_batch),
    ("the_future_cannot_be_seen", causal_mask_off_by_one),
    ("the_future_cannot_be_seen", zeroed_after_the_softmax),
    ("the_future_cannot_be_seen", heads_split_without_transposing),
    ("an_empty_row_harms_nobody", minus_infinity_for_hidden),
    ("an_empty_row_harms_nobody", summary_divides_by_zero),
    ("a_core_mixes_by_its_weights", a_blank_query_reads_everything),
    ("a_core_mixes_by_its_weights", zeroed_after_the_softmax),
    ("a_core_mixes_by_its_weights", fused_without_the_scale),
    ("a_chosen_vocabulary_is_a_part", chosen_words_in_order_of_number),
]


@pytest.mark.parametrize(("law", "fault"), CAUGHT, ids=[f"{law}-{fault.__name__}" for law, fault in CAUGHT])
def test_the_law_catches_the_fault(law: str, fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    model = ARCHITECTURES["transformer"]()
    LAWS[law](model)
    fault(monkeypatch)
    with pytest.raises(AssertionError):
        LAWS[law](model)


def test_every_law_has_a_fault() -> None:
    assert {law for law, _ in CAUGHT} == set(LAWS)
