"""Recurrent decoders that ask the source at every step.

They differ in who asks. Bahdanau et al. 2015 ask with the last state, s_{i−1}, and what is found goes into the step;
Luong et al. 2015 take the step and then ask with its state, h_t. So the first must go step by step even with a known
target; the second only where it feeds its answer back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.models.protocols import Memory
from clearhead.models.recurrent import (
    MemoryShape,
    RecurrentState,
    StateBridge,
    WordInput,
    after_each_row,
    full_precision,
    parts_of,
)
from clearhead.models.recurrent_config import BahdanauConfig, LuongConfig
from clearhead.nn.attentive_sweep import Source, swept_with_attention
from clearhead.nn.cache import Kept
from clearhead.nn.cells import CellState
from clearhead.nn.cores import Core
from clearhead.nn.dropout import Dropout
from clearhead.nn.embedding import Projection
from clearhead.nn.gru import GruBeforeCell
from clearhead.nn.linear import Linear
from clearhead.nn.maxout import MaxoutReadout
from clearhead.nn.padding import Padded
from clearhead.nn.recurrent import Recurrent, make_cell
from clearhead.nn.scores import Additive, make_score
from clearhead.nn.visibility import Visibility
from clearhead.nn.windows import GlobalCore, LocalMonotonicCore, LocalPredictiveCore

__all__ = ["AttentiveState", "BahdanauDecoder", "LuongDecoder"]


@dataclass(frozen=True)
class AttentiveState:
    """What the decoder remembers of each hypothesis, and of each source.

    Shapes: `own` has one row a hypothesis, R = B·K; `source` one a sentence: what the score needs of the keys [B, 1, S,
    E] and the values [B, 1, S, D]; `source_mask` [B, S].
    """

    own: RecurrentState
    source: Kept
    source_mask: Tensor

    @property
    def positions(self) -> Tensor:
        """How many tokens each row has read: [R]."""
        return self.own.positions

    def rows(self, index: Tensor) -> AttentiveState:
        """Rearrange hypotheses (see `protocols.State`); a source is copied only when its sentence moves."""
        sentences = self.source_mask.shape[0]
        sentence = index[:, 0] // (self.positions.shape[0] // sentences)
        source, mask = self.source, self.source_mask
        if not torch.equal(sentence, torch.arange(sentences, device=index.device)):
            source, mask = source.rows(sentence), mask.index_select(0, sentence)
        return AttentiveState(self.own.rows(index), source, mask)

    def join(self, other: AttentiveState) -> AttentiveState:
        """The sentences of both, the shorter sources padded with positions that nobody may see."""
        length = max(self.source_mask.shape[1], other.source_mask.shape[1])
        masks = [
            F.pad(each, (0, length - each.shape[1]), value=False) for each in (self.source_mask, other.source_mask)
        ]
        return AttentiveState(self.own.join(other.own), self.source.join(other.source), torch.cat(masks))

    def visibility(self, steps: int) -> Visibility:
        """Who may read which key in the next `steps` steps, the hypotheses of a sentence side by side: [B, 1, 1, S].

        The queries' positions [B, K·T] are target positions from 0, which local-m goes by (Luong et al. 2015, §3.2).
        """
        places = self.positions[:, None] + torch.arange(steps, device=self.positions.device)
        return Visibility(self.source_mask[:, None, None], places.reshape(self.source_mask.shape[0], -1))

    def ask(self, core: Core, query: Float[Tensor, "R T Q"], visibility: Visibility) -> Float[Tensor, "R T D"]:
        """What each query finds. The K hypotheses of a sentence are queries of one row; nothing is copied K times."""
        rows, length, width = query.shape
        folded = query.reshape(self.source_mask.shape[0], 1, -1, width)  # [B, 1, K·T, Q]
        found: Tensor = core(folded, self.source.keys, self.source.values, visibility)
        return found.reshape(rows, length, -1)


class BahdanauDecoder(nn.Module):
    """RNNsearch (Bahdanau et al. 2015, §3.1 and A.2.2).

    e_ij = v_aᵀ tanh(W_a s_{i−1} + U_a h_j), α = softmax_j(e), c_i = Σ_j α_ij h_j (equations 5 and 6);
    s_i = f(s_{i−1}, y_{i−1}, c_i) from s₀ = tanh(W_s ←h₁); U_a h_j is worked out once a sentence (A.1.2).
    The output is maxout(U_o s_{i−1} + V_o E y_{i−1} + C_o c_i) before the projection, with the last state as in A.2.2;
    equation 4 of the main text writes g(y_{i−1}, s_i, c_i), with the present one.
    """

    def __init__(self, config: BahdanauConfig, vocab_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.input = WordInput(vocab_size, config.embedding, config.dropout)
        self.cell = make_cell(config.cell, config.embedding + memory.keys, config.width)
        self.bridge = StateBridge(memory, self.cell.parts, config.width, 1, learnt=True)
        self.core = GlobalCore(Additive(config.width, memory.keys, config.attention))
        self.readout = MaxoutReadout(config.width, config.embedding, memory.keys, config.readout)
        self.dropout = Dropout(config.dropout)
        self.output = Projection(vocab_size, config.output_width)

    @property
    def path(self) -> str:
        """The road of teacher forcing: "swept" with the papers' GRU (`nn.attentive_sweep`), else "loop".

        Every step asks with the state that the step before has made, so there is no kernel for it.
        """
        return "swept" if isinstance(self.cell, GruBeforeCell) else "loop"

    def start(self, memory: Memory) -> AttentiveState:
        """s₀ and U_a h_j, once a sentence."""
        return begin(memory, self.bridge, self.core, 0, next(self.parameters()).dtype)

    def advance(self, tokens: Padded, state: AttentiveState) -> tuple[Float[Tensor, "R T D"], AttentiveState]:
        """The maxout units (see `protocols.Decoder`)."""
        embedded = self.input(tokens.ids)
        attend = self._swept if self._sweeps(tokens, state) else self._step_by_step
        with full_precision(embedded):
            states, contexts = attend(embedded, state)
        queries = torch.stack([each[0] for each in states[:-1]], 1)  # s_{i−1}: [R, T, H]
        hidden = self.readout(queries, embedded, contexts)
        final = tuple(after_each_row(part, tokens.lengths) for part in zip(*states, strict=True))
        own = RecurrentState(state.positions + tokens.lengths, (final,), state.own.fed)
        return self.dropout(hidden), AttentiveState(own, state.source, state.source_mask)

    def _step_by_step(self, embedded: Tensor, state: AttentiveState) -> tuple[list[CellState], Tensor]:
        """The state before the first step and after each, T + 1 in all, and the contexts [R, T, C]."""
        visibility = state.visibility(1)
        states: list[CellState] = [state.own.layers[0]]
        contexts = []
        words = self.cell.drive(embedded)  # the words' share of every step at once: [R, T, G·H]
        for step in range(embedded.shape[1]):
            last = states[-1]
            context = state.ask(self.core, last[0][:, None], visibility)[:, 0]
            contexts.append(context)
            drive = words[:, step] + self.cell.drive(context, at=embedded.shape[-1])
            states.append(self.cell.recur(drive, last))
        return states, torch.stack(contexts, 1)

    def _sweeps(self, tokens: Padded, state: AttentiveState) -> bool:
        """Whether one pass does it: where gradients are recorded, and with one target a source.

        Without gradients the loop is as fast. A core that somebody watches, or has exchanged, is asked step by step.
        """
        steps, rows = tokens.ids.shape[1], state.source_mask.shape[0]
        whole = steps > 1 and rows == state.positions.shape[0] and torch.is_grad_enabled()
        plain = type(self.core) is GlobalCore and type(self.core.score) is Additive
        watched = any(part._forward_hooks or part._forward_pre_hooks for part in self.core.modules())
        return whole and self.path == "swept" and plain and not watched

    def _swept(self, embedded: Tensor, state: AttentiveState) -> tuple[list[CellState], Tensor]:
        """As `_step_by_step`, to rounding."""
        cell, score = cast("GruBeforeCell", self.cell), cast("Additive", self.core.score)
        (start,) = state.own.layers[0]
        source = Source(state.source.keys[:, 0], state.source.values[:, 0], state.visibility(1).mask[:, 0, 0])
        states, contexts = swept_with_attention(cell, score, embedded, start, source)
        return [(start,), *((each,) for each in states.unbind(0))], contexts.transpose(0, 1)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits of the next token: [..., D] → [..., V or W]."""
        return self.output(hidden, vocabulary)


class LuongDecoder(nn.Module):
    """Attention after the step (Luong et al. 2015).

    h_t is the top of a stack of recurrent layers, c_t what it finds in the source by the chosen score and window
    (§3.1 and §3.2), h̃_t = tanh(W_c[c_t; h_t]) (equation 5), and p(y_t) = softmax(W_s h̃_t) (equation 6). With input
    feeding h̃_{t−1} stands beside the next word, zeros at first (§3.3). The first state is the encoder's last.
    """

    def __init__(self, config: LuongConfig, vocab_size: int, memory: MemoryShape) -> None:
        super().__init__()
        self.feeds = config.input_feeding
        self.input = WordInput(vocab_size, config.embedding, config.dropout)
        inputs = config.embedding + (config.width if self.feeds else 0)
        self.stack = Recurrent(config.cell, inputs, config.width, config.layers, dropout=config.dropout)
        self.bridge = StateBridge(memory, parts_of(self.stack), config.width, config.layers)
        self.core = luong_core(config, memory.keys)
        self.combine = Linear(memory.keys + config.width, config.width, bias=False)
        self.dropout = Dropout(config.dropout)
        self.output = Projection(vocab_size, config.output_width)

    @property
    def path(self) -> str:
        """The road of teacher forcing: "loop" with input feeding, else the stack's (see `nn.recurrent`)."""
        return "loop" if self.feeds else self.stack.path

    def start(self, memory: Memory) -> AttentiveState:
        """The encoder's final states, over the bridge, and nothing fed yet."""
        fed = self.stack.width if self.feeds else 0
        return begin(memory, self.bridge, self.core, fed, next(self.parameters()).dtype)

    def advance(self, tokens: Padded, state: AttentiveState) -> tuple[Float[Tensor, "R T D"], AttentiveState]:
        """h̃ (see `protocols.Decoder`)."""
        embedded = self.input(tokens.ids)
        attend = self._step_by_step if self.feeds else self._at_once
        hidden, layers, fed = attend(embedded, tokens.lengths, state)
        own = RecurrentState(state.positions + tokens.lengths, layers, fed)
        return self.dropout(hidden), AttentiveState(own, state.source, state.source_mask)

    def _at_once(
        self, embedded: Tensor, lengths: Tensor, state: AttentiveState
    ) -> tuple[Tensor, tuple[CellState, ...], Tensor]:
        read = self.stack.run(embedded, lengths, state.own.layers)
        with full_precision(embedded):
            context = state.ask(self.core, read.outputs, state.visibility(embedded.shape[1]))
            return self._combined(context, read.outputs), read.final, state.own.fed

    def _step_by_step(
        self, embedded: Tensor, lengths: Tensor, state: AttentiveState
    ) -> tuple[Tensor, tuple[CellState, ...], Tensor]:
        layers, fed = [state.own.layers], [state.own.fed]
        every = state.visibility(embedded.shape[1])
        assert every.query_positions is not None
        places = every.query_positions.view(state.source_mask.shape[0], -1, embedded.shape[1])  # [B, K, T]
        with full_precision(embedded):
            for step in range(embedded.shape[1]):
                here = Visibility(every.mask, places[:, :, step])
                output, after = self.stack.step(torch.cat([embedded[:, step], fed[-1]], -1), layers[-1])
                layers.append(after)
                fed.append(self._combined(state.ask(self.core, output[:, None], here)[:, 0], output))
        final = tuple(
            tuple(after_each_row(part, lengths) for part in zip(*layer, strict=True))
            for layer in zip(*layers, strict=True)
        )
        return torch.stack(fed[1:], 1), final, after_each_row(fed, lengths)

    def _combined(self, context: Tensor, state: Tensor) -> Tensor:
        return torch.tanh(self.combine(torch.cat([context, state], -1)))

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits of the next token: [..., D] → [..., V or W]."""
        return self.output(hidden, vocabulary)


def begin(memory: Memory, bridge: StateBridge, core: GlobalCore, fed: int, dtype: torch.dtype) -> AttentiveState:
    """A state that has read nothing: over the bridge, with zeros [B, `fed`] to be fed; the keys kept as `core` asks."""
    with full_precision(memory.keys):
        keys, values = (each.to(dtype) for each in (memory.keys, memory.values))
        positions = torch.zeros(keys.shape[0], dtype=torch.int64, device=keys.device)
        own = RecurrentState(positions, bridge(memory), keys.new_zeros(keys.shape[0], fed))
        return AttentiveState(own, Kept(core.remember(keys), values[:, None]), memory.mask)


def luong_core(config: LuongConfig, keys: int) -> GlobalCore:
    """The score in its window."""
    score = make_score(config.score, config.width, keys, max_length=config.location_positions)
    match config.window:
        case "global":
            return GlobalCore(score)
        case "local-m":
            return LocalMonotonicCore(score, config.half_width)
        case "local-p":
            return LocalPredictiveCore(score, config.half_width)
