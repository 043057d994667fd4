"""Recurrent decoders without attention: all that they have of the source is one vector, or one state.

They differ in when they see it. Sutskever et al. 2014 begin from the encoder's final states and never look again; Cho
et al. 2014 feed one vector c at every step. Neither feeds anything back but through the recurrence, so teacher forcing
reads the whole target by the stack's fastest road.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.models.protocols import Memory
from clearhead.models.recurrent import MemoryShape, RecurrentState, StateBridge, WordInput, parts_of
from clearhead.models.recurrent_config import EncDecConfig, Seq2SeqConfig
from clearhead.nn.dropout import Dropout
from clearhead.nn.embedding import Projection
from clearhead.nn.linear import Linear
from clearhead.nn.maxout import MaxoutReadout
from clearhead.nn.padding import Padded
from clearhead.nn.recurrent import Recurrent

__all__ = ["EncDecDecoder", "Seq2SeqDecoder"]


class Seq2SeqDecoder(nn.Module):
    """p(y_t | y_<t, x) = softmax(W h_t) from the encoder's last state on (Sutskever et al. 2014, §2, equation 1).

    The whole state, h and c of every layer, is handed over.
    """

    def __init__(self, config: Seq2SeqConfig, vocab_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.input = WordInput(vocab_size, config.embedding, config.dropout)
        self.stack = Recurrent(config.cell, config.embedding, config.width, config.layers, dropout=config.dropout)
        self.bridge = StateBridge(memory, parts_of(self.stack), config.width, config.layers)
        self.dropout = Dropout(config.dropout)
        self.output = Projection(vocab_size, config.output_width)

    @property
    def path(self) -> str:
        """The road of teacher forcing: "fused" (PyTorch's kernel), "swept" or "loop" (see `nn.recurrent`)."""
        return self.stack.path

    def start(self, memory: Memory) -> RecurrentState:
        """The encoder's final states, over the bridge."""
        positions = torch.zeros(memory.summary.shape[0], dtype=torch.int64, device=memory.summary.device)
        return RecurrentState(positions, self.bridge(memory), memory.summary[:, :0])

    def advance(self, tokens: Padded, state: RecurrentState) -> tuple[Float[Tensor, "R T D"], RecurrentState]:
        """The top layer's states (see `protocols.Decoder`)."""
        read = self.stack.run(self.input(tokens.ids), tokens.lengths, state.layers)
        return self.dropout(read.outputs), RecurrentState(state.positions + tokens.lengths, read.final, state.fed)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits of the next token: [..., D] → [..., V or W]."""
        return self.output(hidden, vocabulary)


class EncDecDecoder(nn.Module):
    """RNNencdec: c = tanh(V · summary) is read at every step and by the output (Cho et al. 2014, §2.2 and appendix A).

    The first state is tanh(V′c), the state h_t = f(h_{t−1}, y_{t−1}, c) with c beside the word in the lowest layer, and
    the output is maxout(O_h h_t + O_y E y_{t−1} + O_c c) before the projection: appendix A.1.2, here with the present
    state h_t, where RNNsearch takes the last one.

    The gates are those of the cell that is chosen; gru-before has c among its inputs as Bahdanau et al. 2015 (A.1.1)
    write c_i, outside the reset gate's reach.
    """

    def __init__(self, config: EncDecConfig, vocab_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.input = WordInput(vocab_size, config.embedding, config.dropout)
        self.context = Linear(memory.summary, config.width)
        inputs = config.embedding + config.width
        self.stack = Recurrent(config.cell, inputs, config.width, config.layers, dropout=config.dropout)
        fixed = MemoryShape(config.width, config.width)
        self.bridge = StateBridge(fixed, parts_of(self.stack), config.width, config.layers, learnt=True)
        self.readout = MaxoutReadout(config.width, config.embedding, config.width, config.readout)
        self.dropout = Dropout(config.dropout)
        self.output = Projection(vocab_size, config.output_width)

    @property
    def path(self) -> str:
        """The road of teacher forcing: "fused" (PyTorch's kernel), "swept" or "loop" (see `nn.recurrent`)."""
        return self.stack.path

    def start(self, memory: Memory) -> RecurrentState:
        """c, once a sentence, and the state that follows from it."""
        context = torch.tanh(self.context(memory.summary))
        positions = torch.zeros(context.shape[0], dtype=torch.int64, device=context.device)
        return RecurrentState(positions, self.bridge.learnt(context), context)

    def advance(self, tokens: Padded, state: RecurrentState) -> tuple[Float[Tensor, "R T D"], RecurrentState]:
        """The maxout units (see `protocols.Decoder`)."""
        embedded = self.input(tokens.ids)
        context = state.fed[:, None].expand(-1, embedded.shape[1], -1)
        read = self.stack.run(torch.cat([embedded, context], -1), tokens.lengths, state.layers)
        hidden = self.readout(read.outputs, embedded, context)
        return self.dropout(hidden), RecurrentState(state.positions + tokens.lengths, read.final, state.fed)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits of the next token: [..., D] → [..., V or W]."""
        return self.output(hidden, vocabulary)
