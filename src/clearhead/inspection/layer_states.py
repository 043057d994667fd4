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

from clearhead.inspection.sites import attention_sites
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.twin import twin
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
    kept: dict[str, Tensor] = {}
    made = _keeping(model, kept)
    device = next(model.parameters()).device
    found: dict[tuple[Place, int], list[Tensor]] = {}
    for batch in _batches(sources, targets, batch_tokens):
        pairs = Pairs.of([sources[each] for each in batch], [targets[each] for each in batch], device)
        kept.clear()
        memory = made.encoder(pairs.source)
        hidden, _ = made.decoder.advance(pairs.prefix, made.decoder.start(memory))
        if isinstance(model.encoder, RecurrentEncoder) and model.encoder.reverse:
            before_eos = (pairs.source.lengths - 1).clamp(min=0)
            kept["encoder.input"] = reverse_within(kept["encoder.input"], before_eos)
        read = pairs.source.mask.roll(-1, 1)  # all but the last, EOS
        read[:, -1] = False
        written = pairs.prefix.mask.clone()
        written[:, 0] = False  # all but BOS
        for place, mask, last in (("encoder", read, memory.keys), ("decoder", written, hidden)):
            for layer, states in _layers(made, place, kept, last).items():  # type: ignore[arg-type]
                wide = states.to(torch.promote_types(states.dtype, torch.float32))
                found.setdefault((place, layer), []).append(wide[mask])  # type: ignore[arg-type]
    return {key: torch.cat(parts) for key, parts in found.items()}


class _Keeper(nn.Module):
    """Stands for a module in the twin and keeps what it gives; for all else it is that module."""

    def __init__(self, module: nn.Module, path: str, kept: dict[str, Tensor]) -> None:
        super().__init__()
        self.module = module
        self._path = path
        self._kept = kept

    def forward(self, *inputs: object) -> object:
        output = self.module(*inputs)
        self._kept[self._path] = output[0] if isinstance(output, tuple) else output
        return output

    def __getattr__(self, name: str) -> object:  # type: ignore[override]
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def _keeping(model: Seq2Seq, kept: dict[str, Tensor]) -> Seq2Seq:
    wanted = {f"{place}.input" for place in ("encoder", "decoder")}
    for place in ("encoder", "decoder"):
        half = getattr(model, place)
        layers = getattr(half, "layers", None)
        if isinstance(layers, nn.ModuleList) and not isinstance(half, ByteNetDecoder):
            wanted |= {f"{place}.layers.{number}" for number in range(len(layers))}

    def swap(path: str, module: nn.Module) -> nn.Module | None:
        return _Keeper(module, path, kept) if path in wanted else None

    return twin(model, swap).eval()


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


def _batches(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch_tokens: int) -> list[list[int]]:
    """Neighbours together, in their order, at most `batch_tokens` padded tokens a side, or one pair."""
    batches: list[list[int]] = []
    widest = 0
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        longest = max(len(source), len(target)) + 1
        if batches and max(widest, longest) * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(number)
            widest = max(widest, longest)
        else:
            batches.append([number])
            widest = longest
    return batches
