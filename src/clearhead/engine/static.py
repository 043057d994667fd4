"""One decoder step whose shapes and addresses never change, so that a GPU can replay it as one recorded graph.

A step on a GPU is a few hundred small kernels, and starting them one by one takes longer than running them. Here the
step reads the whole room of a pool, hides what is not written, and finds its inputs at fixed addresses; nothing in it
asks the host. On a CPU it runs as it stands, which is how the tests hold it to `fused`.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.engine.fused import FusedDecoder, FusedModel
from clearhead.engine.pool import FusedState, Pool, Sources, bias_of
from clearhead.engine.weights import Weights
from clearhead.nn.padding import Padded

__all__ = ["StaticDecoder", "StaticStep", "static_model"]

STEPS_BEFORE_RECORDING = 3
"""Steps that a pool must have seen: one that is soon replaced, since sentences leave, is not worth a recording."""


def static_model(weights: Weights) -> FusedModel:
    """`weights` as a model that decodes by static steps."""
    model = FusedModel(weights)
    model.decoder = StaticDecoder(weights)
    return model


class StaticStep:
    """The step for one pool, its sources and `beams` hypotheses a sentence.

    Inputs, filled before each call: `tokens` and `positions` int64 [R]; `seen` bool [B, K, capacity], which columns
    were visible before; `columns` int64 [K], where to write. The result is `hidden` [R, D].
    """

    def __init__(self, decoder: FusedDecoder, pool: Pool, sources: Sources, beams: int) -> None:
        self.decoder, self.pool, self.sources, self.beams = decoder, pool, sources, beams
        sentences, capacity, device = sources.mask.shape[0], pool.capacity, sources.mask.device
        self.tokens = torch.zeros(sentences * beams, dtype=torch.int64, device=device)
        self.positions = torch.zeros_like(self.tokens)
        self.seen = torch.zeros(sentences, beams, capacity, dtype=torch.bool, device=device)
        self.columns = torch.arange(beams, device=device)
        self._own = torch.eye(beams, dtype=torch.bool, device=device).expand(sentences, -1, -1)
        # A hypothesis sees a column for each token that it read, so no position lies beyond the room.
        limit = decoder.weights.max_positions
        like = pool.layers[0].new_empty(1, 1, decoder.weights.d_model)
        places = torch.arange(capacity if limit is None else min(capacity, limit), device=device)
        self._places: Tensor = decoder.weights.target.positions(places, like.expand(1, len(places), -1)[0])
        self.hidden = like[0]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._steps = 0

    def __call__(self) -> Float[Tensor, "R D"]:
        """Run, record or replay; the result is overwritten by the next call."""
        if self._graph is not None:
            self._graph.replay()
            return self.hidden
        self._steps += 1
        if self.tokens.is_cuda and self._steps > STEPS_BEFORE_RECORDING:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.hidden = self.run()
            self._graph = graph
            graph.replay()
            return self.hidden
        self.hidden = self.run()
        return self.hidden

    def run(self) -> Float[Tensor, "R D"]:
        """The step itself."""
        weights = self.decoder.weights
        x = weights.target.table.rows(self.tokens) * weights.target.factor
        x = x.add_(F.embedding(self.positions, self._places)).view(len(self._own), self.beams, -1)
        seen = self.seen.index_copy(2, self.columns, self._own)
        hidden = self.decoder.stack(x, self.pool.layers, self.columns, bias_of(seen, x.dtype), self.sources)
        return hidden.reshape(len(self.tokens), -1)


class StaticDecoder(FusedDecoder):
    """Single tokens by static steps, prompts and whole targets as `FusedDecoder`."""

    @torch.no_grad()
    def advance(self, tokens: Padded, state: FusedState) -> tuple[Float[Tensor, "R T D"], FusedState]:
        """Hidden states of `tokens` read after the past in `state` (see `protocols.Decoder`)."""
        if tokens.ids.shape[1] != 1:
            return super().advance(tokens, state)
        self._check(state)
        state = state.claimed(state.visible.shape[1])
        sentences, beams, columns = state.visible.shape
        step = state.pool.step
        if not isinstance(step, StaticStep) or step.sources is not state.sources or step.beams != beams:
            step = state.pool.step = StaticStep(self, state.pool, state.sources, beams)
        real = tokens.mask[:, 0]
        step.tokens.copy_(tokens.ids[:, 0])
        step.positions.copy_(state.positions.masked_fill(~real, 0))
        step.seen.fill_(False)[:, :, :columns] = state.visible
        step.columns.copy_(torch.arange(columns, columns + beams, device=step.columns.device))
        hidden = step().clone()
        own = torch.diag_embed(real.view(sentences, beams))
        visible = torch.cat([state.visible, own], 2)
        return hidden[:, None], replace(state, positions=state.positions + tokens.lengths, visible=visible)

    def _check(self, state: FusedState) -> None:
        limit = self.weights.target.positions.max_positions
        if isinstance(limit, int) and len(state.positions) and int(state.positions.max()) >= limit:
            raise InputError(
                f"position {int(state.positions.max())} asked of a model that learnt {limit} positions; "
                "cut the text or train with more (max_positions)"
            )
