"""From a configuration to a model whose weights are set."""

from __future__ import annotations

import math

import torch
from torch import nn

from clearhead.models.config import ModelConfig, TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder, TransformerEncoder
from clearhead.nn.embedding import Embedding, Projection
from clearhead.nn.linear import Linear
from clearhead.nn.positions import LearnedPositions

__all__ = ["build", "count_parameters", "initialise"]


def build(config: ModelConfig, *, seed: int | None = None, device: torch.device | str = "cpu") -> Seq2Seq:
    """The model that `config` describes, freshly initialised.

    `seed` makes it reproducible without touching PyTorch's global generator; None draws from that generator.
    `device="meta"` gives the shapes alone, for weights that are loaded next.

    >>> from clearhead.models import presets
    >>> count_parameters(build(presets.base(vocab_size=37000), device="meta"))
    63045632
    """
    with torch.device(device):
        encoder, decoder = TransformerEncoder(config), TransformerDecoder(config)
    tie(encoder, decoder, config)
    model = Seq2Seq(encoder, decoder, encoder.input.positions.max_positions)
    if torch.device(device).type != "meta":
        initialise(model, torch.Generator(device).manual_seed(seed) if seed is not None else None)
    return model


def tie(encoder: TransformerEncoder, decoder: TransformerDecoder, config: TransformerConfig) -> None:
    """One Parameter under several names (Press and Wolf 2017; Vaswani et al. 2017, §3.4), each use its own module."""
    if config.embeddings in ("tied", "output"):
        decoder.output.weight = decoder.input.embedding.weight
    if config.embeddings == "tied":
        encoder.input.embedding.weight = decoder.input.embedding.weight


@torch.no_grad()
def initialise(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """Xavier-uniform maps (Glorot and Bengio 2010), zero biases, N(0, 1/D) embeddings.

    With tied rows of N(0, 1/D) a scaled embedding has unit variance and so have the first logits: the loss starts
    near ln V. PyTorch's N(0, 1) would start it √D times too wide. Each projection is drawn by its own fan-in and
    fan-out, not as one fused matrix, whose range would be smaller.
    """
    seen: set[int] = set()
    for module in model.modules():
        if isinstance(module, Linear):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Embedding | Projection | LearnedPositions) and id(module.weight) not in seen:
            seen.add(id(module.weight))
            nn.init.normal_(module.weight, std=1.0 / math.sqrt(module.weight.shape[1]), generator=generator)


def count_parameters(model: nn.Module) -> int:
    """Distinct trainable numbers: a tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
