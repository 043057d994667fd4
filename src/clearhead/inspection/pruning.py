"""Closing more and more heads, the least important first, and what is left of the model each time.

Greedy, as Michel et al. 2019 do it (§4): in steps of a share of the heads, 10 % in theirs, those of the least
importance go, and the importance of the rest is worked out anew with them closed. They rank over the whole model with
importances normalised within each layer (§4.1); here the plain slopes rank, which compare across layers, and
`by_layer` asks for theirs. Nothing is trained again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.inspection.importance import head_importance, normalised_by_layer
from clearhead.inspection.losses import BATCH_TOKENS, unchanged_losses
from clearhead.inspection.records import Curve, Unit
from clearhead.inspection.sites import STACKS, Head, Site, Stack, attention_sites, heads_of
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.twin import twin
from clearhead.inspection.unit_targets import targets_of
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.cores import Core
from clearhead.nn.visibility import Visibility

__all__ = ["PRUNED", "Pruned", "closed", "greedy_order", "pruning_curve", "pruning_steps", "sites_with"]

Pruned = Literal["encoder", "decoder", "cross", "all"]

PRUNED: tuple[Pruned, ...] = (*STACKS, "all")
"""What a curve can be about: one stack, whose heads go while all others stay, or the heads of all."""


def closed(model: Seq2Seq, heads: Iterable[Head], fill: Mapping[Site, Tensor] | None = None) -> Seq2Seq:
    """A twin of `model` with these heads closed for good; it searches and scores as any model does.

    `fill` gives what a closed head finds, [H, E] for each site (`ablation.mean_contexts`); zeros if None. Parameters
    are shared with `model`, which stays as it is. Raises InputError for a head that the model has not.
    """
    sites = sites_with(model, heads)
    chosen = {site.path: (site, numbers) for site, numbers in sites.items()}
    like = next(model.parameters())

    def swap(path: str, module: nn.Module) -> nn.Module | None:
        if path not in chosen or not isinstance(module, Core):
            return None
        site, numbers = chosen[path]
        gates = like.new_ones(site.heads)
        gates[[number - 1 for number in numbers]] = 0
        return _PartlyClosed(module, gates, None if fill is None else fill[site])

    return twin(model, swap).eval()


class _PartlyClosed(Core):
    """A core some of whose heads find nothing, or always the same."""

    def __init__(self, core: Core, gates: Tensor, fill: Tensor | None) -> None:
        super().__init__()
        self.core = core
        self.gates: Tensor
        self.fill: Tensor | None
        self.register_buffer("gates", gates[:, None, None], persistent=False)
        rest = None if fill is None else (1 - gates[:, None, None]) * fill.to(gates)[:, None]
        self.register_buffer("fill", rest, persistent=False)

    def remember(self, keys: Tensor) -> Tensor:
        return self.core.remember(keys)

    def weights(self, query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        """Those of the core; a closed head still has weights, which nothing reads."""
        return self.core.weights(query, key, visibility)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        context: Tensor = self.core(query, key, value, visibility)
        kept = context * self.gates.to(context)
        return kept if self.fill is None else kept + self.fill.to(context)


def sites_with(model: Seq2Seq, heads: Iterable[Head]) -> dict[Site, list[int]]:
    """The sites that these heads are in, with their numbers there, from 1; InputError for one that is not there."""
    found: dict[Site, list[int]] = defaultdict(list)
    for head in sorted(set(heads)):
        (target,) = targets_of(model, Unit.of(head))
        found[target.site].append(head.head)
    return dict(found)


def greedy_order(
    model: Seq2Seq,
    pairs: Pairs,
    *,
    stack: Pruned = "all",
    share: float = 0.1,
    by_layer: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Callable[[int], None] | None = None,
) -> list[list[Head]]:
    """The heads of `stack` in the order in which they go: one list a step, the least important first in each.

    A step takes `share` of the heads there were, at least one; the last takes what is left. Empty for a model that has
    no such attention. `progress` is told how many of the steps are done. Raises InputError for a share that is not
    above 0 and at most 1.
    """
    if stack not in PRUNED:
        raise InputError(f"stack is {stack!r}: one of {', '.join(PRUNED)}")
    if not 0 < share <= 1:
        raise InputError(f"share is {share}: give the share of the heads that go at a time, above 0 and at most 1")
    left = _heads(model, stack)
    at_a_time = _at_a_time(len(left), share)
    steps: list[list[Head]] = []
    while left:
        gone = [head for step in steps for head in step]
        importance = head_importance(closed(model, gone), pairs, batch_tokens=batch_tokens)
        if by_layer:
            importance = normalised_by_layer(importance)
        step = sorted(left, key=lambda head: importance[head])[:at_a_time]
        steps.append(step)
        left = [head for head in left if head not in step]
        if progress is not None:
            progress(len(steps))
    return steps


def pruning_steps(model: Seq2Seq, *, stacks: Sequence[Pruned] = PRUNED, share: float = 0.1) -> int:
    """How much `pruning_curve` has to do: for each curve once to rank the heads a step, and once a point to measure.

    Raises InputError for an ensemble.
    """
    counts = [len(_heads(model, stack)) for stack in stacks]
    return sum(1 + 2 * math.ceil(count / _at_a_time(count, share)) for count in counts if count)


def _heads(model: Seq2Seq, stack: Pruned) -> list[Head]:
    return [head for head in heads_of(attention_sites(model)) if stack in ("all", head.stack)]


def _at_a_time(heads: int, share: float) -> int:
    return max(1, round(share * heads))


def pruning_curve(
    model: Seq2Seq,
    pairs: Pairs,
    *,
    stacks: Sequence[Pruned] = PRUNED,
    share: float = 0.1,
    score: Callable[[Seq2Seq], float] | None = None,
    by_layer: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Callable[[int], None] | None = None,
) -> list[Curve]:
    """How the loss grows as heads go, one curve for each of `stacks` in which the model has heads.

    x is the number of heads left of those that the curve is about, from all to none. Series: `delta_nll`, the mean over
    `pairs` of the change of the mean negative log likelihood, nats a token; `share_left`, x over all; and `score`, if
    given, what it says of the model with the heads closed (BLEU of its translations, say), the whole model first. The
    settings hold the order as `cross 2.3` → 5 for the fifth head that went. `progress` is told how much is done of what
    `pruning_steps` counts.
    """
    curves = []
    done = 0

    def told(more: int) -> None:
        if progress is not None:
            progress(done + more)

    for stack in stacks:
        steps = greedy_order(
            model, pairs, stack=stack, share=share, by_layer=by_layer, batch_tokens=batch_tokens, progress=told
        )
        done += len(steps)
        if steps:
            curves.append(_curve(model, pairs, stack, steps, score, batch_tokens, told))
            done += len(steps) + 1
            curves[-1].settings.update(share=share, by_layer=float(by_layer))
    return curves


def _curve(
    model: Seq2Seq,
    pairs: Pairs,
    stack: Stack | Literal["all"],
    steps: list[list[Head]],
    score: Callable[[Seq2Seq], float] | None,
    batch_tokens: int,
    progress: Callable[[int], None],
) -> Curve:
    order = [head for step in steps for head in step]
    gone: list[Head] = []
    left, losses, scores = [], [], []
    for step in [[], *steps]:
        gone += step
        pruned = closed(model, gone)
        left.append(float(len(order) - len(gone)))
        losses.append(float(unchanged_losses(pruned, pairs, batch_tokens=batch_tokens).mean()))
        if score is not None:
            scores.append(float(score(pruned)))
        progress(len(left))
    series = {
        "delta_nll": tuple(loss - losses[0] for loss in losses),
        "share_left": tuple(count / len(order) for count in left),
    }
    if score is not None:
        series["score"] = tuple(scores)
    places = {str(head): float(place) for place, head in enumerate(order, start=1)}
    return Curve("pruning", stack, "heads left", tuple(left), series, places)
