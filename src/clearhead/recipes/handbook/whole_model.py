"""What the whole base model costs, forward, backward and a step at a time, counted in the modules of the real one."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import DecoderLayer, EncoderLayer, TransformerDecoder, TransformerEncoder
from clearhead.nn.attention import Attention
from clearhead.nn.cache import Kept
from clearhead.nn.feedforward import FeedForward
from clearhead.recipes.handbook.counting import flops
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import EVERYTHING

__all__: list[str] = []

LENGTH, VOCABULARY = 100, 37000
MADE_BY = [build, EncoderLayer, DecoderLayer, Attention, FeedForward]


def base() -> tuple[Seq2Seq, list[EncoderLayer], list[DecoderLayer]]:
    """The base model without numbers, and its layers. Residual and norm multiply no matrices and are passed over."""
    model = build(presets.base(VOCABULARY), device="meta").eval()
    encoder, decoder = cast("TransformerEncoder", model.encoder), cast("TransformerDecoder", model.decoder)
    encoding = [cast("EncoderLayer", layer) for layer in encoder.layers]
    return model, encoding, [cast("DecoderLayer", layer) for layer in decoder.layers]


def positions(count: int, grad: bool = False) -> Tensor:
    """Hidden states of so many positions."""
    return torch.empty(1, count, 512, device="meta", requires_grad=grad)


def encode(layers: list[EncoderLayer], x: Tensor) -> Tensor:
    """The matrix products of the encoder."""
    for layer in layers:
        x = layer.feedforward(layer.attention(x, layer.attention.remember(x, x), EVERYTHING))
    return x


def decode(layers: list[DecoderLayer], x: Tensor, memory: Tensor) -> Tensor:
    """The matrix products of the decoder, all positions at once."""
    for layer in layers:
        x = layer.self_attention(x, layer.self_attention.remember(x, x), EVERYTHING)
        x = layer.cross_attention(x, layer.cross_attention.remember(memory, memory), EVERYTHING)
        x = layer.feedforward(x)
    return x


def step(layers: list[DecoderLayer], x: Tensor, past: Kept, source: Kept) -> Tensor:
    """The matrix products of the decoder for one position, `past` and `source` being kept."""
    for layer in layers:
        x = layer.self_attention(x, past.append(layer.self_attention.remember(x, x)), EVERYTHING)
        x = layer.feedforward(layer.cross_attention(x, source, EVERYTHING))
    return x


@facts("cost", "forward_100 training_100 vocabulary_share_100", by=[*MADE_BY, FlopCounterMode])
def sentence() -> tuple[int, int, float]:
    """Source and target of a hundred tokens: forward; forward and backward; the vocabulary's part in per cent."""
    model, encoder, decoder = base()

    def forward(grad: bool) -> Tensor:
        memory = encode(encoder, positions(LENGTH, grad))
        return model.decoder.project(decode(decoder, positions(LENGTH, grad), memory))

    with FlopCounterMode(display=False) as both:
        torch.autograd.backward(forward(True).sum())
    whole, vocabulary = flops(lambda: forward(False)), flops(lambda: model.decoder.project(positions(LENGTH)))
    return whole, int(both.get_total_flops()), 100 * vocabulary / whole


@facts("cost", "step_100", by=MADE_BY)
def hundredth_token() -> list[int]:
    """The hundredth target token: with the past kept, and with the decoder run over all hundred again."""
    model, _, layers = base()
    kept = torch.empty(1, 8, LENGTH, 64, device="meta")
    source, past = Kept(kept, kept), Kept(kept[:, :, 1:], kept[:, :, 1:])
    with_past = flops(lambda: model.decoder.project(step(layers, positions(1), past, source)))
    anew = flops(lambda: model.decoder.project(decode(layers, positions(LENGTH), positions(LENGTH))[:, -1:]))
    return [with_past, anew]
