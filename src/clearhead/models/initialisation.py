"""The first weights of the ancestors' papers, as a choice beside clearhead's own.

A word vector enters a model of clearhead times √D (`nn.embedding`), and no paper's here did. So the input's matrix is
drawn √D times narrower, and what enters has the distribution that the paper gives. A matrix that is also the output's
is drawn as the output's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from clearhead.config.strict import Config
from clearhead.nn.cells import Cell
from clearhead.nn.embedding import Embedding, Projection
from clearhead.nn.scores import Additive

__all__ = ["Bahdanau", "Default", "Initialisation", "Uniform", "initialise_as"]


class Default(Config):
    """Each module's own: Xavier-uniform maps, orthogonal recurrent matrices, N(0, 1/D) word vectors (`build`)."""

    kind: Literal["default"] = "default"


class Uniform(Config):
    """Every weight and bias from U(−range, range): 0.08 in Sutskever et al. 2014, §3.4; 0.1 in Luong et al. 2015, §4.1.

    Gains and shifts of a normalisation, which those models do not have, stay 1 and 0.
    """

    kind: Literal["uniform"] = "uniform"
    range: float = Field(default=0.08, gt=0, le=1000)  # what is far beyond float32 cannot be drawn


class Bahdanau(Config):
    """U, U_z, U_r orthogonal, W_a, U_a N(0, 0.001²), v_a and biases 0, else N(0, 0.01²) (Bahdanau et al. 2015, B.1)."""

    kind: Literal["bahdanau"] = "bahdanau"


Initialisation = Annotated[Default | Uniform | Bahdanau, Field(discriminator="kind")]


@torch.no_grad()
def initialise_as(
    model: nn.Module, how: Default | Uniform | Bahdanau, generator: torch.Generator | None = None
) -> None:
    """Draw the weights of a built model anew; `Default` leaves them as `build` has drawn them."""
    match how:
        case Default():
            return
        case Uniform(range=reach):
            for parameter, narrower in _drawn(model):
                nn.init.uniform_(parameter, -reach / narrower, reach / narrower, generator=generator)
        case Bahdanau():
            for parameter, narrower in _drawn(model):
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.01 / narrower, generator=generator)
                else:
                    nn.init.zeros_(parameter)
            for module in model.modules():
                if isinstance(module, Cell):
                    for gate in module.gates:  # each by itself: stacked, their columns would be orthogonal instead
                        nn.init.orthogonal_(module.gate(module.hidden_weight, gate), generator=generator)
                elif isinstance(module, Additive):
                    nn.init.normal_(module.query.weight, std=0.001, generator=generator)
                    nn.init.normal_(module.key.weight, std=0.001, generator=generator)
                    nn.init.zeros_(module.energy.weight)


def _drawn(model: nn.Module) -> Iterator[tuple[Tensor, float]]:
    """Every parameter but those of a normalisation, once, and how much narrower than printed it must be drawn."""
    seen: set[int] = set()
    outputs = {id(module.weight) for module in model.modules() if isinstance(module, Projection)}
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            continue
        for parameter in module.parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            scaled = isinstance(module, Embedding) and id(parameter) not in outputs
            yield parameter, cast("Embedding", module).factor if scaled else 1.0
