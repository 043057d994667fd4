"""What a query thinks of a key: the scores of the recurrent translators, before any softmax.

A score has two sides. `remember` is what it does to the keys, once a sentence, since keys do not change while a target
is written; `forward` compares the queries of a step with what was remembered. `windows.py` makes attention of it: the
softmax, and the choice of the keys that may be read.

There is one head; the axis H of `Core` is there and has length 1. Notation: s or h_t a decoder state (the query), h or
h̄_s an annotation of the source (the key). Which state asks is the decoder's matter: s_{i−1}, that before the word is
read, in Bahdanau et al. 2015, and h_t, that after it, in Luong et al. 2015.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.base.errors import ConfigError
from clearhead.nn.linear import Linear, linear

__all__ = ["Additive", "Concat", "Dot", "General", "Location", "Score", "ScoreKind", "make_score", "tanh_in_place"]

ScoreKind = Literal["additive", "dot", "general", "concat", "location"]


class Score(nn.Module, ABC):
    """Compares queries of width `query_width` with keys of width `key_width`.

    `reach`: how many positions, from the first, can have a score at all; None when every one can.
    """

    reach: int | None = None

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.query_width = query_width
        self.key_width = key_width

    def remember(self, keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S E"]:
        """What is kept of the keys, with an axis for the one head; as they are unless a score says otherwise."""
        return keys[:, None]

    @abstractmethod
    def forward(self, query: Float[Tensor, "R H T Q"], key: Float[Tensor, "R G S E"]) -> Float[Tensor, "R H T S"]:
        """The score of each pair; `key` is what `remember` kept."""


def tanh_in_place(x: Tensor) -> Tensor:
    """tanh of every number, where it stands; autograd does not see it.

    In float32 on a CPU as 2σ(2x) − 1, which PyTorch works out four times as fast as its tanh (Zen 4), to 2·10⁻⁷ where
    that is right to 3·10⁻⁸. With an energy for every pair of words, tanh is otherwise the largest part of a step.
    """
    if x.dtype is not torch.float32 or x.device.type != "cpu":
        return x.tanh_()
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


def _energy(query: Tensor, key: Tensor, reading: Linear) -> Tensor:
    """vᵀ·tanh(query + key) for every pair: [R, H, T, n] and [R, H, S, n] → [R, H, T, S]."""
    joint = query[:, :, :, None] + key[:, :, None]  # [R, H, T, S, n]
    joint = joint.tanh() if torch.is_grad_enabled() else tanh_in_place(joint)
    scores: Tensor = reading(joint).squeeze(-1)
    return scores


class Additive(Score):
    """e = v_aᵀ·tanh(W_a·s + U_a·h): the alignment model of Bahdanau et al. 2015, A.1.2.

    `width` is n, the width of W_a·s, apart from both others. U_a·h is worked out once a sentence, as the paper says, in
    `remember`. W_a is `query`, U_a `key`, v_a `energy`. No biases, as printed.
    """

    def __init__(self, query_width: int, key_width: int, width: int) -> None:
        super().__init__(query_width, key_width)
        self.query = Linear(query_width, width, bias=False)
        self.key = Linear(key_width, width, bias=False)
        self.energy = Linear(width, 1, bias=False)

    def remember(self, keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S E"]:
        """U_a·h of every position."""
        return self.key(keys)[:, None]

    def forward(self, query: Float[Tensor, "R H T Q"], key: Float[Tensor, "R G S E"]) -> Float[Tensor, "R H T S"]:
        """v_aᵀ·tanh(W_a·s + what was remembered)."""
        return _energy(self.query(query), key, self.energy)


class Dot(Score):
    """h_tᵀ·h̄_s, unscaled (Luong et al. 2015, §3.1, the first of the scores after equation 7); no parameters."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__(query_width, key_width)
        if query_width != key_width:
            raise ConfigError(
                f'the score "dot" multiplies states of width {query_width} with annotations of width {key_width}; '
                'make them equal, or take "general", which has a matrix between the two'
            )

    def forward(self, query: Float[Tensor, "R H T Q"], key: Float[Tensor, "R G S E"]) -> Float[Tensor, "R H T S"]:
        """All dot products."""
        return query @ key.transpose(-2, -1)


class General(Score):
    """h_tᵀ·W_a·h̄_s (Luong et al. 2015, §3.1, the second of the scores after equation 7).

    `map.weight` is W_a [query_width, key_width]; `remember` keeps W_a·h̄_s.
    """

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__(query_width, key_width)
        self.map = Linear(key_width, query_width, bias=False)

    def remember(self, keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S E"]:
        """W_a·h̄_s of every position."""
        return self.map(keys)[:, None]

    def forward(self, query: Float[Tensor, "R H T Q"], key: Float[Tensor, "R G S E"]) -> Float[Tensor, "R H T S"]:
        """All dot products with what was remembered."""
        return query @ key.transpose(-2, -1)


class Concat(Score):
    """v_aᵀ·tanh(W_a·[h_t; h̄_s]) (Luong et al. 2015, §3.1, the third of the scores after equation 7).

    `joint.weight` is W_a [width, query_width + key_width], the query's columns first. Split into these two blocks it is
    the formula of `Additive`, whose matrices are drawn apart; the papers differ in the state that asks. (For their
    experiments Luong et al. set the query's block to the identity, §5.3, footnote; here it is learnt, as printed.)
    """

    def __init__(self, query_width: int, key_width: int, width: int) -> None:
        super().__init__(query_width, key_width)
        self.joint = Linear(query_width + key_width, width, bias=False)
        self.energy = Linear(width, 1, bias=False)

    def remember(self, keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S E"]:
        """The keys' share of W_a·[h_t; h̄_s]."""
        return linear(keys, self.joint.weight[:, self.query_width :])[:, None]

    def forward(self, query: Float[Tensor, "R H T Q"], key: Float[Tensor, "R G S E"]) -> Float[Tensor, "R H T S"]:
        """v_aᵀ·tanh(the query's share + what was remembered)."""
        return _energy(linear(query, self.joint.weight[:, : self.query_width]), key, self.energy)


class Location(Score):
    """W_a·h_t, row s of it for position s, whatever stands there (Luong et al. 2015, §3.1, equation 8).

    W_a [max_length, query_width] fixes how many positions can be looked at. Of a shorter sentence only the first rows
    are used, of a longer one the words beyond are ignored (`reach`). The paper leaves open whether the rows that a
    short sentence does not use take part in the softmax; here they do not, so that the weights of its words sum to one.
    """

    def __init__(self, query_width: int, key_width: int, max_length: int) -> None:
        super().__init__(query_width, key_width)
        self.places = Linear(query_width, max_length, bias=False)
        self.reach: int | None = max_length

    def forward(self, query: Float[Tensor, "R H T Q"], key: Float[Tensor, "R G S E"]) -> Float[Tensor, "R H T S"]:
        """One score a position; those beyond `reach` are 0 and mean nothing."""
        scores: Tensor = self.places(query)
        return F.pad(scores, (0, key.shape[2] - scores.shape[-1]))  # a negative pad cuts


def make_score(
    kind: ScoreKind, query_width: int, key_width: int, *, width: int | None = None, max_length: int = 100
) -> Score:
    """The score of that name.

    `width` is that of the hidden layer of `additive` and `concat` (None: as wide as the query), `max_length` the number
    of positions of `location`.
    """
    match kind:
        case "additive":
            return Additive(query_width, key_width, width or query_width)
        case "dot":
            return Dot(query_width, key_width)
        case "general":
            return General(query_width, key_width)
        case "concat":
            return Concat(query_width, key_width, width or query_width)
        case "location":
            return Location(query_width, key_width, max_length)
