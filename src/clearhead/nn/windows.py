"""Attention made of a score: over the whole source, or over a window of it.

Each is a `Core`, so that it is inspected like every other attention. The keys it takes are those that its `remember`
kept. The source's words stand at positions 0, 1, …, S − 1 without gaps, S the true length, which is read off the mask;
Luong et al. 2015 count from 1, so every position here is theirs less one.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import ConfigError
from clearhead.nn.cores import Core
from clearhead.nn.linear import Linear
from clearhead.nn.scores import Score
from clearhead.nn.visibility import Visibility

__all__ = ["GlobalCore", "LocalMonotonicCore", "LocalPredictiveCore"]


def _softmax(scores: Tensor, visibility: Visibility) -> Tensor:
    """Softmax over the visible keys: exactly 0 elsewhere, and all 0 where nothing is visible."""
    bias = visibility.float32_bias if scores.dtype is not torch.float16 else visibility.bias(torch.float16)
    weights = (scores + bias.to(scores.dtype)).softmax(-1)
    return weights if visibility.blank is None else weights.masked_fill(visibility.blank, 0.0)


class GlobalCore(Core):
    """Softmax of the scores over the whole source.

    Bahdanau et al. 2015, §3.1, equations 5 and 6, with `Additive`; Luong et al. 2015, §3.1, equation 7, with the rest.
    """

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score

    def remember(self, keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S E"]:
        """What the score keeps of the keys."""
        return self.score.remember(keys)

    def weights(
        self, query: Float[Tensor, "R H T Q"], key: Float[Tensor, "R G S E"], visibility: Visibility
    ) -> Float[Tensor, "R H T S"]:
        """Softmax over the visible keys within the score's reach: rows sum to one, or to zero where there are none."""
        return _softmax(self.score(query, key), self._reachable(key, visibility))

    def _reachable(self, key: Tensor, visibility: Visibility) -> Visibility:
        """`visibility` itself where the score reaches every key, so that what it has worked out is used again."""
        if self.score.reach is None or self.score.reach >= key.shape[2]:
            return visibility
        near = torch.arange(key.shape[2], device=key.device) < self.score.reach
        return Visibility(visibility.mask & near, visibility.query_positions)


class _LocalCore(GlobalCore):
    """What the two local kinds share: a window of the words at most `window` (the paper's D) from a position p.

    The scores are worked out for the whole source and those outside the window dropped: at the length of a sentence
    that is one product, where gathering 2D + 1 keys a query is many. So the cost is not the paper's O(2D + 1). With
    D = 10 gathering would begin to pay at some 100 words (measured in docs/design/0008-ancestors.md).
    """

    def __init__(self, score: Score, window: int = 10) -> None:
        super().__init__(score)
        if window < 1:
            raise ConfigError(f"a local window needs at least one word on each side, not {window}")
        self.window = window

    def extra_repr(self) -> str:
        return f"window={self.window}"

    def _in_window(
        self, query: Tensor, key: Tensor, visibility: Visibility, distance: Float[Tensor, "R H T S"]
    ) -> Float[Tensor, "R H T S"]:
        """Softmax over the visible words at a `distance` s − p of at most D, both edges included."""
        mask = self._reachable(key, visibility).mask & (distance.abs() <= self.window)
        return _softmax(self.score(query, key), Visibility(mask, visibility.query_positions))


class LocalMonotonicCore(_LocalCore):
    """local-m: p_t = t, as if source and target ran abreast (Luong et al. 2015, §3.2).

    The weights are the softmax over the window [t − D, t + D], without a Gaussian. t is the query's own position,
    `visibility.query_positions`, the first being 0. The paper does not say what becomes of a target that outgrows its
    source: here p stays at the last word, so that the window is never empty.
    """

    def weights(
        self, query: Float[Tensor, "R H T Q"], key: Float[Tensor, "R G S E"], visibility: Visibility
    ) -> Float[Tensor, "R H T S"]:
        """Softmax over the window; `ValueError` if `visibility` does not tell where the queries stand."""
        if visibility.query_positions is None:
            raise ValueError("local-m attention asks where its queries stand: give visibility its query_positions")
        last = (_length(visibility) - 1).clamp(min=0)  # [R, 1, T]
        centre = torch.minimum(visibility.query_positions[:, None], last)
        return self._in_window(query, key, visibility, _distance(key, centre))


class LocalPredictiveCore(_LocalCore):
    """local-p: the decoder says where to look (Luong et al. 2015, §3.2).

    p_t = S·σ(v_pᵀ·tanh(W_p·h_t)), equation 9, a real number between 0 and the length S of the source; W_p is `hidden`,
    v_p `position`. a_t(s) = align(h_t, h̄_s)·exp(−(s − p_t)²/(2σ²)) with σ = D/2, equation 10: align is the softmax over
    the window [p_t − D, p_t + D], and the Gaussian multiplies it. **The product is not normalised again**, so a row
    sums to less than one.

    p_t is not rounded. The window's edges are steps and give it no gradient; it learns through the Gaussian alone.
    `width` is that of W_p·h_t; None = as wide as the query.
    """

    def __init__(self, score: Score, window: int = 10, *, width: int | None = None) -> None:
        super().__init__(score, window)
        self.hidden = Linear(score.query_width, width or score.query_width, bias=False)
        self.position = Linear(width or score.query_width, 1, bias=False)

    def centre(self, query: Float[Tensor, "R H T Q"], visibility: Visibility) -> Float[Tensor, "R H T"]:
        """p_t of every query; float32 at least, since in 8 bits neighbouring words of a long text are one."""
        raw: Tensor = self.position(self.hidden(query).tanh()).squeeze(-1)  # [R, H, T]
        share = raw.to(torch.promote_types(raw.dtype, torch.float32)).sigmoid()
        return _length(visibility) * share

    def weights(
        self, query: Float[Tensor, "R H T Q"], key: Float[Tensor, "R G S E"], visibility: Visibility
    ) -> Float[Tensor, "R H T S"]:
        """Softmax over the window around p_t, times the Gaussian."""
        distance = _distance(key, self.centre(query, visibility))
        aligned = self._in_window(query, key, visibility, distance)
        deviation = self.window / 2
        return aligned * (-(distance**2) / (2 * deviation**2)).exp().to(aligned.dtype)


def _length(visibility: Visibility) -> Tensor:
    """How many source words a query may read: the true length S, [R, 1, T] or broadcastable to it."""
    return visibility.mask.sum(-1)


def _distance(key: Tensor, centre: Tensor) -> Tensor:
    """s − p for every position s of the keys and every p: [R, 1, T] → [R, 1, T, S]."""
    return torch.arange(key.shape[2], device=key.device) - centre[..., None]
