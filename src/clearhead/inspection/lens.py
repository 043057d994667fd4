"""The logit lens: what the decoder would predict if it ended after each of its layers (nostalgebraist 2020).

The residual stream is read off a twin, and the model's own tail is put on it, nothing more and nothing less: the final
norm of a pre-norm Transformer and no norm for a post-norm one, whose layers end on a norm already. So the last row is
the model's own prediction. The layers between were never trained to be read in this way; a bad row does not mean that a
layer knows nothing. There is no lens for the encoder, whose states no output layer was ever made for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.inspection.recorders import keeping_twin
from clearhead.inspection.records import LensLayer, LensPlace, Token
from clearhead.inspection.teaching import Pairs
from clearhead.models.convolutional_decoders import ConvS2SDecoder
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder

__all__ = ["layer_logits", "logit_lens"]


def logit_lens(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    *,
    vocabulary: Callable[[int], Token],
    likeliest: int = 5,
) -> tuple[LensLayer, ...]:
    """What each layer of the decoder would predict at every place, from what enters the stack to its end.

    Ids without BOS and EOS; `vocabulary` makes a token out of an id, and each place has the `likeliest` most probable.
    The gold token's rank is 1 + how many are more probable. A Transformer has all layers; ConvS2S those that are as
    wide as its last, for which its tail was made; other decoders have no such stream, and the lens is empty.
    """
    layers = layer_logits(model, source, target)
    if not layers:
        return ()
    gold = Pairs.of([source], [target]).gold.ids[0]
    own = layers[max(layers)].log_softmax(-1)
    return tuple(
        LensLayer(layer, tuple(_places(logits.log_softmax(-1), own, gold, vocabulary, likeliest)))
        for layer, logits in layers.items()
    )


@torch.no_grad()
def layer_logits(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> dict[int, Float[Tensor, "T V"]]:
    """The logits after each layer that the model's tail fits, by its number, 0 being what enters the stack.

    Float64 on the CPU. Empty where there is no lens. Raises InputError if the target holds PAD, BOS or EOS.
    """
    pairs = Pairs.of([source], [target], next(model.parameters()).device)
    if not isinstance(model.decoder, TransformerDecoder | ConvS2SDecoder):
        return {}
    entrance = "decoder.input" if isinstance(model.decoder, TransformerDecoder) else "decoder.enter"
    paths = [entrance, *(f"decoder.layers.{number}" for number in range(len(model.decoder.layers)))]
    reading, kept = keeping_twin(model, paths)
    reading.decoder.advance(pairs.prefix, reading.decoder.start(reading.encoder(pairs.source)))
    decoder = reading.decoder
    assert isinstance(decoder, TransformerDecoder | ConvS2SDecoder)
    states = [kept[path] for path in paths]

    def tail(state: Tensor) -> Tensor:
        hidden = decoder.norm(state) if isinstance(decoder, TransformerDecoder) else decoder.leave(state)
        return decoder.project(hidden)[0].double().cpu()

    width = states[-1].shape[-1]
    return {layer: tail(state) for layer, state in enumerate(states) if state.shape[-1] == width}


def _places(
    logs: Float[Tensor, "T V"],
    own: Float[Tensor, "T V"],
    gold: Tensor,
    vocabulary: Callable[[int], Token],
    likeliest: int,
) -> list[LensPlace]:
    chosen = logs.gather(-1, gold.cpu()[:, None])
    ranks = (logs > chosen).sum(-1) + 1
    divergences = (own.exp() * (own - logs)).sum(-1)
    best = logs.topk(min(likeliest, logs.shape[-1]))
    return [
        LensPlace(
            tuple((vocabulary(int(index)), float(log.exp())) for index, log in zip(ids, values, strict=True)),
            int(rank),
            float(probability.exp()),
            float(divergence),
        )
        for ids, values, rank, probability, divergence in zip(
            best.indices, best.values, ranks, chosen[:, 0], divergences, strict=True
        )
    ]
