"""Chapter 8: where a token stands."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clearhead.models.config import TransformerConfig
from clearhead.models.transformer import InputLayer
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.positions import SinusoidalPositions
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import EVERYTHING, X, distance, one_head, vector

__all__: list[str] = []

TOKEN = vector(1, 0, 1, 0)


def encodings(positions: int, d_model: int = 4) -> Tensor:
    """The sinusoids of the first positions, [positions, D]."""
    rows: Tensor = SinusoidalPositions(d_model)(torch.arange(positions)[None], TOKEN)
    return rows[0]


@facts("pos", "pe exercise embedding sum half_layout", by=[SinusoidalPositions], given="embedding")
def table() -> tuple[Tensor, ...]:
    """Sines and cosines in turn; the last fact is the other order, all sines first."""
    rows = encodings(4)
    return rows[:3], rows[3], TOKEN, TOKEN + rows[1], torch.cat([rows[1, 0::2], rows[1, 1::2]])


@facts("pos", "scaled_sum", by=[InputLayer])
def input_layer() -> Tensor:
    """What enters a stack: the row times √d, and its position."""
    layer = (
        InputLayer(TransformerConfig(vocab_size=5, d_model=4, attention=AttentionConfig(heads=1)), 5).double().eval()
    )
    with torch.no_grad():
        layer.embedding.weight.copy_(TOKEN.expand(5, 4))
    entering: Tensor = layer(torch.tensor([[4]]), torch.tensor([[1]]))
    return entering[0, 0]


@facts("pos", "frequencies wavelengths", by=[SinusoidalPositions])
def frequencies() -> tuple[Tensor, Tensor]:
    """The angle that each pair turns by from one position to the next, and after how many positions it is back."""
    first = encodings(2)[1]
    turned = torch.atan2(first[0::2], first[1::2])
    return turned, 2 * math.pi / turned


@facts("pos", "rotated rotation_change", by=[SinusoidalPositions])
def rotation() -> tuple[Tensor, float]:
    """A fixed distance is a rotation of every pair, whatever the position."""
    rows = encodings(9, 8)
    one = encodings(2)
    return _rotated(one[1], one[1])[:2], distance(_rotated(rows[3], rows[5]), rows[8])


def _rotated(row: Tensor, by: Tensor) -> Tensor:
    """Each (sin a, cos a) of `row` turned by the angle b whose (sin b, cos b) stands in `by`."""
    sine = row[0::2] * by[1::2] + row[1::2] * by[0::2]
    cosine = row[1::2] * by[1::2] - row[0::2] * by[0::2]
    return torch.stack([sine, cosine], -1).flatten()


@facts("pos", "dots", by=[SinusoidalPositions])
def products() -> list[Tensor]:
    """The product of two encodings depends on their distance alone; here from position 3."""
    rows = encodings(6)
    return [rows[3] @ rows[3 + step] for step in range(3)]


@facts("pos", "permutation_change", by=[Attention])
def permutation() -> float:
    """Without positions, attention does not know in which order its input came."""
    layer, order = one_head(), [2, 0, 1]
    plain = layer(X[None], layer.remember(X[None], X[None]), EVERYTHING)[0]
    moved = X[order][None]
    return distance(layer(moved, layer.remember(moved, moved), EVERYTHING)[0], plain[order])
