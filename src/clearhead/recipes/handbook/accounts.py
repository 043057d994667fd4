"""The chapter's section 1.6: parameters of real models, counted in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from clearhead.models import presets
from clearhead.models.build import build, count_parameters
from clearhead.models.config import TransformerConfig
from clearhead.models.transformer import DecoderLayer, EncoderLayer
from clearhead.nn.attention import Attention
from clearhead.nn.feedforward import FeedForward
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


@facts("params", "attention_layer attention_total feedforward_total base_shares", by=[build, Attention, FeedForward])
def kinds() -> tuple[int, int, int, list[float]]:
    """The base model by kind of part: one attention and all, all feed-forward; per cent with embedding and norms."""
    model = build(presets.base(VOCABULARY), device="meta")
    attentions = [counted(part) for part in model.modules() if isinstance(part, Attention)]
    feed_forward = sum(counted(part) for part in model.modules() if isinstance(part, FeedForward))
    norms = sum(counted(part) for part in _norms(model))
    parts_in_order = (counted(model, "embedding."), sum(attentions), feed_forward, norms)
    shares = [100 * part / count_parameters(model) for part in parts_in_order]
    return attentions[0], sum(attentions), feed_forward, shares


@facts("params", "implied_range_base implied_range_big", by=[build, presets.base, presets.big])
def ranges() -> tuple[list[int], list[int]]:
    """The smallest and the largest vocabulary with which base rounds to 65 million, and big to 213."""
    return _range(presets.base, 65), _range(presets.big, 213)


def _range(preset: Callable[..., TransformerConfig], millions: int) -> list[int]:
    one, more = (count_parameters(build(preset(size), device="meta")) for size in (VOCABULARY, VOCABULARY + 1))
    return rounding_range(one, more - one, millions)


def rounding_range(count: int, row: int, millions: int) -> list[int]:
    """First and last vocabulary that give so many millions, rounded, if `VOCABULARY` gives `count`.

    Each token more is one `row` more; half a million belongs to the upper.
    """
    bounds = [(2 * millions + side) * 10**6 // 2 for side in (-1, 1)]
    first, beyond = (VOCABULARY - (count - bound) // row for bound in bounds)
    return [first, beyond - 1]


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


TABLE_3: dict[str, tuple[dict[str, Any], int]] = {
    "N 2": ({"encoder_layers": 2, "decoder_layers": 2}, 36),
    "N 4": ({"encoder_layers": 4, "decoder_layers": 4}, 50),
    "N 8": ({"encoder_layers": 8, "decoder_layers": 8}, 80),
    "d_model 256": ({"d_model": 256}, 28),
    "d_model 1024": ({"d_model": 1024}, 168),
    "d_ff 1024": ({"d_ff": 1024}, 53),
    "d_ff 4096": ({"d_ff": 4096}, 90),
}
"""Rows of the paper's Table 3 and the millions that it prints: the heads grow with d_model, and d_ff stays at 2048."""
NARROW = {16: 58, 32: 60}
"""Its rows in which d_k alone shrinks, likewise."""


@facts("params", "table3_millions", by=[build, EncoderLayer, DecoderLayer])
def table_3() -> list[float]:
    """Rows of the paper's Table 3 with 37000 tokens, in millions: d_k 16 and 32, then those of `TABLE_3`."""
    return [count / MILLION for count in table_3_counts(VOCABULARY)]


def table_3_counts(vocabulary: int) -> list[int]:
    """The parameters of those rows."""
    narrow = [_narrow_keys(vocabulary, width) for width in NARROW]
    return [*narrow, *(count_parameters(_empty(vocabulary, figures)) for figures, _ in TABLE_3.values())]


def _empty(vocabulary: int, figures: dict[str, Any]) -> nn.Module:
    """The base model with other figures and no numbers in it."""
    return build(presets.base(vocabulary, **figures), device="meta")


def _narrow_keys(vocabulary: int, width: int) -> int:
    """The base model with queries and keys of another width; our configuration ties it to that of the values."""
    whole, narrow = (_empty(vocabulary, {"attention": {"heads": 8, "head_dim": size}}) for size in (64, width))
    ends = ("attention.query.", "attention.key.")
    return count_parameters(whole) - counted(whole, *ends) + counted(narrow, *ends)


@facts("params", "common_range big_at_common", by=[build, presets.base, presets.big])
def one_vocabulary() -> tuple[list[int], float]:
    """Vocabularies with which base and those rows all round to what is printed; big, in millions, with the first."""
    printed = [65, *NARROW.values(), *(millions for _, millions in TABLE_3.values())]
    here, next_to_it = (
        [count_parameters(_empty(size, {})), *table_3_counts(size)] for size in (VOCABULARY, VOCABULARY + 1)
    )
    ranges = [rounding_range(a, b - a, millions) for a, b, millions in zip(here, next_to_it, printed, strict=True)]
    first, last = max(low for low, _ in ranges), min(high for _, high in ranges)
    return [first, last], count_parameters(build(presets.big(first), device="meta")) / MILLION


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
