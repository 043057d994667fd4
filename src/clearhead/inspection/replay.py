"""One pair, a source and a target, read once by a recording twin: everything that the model computes for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.recorders import Recording, recording_twin
from clearhead.models.protocols import Memory
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS, PAD

__all__ = ["Replay", "replay"]


@dataclass(frozen=True)
class Replay:
    """A finished hypothesis, or a given target, as the model reads it with teacher forcing.

    `source` ends with EOS; `prefix` is BOS and the target; `gold` is the target and EOS. Row t of what the decoder
    computes belongs to `prefix[t]`, and row t of `logits` [T, V] predicts `gold[t]`.
    """

    source: tuple[int, ...]
    prefix: tuple[int, ...]
    gold: tuple[int, ...]
    memory: Memory
    hidden: Tensor
    logits: Tensor
    recording: Recording

    @property
    def log_probs(self) -> Tensor:
        """The natural log of the probability of every token at every position: [T, V], float64."""
        return self.logits.double().log_softmax(-1)


@torch.no_grad()
def replay(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> Replay:
    """Feed one pair through a recording twin of `model`: the encoder once, the decoder once over the whole target.

    `source` and `target` are ids without BOS and EOS. The twin is in evaluation mode whatever the model is in, so that
    nothing is dropped and no random number is drawn; the model is left as it is. Raises InputError if the target holds
    PAD, BOS or EOS.
    """
    if reserved := {PAD, BOS, EOS}.intersection(target):
        raise InputError(f"the target holds the reserved token {min(reserved)}: remove it")
    device = next(model.parameters()).device
    read, prefix, gold = (*source, EOS), (BOS, *target), (*target, EOS)
    twin, recording = recording_twin(model)
    twin.eval()
    memory = twin.encoder(Padded.from_lists([read], device))
    hidden, _ = twin.decoder.advance(Padded.from_lists([prefix], device), twin.decoder.start(memory))
    logits = twin.decoder.project(hidden)
    return Replay(read, prefix, gold, memory, hidden[0], logits[0], recording)
