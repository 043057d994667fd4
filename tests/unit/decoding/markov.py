"""The smallest model that a search can be run on: the next token depends on sentence, position and last token alone."""

from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.models.protocols import Memory
from clearhead.nn.padding import Padded

__all__ = ["Markov", "MarkovDecoder", "MarkovState", "uniform_model"]


@dataclass(frozen=True)
class MarkovState:
    sentences: Tensor
    positions: Tensor

    def rows(self, index: Tensor) -> "MarkovState":
        return MarkovState(self.sentences[index.reshape(-1)], self.positions[index.reshape(-1)])

    def join(self, other: "MarkovState") -> "MarkovState":
        return MarkovState(torch.cat([self.sentences, other.sentences]), torch.cat([self.positions, other.positions]))


class MarkovEncoder:
    def __call__(self, source: Padded) -> Memory:
        first = source.ids[:, :1, None].double()
        return Memory(first, first, source.mask[:, :1], first[:, 0])


class MarkovDecoder:
    """Hidden states are the logits themselves: `table` [kinds of sentence, positions, V, V]."""

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.calls = 0
        self.rows_read = 0

    def start(self, memory: Memory) -> MarkovState:
        sentences = memory.summary[:, 0].long() % self.table.shape[0]
        return MarkovState(sentences, torch.zeros_like(sentences))

    def advance(self, tokens: Padded, state: MarkovState) -> tuple[Tensor, MarkovState]:
        self.calls += 1
        self.rows_read += len(tokens)
        positions = state.positions[:, None] + torch.arange(tokens.ids.shape[1])
        hidden = self.table[state.sentences[:, None], positions % self.table.shape[1], tokens.ids]
        return hidden, MarkovState(state.sentences, state.positions + tokens.lengths)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        return hidden if vocabulary is None else hidden[..., vocabulary]


class Markov:
    """Random logits, `spread` wide; a sentence's first token says which part of the table speaks for it."""

    def __init__(self, vocab_size: int = 7, *, seed: int = 0, kinds: int = 5, spread: float = 2.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (kinds, 3, vocab_size, vocab_size)
        table = spread * torch.randn(shape, generator=generator, dtype=torch.float64)
        self.encoder = MarkovEncoder()
        self.decoder = MarkovDecoder(table)

    @property
    def table(self) -> Tensor:
        return self.decoder.table


def uniform_model(vocab_size: int) -> Markov:
    """Every token equally likely everywhere: nothing but ties."""
    model = Markov(vocab_size)
    model.decoder.table = torch.zeros_like(model.table)
    return model
