"""Convolution over the positions of a sequence, plain or causal, and the two blocks that translators were made of.

A kernel of k taps, `dilation` apart, reaches over (k − 1)·dilation positions beside its own. A causal one looks back
only; between two calls it must know as many of its last inputs as it reaches, which is all the state that it has.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.base.errors import ConfigError
from clearhead.nn.dropout import Dropout
from clearhead.nn.linear import Linear, linear
from clearhead.nn.residual import LAYER_NORM_EPSILON

__all__ = ["SQRT_HALF", "Convolution", "DilatedBlock", "GatedBlock"]

SQRT_HALF = math.sqrt(0.5)
"""What the sum of two parts of equal variance is multiplied by to have that variance (Gehring et al. 2017, §3.4)."""


class Convolution(nn.Module):
    """y_t = b + Σ_j W_j·x at tap j, j from 0 to k − 1.

    Tap j of a causal kernel lies at t − (k − 1 − j)·dilation; of a plain one, whose k must be odd, at t + (j − (k −
    1)/2)·dilation. `weight` [outputs, k·inputs] has the matrices W_0 … W_{k−1} side by side, so that a convolution is
    one matrix product over the k inputs of each position. Beyond either end of the sequence x is zero.

    `gain` over the fan-in k·inputs is the variance that `initialise` draws with.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, dilation: int = 1, causal: bool = False, gain: float = 1.0
    ) -> None:
        super().__init__()
        if kernel % 2 == 0 and not causal:
            raise ConfigError(f"a kernel of {kernel} has no middle: take an odd number, or a causal convolution")
        self.kernel, self.dilation, self.causal, self.gain = kernel, dilation, causal, gain
        self.inputs = inputs
        self.weight = nn.Parameter(torch.empty(outputs, kernel * inputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    @property
    def reach(self) -> int:
        """How many positions beside its own a kernel spans."""
        return (self.kernel - 1) * self.dilation

    def forward(self, x: Float[Tensor, "R T I"]) -> Float[Tensor, "R T O"]:
        """The whole sequence; what must not be seen, padding say, must be zero in `x` already."""
        before = self.reach if self.causal else self.reach // 2
        return self._over(F.pad(x, (0, 0, before, self.reach - before)))

    def start(self, rows: int, like: Tensor) -> Float[Tensor, "R reach I"]:
        """The inputs before the first: zeros."""
        return like.new_zeros(rows, self.reach, self.inputs)

    def advance(
        self, x: Float[Tensor, "R T I"], lengths: Tensor, past: Float[Tensor, "R reach I"]
    ) -> tuple[Float[Tensor, "R T O"], Float[Tensor, "R reach I"]]:
        """Go on behind `past` (causal only); the outputs, and the last inputs of each row up to its length [R]."""
        seen = torch.cat([past.to(x.dtype), x], 1)
        places = lengths[:, None] + torch.arange(self.reach, device=x.device)
        after = seen.gather(1, places[:, :, None].expand(-1, -1, self.inputs))
        return self._over(seen), after

    def _over(self, seen: Float[Tensor, "R T+reach I"]) -> Float[Tensor, "R T O"]:
        length = seen.shape[1] - self.reach
        starts = [tap * self.dilation for tap in range(self.kernel)]
        taps = torch.cat([seen[:, start : start + length] for start in starts], -1) if self.kernel > 1 else seen
        return linear(taps, self.weight, self.bias)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator | None = None) -> None:
        """Weights of mean 0 and variance gain/(k·inputs), zero biases (Gehring et al. 2017, §3.5)."""
        nn.init.normal_(self.weight, std=math.sqrt(self.gain / self.weight.shape[1]), generator=generator)
        nn.init.zeros_(self.bias)

    def extra_repr(self) -> str:
        outputs = self.weight.shape[0]
        kind = "causal" if self.causal else "plain"
        return f"{self.inputs} → {outputs}, kernel={self.kernel}, dilation={self.dilation}, {kind}"


class GatedBlock(nn.Module):
    """(A ⊗ σ(B) + x)·√½ with [A B] = conv(dropout(x)): a layer of ConvS2S (Gehring et al. 2017, §3.2 and §3.4).

    A is what may pass and σ(B) how much of it: the gated linear unit of Dauphin et al. 2017. Where the width changes x
    is mapped linearly on its way past, as in the authors' code; the paper says nothing of it. The gate passes a half,
    so a quarter of the variance, and dropout of rate r leaves 1/(1 − r) times as much to begin with; the weights are
    drawn with variance 4·(1 − r)/(k·inputs) to undo both (§3.5, where p is 1 − r).
    """

    def __init__(self, inputs: int, width: int, kernel: int, *, causal: bool, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        gain = 4.0 * (1.0 - dropout)
        self.convolution = Convolution(inputs, 2 * width, kernel, causal=causal, gain=gain)
        self.past = nn.Identity() if inputs == width else Linear(inputs, width)

    def forward(self, x: Float[Tensor, "R T I"], mask: Tensor) -> Float[Tensor, "R T D"]:
        """A whole sequence; positions outside `mask` [R, T] are zero to the others."""
        seen = self.dropout(x).masked_fill(~mask[:, :, None], 0.0)
        return self._joined(self.convolution(seen), x)

    def start(self, rows: int, like: Tensor) -> Tensor:
        """No inputs yet."""
        return self.convolution.start(rows, like)

    def advance(
        self, x: Float[Tensor, "R T I"], lengths: Tensor, past: Tensor
    ) -> tuple[Float[Tensor, "R T D"], Tensor]:
        """Go on behind `past`: the outputs, and what comes to be past."""
        made, after = self.convolution.advance(self.dropout(x), lengths, past)
        return self._joined(made, x), after

    def _joined(self, made: Tensor, x: Tensor) -> Tensor:
        joined: Tensor = (F.glu(made, -1) + self.past(x)) * SQRT_HALF
        return joined


class DilatedBlock(nn.Module):
    """A residual block of ByteNet with rectifiers (Kalchbrenner et al. 2016, §3.6 and the left of its figure 3).

    x of width 2d, plus: norm, relu, a map to d; norm, relu, a convolution of k taps `dilation` apart; norm, relu, a map
    back to 2d. The norms are layer norms over the channels of one position, so that nothing of later ones is seen.
    """

    def __init__(self, width: int, kernel: int, dilation: int, *, causal: bool, dropout: float) -> None:
        super().__init__()
        wide = 2 * width
        self.narrow_norm = nn.LayerNorm(wide, eps=LAYER_NORM_EPSILON)
        self.narrow = Linear(wide, width)
        self.norm = nn.LayerNorm(width, eps=LAYER_NORM_EPSILON)
        self.convolution = Convolution(width, width, kernel, dilation=dilation, causal=causal, gain=2.0)
        self.widen_norm = nn.LayerNorm(width, eps=LAYER_NORM_EPSILON)
        self.widen = Linear(width, wide)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "R T W"], mask: Tensor) -> Float[Tensor, "R T W"]:
        """A whole sequence; positions outside `mask` [R, T] are zero to the others."""
        seen = self._before(x).masked_fill(~mask[:, :, None], 0.0)
        return self._joined(self.convolution(seen), x)

    def start(self, rows: int, like: Tensor) -> Tensor:
        """No inputs yet."""
        return self.convolution.start(rows, like)

    def advance(
        self, x: Float[Tensor, "R T W"], lengths: Tensor, past: Tensor
    ) -> tuple[Float[Tensor, "R T W"], Tensor]:
        """Go on behind `past`: the outputs, and what comes to be past."""
        made, after = self.convolution.advance(self._before(x), lengths, past)
        return self._joined(made, x), after

    def _before(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.narrow(F.relu(self.narrow_norm(x)))))

    def _joined(self, made: Tensor, x: Tensor) -> Tensor:
        joined: Tensor = x + self.dropout(self.widen(F.relu(self.widen_norm(made))))
        return joined
