"""How differently could the model have attended, and still have predicted nearly the same?

Jain and Wallace 2019, §4.2.2, look for weights that are far from the model's own while the output hardly moves: the
ε-max JSD is the largest Jensen–Shannon divergence between the two rows of weights at which the total variation distance
(TVD) between the two outputs is at most ε. Large values say that a picture of the weights is one of many that would go
with nearly these predictions; they do not say that the model could have learnt the others (Wiegreffe and Pinter 2019,
§4), nor that the weights do not matter (see `perturbation`). Compare them with what other seeds give (`seed_null`).

What is reported is a **witness for one prediction at a time**: the rows of all predictions are searched together, and
for each t the best of all sets of weights seen is taken at which the TVD of prediction t is at most ε. Those of two
predictions may be different sets. `joint_jsd` is the largest mean over the predictions for one set of weights at which
every TVD is at most ε. A search finds lower bounds of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.base.seeds import mix
from clearhead.inspection.divergences import jsd, tvd
from clearhead.inspection.interventions import Interventions
from clearhead.inspection.records import Finding, Unit
from clearhead.inspection.sites import attention_sites, heads_of
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.unit_targets import Rewrite, Target, rewriting, targets_of
from clearhead.models.protocols import Memory
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["Adversary", "AdversarySearch", "adversarial", "adversarial_passes", "adversaries"]

_FAR = 0.3
"""The JSD from which on two rows of weights are counted as far apart, not quite half of ln 2."""


@dataclass(frozen=True)
class AdversarySearch:
    """How to search. The paper's idea with numbers of our own where the paper's are for one row and a classifier.

    `epsilon` is the TVD that is allowed, `starts` how many random starts there are: the logarithm of equal weights and
    3·N(0, 1), as in the code of Jain and Wallace 2019. One more start is the model's own weights, with 0.1·N(0, 1)
    added to their logarithms since the gradient of the JSD vanishes on them. Each takes `steps` steps of Adam
    (amsgrad) at `rate` towards a large mean over the predictions of JSD − penalty·max(0, TVD − epsilon), to which
    `diversity` times the JSD to the start beside it is added, so that they do not all find the same.
    """

    epsilon: float = 0.05
    starts: int = 5
    steps: int = 300
    rate: float = 0.05
    penalty: float = 20.0
    diversity: float = 0.1
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < 1:
            raise InputError(f"epsilon {self.epsilon} is no distance between predictions: give one between 0 and 1")
        if self.starts < 1 or self.steps < 1:
            raise InputError(f"{self.starts} starts of {self.steps} steps find nothing: take at least 1 of each")


@dataclass(frozen=True)
class Adversary:
    """What was found for one unit.

    `jsd` [T] is the ε-max JSD of each prediction, the mean over the heads of the unit, and `tvd` [T] the distance that
    goes with it, at most ε. Where nothing better was found they are those of the model's own weights, 0. `free` [T]
    tells the rows that had two keys or more; the others cannot differ. `weights`, if they were kept: by the path of
    each layer the weights of the unit's heads that are the witness for prediction t, [T, N, T, S]; to be set all
    together. All on the CPU.
    """

    unit: Unit
    jsd: Float[Tensor, " T"]
    tvd: Float[Tensor, " T"]
    free: Bool[Tensor, " T"]
    joint_jsd: float
    weights: dict[str, Float[Tensor, "T N T S"]] | None = None
    settings: dict[str, float] = field(default_factory=dict)

    def finding(self) -> Finding:
        """Over the predictions with two keys or more: `max_jsd`, `far` (share with a JSD > 0.3), `tvd`; `joint_jsd`."""
        free = self.free
        if not bool(free.any()):
            values = dict.fromkeys(("max_jsd", "far", "tvd", "joint_jsd"), 0.0)
        else:
            values = {
                "max_jsd": float(self.jsd[free].mean()),
                "far": float((self.jsd[free] > _FAR).double().mean()),
                "tvd": float(self.tvd[free].mean()),
                "joint_jsd": self.joint_jsd,
            }
        words = {"meaning": "predictions nearly unchanged, one at a time"}
        return Finding("adversarial", self.unit, values, words, dict(self.settings))


def adversarial(  # noqa: PLR0913 (the settings of the search, by name)
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    units: Sequence[Unit] | None = None,
    *,
    epsilon: float = 0.05,
    starts: int = 5,
    steps: int = 300,
    rate: float = 0.05,
    diversity: float = 0.1,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[Finding]:
    """What `adversaries` finds, one finding a unit (see `Adversary.finding`); the settings are `AdversarySearch`'s."""
    search = AdversarySearch(epsilon, starts, steps, rate, diversity=diversity, seed=seed)
    return [found.finding() for found in adversaries(model, source, target, units, search, progress=progress)]


def adversarial_passes(units: Sequence[Unit], search: AdversarySearch | None = None) -> int:
    """How many passes of a target through the decoder, forwards and back, `adversaries` will make; each of one target.

    >>> adversarial_passes([Unit("cross", 1), Unit("cross")], AdversarySearch(starts=5, steps=300))
    3600
    """
    search = search or AdversarySearch()
    return len(units) * (search.starts + 1) * search.steps


def adversaries(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    units: Sequence[Unit] | None = None,
    search: AdversarySearch | None = None,
    *,
    keep_weights: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Adversary]:
    """Search for each of `units`; None: every head that reads the source, none of them in a model without attention.

    A unit is a head, a layer or a stack, of "cross" or "decoder": the rows of the encoder belong to no prediction. The
    weights that are tried are softmaxes over the keys that each row may read; a row that does not sum to 1 (local-p)
    keeps its sum and its window. `source` and `target` are ids without BOS and EOS. All starts run in one batch, whose
    gradients are held; a target of 128 tokens over 32,000 pieces takes about 1 GB in float32. `keep_weights` keeps the
    witnesses, T times the weights of the unit. `progress` is told how many of the passes that `adversarial_passes`
    counts are done; a unit that means the same heads as one before takes none, and its passes count as done.

    Raises InputError for a unit that the model has not, one of the encoder, or an ensemble.
    """
    search = search or AdversarySearch()
    if units is None:
        sites = [site for site in attention_sites(model) if site.stack == "cross"]
        units = [Unit.of(head) for head in heads_of(sites)]
    for unit in units:
        if unit.stack == "encoder":
            raise InputError(
                "adversarial attention needs a row of weights for each prediction, and the encoder has none: "
                "take units of cross or decoder; permutation and uniform attention serve the encoder"
            )
    interventions = Interventions(model)
    pairs = Pairs.of([source], [target], next(model.parameters()).device)
    with torch.no_grad():
        memory = interventions.model.encoder(pairs.source)
    found: dict[tuple[tuple[str, tuple[int, ...]], ...], Adversary] = {}
    results: list[Adversary] = []
    for unit in units:
        targets = targets_of(model, unit)
        key = tuple((each.site.path, each.heads) for each in targets)
        before = len(results) * adversarial_passes([unit], search)
        if key not in found:  # a layer of one head is that head
            attack = _Attack(interventions, pairs, memory, targets, search)
            found[key] = attack.run(unit, keep_weights, _steps_told(progress, before, search))
        elif progress is not None:
            progress(before + adversarial_passes([unit], search))
        known = found[key]
        results.append(
            Adversary(unit, known.jsd, known.tvd, known.free, known.joint_jsd, known.weights, known.settings)
        )
    return results


def _steps_told(progress: Callable[[int], None] | None, before: int, search: AdversarySearch) -> Callable[[int], None]:
    """Tells `progress` the passes, with those `before`, when it is told the steps of a unit."""
    if progress is None:
        return lambda steps: None
    return lambda steps: progress(before + steps * (search.starts + 1))


class _Attack:
    """One unit under attack: what the model does, and the free weights."""

    def __init__(
        self,
        interventions: Interventions,
        pairs: Pairs,
        memory: Memory,
        targets: Sequence[Target],
        search: AdversarySearch,
    ) -> None:
        self.interventions = interventions
        self.targets = targets
        self.search = search
        rows = torch.zeros(search.starts + 1, dtype=torch.int64, device=memory.keys.device)
        self.prefix = pairs.prefix.rows(rows)
        self.memory = memory.rows(rows)
        self.own: dict[str, Tensor] = {}
        self.readable: dict[str, Tensor] = {}
        with torch.no_grad():
            self.predicted = self._watch()
        wide = [readable.sum(-1) >= 2 for readable in self.readable.values()]
        self.open = dict(zip(self.readable, wide, strict=True))  # [1, N, T]
        self.free = torch.cat(wide, 1)[0].any(0)

    def _watch(self) -> Float[Tensor, "1 T V"]:
        """What the model predicts, by the same road as its adversaries; its weights are noted on the way."""
        own: dict[str, list[Tensor]] = {}
        readable: dict[str, list[Tensor]] = {}

        def watch(target: Target, weights: Tensor, may: Tensor, before: int) -> Tensor:
            own.setdefault(target.site.path, []).append(_widened(weights[:1]))
            readable.setdefault(target.site.path, []).append(may[:1])
            return weights

        with self.interventions.using(rewriting(self.targets, watch)):
            predicted = self._predict()[:1]
        self.own = {path: torch.cat(calls, 2) for path, calls in own.items()}  # [1, N, T, S]
        self.readable = {path: torch.cat(calls, 2) for path, calls in readable.items()}
        return predicted

    def _predict(self) -> Float[Tensor, "K T V"]:
        decoder = self.interventions.model.decoder
        with torch.no_grad():
            state = decoder.start(self.memory)  # anew for each pass: a state is spent once it is advanced
        hidden, _ = decoder.advance(self.prefix, state)
        return _widened(decoder.project(hidden)).softmax(-1)

    @torch.enable_grad()
    def run(self, unit: Unit, keep_weights: bool, stepped: Callable[[int], None]) -> Adversary:
        """All steps from all starts; the best seen. `stepped` is told how many steps are done."""
        free = self._starts()
        optimizer = torch.optim.Adam(list(free.values()), lr=self.search.rate, amsgrad=True)
        best = _Best(self.free, self.search.epsilon, keep_weights)
        for step in range(self.search.steps):
            weights = {path: self._weights(path, logits) for path, logits in free.items()}
            with self.interventions.using(rewriting(self.targets, _setting(weights))):
                predicted = self._predict()
            distance = tvd(predicted, self.predicted)  # [K, T]
            divergence, spread = self._divergence(weights)
            best.see(
                divergence.detach().double(),
                distance.detach().double(),
                {path: each.detach() for path, each in weights.items()},
            )
            stepped(step + 1)
            if step + 1 == self.search.steps:
                break
            excess = (distance - self.search.epsilon).clamp(min=0.0)
            gain = divergence.mean(1) - self.search.penalty * excess.mean(1)
            loss = -(gain.sum() + self.search.diversity * spread)
            for logits, slope in zip(free.values(), torch.autograd.grad(loss, list(free.values())), strict=True):
                logits.grad = slope
            optimizer.step()
        kept = {path: self._witnesses(path, best) for path in self.own} if keep_weights else None
        settings = {
            name: float(getattr(self.search, name))
            for name in ("epsilon", "starts", "steps", "rate", "penalty", "diversity", "seed")
        }
        return Adversary(unit, best.jsd.cpu(), best.tvd.cpu(), self.free.cpu(), best.joint, kept, settings)

    def _starts(self) -> dict[str, Tensor]:
        """Logits [K, N, T, S] a layer: the first start near the model's own weights, the others random."""
        logits = {}
        for number, (path, own) in enumerate(self.own.items()):
            generator = torch.Generator().manual_seed(mix(self.search.seed, number))
            noise = torch.randn(self.search.starts + 1, *own.shape[1:], generator=generator).to(own)
            near = own.clamp(min=1e-9).log() + 0.1 * noise[:1]
            logits[path] = torch.cat([near, 3.0 * noise[1:]]).requires_grad_()
        return logits

    def _weights(self, path: str, logits: Tensor) -> Float[Tensor, "K N T S"]:
        """A softmax over the keys that may be read, with the sum that the row has in the model."""
        readable = self.readable[path]
        shares = logits.masked_fill(~readable, torch.finfo(logits.dtype).min).softmax(-1)
        return shares.masked_fill(~readable, 0.0) * self.own[path].sum(-1, keepdim=True)

    def _divergence(self, weights: dict[str, Tensor]) -> tuple[Float[Tensor, "K T"], Float[Tensor, ""]]:
        """The JSD of each start's rows to the model's, mean over heads; and the mean JSD between starts."""
        apart, counted, spreads = [], [], []
        for path, new in weights.items():
            total = self.own[path].sum(-1, keepdim=True)
            total = torch.where(total > 0, total, 1.0)
            mine, theirs = self.own[path] / total, new / total
            apart.append(jsd(mine, theirs).masked_fill(~self.open[path], 0.0))
            counted.append(self.open[path])
            if self.search.diversity > 0:
                turned = torch.cat([theirs[1:], theirs[:1]])  # each start beside the next, in a ring
                spreads.append(jsd(theirs, turned).masked_fill(~self.open[path], 0.0).mean((1, 2)).sum())
        heads = torch.cat(counted, 1).sum(1).clamp(min=1)
        spread = torch.stack(spreads).mean() if spreads else heads.new_zeros((), dtype=torch.float32)
        return torch.cat(apart, 1).sum(1) / heads, spread

    def _witnesses(self, path: str, best: _Best) -> Float[Tensor, "T N T S"]:
        """The kept weights of each prediction, the model's own where nothing else was found."""
        own = self.own[path]
        return torch.stack([best.kept.get(t, {}).get(path, own[0]) for t in range(len(self.free))]).cpu()


class _Best:
    """The best seen so far for each prediction by itself, and for all of them together."""

    def __init__(self, free: Tensor, epsilon: float, keep: bool) -> None:
        self.jsd = torch.zeros(len(free), device=free.device, dtype=torch.float64)
        self.tvd = torch.zeros(len(free), device=free.device, dtype=torch.float64)
        self.joint = 0.0
        self.kept: dict[int, dict[str, Tensor]] = {}
        self._free = free
        self._epsilon = epsilon
        self._keep = keep

    def see(self, divergence: Tensor, distance: Tensor, weights: dict[str, Tensor]) -> None:
        """What each start has now: `divergence` and `distance` [K, T], `weights` [K, N, T, S] a layer."""
        allowed = distance <= self._epsilon
        best, start = divergence.masked_fill(~allowed, -1.0).max(0)
        better = best > self.jsd
        self.jsd = torch.where(better, best, self.jsd)
        self.tvd = torch.where(better, distance.gather(0, start[None])[0], self.tvd)
        if self._keep:
            for t in better.nonzero().flatten().tolist():
                self.kept[t] = {path: each[start[t]].clone() for path, each in weights.items()}
        whole = allowed.all(1)
        if bool(whole.any()) and bool(self._free.any()):
            self.joint = max(self.joint, float(divergence[whole][:, self._free].mean(1).max()))


def _setting(weights: dict[str, Tensor]) -> Rewrite:
    """Puts `weights` [K, N, T, S] of each layer in the place of the model's."""

    def rewrite(target: Target, own: Tensor, readable: Tensor, before: int) -> Tensor:
        return weights[target.site.path][:, :, before : before + own.shape[2]]

    return rewrite


def _widened(x: Tensor) -> Tensor:
    """float32 at least."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
