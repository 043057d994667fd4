"""The contract between models and everything above them: Memory, State, Encoder, Decoder.

The trainer, the search, the evaluator, the inspector and the server call these verbs and nothing else, so a
new architecture needs no code outside `models/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

from torch import Tensor

from clearhead.nn.padding import Padded

__all__ = ["Decoder", "Encoder", "Memory", "State"]


@dataclass(frozen=True)
class Memory:
    """What an encoder has to say about a batch of sources.

    `values` is `keys` unless an architecture attends to one and reads another (ConvS2S, Gehring et al. 2017,
    §3.3). `summary` is one vector a sentence, for decoders that start from it; `layers` holds the final state of
    each recurrent layer and is empty elsewhere.

    Shapes: `keys` [B, S, D]; `values` [B, S, D]; `mask` bool [B, S], True = a real token; `summary` [B, D].
    """

    keys: Tensor
    values: Tensor
    mask: Tensor
    summary: Tensor
    layers: tuple[Tensor, ...] = ()

    def rows(self, index: Tensor) -> Memory:
        """The sentences that `index` [N] names, in its order."""
        keys = self.keys.index_select(0, index)
        values = keys if self.values is self.keys else self.values.index_select(0, index)
        return Memory(
            keys,
            values,
            self.mask.index_select(0, index),
            self.summary.index_select(0, index),
            tuple(layer.index_select(0, index) for layer in self.layers),
        )


class State(Protocol):
    """Everything a decoder remembers between two calls of `advance`: one row a hypothesis, opaque to the search.

    A state is a value: passed and returned, never hidden in a module. It is spent once advanced.
    """

    @property
    def positions(self) -> Tensor:
        """How many tokens each row has read: int64 [R]."""
        ...

    def rows(self, index: Tensor) -> Self:
        """Rearrange hypotheses; line b of `index` [B', K'] lists the rows that sentence b goes on with.

        All rows of a line belong to one sentence of the present state. The new state has B'·K' rows, row
        b·K' + k first. One verb expands (a row named twice), reorders, prunes and evicts (a sentence left out).
        """
        ...

    def join(self, other: Self) -> Self:
        """Admit the sentences of `other` behind one's own; both must have as many hypotheses a sentence."""
        ...


class Encoder(Protocol):
    """Reads a source once and for all."""

    def __call__(self, source: Padded) -> Memory: ...


class Decoder(Protocol):
    """Writes a target from left to right."""

    def start(self, memory: Memory) -> State:
        """A state that has read nothing yet: one row a sentence of `memory`."""
        ...

    def advance(self, tokens: Padded, state: Any) -> tuple[Tensor, State]:
        """Read `tokens` [R, T] after what `state` has read; hidden states [R, T, D] and the state that follows.

        T is the whole target when training, the prompt when prefilling, 1 when decoding. Rows may have unequal
        lengths; hidden states at padded places mean nothing.
        """
        ...

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits over the vocabulary, or over the ids that `vocabulary` [W] lists: [..., D] → [..., V or W]."""
        ...
