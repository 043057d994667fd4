"""Models that one can read on paper, for tests: a hidden state is a sum or a product of sums of the words' vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clearhead.models import Seq2Seq
from clearhead.models.protocols import Memory
from clearhead.nn.embedding import Embedding, Projection
from clearhead.nn.padding import Padded

__all__ = ["planted"]

VOCABULARY, WIDTH = 9, 3


class PlantedEncoder(nn.Module):
    """Its summary is the sum of the source's vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding(VOCABULARY, WIDTH)

    def forward(self, source: Padded) -> Memory:
        vectors = self.embedding(source.ids)
        return Memory(vectors, vectors, source.mask, vectors.sum(1))


@dataclass(frozen=True)
class PlantedState:
    summary: Tensor


class PlantedDecoder(nn.Module):
    """Hidden state t is Σ source + Σ prefix up to t ("sum"), their product ("product"), or reads ahead ("future")."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.embedding = Embedding(VOCABULARY, WIDTH)
        self.output = Projection(VOCABULARY, WIDTH)

    def start(self, memory: Memory) -> PlantedState:
        return PlantedState(memory.summary)

    def advance(self, tokens: Padded, state: PlantedState) -> tuple[Tensor, PlantedState]:
        vectors, summary = self.embedding(tokens.ids), state.summary[:, None]
        if self.how == "future":
            return summary + vectors.sum(1, keepdim=True).expand_as(vectors), state
        read = vectors.cumsum(1)
        return (summary + read if self.how == "sum" else summary * read), state

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        return self.output(hidden, vocabulary)


def planted(how: str) -> Seq2Seq:
    """A planted model in float64."""
    model = Seq2Seq(PlantedEncoder(), PlantedDecoder(how))  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model.double()
