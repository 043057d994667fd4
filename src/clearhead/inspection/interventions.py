"""What if a head were closed, or read something else: changes to attention, made in a twin while the model runs.

A change acts on one core. Its weights may be replaced, in which case the values are mixed by the new ones; and the
context of each head may be multiplied by a gate ξ, or give way to a constant. Both act before the output projection,
so the bias of W_O stays outside of the heads (Michel et al. 2019, §2.3). What lies above is worked out anew by
the very modules of the model. A core that is not changed takes the road that it always takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from clearhead.inspection.sites import Site, attention_sites
from clearhead.inspection.twin import twin
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.cores import Core, spread
from clearhead.nn.visibility import Visibility

__all__ = ["Change", "Interventions", "NewWeights"]

NewWeights = Callable[[Tensor, Tensor], Tensor]
"""(weights [R, H, T, S], visible bool, the same shape) → other weights, the same shape.

A recurrent decoder asks with one query a call, in their order; `unit_targets.rewriting` counts them.
"""


@dataclass(frozen=True)
class Change:
    """What is done to one core.

    `weights` makes other weights of the core's own, before any dropout. `gates` [H], or [R, H] with one line a row of
    the batch, multiply the context of each head; a closed gate, 0, gives `fill` [H, E] in its place, zeros if None: the
    context becomes ξ·context + (1 − ξ)·fill.
    """

    weights: NewWeights | None = None
    gates: Tensor | None = None
    fill: Tensor | None = None


class Interventions:
    """A twin of a model whose attention can be changed, one set of changes at a time.

    `model` is the twin, in evaluation mode; `sites` tell what there is. The model itself is left as it is, and shares
    its parameters with the twin.
    """

    def __init__(self, model: Seq2Seq) -> None:
        """Raises InputError for an ensemble."""
        self.sites: list[Site] = attention_sites(model)
        self._cores: dict[str, _ChangedCore] = {}
        paths = {site.path for site in self.sites}

        def swap(path: str, module: nn.Module) -> nn.Module | None:
            if path not in paths or not isinstance(module, Core):
                return None
            self._cores[path] = _ChangedCore(module)
            return self._cores[path]

        self.model: Seq2Seq = twin(model, swap).eval()

    @contextmanager
    def using(self, changes: Mapping[str, Change]) -> Iterator[Seq2Seq]:
        """The twin with `changes`, by the path of a core; afterwards it does what the model does again."""
        for path, change in changes.items():
            self._cores[path].change = change
        try:
            yield self.model
        finally:
            for path in changes:
                self._cores[path].change = None


class _ChangedCore(Core):
    """Stands for a core in the twin."""

    def __init__(self, core: Core) -> None:
        super().__init__()
        self.core = core
        self.change: Change | None = None

    def remember(self, keys: Tensor) -> Tensor:
        return self.core.remember(keys)

    def weights(self, query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        """The core's own, or what the change makes of them."""
        own = self.core.weights(query, key, visibility)
        if self.change is None or self.change.weights is None:
            return own
        return self.change.weights(own, visibility.mask.expand(own.shape))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        change = self.change
        if change is None or change.weights is None:
            context: Tensor = self.core(query, key, value, visibility)
        else:
            context = self.weights(query, key, visibility) @ spread(value, query.shape[1])
        return context if change is None or change.gates is None else _gated(context, change.gates, change.fill)


def _gated(context: Tensor, gates: Tensor, fill: Tensor | None) -> Float[Tensor, "R H T E"]:
    """ξ·context + (1 − ξ)·fill. Hypotheses of a sentence are folded into the queries of one row, and unfolded here."""
    rows, heads, queries, width = context.shape
    gates = gates.to(context.dtype)
    if gates.dim() == 1:
        opened = gates[None, :, None, None]
        kept = context * opened
    else:
        beams = gates.shape[0] // rows
        opened = gates.view(rows, beams, heads).transpose(1, 2)[..., None, None]  # [B, H, K, 1, 1]
        unfolded = context.reshape(rows, heads, beams, queries // beams, width)
        kept = (unfolded * opened).reshape(context.shape)
        opened = opened.expand(rows, heads, beams, queries // beams, 1).reshape(rows, heads, queries, 1)
    return kept if fill is None else kept + (1 - opened) * fill[None, :, None, :].to(context.dtype)
