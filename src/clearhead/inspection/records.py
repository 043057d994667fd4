"""What was seen, in a form that can be kept: an attention record, and the evidence beside it.

One pair of records serves the report, the exports, Python, and whatever shows them later. They hold no model and no
code, only words, numbers and arrays on the CPU; `record_files` writes and reads them.

**Row t is the query that predicts token t of `gold`**, token t + 1 of `prefix`; it has read `prefix` up to position t.
A record of a given target and one of a search differ in `origin` and are never mixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from clearhead.inspection.sites import Head, Stack

__all__ = [
    "AttentionLayer",
    "AttentionRecord",
    "Curve",
    "EvidenceRecord",
    "Finding",
    "LensLayer",
    "LensPlace",
    "Probe",
    "Provenance",
    "Token",
    "TokenScores",
    "Unit",
    "VERSION",
]

VERSION = 1
"""Of both records. A reader refuses a later one."""

TokenKind = Literal["piece", "byte", "special", "unknown"]


@dataclass(frozen=True)
class Token:
    """A token as it is shown.

    `text` is the piece with U+2581 where a space stood; of a byte-fallback piece `<0xE2>`; of a special `<s>`, `</s>`;
    of an unknown word what was written there, if that is known. `word` numbers the words of the text from 0 (white
    space separates them; each token of a script without spaces is its own), None for specials.
    """

    text: str
    id: int
    kind: TokenKind = "piece"
    word: int | None = None


@dataclass(frozen=True)
class Provenance:
    """What the numbers were taken from.

    `model` is the name of the bundle's directory, `fingerprint` the SHA-256 of its weights by name, `tokenizer` that of
    its tokenizers, `family` a short description, `dtype` the arithmetic, `capture` the point at which weights were
    taken. Dropout is always off.
    """

    model: str
    fingerprint: str
    tokenizer: str
    family: str
    dtype: str = "float32"
    capture: str = "after the softmax, before dropout"
    dropout: bool = False
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AttentionLayer:
    """The weights of one layer: `weights` float32 [H, T, S], `visible` bool [T, S]; exactly 0 where invisible.

    `normalised`: rows sum to 1. Not so where a formula says otherwise (local-p), and a row that sees nothing is 0.
    """

    stack: Stack
    layer: int
    path: str
    weights: Tensor
    visible: Tensor
    normalised: bool = True


@dataclass(frozen=True)
class AttentionRecord:
    """What one model attended to, over one pair.

    `origin` is "given" (a target that somebody wrote, by teacher forcing) or "search" (hypothesis number `rank` of a
    beam search, from 1, with its length-penalised `score`, read once more). `source` ends with EOS, `prefix` begins
    with BOS, `gold` ends with EOS; `log_probs` [T] are the natural logs of the probabilities of `gold`.
    """

    provenance: Provenance
    origin: Literal["given", "search"]
    languages: tuple[str, str]
    source_text: str
    target_text: str
    source: tuple[Token, ...]
    prefix: tuple[Token, ...]
    gold: tuple[Token, ...]
    log_probs: Tensor
    layers: tuple[AttentionLayer, ...]
    rank: int | None = None
    score: float | None = None

    def layer(self, stack: Stack, layer: int) -> AttentionLayer:
        """The layer of that number, from 1; KeyError if there is none."""
        for each in self.layers:
            if (each.stack, each.layer) == (stack, layer):
                return each
        raise KeyError(f"{stack} {layer}")


@dataclass(frozen=True, order=True)
class Unit:
    """What a finding is about: a head, all heads of a layer (`head` None), or a whole stack (`layer` None as well)."""

    stack: Stack
    layer: int | None = None
    head: int | None = None

    @classmethod
    def of(cls, head: Head) -> Unit:
        """One head."""
        return cls(head.stack, head.layer, head.head)


@dataclass(frozen=True)
class Finding:
    """What one method found about one unit: numbers by name, words by name, and the settings it was run with."""

    method: str
    unit: Unit
    values: dict[str, float]
    words: dict[str, str] = field(default_factory=dict)
    settings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TokenScores:
    """How much, by one method, each token counted for each prediction.

    `source` [T, S] and `prefix` [T, T] (0 for what a query had not read), float32; None where the method has nothing to
    say of that side. `unit` is what was read, for methods that read attention. `signed`: negative numbers mean
    "against". `series` holds a number for each of the T predictions, such as `completeness_error` or `steps`.
    """

    method: str
    source: Tensor | None
    prefix: Tensor | None
    signed: bool
    unit: Unit | None = None
    series: dict[str, tuple[float, ...]] = field(default_factory=dict)
    settings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LensPlace:
    """What a layer would predict at one place: its likeliest tokens, the gold token's rank (from 1) and probability.

    `divergence` is KL(model's own prediction ‖ this one), in nats; 0 at the last layer.
    """

    likeliest: tuple[tuple[Token, float], ...]
    gold_rank: int
    gold_probability: float
    divergence: float


@dataclass(frozen=True)
class LensLayer:
    """A row of the logit lens: `layer` 0 is what enters the stack; one place a prediction."""

    layer: int
    places: tuple[LensPlace, ...]


@dataclass(frozen=True)
class Curve:
    """Numbers over numbers: `x` and each of `series` are equally long. `name` says of which method and of what."""

    method: str
    name: str
    x_name: str
    x: tuple[float, ...]
    series: dict[str, tuple[float, ...]]
    settings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Probe:
    """How well a small classifier reads a label off the states of a layer, and how well it learns labels at random.

    `place` is "encoder" or "decoder", `layer` 0 the embeddings, `kind` "linear" or "mlp". Shares of 1: `accuracy`,
    `control` (of a control task; Hewitt and Liang 2019, §2), `majority` (always the commonest label), `untrained` (the
    same probe on the model as it was before training; None if that was not run). Selectivity is accuracy − control.
    """

    label: str
    place: Literal["encoder", "decoder"]
    layer: int
    kind: Literal["linear", "mlp"]
    accuracy: float
    control: float
    majority: float
    classes: int
    examples: int
    untrained: float | None = None

    @property
    def selectivity(self) -> float:
        """accuracy − control."""
        return self.accuracy - self.control


@dataclass(frozen=True)
class EvidenceRecord:
    """What the methods found: about the one pair of an attention record, or over a `sample` of many pairs.

    `pairs` is how many pairs were looked at, `tokens` how many gold tokens these have; `settings` describe the run by
    name. What is absent here was not tested.
    """

    provenance: Provenance
    scope: Literal["sentence", "sample"]
    pairs: int
    tokens: int
    findings: tuple[Finding, ...] = ()
    scores: tuple[TokenScores, ...] = ()
    lens: tuple[LensLayer, ...] = ()
    curves: tuple[Curve, ...] = ()
    probes: tuple[Probe, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)

    def about(self, unit: Unit, method: str) -> Finding | None:
        """The finding of `method` about `unit`; None if it was not tested."""
        for each in self.findings:
            if each.method == method and each.unit == unit:
                return each
        return None
