"""Whether a translation that differs in fp32 does so at a near-tie, for `translate_speed.py`.

Two engines add up the same products in another order, so where two choices are all but equal each may take another, and
the translations part. That it was so is shown by the plain model in float64: either it gives both translations scores
closer than `BOUND`, or its own beam search stood before a choice between two continuations closer than `BOUND`. How
often the second holds for any sentence at all is the control: a bound that everything meets would show nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["BOUND", "closest_choices", "near_ties"]

BOUND = 1e-4
"""Natural-log probability. fp32 has 24 bits: a sum of 30 log-probabilities, each off by some 1e-6, is off by 3e-5."""


def closest_choices(model: Any, sources: Sequence[Sequence[int]], config: Any) -> list[float]:
    """For each source (with EOS) the smallest of all `choice_gaps` in the model's own search."""
    import torch

    from clearhead.decoding.beam import Likeliest, beam_search
    from clearhead.decoding.hypotheses import Limits
    from clearhead.decoding.prefill import prefill
    from clearhead.export.agreement import choice_gaps
    from clearhead.nn.padding import Padded

    class Watching(Likeliest):
        """The same candidates, looked at."""

        def __init__(self, closest: list[float]) -> None:
            self.closest = closest

        def candidates(self, logits: Any, beams: Any, start: Any, limits: Any, beam: int) -> Any:
            chosen = super().candidates(logits, beams, start, limits, beam)
            rows = zip(beams.sentences, chosen.log_probs.tolist(), chosen.tokens.tolist(), strict=True)
            for sentence, log_probs, tokens in rows:
                self.closest[sentence] = min([self.closest[sentence], *choice_gaps(log_probs, tokens, beam)])
            return chosen

    found: list[float] = []
    for place in range(0, len(sources), 20):
        part = sources[place : place + 20]
        closest = [float("inf")] * len(part)
        with torch.inference_mode():
            start = prefill(model, Padded.from_lists(part), [()] * len(part))
            limits = [Limits.of(config, len(source) - 1, 0) for source in part]
            beam_search(model.decoder, start, limits, config, Watching(closest))
        found += closest
    return found


def near_ties(
    model: Any,
    sources: Sequence[Sequence[int]],
    both: Sequence[tuple[Sequence[int], Sequence[int]]],
    control: Sequence[Sequence[int]],
    config: Any,
) -> dict[str, Any]:
    """For sources whose translations differ (`both`: tokens of each), what the float64 `model` says of them.

    `unproved` counts those that are no near-tie; `control` is the share of other sentences with so close a choice.
    """
    import torch

    from clearhead.decoding import force
    from clearhead.nn.padding import Padded

    apart = []
    with torch.inference_mode():
        for source, pair in zip(sources, both, strict=True):
            rows = Padded.from_lists([source, source])
            first, second = force(model, rows, [list(tokens) for tokens in pair], config)
            apart.append(abs(first.score - second.score))
    closest = closest_choices(model, sources, config)
    elsewhere = closest_choices(model, control, config)
    return {
        "bound": BOUND,
        "differing": len(sources),
        "scores apart": apart,
        "closest choice": closest,
        "unproved": sum(min(pair) > BOUND for pair in zip(apart, closest, strict=True)),
        "control": sum(each <= BOUND for each in elsewhere) / max(1, len(elsewhere)),
    }
