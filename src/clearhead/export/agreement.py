"""Whether another program makes of a model what this one makes of it: scores by teacher forcing, and searches.

A search is a chain of choices, and where two candidates are as good as equal, rounding decides. So outputs may differ
where this program's own search had such a choice, or where both outputs have the same score; else a difference is
one of the models.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import torch
from torch import Tensor

from clearhead.base.errors import DecodingError
from clearhead.base.log import logger
from clearhead.decoding.beam import Beams, Candidates, Likeliest, beam_search
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.hypotheses import Hypothesis, Limits, Model
from clearhead.decoding.prefill import Start, prefill
from clearhead.decoding.search import force
from clearhead.models.protocols import Decoder, Encoder
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.text.symbols import EOS, SPECIALS

__all__ = ["BEAMS", "TOLERANCE", "Agreement", "Peer", "check_agreement", "choice_gaps", "drawn_sources"]

TOLERANCE = 1e-4
"""How far the natural log of a token's probability may lie from the other program's, both in float32."""
NOISE = 10
"""Where float32 itself rounds more (an untrained model may be that sensitive), as many times what it is off float64."""

BEAMS = (1, 4)
SENTENCES, LONGEST = 12, 24


class Peer(Protocol):
    """A model in another program, asked in our ids."""

    name: str
    renormalises: bool
    """Whether its search gives what PAD, UNK and BOS would have to the other tokens; ours does not."""

    def score(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        """log P of each token of `target` and of the EOS behind it; `source` ends with EOS, `target` does not."""
        ...

    def search(self, source: Sequence[int], beam: int, longest: int) -> tuple[list[int], bool]:
        """The best translation of at most `longest` tokens without a length penalty, and whether it ended in time."""
        ...


@dataclass(frozen=True)
class Agreement:
    """How far two programs agreed. `largest` is the largest difference of a token's log-probability."""

    name: str
    sentences: int
    tokens: int
    largest: float
    searches: int
    near_ties: int

    def __str__(self) -> str:
        """One line for a log."""
        ties = "" if not self.near_ties else f" but for near-ties in {self.near_ties}"
        return (
            f"{self.name} agrees: {_counted(self.tokens, 'token')} of {_counted(self.sentences, 'sentence')}, log P at "
            f"most {self.largest:.1e} apart; the same outputs of {_counted(self.searches, 'search', 'es')}{ties}"
        )


def _counted(count: int, what: str, plural: str = "s") -> str:
    return f"{count:,} {what}{'' if count == 1 else plural}"


def drawn_sources(vocabulary: int, seed: int = 0) -> list[list[int]]:
    """A few sentences of tokens drawn from a source vocabulary, each with its EOS; always the same ones."""
    rng = Random(seed)
    lengths = [1 + (LONGEST - 1) * place // (SENTENCES - 1) for place in range(SENTENCES)]
    return [[*(rng.randrange(len(SPECIALS), vocabulary) for _ in range(length)), EOS] for length in lengths]


@torch.no_grad()
def check_agreement(
    model: Seq2Seq, peer: Peer, sources: Sequence[Sequence[int]], vocabulary: int, tolerance: float = TOLERANCE
) -> Agreement:
    """Let `model` and `peer` score and translate `sources` (each with its EOS) and compare.

    `vocabulary` is the target's size. Raises DecodingError for the first difference that is more than rounding, and
    where more than half of the searches differ at near-ties.
    """
    told = f"scores, greedy, beam {max(BEAMS)}"
    logger.info("comparing %s with %s (%s) …", _counted(len(sources), "sentence"), peer.name, told)
    rng, tokens, largest, searches, near_ties = Random(1), 0, 0.0, 0, 0
    for place, source in enumerate(sources):
        found = {beam: _ours(model, source, beam, peer.renormalises) for beam in BEAMS}
        drawn = [rng.randrange(len(SPECIALS), vocabulary) for _ in range(1 + rng.randrange(LONGEST))]
        for target in (list(found[max(BEAMS)].best.tokens), drawn):
            ours, theirs = _forced(model, source, target), peer.score(source, target)
            apart = max(abs(one - other) for one, other in zip(ours, theirs, strict=True))
            if not apart <= tolerance and not apart <= NOISE * _noise(model, source, target, ours):
                raise DecodingError(
                    f"{peer.name} computes something else: sentence {place + 1}, log P of a token {apart:.1e} apart, "
                    f"at most {tolerance:.0e} is rounding"
                )
            tokens, largest = tokens + len(ours), max(largest, apart)
        for beam, mine in found.items():
            other, ended = peer.search(source, beam, mine.longest)
            verdict = _verdict(model, source, beam, mine, other, ended, tolerance)
            if verdict == "different":
                raise DecodingError(
                    f"{peer.name} translates otherwise with a beam of {beam}: sentence {place + 1}, "
                    f"{_shown(mine.best.tokens)} here and {_shown(other)} there, and no near-tie explains it"
                )
            searches += verdict != "open"
            near_ties += verdict == "near-tie"
    if 2 * near_ties > searches:  # rounding turns few searches; a fault may hide behind many
        raise DecodingError(
            f"{peer.name} translates otherwise in {near_ties} of {_counted(searches, 'search', 'es')}, each at a "
            "near-tie: too many for rounding to explain; try other sentences (--sample)"
        )
    return Agreement(peer.name, len(sources), tokens, largest, searches, near_ties)


def choice_gaps(log_probs: Sequence[float], tokens: Sequence[int], beam: int) -> list[float]:
    """How far each choice of a step was from falling otherwise, given its 2·beam best candidates, best first.

    The last candidate that lives on, against the first that does not; an EOS among the first `beam`, which ends a
    hypothesis, against the first candidate behind them; an EOS behind them, against the last before it.

    >>> choice_gaps([-1.0, -1.5, -4.0, -4.25], [7, 8, 9, 10], beam=2)
    [2.5]
    >>> choice_gaps([-1.0, -1.5, -1.75, -4.0], [3, 8, 9, 10], beam=2)  # EOS comes first: 8 and 9 live on
    [2.25, 0.75]
    """
    living = [value for value, token in zip(log_probs, tokens, strict=True) if token != EOS]
    found = [living[beam - 1] - living[beam]] if len(living) > beam else []
    for place, (value, token) in enumerate(zip(log_probs, tokens, strict=True)):
        if token == EOS and len(log_probs) > beam:
            found.append(value - log_probs[beam] if place < beam else log_probs[beam - 1] - value)
    return [each for each in found if each < math.inf]  # infinite or no number: a filler


# ------------------------------------------------------------------------------------------------------------- inside


@dataclass
class _Search:
    """What our search found, and by how little its closest choice was made."""

    best: Hypothesis
    longest: int
    closest: float


@dataclass
class _Watching:
    """Chooses as `Likeliest` does, and keeps how far each choice was from falling otherwise."""

    beam: int
    gaps: list[float] = field(default_factory=list)
    choose: Likeliest = field(default_factory=Likeliest)

    def candidates(self, logits: Tensor, beams: Beams, start: Start, limits: Sequence[Limits], beam: int) -> Candidates:
        """The likeliest continuations."""
        chosen = self.choose.candidates(logits, beams, start, limits, beam)
        totals, ids = chosen.log_probs[0].tolist(), chosen.tokens[0].tolist()
        self.gaps += choice_gaps(totals, ids, self.beam)
        return chosen

    def follow(self, origins: Tensor, tokens: Tensor) -> _Watching:
        """Itself: it watches one sentence."""
        return self

    def keep(self, rows: list[int]) -> _Watching:
        """Itself."""
        return self


@dataclass(frozen=True)
class _Renormalised:
    """A decoder that gives PAD, UNK and BOS no probability at all."""

    inner: Decoder

    def start(self, memory: object) -> object:
        return self.inner.start(memory)  # type: ignore[arg-type]

    def advance(self, tokens: Padded, state: object) -> object:
        return self.inner.advance(tokens, state)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        logits = self.inner.project(hidden, vocabulary).clone()
        logits[..., :EOS] = -torch.inf
        return logits


@dataclass(frozen=True)
class _Pair:
    encoder: Encoder
    decoder: Decoder


def _ours(model: Model, source: Sequence[int], beam: int, renormalise: bool) -> _Search:
    asked: Model = _Pair(model.encoder, _Renormalised(model.decoder)) if renormalise else model  # type: ignore[arg-type]
    config = DecodingConfig(beam=beam, penalty="none", max_length_ratio=1.5, max_length_extra=10)
    limits = Limits.of(config, len(source) - 1, 0)
    watching = _Watching(beam)
    start = prefill(asked, Padded.from_lists([list(source)]), [()])
    (found,) = beam_search(asked.decoder, start, [limits], config, watching)
    return _Search(found[0], limits.longest, min(watching.gaps, default=math.inf))


def _forced(model: Model, source: Sequence[int], target: Sequence[int]) -> tuple[float, ...]:
    return force(model, Padded.from_lists([list(source)]), [list(target)])[0].token_log_probs


def _noise(model: Seq2Seq, source: Sequence[int], target: Sequence[int], scores: Sequence[float]) -> float:
    """How far our own figures are from those in float64."""
    exact = _forced(copy.deepcopy(model).double(), source, target)
    return max(abs(one - other) for one, other in zip(scores, exact, strict=True))


def _verdict(
    model: Model,
    source: Sequence[int],
    beam: int,
    mine: _Search,
    other: Sequence[int],
    ended: bool,
    tolerance: float,
) -> str:
    """ "same", "near-tie", "different", or "open": at the limit of length a wider search is each program's own."""
    if beam > 1 and not (mine.best.finished and ended):
        return "open"
    ours = list(mine.best.tokens)
    if ours == list(other) and mine.best.finished == ended:
        return "same"
    rounding = tolerance * (mine.longest + 1)
    if mine.closest <= rounding:
        return "near-tie"
    if mine.best.finished and ended:
        scores = [sum(_forced(model, source, tokens)) for tokens in (ours, other)]
        return "near-tie" if abs(scores[0] - scores[1]) <= rounding else "different"
    return "different"


def _shown(tokens: Sequence[int]) -> str:
    listed = " ".join(map(str, tokens[:12]))
    return f"[{listed}{' …' if len(tokens) > 12 else ''}]"
