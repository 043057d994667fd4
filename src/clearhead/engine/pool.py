"""Keys and values of what hypotheses have read: written once, never moved, and found again by ancestry.

A column holds what one hypothesis of each sentence read at one position. When a search reorders, copies or drops
hypotheses, only a mask changes, which says whose columns each of them goes on to see.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.nn.kernels import are_apart

__all__ = ["FusedState", "Pool", "Sources", "bias_of"]

FIRST_CAPACITY = 32
"""Columns of a new pool. When they are full, those that nobody sees any longer are left out, or the room is doubled."""
LOW = -1e30
"""Added to the score of what may not be seen: its weight is then 0. Finite, so that a row of them is not NaN."""


def bias_of(visible: Bool[Tensor, "... C"], dtype: torch.dtype) -> Float[Tensor, "... C"]:
    """What to add to scores: 0 where `visible`, else `LOW`."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, LOW)


class Pool:
    """The columns of some sentences, for all layers: `layers` are tensors [2, B, G, capacity, E], keys then values.

    Several states may share a pool as long as they see the same columns; the first that writes behind them claims what
    it needs, and any other that wants to write takes a copy. So states stay values.
    """

    def __init__(self, layers: tuple[Tensor, ...], used: int) -> None:
        self.layers = layers
        self.used = used
        self.step: object = None  # where `static` keeps what it has recorded for these addresses
        self._lock = threading.Lock()

    @classmethod
    def empty(cls, layers: int, sentences: int, kv_heads: int, width: int, like: Tensor) -> Pool:
        """Nothing read yet, in the type and on the device of `like`. What is not written is zero, never NaN."""
        shape = (2, sentences, kv_heads, FIRST_CAPACITY, width)
        return cls(tuple(like.new_zeros(shape) for _ in range(layers)), 0)

    @property
    def capacity(self) -> int:
        """How many columns there is room for."""
        return self.layers[0].shape[3]

    def claim(self, columns: int, more: int) -> bool:
        """Whether a state that sees the first `columns` may write `more` behind them; if so, they are its own."""
        with self._lock:
            free = self.used == columns and columns + more <= self.capacity
            if free:
                self.used += more
            return free

    def copy(self, columns: int, more: int, chosen: Int[Tensor, "B C"] | None = None) -> Pool:
        """The first `columns`, or those `chosen` of each sentence, with `more` claimed behind them."""
        kept = columns if chosen is None else chosen.shape[1]
        capacity = self.capacity
        while capacity < max(kept + more, kept * 3 // 2):
            capacity *= 2
        layers = []
        for layer in self.layers:
            copied = layer.new_zeros(*layer.shape[:3], capacity, layer.shape[4])
            if chosen is None:
                copied[:, :, :, :kept] = layer[:, :, :, :kept]
            else:
                index = chosen[None, :, None, :, None].expand(*layer.shape[:3], -1, layer.shape[4])
                torch.gather(layer, 3, index, out=copied[:, :, :, :kept])
            layers.append(copied)
        return Pool(tuple(layers), kept + more)

    def sentences(self, index: Tensor, columns: int) -> Pool:
        """The first `columns` of the sentences that `index` [B] names."""
        layers = []
        for layer in self.layers:
            gathered = layer.new_zeros(2, len(index), *layer.shape[2:])
            gathered[:, :, :, :columns] = layer[:, :, :, :columns].index_select(1, index)
            layers.append(gathered)
        return Pool(tuple(layers), columns)

    def join(self, other: Pool, columns: int, theirs: int) -> Pool:
        """The sentences of both; behind the columns of the shorter stand zeros that nobody may see."""
        most, layers = max(columns, theirs), []
        for mine, yours in zip(self.layers, other.layers, strict=True):
            sides = [(mine, columns), (yours, theirs)]
            layers.append(torch.cat([F.pad(side[:, :, :, :n], (0, 0, 0, most - n)) for side, n in sides], 1))
        return Pool(tuple(layers), most)


@dataclass(frozen=True)
class Sources:
    """The source's keys and values, one tensor [2, B, G, S, E] a layer; `mask` bool [B, S], True = a real token."""

    layers: tuple[Tensor, ...]
    mask: Tensor

    def rows(self, index: Tensor) -> Sources:
        """The sentences that `index` [B] names."""
        return Sources(tuple(layer.index_select(1, index) for layer in self.layers), self.mask.index_select(0, index))

    def join(self, other: Sources) -> Sources:
        """The sentences of both, the shorter padded with places that nobody may see."""
        length = max(self.mask.shape[1], other.mask.shape[1])

        def both(mine: Tensor, theirs: Tensor, dim: int, behind: tuple[int, ...]) -> Tensor:
            return torch.cat(
                [F.pad(side, (*behind, 0, length - side.shape[-1 - len(behind) // 2])) for side in (mine, theirs)], dim
            )

        layers = tuple(both(*pair, 1, (0, 0)) for pair in zip(self.layers, other.layers, strict=True))
        return Sources(layers, both(self.mask, other.mask, 0, ()))

    @cached_property
    def bias(self) -> Float[Tensor, "B 1 S"]:
        """What every query adds to its scores."""
        return bias_of(self.mask[:, None], self.layers[0].dtype)

    @cached_property
    def blank(self) -> Bool[Tensor, "B 1 1"] | None:
        """The sentences without a single token; None if there are none."""
        blank = ~self.mask.any(-1)[:, None, None]
        return blank if bool(blank.any()) else None


@dataclass(frozen=True)
class FusedState:
    """What the engine's decoder remembers (see `protocols.State`).

    Shapes: `positions` int64 [R], R = B·K; `visible` bool [B, K, C], which columns of the pool each hypothesis sees.
    """

    positions: Tensor
    visible: Tensor
    pool: Pool
    sources: Sources

    def claimed(self, more: int) -> FusedState:
        """This state with `more` columns of its pool, or of a copy, to write behind those that it sees.

        A copy leaves out the columns that no hypothesis sees any longer, if they are many; not where a sentence's
        figures must not depend on its company, since how many stay depends on all of them.
        """
        columns = self.visible.shape[2]
        if self.pool.claim(columns, more):
            return self
        alive = self.visible.any(1)
        most = columns if are_apart() or not columns else int(alive.sum(1).max())
        if 4 * most > 3 * columns:
            return replace(self, pool=self.pool.copy(columns, more))
        chosen = alive.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
        visible = self.visible.gather(2, chosen[:, None].expand(-1, self.visible.shape[1], -1))
        return replace(self, visible=visible, pool=self.pool.copy(columns, more, chosen))

    def rows(self, index: Int[Tensor, "B K"]) -> FusedState:
        """Rearrange hypotheses: the mask alone, unless sentences leave or change places."""
        sentences, beams, columns = self.visible.shape
        sentence = torch.div(index[:, 0], beams, rounding_mode="floor")
        positions = self.positions.index_select(0, index.reshape(-1))
        visible = self.visible.flatten(0, 1).index_select(0, index.reshape(-1)).view(*index.shape, columns)
        if len(sentence) == sentences and torch.equal(sentence, torch.arange(sentences, device=index.device)):
            return replace(self, positions=positions, visible=visible)
        return FusedState(positions, visible, self.pool.sentences(sentence, columns), self.sources.rows(sentence))

    def join(self, other: FusedState) -> FusedState:
        """The sentences of `other` behind one's own."""
        columns, theirs = self.visible.shape[2], other.visible.shape[2]
        most = max(columns, theirs)
        visible = [F.pad(side.visible, (0, most - side.visible.shape[2])) for side in (self, other)]
        return FusedState(
            torch.cat([self.positions, other.positions]),
            torch.cat(visible),
            self.pool.join(other.pool, columns, theirs),
            self.sources.join(other.sources),
        )
