"""Chapter 11: what is set before training begins (constants, first weights), and what dropout does during it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from clearhead.decoding import penalties
from clearhead.decoding.config import DecodingConfig
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.config import TransformerConfig
from clearhead.models.transformer import InputLayer
from clearhead.nn.attention import AttentionConfig
from clearhead.nn.dropout import Dropout
from clearhead.nn.linear import Linear
from clearhead.nn.residual import Residual
from clearhead.objectives.cross_entropy import CrossEntropy, smoothed_cross_entropy
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import distance, vector
from clearhead.training.config import Adam
from clearhead.training.optim import build_optimizer
from clearhead.training.schedules import InverseSqrt

__all__: list[str] = []


@facts("train", "defaults", by=[Adam, CrossEntropy, InverseSqrt, DecodingConfig])
def defaults() -> list[float]:
    """β₁, β₂, ε of the smoothing, warm-up, beam and α, where nobody says otherwise: the paper's."""
    adam, search = Adam(), DecodingConfig()
    rest = [CrossEntropy().label_smoothing, InverseSqrt().warmup, search.beam, search.alpha]
    return [adam.beta1, adam.beta2, *rest]


@facts("model", "dropout", by=[presets.base, presets.big])
def dropout_rates() -> list[float]:
    """Of base and big, where dropout acts in the built model."""
    rates = []
    for preset in (presets.base, presets.big):
        model = build(preset(5, encoder_layers=1, decoder_layers=1), device="meta")
        (rate,) = {part.dropout.rate for part in model.modules() if isinstance(part, Residual | InputLayer)}
        rates.append(rate)
    return rates


@facts("train", "adam_second", by=[build_optimizer, Adam])
def adam() -> Tensor:
    """Two updates with different gradients; the last gradient is as small as Adam's ε."""
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer = build_optimizer(layer, Adam())
    for group in optimizer.param_groups:
        group["lr"] = 0.001
    for gradient in (vector(0.6, -0.7, 1e-9), vector(-0.2, -0.1, 2e-9)):
        layer.weight.grad = gradient
        optimizer.step()
    return layer.weight


@facts("train", "halved_gradient", by=[smoothed_cross_entropy])
def halved() -> Tensor:
    """The gradient of half the loss, as a mean over two updates has it."""
    logits = vector(0.6, 0.3, 0.1).log()[None].requires_grad_()
    loss, _ = smoothed_cross_entropy(logits, torch.tensor([1]), 0.0)
    (gradient,) = torch.autograd.grad(loss / 2, logits)
    return gradient[0]


def distinct(values: Tensor) -> list[float]:
    """The different numbers of a tensor, smallest first."""
    return sorted(set(values.detach().flatten().tolist()))


@facts("train", "dropout_values", by=[Dropout])
def dropout() -> list[float]:
    """What is left of ones at a rate of a quarter: nothing, or as much more as keeps the mean."""
    return distinct(Dropout(0.25).train()(torch.ones(4096, dtype=torch.float64)))


@facts("train", "dropout_before_sum dropout_after_norm", by=[Residual, Dropout])
def dropout_of_a_sublayer() -> tuple[list[float], float]:
    """What enters the norm when the input is 10 and the sub-layer says 1; and what happens to the norm's output."""
    block, summed = Residual("post", 512, 0.5).double().train(), []
    handle = block.norm.register_forward_pre_hook(lambda _, inputs: summed.append(inputs[0]))
    normal = block(torch.full((8, 512), 10.0, dtype=torch.float64), torch.ones_like)
    handle.remove()
    return distinct(summed[0]), distance(normal, block.norm(summed[0]))


@facts("train", "dropout_of_input", by=[InputLayer, Dropout])
def dropout_of_embeddings() -> list[float]:
    """What enters a stack in training, from an embedding of zeros at position 0."""
    config = TransformerConfig(vocab_size=5, d_model=512, attention=AttentionConfig(heads=1), dropout=0.5)
    layer = InputLayer(config, 5).double().train()
    nn.init.zeros_(layer.embedding.weight)
    return distinct(layer(torch.zeros(8, 1, dtype=torch.int64), torch.zeros(8, 1, dtype=torch.int64)))


@facts("model", "initial_spread", by=[build])
def first_weights() -> list[float]:
    """√d times the embedding's deviation, to a tenth; the largest weights over Glorot's bound, to a hundredth."""
    figures = {"d_model": 64, "d_ff": 256, "encoder_layers": 1, "decoder_layers": 1, "attention": {"heads": 4}}
    model = build(presets.base(1000, **figures), seed=0)
    spread = round(8 * model.get_parameter("encoder.input.embedding.weight").std().item(), 1)
    maps = [part.weight for part in model.modules() if isinstance(part, Linear)]
    largest = [weight.abs().max().item() / math.sqrt(6 / sum(weight.shape)) for weight in maps]
    return [spread, round(min(largest), 2), round(max(largest), 2)]


@facts("search", "plain_lengths", by=[penalties.divisor])
def plain_lengths() -> list[float]:
    """The length itself as the divisor, with the exponent of the other."""
    return [penalties.divisor("length", 0.6, length) for length in (1, 5, 10)]
