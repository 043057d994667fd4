"""From a configuration to a model whose weights are set."""

from __future__ import annotations

import math

import torch
from torch import nn

from clearhead.models.attentive_decoders import BahdanauDecoder, LuongDecoder
from clearhead.models.config import Embeddings, MixedConfig, ModelConfig, TransformerConfig, TransformerStackConfig
from clearhead.models.convolutional import ConvolutionalEncoder, DilatedEncoder
from clearhead.models.convolutional_config import (
    ByteNetConfig,
    ConvolutionalEncoderConfig,
    ConvS2SConfig,
    DilatedEncoderConfig,
)
from clearhead.models.convolutional_decoders import ByteNetDecoder, ConvS2SDecoder
from clearhead.models.fixed_decoders import EncDecDecoder, Seq2SeqDecoder
from clearhead.models.recurrent import MemoryShape, RecurrentEncoder
from clearhead.models.recurrent_config import (
    BahdanauConfig,
    EncDecConfig,
    LuongConfig,
    RecurrentEncoderConfig,
    Seq2SeqConfig,
)
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder, TransformerEncoder
from clearhead.nn.cells import Cell
from clearhead.nn.convolution import Convolution
from clearhead.nn.embedding import Embedding, Projection
from clearhead.nn.linear import Linear
from clearhead.nn.positions import LearnedPositions

__all__ = ["build", "count_parameters", "initialise"]


Encoding = TransformerEncoder | RecurrentEncoder | ConvolutionalEncoder | DilatedEncoder
Decoding = (
    TransformerDecoder
    | Seq2SeqDecoder
    | EncDecDecoder
    | BahdanauDecoder
    | LuongDecoder
    | ConvS2SDecoder
    | ByteNetDecoder
)


def build(config: ModelConfig, *, seed: int | None = None, device: torch.device | str = "cpu") -> Seq2Seq:
    """The model that `config` describes, freshly initialised.

    `seed` makes it reproducible without touching PyTorch's global generator; None draws from that generator.
    `device="meta"` gives the shapes alone, for weights that are loaded next.

    >>> from clearhead.models import presets
    >>> count_parameters(build(presets.base(vocab_size=37000), device="meta"))
    63045632
    """
    with torch.device(device):
        encoder, decoder = halves(config)
    tie(encoder, decoder, config.embeddings)
    model = Seq2Seq(encoder, decoder, config.max_positions)
    if torch.device(device).type != "meta":
        initialise(model, torch.Generator(device).manual_seed(seed) if seed is not None else None)
    return model


def halves(config: ModelConfig) -> tuple[Encoding, Decoding]:
    """The encoder and the decoder; where they are chosen separately, the decoder bridges to what the encoder gives."""
    if isinstance(config, TransformerConfig):
        return TransformerEncoder(config), TransformerDecoder(config)
    source, target = config.source_vocab_size or config.vocab_size, config.vocab_size
    encoder: RecurrentEncoder | ConvolutionalEncoder | DilatedEncoder
    match config.encoder:
        case TransformerStackConfig() as stack:
            memory = MemoryShape(stack.d_model, stack.d_model)
            return TransformerEncoder(stack.whole(source)), writer(config, target, memory)
        case RecurrentEncoderConfig() as reading:
            encoder = RecurrentEncoder(reading, source)
        case ConvolutionalEncoderConfig() as reading:
            encoder = ConvolutionalEncoder(reading, source)
        case DilatedEncoderConfig() as reading:
            encoder = DilatedEncoder(reading, source)
    return encoder, writer(config, target, encoder.shape)


def writer(config: MixedConfig, target: int, memory: MemoryShape) -> Decoding:
    """The decoder for a memory of that shape and a vocabulary of `target` entries."""
    match config.decoder:
        case Seq2SeqConfig() as decoder:
            return Seq2SeqDecoder(decoder, target, memory)
        case EncDecConfig() as decoder:
            return EncDecDecoder(decoder, target, memory)
        case BahdanauConfig() as decoder:
            return BahdanauDecoder(decoder, target, memory)
        case LuongConfig() as decoder:
            return LuongDecoder(decoder, target, memory)
        case ConvS2SConfig() as decoder:
            return ConvS2SDecoder(decoder, target, memory)
        case ByteNetConfig() as decoder:
            return ByteNetDecoder(decoder, target, memory)
        case TransformerStackConfig() as decoder:
            return TransformerDecoder(decoder.whole(target), memory.keys)


def tie(encoder: Encoding, decoder: Decoding, embeddings: Embeddings) -> None:
    """One Parameter under several names (Press and Wolf 2017; Vaswani et al. 2017, §3.4), each use its own module."""
    if embeddings in ("tied", "output"):
        decoder.output.weight = decoder.input.embedding.weight
    if embeddings == "tied":
        encoder.input.embedding.weight = decoder.input.embedding.weight


@torch.no_grad()
def initialise(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """Xavier-uniform maps (Glorot and Bengio 2010), zero biases, N(0, 1/D) embeddings.

    Cells and convolutions see to their own. With tied rows of N(0, 1/D) a scaled embedding has unit variance and so
    have the first logits: the loss starts near ln V. PyTorch's N(0, 1) would start it √D times too wide. Each
    projection is drawn by its own fan-in and fan-out, not as one fused matrix, whose range would be smaller.
    """
    seen: set[int] = set()
    for module in model.modules():
        if isinstance(module, Linear):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Cell | Convolution):
            module.initialise(generator)
        elif isinstance(module, Embedding | Projection | LearnedPositions) and id(module.weight) not in seen:
            seen.add(id(module.weight))
            spread = module.spread if isinstance(module, LearnedPositions) else 1.0
            nn.init.normal_(module.weight, std=spread / math.sqrt(module.weight.shape[1]), generator=generator)
        if isinstance(module, Projection) and module.bias is not None:
            nn.init.zeros_(module.bias)


def count_parameters(model: nn.Module) -> int:
    """Distinct trainable numbers: a tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
