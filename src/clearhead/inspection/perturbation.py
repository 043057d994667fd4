"""Does it matter where attention looks? Weights are permuted, or made equal, and the next predictions compared.

Jain and Wallace 2019, §4.2.1, shuffle the weights that a classifier gives to fixed encoder states and take the median,
over 100 shuffles, of the total variation distance (TVD) between the outputs; Wiegreffe and Pinter 2019, §3.2, set all
weights equal. In a translator there is a row of weights for each prediction, in many heads, so a unit must be named:
one head, all heads of a layer, or a whole stack. One head alone understates what a stack of them does.

The target is given (teacher forcing). Each row is shuffled by itself, all rows of the unit in the same pass, and what
lies above is worked out anew: so the distance at prediction t may also come from the rows before it, which later layers
or the recurrence have read. Weights of the encoder change the encoder states themselves; those of the other two stacks
leave them as they are. In a unit of several layers each shuffles the weights that it has after the layers below were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.base.seeds import mix
from clearhead.inspection.divergences import tvd
from clearhead.inspection.interventions import Interventions
from clearhead.inspection.records import Finding, Unit
from clearhead.inspection.sites import STACKS, Site
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.unit_targets import Rewrite, Target, all_units, rewriting, targets_of
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["Shift", "permutation", "permutation_shifts", "permuted", "uniform", "uniform_shifts"]


@dataclass(frozen=True)
class Shift:
    """How far each prediction moved when the weights of `unit` were changed.

    `tvd` [T] is the distance between the next-token distributions with and without the change, of the permutation the
    median over the shuffles. `largest_weight` [T] is the largest weight in row t, the mean over the heads of the unit;
    None for the encoder, whose rows are not predictions. Both float64, on the CPU.
    """

    method: Literal["permutation", "uniform"]
    unit: Unit
    tvd: Float[Tensor, " T"]
    largest_weight: Float[Tensor, " T"] | None
    settings: dict[str, float] = field(default_factory=dict)

    def finding(self) -> Finding:
        """The mean over the predictions (`median_tvd`, or `mean_tvd` of the one uniform pass) and `max_tvd`."""
        name = "median_tvd" if self.method == "permutation" else "mean_tvd"
        values = {name: float(self.tvd.mean()), "max_tvd": float(self.tvd.max())}
        return Finding(self.method, self.unit, values, settings=dict(self.settings))


def permutation(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    units: Sequence[Unit] | None = None,
    *,
    shuffles: int = 100,
    seed: int = 1,
    batch_tokens: int = 4096,
    progress: Callable[[int], None] | None = None,
) -> list[Finding]:
    """What `permutation_shifts` finds, one finding a unit: `median_tvd` is the mean over predictions of the medians."""
    found = permutation_shifts(
        model, source, target, units, shuffles=shuffles, seed=seed, batch_tokens=batch_tokens, progress=progress
    )
    return [shift.finding() for shift in found]


@torch.no_grad()
def permutation_shifts(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    units: Sequence[Unit] | None = None,
    *,
    shuffles: int = 100,
    seed: int = 1,
    batch_tokens: int = 4096,
    progress: Callable[[int], None] | None = None,
) -> list[Shift]:
    """The weights of each row shuffled among the keys that it may read, for each of `units`.

    `units` None: every head, layer and stack; none of them in a model without attention. `source` and `target` are ids
    without BOS and EOS. The keys BOS and EOS keep their weights, as Jain and Wallace leave out boundary tokens; of a
    local window only the keys within are shuffled. What is drawn follows from `seed`, the layer and the number of the
    shuffle alone. At most `batch_tokens` tokens (but at least one sentence) are read at a time. `progress` is told how
    many of the units are done.

    Raises InputError for a unit that the model has not, an ensemble, or fewer than one shuffle.
    """
    if shuffles < 1:
        raise InputError(f"{shuffles} shuffles: take at least 1 (Jain and Wallace 2019 take 100)")
    bench = _Bench(model, source, target, batch_tokens)
    settings = {"shuffles": float(shuffles), "seed": float(seed)}

    def rewrite_for(rows: range) -> Rewrite:
        noise: dict[str, Tensor] = {}

        def rewrite(target: Target, own: Tensor, readable: Tensor, before: int) -> Tensor:
            site = target.site
            if site.path not in noise:
                noise[site.path] = bench.noise(site, rows, seed, own)
            shuffled = readable & ~bench.boundary(site, own.shape[-1])
            drawn = noise[site.path][:, target.places, before : before + own.shape[2], : own.shape[-1]]
            return permuted(own[1:], shuffled[1:], drawn)

        return rewrite

    return bench.shifts("permutation", model, units, shuffles, rewrite_for, settings, progress)


def uniform(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    units: Sequence[Unit] | None = None,
    *,
    batch_tokens: int = 4096,
    progress: Callable[[int], None] | None = None,
) -> list[Finding]:
    """What `uniform_shifts` finds, one finding a unit: `mean_tvd` and `max_tvd` over the predictions."""
    found = uniform_shifts(model, source, target, units, batch_tokens=batch_tokens, progress=progress)
    return [shift.finding() for shift in found]


@torch.no_grad()
def uniform_shifts(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    units: Sequence[Unit] | None = None,
    *,
    batch_tokens: int = 4096,
    progress: Callable[[int], None] | None = None,
) -> list[Shift]:
    """Every weight of a row the same, 1/n for n keys that it may read (Wiegreffe and Pinter 2019, §3.2).

    Here the model was not trained so: the weights are set in a trained model. BOS and EOS count among the keys. A row
    that does not sum to 1 (local-p) keeps its sum. Arguments and errors as of `permutation_shifts`.
    """
    bench = _Bench(model, source, target, batch_tokens)

    def rewrite(target: Target, own: Tensor, readable: Tensor, before: int) -> Tensor:
        own, readable = own[1:], readable[1:]
        equal = own.sum(-1, keepdim=True) / readable.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(readable, equal, 0.0)

    return bench.shifts("uniform", model, units, 1, lambda rows: rewrite, {}, progress)


def permuted(
    weights: Float[Tensor, "*rows S"], chosen: Bool[Tensor, "*rows S"], noise: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows S"]:
    """The weights at the `chosen` places of each row in the order of `noise`, numbers in [0, 1); the others stay.

    >>> row, some = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([True, False, True, True])
    >>> permuted(row, some, torch.tensor([0.9, 0.0, 0.1, 0.5])).tolist() == [row[3], row[1], row[0], row[2]]
    True
    """
    order = (~chosen).to(torch.uint8).argsort(dim=-1, stable=True)  # the chosen in their order, then the others
    drawn = noise.masked_fill(~chosen, 2.0).argsort(dim=-1, stable=True)  # the chosen as drawn, then the others
    return weights.scatter(-1, drawn, weights.gather(-1, order))


class _Bench:
    """One pair, a twin of the model, and what the unchanged model makes of the source."""

    def __init__(self, model: Seq2Seq, source: Sequence[int], target: Sequence[int], batch_tokens: int) -> None:
        self.interventions = Interventions(model)
        self.pairs = Pairs.of([source], [target], next(model.parameters()).device)
        self.memory = self.interventions.model.encoder(self.pairs.source)
        longest = max(self.pairs.source.ids.shape[1], self.pairs.prefix.ids.shape[1])
        self.rows = max(1, batch_tokens // longest - 1)
        self._numbers = {site.path: number for number, site in enumerate(self.interventions.sites)}

    def noise(self, site: Site, rows: range, seed: int, like: Tensor) -> Float[Tensor, "R H T S"]:
        """Numbers for all heads and queries of a layer, a generator a shuffle, so that batches change nothing."""
        keys = like.shape[-1] if site.stack != "decoder" else self.pairs.prefix.ids.shape[1]
        queries = self.pairs.source.ids.shape[1] if site.stack == "encoder" else self.pairs.prefix.ids.shape[1]
        drawn = []
        for row in rows:
            generator = torch.Generator().manual_seed(mix(seed, row, self._numbers[site.path]))
            drawn.append(torch.rand(site.heads, queries, keys, generator=generator))
        return torch.stack(drawn).to(like.device)

    def boundary(self, site: Site, keys: int) -> Bool[Tensor, " S"]:
        """Which keys are BOS or EOS: the first of a prefix, the last of a source."""
        place = 0 if site.stack == "decoder" else keys - 1
        return torch.arange(keys, device=self.memory.keys.device) == place

    def shifts(
        self,
        method: Literal["permutation", "uniform"],
        model: Seq2Seq,
        units: Sequence[Unit] | None,
        times: int,
        rewrite_for: Callable[[range], Rewrite],
        settings: dict[str, float],
        progress: Callable[[int], None] | None,
    ) -> list[Shift]:
        """A shift for each unit; units that mean the same heads (a layer of one head) are worked out once."""
        known: dict[tuple[tuple[str, tuple[int, ...]], ...], tuple[Tensor, Tensor | None]] = {}
        found = []
        for unit in all_units(model) if units is None else units:
            targets = targets_of(model, unit)
            key = tuple((target.site.path, target.heads) for target in targets)
            if key not in known:
                known[key] = self._measure(targets, times, rewrite_for)
            found.append(Shift(method, unit, *known[key], dict(settings)))
            if progress is not None:
                progress(len(found))
        return found

    def _measure(
        self, targets: Sequence[Target], times: int, rewrite_for: Callable[[range], Rewrite]
    ) -> tuple[Tensor, Tensor | None]:
        """The median distance and the largest weight of each prediction."""
        distances = []
        largest: dict[str, list[Tensor]] = {}
        for begin in range(0, times, self.rows):
            rows = range(begin, min(begin + self.rows, times))
            rewrite = rewrite_for(rows)
            largest = {}

            def first_as_it_is(
                target: Target, own: Tensor, readable: Tensor, before: int, rewrite: Rewrite = rewrite
            ) -> Tensor:
                largest.setdefault(target.site.path, []).append(own[0].amax(-1))  # noqa: B023 (used in this pass)
                return torch.cat([own[:1], rewrite(target, own, readable, before).to(own.dtype)])

            distances.append(self._distances(targets, len(rows) + 1, first_as_it_is))
        weights = torch.cat([torch.cat(calls, -1) for calls in largest.values()])  # [heads of the unit, T]
        of_predictions = targets[0].site.stack != STACKS[0]
        return torch.cat(distances).quantile(0.5, 0), weights.double().mean(0).cpu() if of_predictions else None

    def _distances(self, targets: Sequence[Target], rows: int, rewrite: Rewrite) -> Float[Tensor, "R T"]:
        """Of each row but the first to the first, which is in the same batch so that rounding is the same."""
        index = torch.zeros(rows, dtype=torch.int64, device=self.memory.keys.device)
        with self.interventions.using(rewriting(targets, rewrite)) as twin:
            changed = targets[0].site.stack == "encoder"
            memory = twin.encoder(self.pairs.source.rows(index)) if changed else self.memory.rows(index)
            hidden, _ = twin.decoder.advance(self.pairs.prefix.rows(index), twin.decoder.start(memory))
        project = self.interventions.model.decoder.project
        first = _probabilities(project(hidden[:1]))
        rows_apart = [tvd(_probabilities(project(row[None])), first) for row in hidden[1:]]  # [T, V] held at a time
        return torch.cat(rows_apart).double().cpu()


def _probabilities(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)
