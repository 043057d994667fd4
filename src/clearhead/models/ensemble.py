"""Several models that vote with their probabilities, behind the contract of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clearhead.base.errors import BundleError
from clearhead.models.protocols import Memory, State
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS

__all__ = ["ensemble"]


@dataclass(frozen=True)
class EnsembleMemory(Memory):
    """Every member's memory; read as a `Memory` it is the first member's."""

    members: tuple[Memory, ...] = ()

    @classmethod
    def of(cls, members: tuple[Memory, ...]) -> EnsembleMemory:
        """The memories of all members, the first standing for them where a plain `Memory` is read."""
        first = members[0]
        return cls(first.keys, first.values, first.mask, first.summary, first.layers, members)

    def rows(self, index: Tensor) -> EnsembleMemory:
        """The sentences that `index` [N] names, in every member."""
        return EnsembleMemory.of(tuple(member.rows(index) for member in self.members))


@dataclass(frozen=True)
class EnsembleState:
    """Every member's state, moved in step."""

    members: tuple[State, ...]

    @property
    def positions(self) -> Tensor:
        return self.members[0].positions

    def rows(self, index: Tensor) -> EnsembleState:
        """Rearrange every member alike."""
        return EnsembleState(tuple(member.rows(index) for member in self.members))

    def join(self, other: EnsembleState) -> EnsembleState:
        """Join every member with its counterpart."""
        return EnsembleState(tuple(mine.join(theirs) for mine, theirs in zip(self.members, other.members, strict=True)))


class EnsembleEncoder(nn.Module):
    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self._encoders = [model.encoder for model in models]

    def forward(self, source: Padded) -> EnsembleMemory:
        return EnsembleMemory.of(tuple(encoder(source) for encoder in self._encoders))


class EnsembleDecoder(nn.Module):
    """Hidden states of the members lie side by side in the last axis until they are projected."""

    def __init__(self, models: Sequence[Seq2Seq], widths: Sequence[int]) -> None:
        super().__init__()
        self._decoders = [model.decoder for model in models]
        self._widths = list(widths)

    def start(self, memory: Memory) -> EnsembleState:
        assert isinstance(memory, EnsembleMemory), "an ensemble reads what its own encoder wrote"
        return EnsembleState(
            tuple(decoder.start(part) for decoder, part in zip(self._decoders, memory.members, strict=True))
        )

    def advance(self, tokens: Padded, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        hidden, states = [], []
        for decoder, part in zip(self._decoders, state.members, strict=True):
            own, after = decoder.advance(tokens, part)
            hidden.append(own)
            states.append(after)
        return torch.cat(hidden, -1), EnsembleState(tuple(states))

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        parts = hidden.split(self._widths, -1)
        logs = [decoder.project(part).log_softmax(-1) for decoder, part in zip(self._decoders, parts, strict=True)]
        mean = torch.stack(logs).logsumexp(0) - math.log(len(logs))
        # Chosen after the mean: members that were normalised over the choice alone would vote with other weights.
        return mean if vocabulary is None else mean.index_select(-1, vocabulary)


def ensemble(models: Sequence[Seq2Seq]) -> Seq2Seq:
    """One model whose next-token probabilities are the mean of its members' (Sutskever et al. 2014, §3.6).

    Probabilities are averaged, not logits, and the vocabulary must be one. `BundleError` when there are no members.
    """
    if not models:
        raise BundleError("an ensemble needs at least one model")
    widths = [_hidden_width(model) for model in models]
    limits = [model.max_positions for model in models if model.max_positions is not None]
    return Seq2Seq(EnsembleEncoder(models), EnsembleDecoder(models, widths), min(limits, default=None))


@torch.no_grad()
def _hidden_width(model: Seq2Seq) -> int:
    """The width of the hidden states that a decoder hands to its own `project`, found by reading one token."""
    device = next(model.parameters()).device
    token = Padded.from_lists([[BOS]], device)
    hidden, _ = model.decoder.advance(token, model.decoder.start(model.encoder(token)))
    return hidden.shape[-1]
