"""What a unit means in a given model, and how the weights of a unit are rewritten while a twin of the model runs.

A unit is a head, all heads of a layer, or a whole stack. `rewriting` makes the changes for `Interventions`; it keeps
count of the queries itself, for a recurrent decoder asks with one query a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.interventions import Change, NewWeights
from clearhead.inspection.records import Unit
from clearhead.inspection.sites import STACKS, Site, attention_sites
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.cores import Core
from clearhead.nn.windows import GlobalCore, LocalMonotonicCore, LocalPredictiveCore

__all__ = ["Rewrite", "Target", "all_units", "rewriting", "targets_of"]


@dataclass(frozen=True)
class Target:
    """The part of one layer that a unit takes: `heads`, counted from 1; `core` is that of the model."""

    site: Site
    heads: tuple[int, ...]
    core: Core

    @property
    def places(self) -> list[int]:
        """The heads counted from 0."""
        return [head - 1 for head in self.heads]


Rewrite = Callable[[Target, Tensor, Tensor, int], Tensor]
"""(target, weights [R, N, T, S] of its N heads, readable bool, the same shape, number of queries before these) → other
weights, the same shape."""


def all_units(model: Seq2Seq) -> list[Unit]:
    """Every head, every layer and every stack of `model` that attends, stack by stack; perhaps none."""
    sites = attention_sites(model)
    found: list[Unit] = []
    for stack in STACKS:
        here = [site for site in sites if site.stack == stack]
        found += [Unit(stack, site.layer, head) for site in here for head in range(1, site.heads + 1)]
        found += [Unit(stack, site.layer) for site in here]
        found += [Unit(stack)] if here else []
    return found


def targets_of(model: Seq2Seq, unit: Unit) -> tuple[Target, ...]:
    """The layers and heads that `unit` names; InputError if the model has none of that name."""
    sites = [site for site in attention_sites(model) if site.stack == unit.stack]
    if not sites:
        raise InputError(f'the model has no attention in the stack "{unit.stack}": there is nothing to change')
    if unit.layer is None:
        if unit.head is not None:
            raise InputError(f"head {unit.head} of which layer of {unit.stack}? give both, or neither")
    else:
        sites = [site for site in sites if site.layer == unit.layer]
        if not sites:
            raise InputError(f'there is no layer {unit.layer} in the stack "{unit.stack}", counted from 1')
    if unit.head is not None and not 1 <= unit.head <= sites[0].heads:
        raise InputError(
            f"there is no head {unit.head} in layer {unit.layer} of {unit.stack}: it has {sites[0].heads}, "
            "counted from 1"
        )
    return tuple(
        Target(site, (unit.head,) if unit.head else tuple(range(1, site.heads + 1)), _core(model, site))
        for site in sites
    )


def rewriting(targets: Sequence[Target], rewrite: Rewrite) -> dict[str, Change]:
    """The changes, by path, for one pass over whole sequences; make them anew for the next pass."""
    return {target.site.path: Change(weights=_new_weights(target, rewrite)) for target in targets}


def _new_weights(target: Target, rewrite: Rewrite) -> NewWeights:
    asked = 0

    def change(own: Tensor, visible: Tensor) -> Tensor:
        nonlocal asked
        before, asked = asked, asked + own.shape[2]
        readable = _readable(target.core, own, visible)
        if len(target.heads) == own.shape[1]:
            return rewrite(target, own, readable, before).to(own.dtype)
        places = torch.tensor(target.places, device=own.device)
        new = rewrite(target, own[:, places], readable[:, places], before)
        return own.index_copy(1, places, new.to(own.dtype))

    return change


def _readable(core: Core, own: Float[Tensor, "R H T S"], visible: Bool[Tensor, "R H T S"]) -> Bool[Tensor, "R H T S"]:
    """The keys that a query could have read: of a window, or of a score that does not reach every word, those within.

    The weights are exactly 0 outside a window, so they tell where it is.
    """
    windowed = isinstance(core, LocalMonotonicCore | LocalPredictiveCore)
    short = isinstance(core, GlobalCore) and core.score.reach is not None
    return visible & (own > 0) if windowed or short else visible


def _core(model: Seq2Seq, site: Site) -> Core:
    core = model.get_submodule(site.path)
    assert isinstance(core, Core)
    return core
