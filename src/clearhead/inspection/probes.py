"""Probes: can a small classifier read a label off the states of a layer, and does that mean anything?

The model is frozen; a linear classifier and one with a hidden layer are trained on the states of each layer. Accuracy
alone says little, since a large enough classifier learns any label by heart. So each probe comes with a **control
task** (Hewitt and Liang 2019, §2): every type of token gets a label at random, out of the distribution of the real ones
and the same throughout the corpus. Selectivity, accuracy − control accuracy, is what the states make easier than rote.
Training and test tokens are of different **sentences**, for tokens of one sentence know each other.

That a label can be read says that the information is there, not that the model uses it. A label that follows from the
type of the token, such as the word, is learnt by rote as easily as the control: its selectivity is near 0 and says
little. One that a type does not tell, such as the length of the sentence, may have a selectivity below 0: there compare
with `majority` and with the untrained model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.base.seeds import mix, python_rng
from clearhead.inspection.layer_states import Place, layer_states
from clearhead.inspection.probe_labels import Labels
from clearhead.inspection.records import Probe
from clearhead.models.seq2seq import Seq2Seq

__all__ = ["ProbeKind", "ProbeSettings", "probe", "probe_states", "probe_steps", "sentence_split"]

ProbeKind = Literal["linear", "mlp"]

_WEIGHT_DECAY = 1e-3
"""λ of λ/2·‖W‖², so that separable classes have a solution; features are standardised, so one number fits all."""


FEWEST_TESTED = 30
"""Test tokens, below which a share says nothing."""


@dataclass(frozen=True)
class ProbeSettings:
    """How probes are trained. Nothing stops early, and nothing is chosen by the test tokens.

    `most_tokens` bounds the tokens of a side (whole sentences, the first ones), `test_share` the share of the sentences
    kept for the test. The linear probe is fitted by at most `steps` iterations of L-BFGS from zeros; the other, with
    `hidden` rectified units, takes `steps` full-batch steps of Adam at `rate`.
    """

    kinds: tuple[ProbeKind, ...] = ("linear", "mlp")
    most_tokens: int = 3000
    test_share: float = 0.25
    steps: int = 100
    hidden: int = 64
    rate: float = 0.01
    seed: int = 1


def probe(  # noqa: PLR0913 (the choices by name)
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    source_labels: Sequence[Labels],
    target_labels: Sequence[Labels],
    *,
    settings: ProbeSettings | None = None,
    untrained: Seq2Seq | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Probe]:
    """A probe for every label, layer and kind: of the encoder by `source_labels`, of the decoder by `target_labels`.

    `sources` and `targets` are ids without BOS and EOS, and the labels have a value (or None) for each of them. A label
    of which the training sentences have fewer than two classes, or the test sentences no token, is left out.
    `untrained` is a model of the same shape as it was before training; its accuracy stands beside. `progress` is told
    how many of the `probe_steps` are done.

    Raises InputError if there are fewer than 4 pairs, if labels do not fit the tokens, or for an ensemble.
    """
    settings = settings or ProbeSettings()
    lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    within = sum(total <= settings.most_tokens for total in _running(lengths))
    sources, targets = sources[:within], targets[:within]
    if within < 4:
        raise InputError(f"{within} pairs are too few for probes: sentences to learn from and others to test on")
    states = layer_states(model, sources, targets)
    before = layer_states(untrained, sources, targets) if untrained is not None else None
    found = []
    done = 0
    sides: tuple[tuple[Place, Sequence[Sequence[int]], Sequence[Labels]], ...] = (
        ("encoder", sources, source_labels),
        ("decoder", targets, target_labels),
    )
    for place, sentences, labels in sides:
        for each in labels:
            for where, layer in states:
                if where != place:
                    continue
                earlier = before.get((place, layer)) if before is not None else None
                found += probe_states(
                    states[place, layer], sentences, each, place, layer, settings=settings, untrained=earlier
                )
                done += 1
                if progress is not None:
                    progress(done)
    return found


def probe_steps(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    source_labels: Sequence[Labels],
    target_labels: Sequence[Labels],
) -> int:
    """How many layers with a label `probe` will go through, found by reading one pair of ids without BOS and EOS."""
    places = [place for place, _ in layer_states(model, [source], [target])]
    return places.count("encoder") * len(source_labels) + places.count("decoder") * len(target_labels)


def probe_states(
    states: Float[Tensor, "N D"],
    sentences: Sequence[Sequence[int]],
    labels: Labels,
    place: Place,
    layer: int,
    *,
    settings: ProbeSettings | None = None,
    untrained: Float[Tensor, "N D"] | None = None,
) -> list[Probe]:
    """Probes of every kind for one label on the `states` of all tokens of `sentences` (ids), one after another.

    Raises InputError if labels, tokens and states are not equally many.
    """
    settings = settings or ProbeSettings()
    values = labels.values[: len(sentences)]
    if [len(line) for line in values] != [len(line) for line in sentences] or sum(map(len, values)) != len(states):
        raise InputError(
            f'the label "{labels.name}" does not have a value for each token: make it of the same sentences'
        )
    device = states.device
    flat = [-1 if value is None else value for line in values for value in line]
    gold = torch.tensor(flat, device=device)
    types = [token for line in sentences for token in line]
    is_test = sentence_split([len(line) for line in sentences], settings.test_share, settings.seed).to(device)
    train, test = (gold >= 0) & ~is_test, (gold >= 0) & is_test
    one_class = any(bool((gold[part] == gold[part][:1]).all()) for part in (train, test))
    if int(test.sum()) < FEWEST_TESTED or one_class:
        return []
    control = _control(types, gold[train].tolist(), settings.seed).to(device)
    counts = gold[train].bincount(minlength=len(labels.classes))
    found = []
    for kind in settings.kinds:
        accuracies = [
            None if features is None else _accuracy(features, task, train, test, len(labels.classes), kind, settings)
            for features, task in ((states, gold), (states, control), (untrained, gold))
        ]
        accuracy, of_control, before = accuracies
        assert accuracy is not None and of_control is not None
        found.append(
            Probe(
                label=labels.name,
                place=place,
                layer=layer,
                kind=kind,
                accuracy=accuracy,
                control=of_control,
                majority=float((gold[test] == counts.argmax()).double().mean()),
                classes=int((counts > 0).sum()),
                examples=int(train.sum() + test.sum()),
                untrained=before,
            )
        )
    return found


def sentence_split(lengths: Sequence[int], test_share: float, seed: int) -> Bool[Tensor, " N"]:
    """Which tokens, sentence after sentence, are for the test: all of a sentence, or none.

    >>> a, b, c, d, e = sentence_split([2, 3], 0.5, 1).tolist()
    >>> a == b, c == d == e, a != c
    (True, True, True)
    """
    order = list(range(len(lengths)))
    python_rng(seed, len(lengths)).shuffle(order)
    chosen = set(order[: min(len(order) - 1, max(1, round(test_share * len(order))))])
    return torch.tensor([number in chosen for number, length in enumerate(lengths) for _ in range(length)])


def _control(types: Sequence[int], labels: Sequence[int], seed: int) -> Int[Tensor, " N"]:
    """A label for each token that depends on its type alone, drawn from `labels` (Hewitt and Liang 2019, §2)."""
    drawn = {each: labels[mix(seed, each) % len(labels)] for each in set(types)}
    return torch.tensor([drawn[each] for each in types])


def _accuracy(
    states: Tensor, labels: Tensor, train: Tensor, test: Tensor, classes: int, kind: ProbeKind, settings: ProbeSettings
) -> float:
    """On the test tokens, of a probe trained on the others."""
    states = states.detach()
    mean, deviation = states[train].mean(0), states[train].std(0, correction=0)
    features = (states - mean) / torch.where(deviation > 1e-6 * mean.abs() + 1e-12, deviation, 1.0)
    fit = _linear if kind == "linear" else _mlp
    logits = fit(features[train], labels[train], features[test], classes, settings)
    return float((logits.argmax(-1) == labels[test]).double().mean())


@torch.enable_grad()
def _linear(x: Tensor, labels: Tensor, unseen: Tensor, classes: int, settings: ProbeSettings) -> Tensor:
    """Logits of multinomial logistic regression for `unseen`."""
    weight, bias = x.new_zeros(classes, x.shape[1], requires_grad=True), x.new_zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=settings.steps, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(F.linear(x, weight, bias), labels) + _WEIGHT_DECAY / 2 * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return F.linear(unseen, weight, bias).detach()


@torch.enable_grad()
def _mlp(x: Tensor, labels: Tensor, unseen: Tensor, classes: int, settings: ProbeSettings) -> Tensor:
    """Logits of a network with one hidden layer, started as He et al. 2015, equation 10, has it."""
    generator = torch.Generator().manual_seed(mix(settings.seed, classes))
    first = torch.randn(settings.hidden, x.shape[1], generator=generator) * math.sqrt(2 / x.shape[1])
    second = torch.randn(classes, settings.hidden, generator=generator) * math.sqrt(1 / settings.hidden)
    weights = [first.to(x).requires_grad_(), second.to(x).requires_grad_()]
    biases = [x.new_zeros(settings.hidden, requires_grad=True), x.new_zeros(classes, requires_grad=True)]

    def read(features: Tensor) -> Tensor:
        return F.linear(F.linear(features, weights[0], biases[0]).relu(), weights[1], biases[1])

    optimizer = torch.optim.Adam([*weights, *biases], lr=settings.rate)
    for _ in range(settings.steps):
        optimizer.zero_grad()
        decay = sum((weight.square().sum() for weight in weights), x.new_zeros(()))
        loss = F.cross_entropy(read(x), labels) + _WEIGHT_DECAY / 2 * decay
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return read(unseen).detach()


def _running(lengths: Sequence[int]) -> list[int]:
    """The sums from the first to each."""
    totals, total = [], 0
    for length in lengths:
        total += length
        totals.append(total)
    return totals
