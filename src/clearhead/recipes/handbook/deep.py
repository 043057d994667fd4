"""Chapter 10, two layers a side: what one layer, one sentence and one pass cannot show, and long attention."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.data import collate as collation
from clearhead.models import presets
from clearhead.models.config import TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder, TransformerEncoder, TransformerState
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.cache import Kept
from clearhead.nn.cores import ScaledDotProduct
from clearhead.nn.embedding import Projection
from clearhead.nn.padding import Padded
from clearhead.nn.visibility import Visibility
from clearhead.objectives.cross_entropy import CrossEntropy
from clearhead.recipes.handbook.model import formula, hand_set
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import EVERYTHING, causal, set_map

__all__: list[str] = []

SOURCES, PREFIXES = [[4, 5, 3], [5, 3]], [[2, 4, 5], [2, 5, 5, 4]]
"""Two sentences of unequal length; the sources end on EOS, the prefixes begin with BOS."""
CHUNKS = ((0, 1), (1, 3), (3, 4))
"""How the second prefix is read: a token, two at once, and one more."""
BESIDE = 1
"""The token of the hypotheses that lead nowhere."""


def deep_config(norm: str = "post") -> TransformerConfig:
    """The tiny model with two layers a side."""
    figures = {"d_model": 4, "d_ff": 8, "encoder_layers": 2, "decoder_layers": 2, "attention": {"heads": 2}}
    return presets.base(6, **figures, norm=norm)


@facts("model", "deep_memory deep_logits", by=[TransformerEncoder, TransformerDecoder])
@torch.no_grad()
def alone() -> tuple[list[Tensor], list[Tensor]]:
    """Encoder output and logits, each sentence for itself."""
    model = hand_set(deep_config())
    pairs = [(Padded.from_lists([s]), Padded.from_lists([p])) for s, p in zip(SOURCES, PREFIXES, strict=True)]
    return [model.encoder(source).keys[0] for source, _ in pairs], [model(*pair) for pair in pairs]


@facts("model", "deep_batch_memory deep_batch_logits", by=[TransformerEncoder, TransformerDecoder, Visibility])
@torch.no_grad()
def together() -> tuple[list[Tensor], list[Tensor]]:
    """The same in one batch with padding, which must not be seen."""
    model, source = hand_set(deep_config()), Padded.from_lists(SOURCES)
    memory = model.encoder(source).keys
    logits = model(source, Padded.from_lists(PREFIXES))
    each = logits.split([len(prefix) for prefix in PREFIXES])
    return [memory[row, : len(ids)] for row, ids in enumerate(SOURCES)], list(each)


@facts("model", "deep_step_logits", by=[TransformerDecoder, TransformerState, Kept, Attention])
@torch.no_grad()
def in_steps() -> list[Tensor]:
    """The same out of a cache: two hypotheses a sentence that change places after every step; the first ends early."""
    model = hand_set(deep_config())
    first, second = (model.decoder.start(model.encoder(Padded.from_lists([source]))) for source in SOURCES)
    state = first.join(second).rows(torch.tensor([[0, 0], [1, 1]]))
    found: list[list[Tensor]] = [[], []]
    for step, (begin, end) in enumerate(CHUNKS):
        place, running = step % 2, [0, 1] if begin < len(PREFIXES[0]) else [1]
        rows = [_beside(PREFIXES[sentence][begin:end], place) for sentence in running]
        hidden, state = model.decoder.advance(Padded.from_lists([row for both in rows for row in both]), state)
        for at, sentence in enumerate(running):
            found[sentence].append(model.decoder.project(hidden[2 * at + place]))
        unread = [sentence for sentence in running if end < len(PREFIXES[sentence])]
        if unread:
            state = state.rows(torch.tensor([[2 * sentence + 1, 2 * sentence] for sentence in unread]))
    return [torch.cat(steps) for steps in found]


def _beside(tokens: list[int], place: int) -> list[list[int]]:
    other = [BESIDE] * len(tokens)
    return [tokens, other] if place == 0 else [other, tokens]


@facts("model", "deep_chosen_logits", by=[Projection])
@torch.no_grad()
def chosen() -> Tensor:
    """Logits of three tokens alone."""
    model = hand_set(deep_config())
    state = model.decoder.start(model.encoder(Padded.from_lists(SOURCES[:1])))
    hidden, _ = model.decoder.advance(Padded.from_lists(PREFIXES[:1]), state)
    return model.decoder.project(hidden[0], torch.tensor([5, 0, 3]))


@facts("model", "deep_nll", by=[collation.collate, CrossEntropy])
def loss_of_the_batch() -> float:
    """The mean over the real tokens of both sentences."""
    loss = CrossEntropy(0.1)(hand_set(deep_config()), collation.collate([([4, 5], [4, 5]), ([5], [5, 5, 4])]))
    return loss.metrics["nll"].item() / loss.count


@facts("model", "pre_logits", by=[TransformerEncoder, TransformerDecoder])
@torch.no_grad()
def pre_norm() -> Tensor:
    """With the norm on the way into each sub-layer, and a last one on each stack."""
    model: Seq2Seq = hand_set(deep_config("pre"))
    logits: Tensor = model(Padded.from_lists(SOURCES[:1]), Padded.from_lists(PREFIXES[:1]))
    return logits


@facts("causal", "long_output", by=[Visibility, ScaledDotProduct])
def long_and_causal() -> Tensor:
    """Three of 200 positions, by the fused kernel that long sequences and GPUs use."""
    return _long(causal(200))


@facts("attn", "long_output", by=[ScaledDotProduct])
def long_and_whole() -> Tensor:
    """The same with nothing hidden."""
    return _long(Visibility(torch.ones(1, 1, 200, 200, dtype=torch.bool)))


def _long(visibility: Visibility) -> Tensor:
    query, key, value = (formula(number, 200, 2)[None, None] for number in (31, 32, 33))
    read: Tensor = ScaledDotProduct().eval()(query, key, value, visibility)
    return read[0, 0, [0, 99, 199]]


@facts("heads", "grouped_result", by=[Attention])
@torch.no_grad()
def grouped() -> Tensor:
    """Four heads of width one; neighbours share a key and a value."""
    layer = Attention(AttentionConfig(heads=4, kv_heads=2), 4).double().eval()
    shapes = ((layer.query, 4), (layer.key, 2), (layer.value, 2), (layer.output, 4))
    for number, (part, width) in enumerate(shapes, start=35):
        set_map(part, formula(number, 4, width))
    x = formula(34, 3, 4)[None]
    read: Tensor = layer(x, layer.remember(x, x), EVERYTHING)
    return read[0]
