"""Chapter 10: reading the source, and the whole model at once on weights given by a formula."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.data import collate as collation
from clearhead.models import presets
from clearhead.models.build import build, count_parameters
from clearhead.models.config import TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder, TransformerEncoder
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.embedding import Projection
from clearhead.nn.linear import Linear
from clearhead.nn.padding import Padded
from clearhead.objectives.cross_entropy import CrossEntropy
from clearhead.recipes.handbook.heads import watch
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import IDENTITY, attention_of, distance, matrix, vector
from clearhead.recipes.handbook.training import likelihoods

__all__ = ["SOURCE", "formula", "hand_set", "tiny_config"]

SOURCE, PREFIX = [4, 5, 3], [2, 4, 5]


@facts("cross", "queries memory scores weights output", by=[Attention], given="queries memory")
def cross_attention() -> tuple[Tensor, ...]:
    """Two queries on a memory of four positions."""
    queries, memory = matrix([[1, 0], [1, 1]]), matrix([[1, 0], [0, 1], [1, 1], [0, 0]])
    seen = watch(attention_of(1, *[IDENTITY] * 4), queries, memory)
    # The last position of the memory is all zeros, so that its score is 0 and the others are read off against it.
    scores = (seen.weights[0] / seen.weights[0][:, 3:]).log()
    return queries, memory, scores, seen.weights[0], seen.result


@facts("model", "cross_shapes", by=[Attention])
def cross_shapes() -> list[list[int]]:
    """Decoder states, memory, queries, keys, scores, what is read, and what leaves W_O."""
    layer = Attention(AttentionConfig(heads=1, head_dim=2), 8).double()
    for part in (layer.query, layer.key, layer.value, layer.output):
        torch.nn.init.constant_(part.weight, 0.1)
    states, memory = matrix([[1] * 8] * 3), matrix([[1] * 8] * 4)
    seen = watch(layer, states, memory)
    steps = (states, memory, layer.query(states), layer.key(memory), seen.weights[0], seen.heads[0], seen.result)
    return [list(step.shape) for step in steps]


@facts("model", "head_dim", by=[presets.base, AttentionConfig])
def head_dim() -> int:
    """The width of a head of the base model."""
    config = presets.base(vocab_size=37000)
    return config.attention.widths(config.d_model)[2]


@facts("model", "vocabulary_softmax gap", by=[CrossEntropy])
def next_token() -> tuple[Tensor, Tensor]:
    """Three logits as probabilities: the exponential of minus the loss that each label would cost."""
    probabilities = likelihoods(vector(2, 1, 0))
    return probabilities, probabilities[0] / probabilities[1]


@facts("model", "greedy", by=[Projection])
def greedy() -> Tensor:
    """The likeliest token."""
    output = Projection(3, 1).double()
    with torch.no_grad():
        output.weight.copy_(vector(2, 1, 0)[:, None])
    logits: Tensor = output(vector(1))
    return logits.argmax()


def tiny_config(embeddings: str = "tied") -> TransformerConfig:
    """Six tokens, width 4, two heads, inner width 8, one layer a side, post-norm."""
    figures = {"d_model": 4, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1, "attention": {"heads": 2}}
    return presets.base(6, **figures, embeddings=embeddings)


def hand_set(config: TransformerConfig | None = None) -> Seq2Seq:
    """The tiny model; entry (i, j) of its m-th map is cos(m + 3i + 5j)/2 and of the m-th bias cos(m + j)/10."""
    model = build(config or tiny_config(), seed=0).double().eval()
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, TransformerEncoder)
    assert isinstance(decoder, TransformerDecoder)
    maps = [module for stack in (encoder.layers, decoder.layers) for module in stack.modules()]
    with torch.no_grad():
        encoder.input.embedding.weight.copy_(formula(0, 6, 4))  # the output has it too only because it is shared
        for number, layer in enumerate((module for module in maps if isinstance(module, Linear)), start=1):
            layer.weight.copy_(formula(number, layer.weight.shape[1], layer.weight.shape[0]).T)
            if layer.bias is not None:
                layer.bias.copy_((number + torch.arange(layer.bias.shape[0])).double().cos() / 10)
    return model


def formula(number: int, rows: int, columns: int) -> Tensor:
    """Map number m: entry (i, j) is cos(m + 3i + 5j)/2."""
    angles = number + 3 * torch.arange(rows)[:, None] + 5 * torch.arange(columns)[None]
    return angles.double().cos() / 2


def _logits(model: Seq2Seq, prefix: list[int]) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model(Padded.from_lists([SOURCE]), Padded.from_lists([prefix]))
    return logits


@facts("model", "tiny_memory tiny_logits", by=[TransformerEncoder, TransformerDecoder])
def tiny() -> tuple[Tensor, Tensor]:
    """Encoder output and logits of one sentence."""
    model = hand_set()
    with torch.no_grad():
        memory = model.encoder(Padded.from_lists([SOURCE])).keys[0]
    return memory, _logits(model, PREFIX)


@facts("model", "tiny_nll", by=[collation.collate, TransformerEncoder, TransformerDecoder, CrossEntropy])
def tiny_loss() -> float:
    """The mean loss of the pair (4 5, 4 5), from its batch on: EOS and BOS are added there."""
    loss = CrossEntropy(0.1)(hand_set(), collation.collate([([4, 5], [4, 5])]))
    return loss.metrics["nll"].item() / loss.count


@facts("model", "tiny_causality_change", by=[TransformerDecoder])
def causality() -> float:
    """What another third token changes in the logits after the first and the second."""
    model = hand_set()
    return distance(_logits(model, PREFIX)[:2], _logits(model, [*PREFIX[:2], 4])[:2])


@facts("model", "tied_parameters untied_parameters", by=[build, count_parameters])
def shared() -> tuple[int, int]:
    """With one matrix for source, target and output, and with three."""
    tied, separate = (build(tiny_config(kind), device="meta") for kind in ("tied", "separate"))
    return count_parameters(tied), count_parameters(separate)
