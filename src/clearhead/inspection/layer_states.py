"""What each layer of a frozen model hands on, for every token of many pairs.

Layer 0 is what enters a stack (word vectors, with positions where a model has them); layer n is what its n-th layer
gives, before any norm that closes the whole stack. A recurrent stack runs as one operation, and ByteNet's decoder by a
road of its own, so of these there are layer 0 and the last: the memory of an encoder, and what a decoder projects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.inspection.losses import batches
from clearhead.inspection.recorders import keeping_twin
from clearhead.inspection.sites import attention_sites
from clearhead.inspection.teaching import Pairs
from clearhead.models.convolutional_decoders import ByteNetDecoder
from clearhead.models.recurrent import RecurrentEncoder
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.kernels import reverse_within

__all__ = ["Place", "layer_states"]

Place = Literal["encoder", "decoder"]


@torch.no_grad()
def layer_states(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    batch_tokens: int = 4096,
) -> dict[tuple[Place, int], Float[Tensor, "N D"]]:
    """By place and layer the states of all tokens, sentence after sentence, float32 or wider, on the model's device.

    `sources` and `targets` are ids without BOS and EOS, and so are the states: N is the number of these tokens. The
    state of a target token is that of the query which has read it last. Raises InputError for an ensemble.
    """
    attention_sites(model)  # refuses an ensemble
    made, kept = keeping_twin(model, _paths(model))
    found: dict[tuple[Place, int], list[Tensor]] = {}
    everything = Pairs.of(sources, targets, next(model.parameters()).device)
    for rows, pairs in batches(everything, batch_tokens):
        kept.clear()
        memory = made.encoder(pairs.source)
        hidden, _ = made.decoder.advance(pairs.prefix, made.decoder.start(memory))
        before_eos = pairs.source.lengths - 1
        if isinstance(model.encoder, RecurrentEncoder) and model.encoder.reverse:
            kept["encoder.input"] = reverse_within(kept["encoder.input"], before_eos)
        sides: tuple[tuple[Place, int, Tensor, Tensor], ...] = (
            ("encoder", 0, before_eos, memory.keys),
            ("decoder", 1, pairs.prefix.lengths - 1, hidden),  # from 1: BOS has no state here
        )
        for place, first, lengths, last in sides:
            for layer, states in _layers(made, place, kept, last).items():
                wide = states.to(torch.promote_types(states.dtype, torch.float32))
                of_rows = found.setdefault((place, layer), [wide[0, :0]] * len(everything))
                for row, line, length in zip(rows.tolist(), wide, lengths.tolist(), strict=True):
                    of_rows[row] = line[first : first + length]
    return {key: torch.cat(parts) for key, parts in found.items()}


def _paths(model: Seq2Seq) -> set[str]:
    """Of the inputs of both stacks, and of the layers that run one by one."""
    wanted = {f"{place}.input" for place in ("encoder", "decoder")}
    for place in ("encoder", "decoder"):
        half = getattr(model, place)
        layers = getattr(half, "layers", None)
        if isinstance(layers, nn.ModuleList) and not isinstance(half, ByteNetDecoder):
            wanted |= {f"{place}.layers.{number}" for number in range(len(layers))}
    return wanted


def _layers(model: Seq2Seq, place: Place, kept: dict[str, Tensor], last: Tensor) -> dict[int, Tensor]:
    states = {0: kept[f"{place}.input"]}
    half = getattr(model, place)
    layers = getattr(half, "layers", None)
    count = (
        len(layers) if isinstance(layers, nn.ModuleList) else int(getattr(getattr(half, "stack", None), "layers", 1))
    )
    for number in range(count):
        if f"{place}.layers.{number}" in kept:
            states[number + 1] = kept[f"{place}.layers.{number}"]
    return states if len(states) > 1 else {**states, count: last}
