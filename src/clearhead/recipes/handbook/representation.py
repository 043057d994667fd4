"""Chapter 2: tokens as rows of a table, scaled, and the table used again for the output."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clearhead.models.build import build
from clearhead.models.config import TransformerConfig
from clearhead.nn.attention import AttentionConfig
from clearhead.nn.embedding import Embedding, Projection
from clearhead.recipes.handbook.registry import facts
from clearhead.recipes.handbook.setting import X, vector

__all__: list[str] = []


def table(rows: Tensor) -> Embedding:
    """An embedding with the given rows."""
    embedding = Embedding(rows.shape[0], rows.shape[1]).double()
    with torch.no_grad():
        embedding.weight.copy_(rows)
    return embedding


def looked_up(row: Tensor) -> Tensor:
    """What `Embedding` makes of a table with this one row."""
    found: Tensor = table(row[None])(torch.tensor([[0]]))
    return found[0, 0]


@facts("rep", "x x_shape", by=[Embedding])
def teaching_input() -> tuple[Tensor, list[int]]:
    """The three rows, looked up in a table that holds them divided by √d."""
    rows = table(X / math.sqrt(2))(torch.tensor([[0, 1, 2]]))[0]
    return rows, list(rows.shape)


@facts("rep", "sqrt_d scaled_embedding exercise_row exercise_scaled", by=[Embedding], given="exercise_row")
def scaling() -> tuple[Tensor, ...]:
    """A row enters the model times √d."""
    unit = torch.zeros(512, dtype=torch.float64)
    unit[0] = 1.0
    row = vector(0.5, -1, 0, 2)
    return looked_up(unit)[0], looked_up(vector(1, 0, 1, 0)), row, looked_up(row)


@facts("rep", "tied_shape tied_output_shape", by=[build, Embedding, Projection])
def tied() -> tuple[list[int], list[int]]:
    """One matrix [v, d]; the output multiplies by its transpose [d, v]."""
    config = TransformerConfig(
        vocab_size=7, d_model=3, d_ff=3, encoder_layers=1, decoder_layers=1, attention=AttentionConfig(heads=1)
    )
    model = build(config, device="meta")
    shared = model.get_parameter("decoder.input.embedding.weight")
    if model.get_parameter("decoder.output.weight") is not shared:
        raise ValueError("the output does not share the embedding's matrix")
    return list(shared.shape), list(shared.T.shape)


@facts("rep", "row_of_id_7", by=[Embedding])
def eighth_row() -> int:
    """Id 7 is found in the eighth row, counted from one."""
    rows = torch.arange(1, 11, dtype=torch.float64)[:, None]  # row r holds its number, counted from one
    return int(table(rows)(torch.tensor([[7]])).item())


@facts("rep", "log_vocabulary", by=[Projection])
def log_vocabulary() -> Tensor:
    """The loss of a model that finds all 37000 tokens equally likely."""
    output = Projection(37000, 1).double()
    with torch.no_grad():
        output.weight.fill_(0.5)
    logits: Tensor = output(vector(1.0))
    return -logits.log_softmax(-1)[0]
