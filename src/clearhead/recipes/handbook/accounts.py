"""The chapter's section 1.6: parameters of real models, counted in them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from clearhead.models import presets
from clearhead.models.build import build, count_parameters
from clearhead.models.config import TransformerConfig
from clearhead.models.transformer import DecoderLayer, EncoderLayer
from clearhead.nn.residual import Residual
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.info import parameters_by_part
from clearhead.training.config import Adam
from clearhead.training.optim import build_optimizer, optimizer_tensors

__all__: list[str] = []

VOCABULARY = 37000
MILLION = 1e6


def parts(config: TransformerConfig) -> tuple[int, int, int, int]:
    """Embeddings, encoder, decoder, total."""
    found = parameters_by_part(config)
    return found["embeddings"], found["encoder"], found["decoder"], found["total"]


def with_biases(preset: Any, heads: int) -> int:
    """The total of a preset whose attention has biases."""
    return parts(preset(VOCABULARY, attention={"heads": heads, "bias": True}))[3]


def implied_vocabulary(config: TransformerConfig, printed: float) -> float:
    """How many tokens a model of `printed` parameters would have."""
    embeddings, _, _, total = parts(config)
    return (printed - (total - embeddings)) / (embeddings / VOCABULARY)


@facts(
    "params",
    "base_embedding base_encoder base_decoder base_total base_total_biases implied_vocabulary_base",
    by=[build, presets.base],
)
def base() -> tuple[float, ...]:
    """The base model with 37000 tokens."""
    config = presets.base(VOCABULARY)
    return *parts(config), with_biases(presets.base, 8), implied_vocabulary(config, 65e6)


@facts(
    "params",
    "big_embedding big_encoder big_decoder big_total big_total_biases implied_vocabulary_big",
    by=[build, presets.big],
)
def big() -> tuple[float, ...]:
    """The big model with 37000 tokens."""
    config = presets.big(VOCABULARY)
    return *parts(config), with_biases(presets.big, 16), implied_vocabulary(config, 213e6)


@facts("params", "sum_of_stated_parts")
def stated() -> int:
    """What the chapter's rounded parts come to, in millions."""
    return sum((19, 19, 25))


def counted(model: nn.Module, *fragments: str) -> int:
    """Distinct parameters whose name holds one of the fragments, or all of them."""
    named = model.named_parameters()
    return sum(each.numel() for name, each in named if not fragments or any(part in name for part in fragments))


@facts("params", "cross norm_encoder_layer norm_decoder_layer norm_total encoder_layer decoder_layer", by=[build])
def layers() -> tuple[int, ...]:
    """Parts of the base model, by the names of its parameters."""
    model = build(presets.base(VOCABULARY), device="meta")
    encoder, decoder = "encoder.layers.0.", "decoder.layers.0."
    return (
        counted(model, "cross_attention."),
        sum(counted(part) for part in _norms(model.get_submodule(encoder[:-1]))),
        sum(counted(part) for part in _norms(model.get_submodule(decoder[:-1]))),
        sum(counted(part) for part in _norms(model)),
        counted(model, encoder),
        counted(model, decoder),
    )


def _norms(module: nn.Module) -> list[nn.Module]:
    return [part for part in module.modules() if isinstance(part, nn.LayerNorm)]


@facts("params", "norm residual", by=[Residual])
def residual() -> tuple[int, int]:
    """One norm; and what the residual connection has beside its norm."""
    block = Residual("post", 512, 0.1)
    return counted(block.norm), counted(block) - counted(block.norm)


@facts("params", "head_dims d_ff", by=[presets.base, presets.big])
def widths() -> tuple[list[int], list[int]]:
    """Of base and big: the width of a head, and that inside the feed-forward layer."""
    both = [preset(vocab_size=VOCABULARY) for preset in (presets.base, presets.big)]
    return [config.attention.widths(config.d_model)[2] for config in both], [config.d_ff for config in both]


@facts("params", "table3_millions", by=[build, EncoderLayer, DecoderLayer])
def table_3() -> list[float]:
    """Rows of the paper's Table 3 with 37000 tokens, in millions.

    They are d_k 16 and 32, N 2, 4 and 8, d_model 256 and 1024, d_ff 1024 and 4096. d_k alone shrinks in the first two;
    in those of d_model the heads grow with it and d_ff stays at 2048.
    """
    models = [
        *({"encoder_layers": count, "decoder_layers": count} for count in (2, 4, 8)),
        *({"d_model": width} for width in (256, 1024)),
        *({"d_ff": width} for width in (1024, 4096)),
    ]
    totals = [build_count(**figures) for figures in models]
    return [total / MILLION for total in [*(_narrow_keys(width) for width in (16, 32)), *totals]]


def build_count(**figures: Any) -> int:
    """Parameters of the base model with other figures."""
    return count_parameters(build(presets.base(VOCABULARY, **figures), device="meta"))


def _narrow_keys(width: int) -> int:
    """The base model with queries and keys of another width; our configuration ties it to that of the values."""
    whole = build(presets.base(VOCABULARY), device="meta")
    narrow = build(presets.base(VOCABULARY, attention={"heads": 8, "head_dim": width}), device="meta")
    ends = ("attention.query.", "attention.key.")
    return count_parameters(whole) - counted(whole, *ends) + counted(narrow, *ends)


@facts("params", "base_bytes adam_bytes", by=[build, build_optimizer])
def memory() -> tuple[int, float]:
    """The base model's numbers in bytes, and the two moments that Adam keeps beside each."""
    model = build(presets.base(VOCABULARY), device="meta")
    weights = sum(each.numel() * each.element_size() for each in model.parameters())
    layer = nn.Linear(8, 8, bias=False)
    layer.weight.grad = torch.ones_like(layer.weight)
    optimizer = build_optimizer(layer, Adam())
    optimizer.step()
    moments = [each for name, each in optimizer_tensors(optimizer, layer).items() if name.startswith("exp_avg")]
    kept = sum(each.numel() * each.element_size() for each in moments)
    return weights, weights * kept / (layer.weight.numel() * layer.weight.element_size())
