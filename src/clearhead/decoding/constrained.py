"""Beam search for translations that must hold given phrases: the terms of a glossary, or placeholders that were lost.

Dynamic beam allocation (Post and Vilar 2018, §3; in one beam for all sentences as in Hu et al. 2019, §3). It is the
search of `beam.py` with a guide of its own, which makes three differences:

- The tokens that begin or continue an unmet phrase are candidates, however unlikely.
- Candidates are grouped into banks by the number of phrase tokens that they hold, and the beam is filled in rounds:
  the best of each bank, then the second of each. So a hypothesis that has written a phrase is not crowded out by
  likelier ones that have not. Within a round the fullest bank goes first: a beam that is smaller than the number of
  banks would else put the phrases off until the length limit forces them.
- A hypothesis may end only when all is met, and may take only tokens after which what is missing still fits.

The model reads as many rows as in an ordinary search, however many phrases there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clearhead.base.errors import DecodingError
from clearhead.decoding.beam import Beams, Candidates, beam_search
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.constraints import Constraints
from clearhead.decoding.fixed import by_shape, rounded, take
from clearhead.decoding.hypotheses import Hypothesis, Limits, Model
from clearhead.decoding.prefill import Start, prefill
from clearhead.decoding.search import search
from clearhead.decoding.select import BLOCK, top_tokens
from clearhead.nn.padding import Padded
from clearhead.text.symbols import EOS, PAD

__all__ = ["constrained_search"]


@torch.no_grad()
def constrained_search(
    model: Model,
    source: Padded,
    config: DecodingConfig,
    constraints: Sequence[Sequence[Sequence[int]]],
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    keys: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """`search`, with the phrases that the translations of each sentence must hold.

    `constraints` lists for each sentence its phrases in tokens. Each stands in the result, its tokens side by side, as
    often as it is listed, and no token serves two of them; `prefixes` count. A sentence without phrases is searched as
    `search` does it. Where the phrases cannot be met (the length limit is too short for them, or the model gives
    them no probability at all), the result is that of `search`, with `finished` False.

    Raises DecodingError for what `search` refuses, for constraints that are not one list a sentence or hold a reserved
    or unknown token, and for sampling together with phrases.
    """
    count = len(source)
    prefixes = [()] * count if prefixes is None else prefixes
    keys = range(count) if keys is None else keys
    if not len(constraints) == len(prefixes) == len(keys) == count:
        raise DecodingError(
            f"{count} sentences, {len(constraints)} lists of constraints, {len(prefixes)} prefixes and {len(keys)} "
            "keys: give one of each a sentence"
        )
    bound = {n: Constraints(phrases, f"sentence {n}") for n, phrases in enumerate(constraints) if phrases}
    if bound and config.sampling is not None:
        raise DecodingError("phrases cannot be forced while sampling: leave out one of the two")
    found: list[list[Hypothesis]] = [[] for _ in range(count)]
    for n, hypotheses in zip(bound, _bound(model, source, config, bound, prefixes), strict=True):
        found[n] = hypotheses
    free = [n for n in range(count) if not found[n]]
    if free:
        part = source if len(free) == count else take(source, free, int(source.lengths[free].max()))
        results = search(model, part, config, prefixes=[prefixes[n] for n in free], keys=[keys[n] for n in free])
        for n, hypotheses in zip(free, results, strict=True):
            found[n] = hypotheses if n not in bound else [_checked(each, bound[n]) for each in hypotheses]
    return found


def _checked(hypothesis: Hypothesis, constraints: Constraints) -> Hypothesis:
    """The hypothesis of a search without constraints; not finished if it does not meet these."""
    met = constraints.missing(constraints.read(hypothesis.tokens)) == 0
    return replace(hypothesis, finished=hypothesis.finished and met)


def _bound(
    model: Model,
    source: Padded,
    config: DecodingConfig,
    bound: dict[int, Constraints],
    prefixes: Sequence[Sequence[int]],
) -> list[list[Hypothesis]]:
    """One list for each sentence of `bound`, in its order; an empty one where the phrases cannot be met."""
    lengths: list[int] = source.lengths.tolist()
    limits = {n: Limits.of(config, max(0, lengths[n] - 1), len(prefixes[n])) for n in bound}
    states = {n: constraints.read(prefixes[n]) for n, constraints in bound.items()}
    possible = [n for n in bound if bound[n].missing(states[n]) <= limits[n].longest - len(prefixes[n])]

    def together(chosen: list[int], width: int) -> list[list[Hypothesis]]:
        start = prefill(model, take(source, chosen, width), [prefixes[n] for n in chosen])
        progress = Progress([bound[n] for n in chosen], [[states[n]] for n in chosen])
        return beam_search(model.decoder, start, [limits[n] for n in chosen], config, progress)

    if config.reproducible:
        shapes = [(rounded(lengths[n]), len(prefixes[n])) for n in possible]
        found = by_shape(shapes, lambda shape, places: together([possible[place] for place in places], shape[0]))
    else:
        found = together(possible, max(lengths[n] for n in possible)) if possible else []
    results = dict(zip(possible, found, strict=True))
    return [results.get(n, []) for n in bound]


@dataclass(frozen=True)
class Progress:
    """How far each live hypothesis is with the phrases of its sentence: one line a sentence, as in `Beams`."""

    constraints: list[Constraints]
    states: list[list[int]]

    def follow(self, origins: Tensor, tokens: Tensor) -> Progress:
        """The progress after hypothesis `origins` [B, K] of each sentence took `tokens` [B, K]."""
        states = [
            [constraints.after(before[origin], token) for origin, token in zip(*taken, strict=True)]
            for constraints, before, taken in zip(
                self.constraints, self.states, zip(origins.tolist(), tokens.tolist(), strict=True), strict=True
            )
        ]
        return Progress(self.constraints, states)

    def keep(self, rows: list[int]) -> Progress:
        """Only the sentences on these lines."""
        return Progress([self.constraints[row] for row in rows], [self.states[row] for row in rows])

    def complete(self) -> list[bool]:
        """Whether each hypothesis has met everything: B·K entries."""
        pairs = zip(self.constraints, self.states, strict=True)
        return [constraints.missing(state) == 0 for constraints, states in pairs for state in states]

    def wanted(self) -> list[tuple[int, ...]]:
        """The tokens that bring each hypothesis further: B·K entries."""
        pairs = zip(self.constraints, self.states, strict=True)
        return [constraints.wanted(state) for constraints, states in pairs for state in states]

    def candidates(self, logits: Tensor, beams: Beams, start: Start, limits: Sequence[Limits], beam: int) -> Candidates:
        """Logits [B·K, V] → the continuations of each sentence that its banks choose, in their order."""
        sentences, width = beams.log_probs.shape
        device, dtype = logits.device, beams.log_probs.dtype
        may_end, must_end = beams.endings(limits, start.prefixes)
        complete = torch.tensor(self.complete(), device=device)
        values, tokens = top_tokens(logits, 2 * beam, complete if may_end is None else may_end & complete, must_end)
        more_values, more_tokens = _wanted(logits, tokens, self)
        values, tokens = torch.cat([values, more_values], dim=1).to(dtype), torch.cat([tokens, more_tokens], dim=1)
        totals = (beams.log_probs.reshape(-1, 1) + values).reshape(sentences, -1)
        origins = torch.arange(width, device=device).repeat_interleave(values.shape[1]).expand(sentences, -1)
        tokens, values = tokens.reshape(sentences, -1), values.reshape(sentences, -1)
        rows = []
        for row, (sentence, total, token) in enumerate(
            zip(beams.sentences, totals.tolist(), tokens.tolist(), strict=True)
        ):
            room = limits[sentence].longest - len(start.prefixes[sentence]) - beams.steps - 1
            order = _in_rounds(total, token, self.constraints[row], self.states[row], room)[: 2 * beam]
            rows.append(order + [len(total)] * (2 * beam - len(order)))  # the filler that is appended below
        chosen = torch.tensor(rows, device=device)
        pad = torch.nn.functional.pad
        return Candidates(
            pad(totals, (0, 1), value=-torch.inf).gather(1, chosen),
            pad(tokens, (0, 1), value=PAD).gather(1, chosen),
            pad(origins, (0, 1), value=0).gather(1, chosen),
            pad(values, (0, 1), value=-torch.inf).gather(1, chosen),
        )


def _wanted(logits: Tensor, top: Tensor, progress: Progress) -> tuple[Tensor, Tensor]:
    """Log-probabilities and ids of the wanted tokens of each row that are not among its `top` ones: [R, W] twice.

    Rows that want fewer are filled with PAD of log-probability −inf.
    """
    unlisted = [
        [token for token in wanted if token not in listed]
        for wanted, listed in zip(progress.wanted(), map(set, top.tolist()), strict=True)
    ]
    if not any(unlisted):
        return logits.new_zeros(len(logits), 0), top[:, :0]
    padded = Padded.from_lists(unlisted, logits.device)
    if (largest := int(padded.ids.max())) >= logits.shape[1]:
        raise DecodingError(
            f"a phrase has the token {largest}, but the model's vocabulary ends at {logits.shape[1] - 1}: "
            "encode the phrase with the model's own tokenizer"
        )
    dtype = logits.dtype if logits.dtype == torch.float64 else torch.float32
    size = max(1, BLOCK // logits.shape[1])
    values = [
        torch.log_softmax(logits[first : first + size].to(dtype), dim=-1).gather(1, padded.ids[first : first + size])
        for first in range(0, len(logits), size)
    ]
    return torch.cat(values).masked_fill(~padded.mask, -torch.inf), padded.ids


def _in_rounds(
    totals: list[float], tokens: list[int], constraints: Constraints, states: list[int], room: int
) -> list[int]:
    """The candidates of one sentence that may be taken: the best of each bank, the fullest first, then the second ones.

    `room` is how many tokens fit after the next one. Equal scores in a bank go to the lower token, then to the
    earlier hypothesis, as everywhere.
    """
    each = len(totals) // len(states)
    best = sorted(
        (place for place, total in enumerate(totals) if total > -torch.inf),
        key=lambda place: (-totals[place], tokens[place], place // each),
    )
    taken: Counter[int] = Counter()
    rounds = []
    for place in best:
        state = constraints.after(states[place // each], tokens[place])
        if tokens[place] != EOS and constraints.missing(state) > room:
            continue
        bank = constraints.met(state)
        rounds.append((taken[bank], -bank, place))
        taken[bank] += 1
    return [place for _, _, place in sorted(rounds)]
