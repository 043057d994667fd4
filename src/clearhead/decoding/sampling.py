"""Ancestral sampling: each token drawn from the model's distribution, reproducibly and whatever the batch.

Every draw uses one number in [0, 1) that depends on nothing but (seed, sentence key, sample, step), and reads it off
the cumulative distribution of the tokens sorted by falling probability, equal ones by rising id.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from clearhead.base.errors import DecodingError
from clearhead.base.seeds import mix
from clearhead.decoding.beam import Beams
from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.decoding.hypotheses import Finished, Hypothesis, Limits
from clearhead.decoding.prefill import Start
from clearhead.decoding.select import FIRST, NOT_A_NUMBER, wide
from clearhead.models.protocols import Decoder
from clearhead.nn.padding import Padded
from clearhead.text.symbols import EOS

__all__ = ["draw", "sample", "uniform"]


def uniform(seed: int, key: int, sample: int, step: int) -> float:
    """A number in [0, 1) with 53 random bits, the same for the same four numbers everywhere."""
    return (mix(seed, key, sample, step) % 2**64 >> 11) * 2.0**-53


def draw(
    logits: Tensor, uniforms: Tensor, sampling: Sampling, may_end: Tensor | None = None, must_end: Tensor | None = None
) -> Tensor:
    """One token a row: [R, V], [R] → int64 [R].  Never PAD, UNK or BOS.

    Of the tokens that temperature, `top_k` and `top_p` leave, renormalised, the one in whose share of [0, 1) the
    row's uniform number falls.
    """
    scaled = logits[:, FIRST:].to(wide(logits.device)) / sampling.temperature
    if may_end is not None:
        scaled[:, EOS - FIRST].masked_fill_(~may_end, -torch.inf)
    ordered, tokens = scaled.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered[:, : sampling.top_k].softmax(dim=-1)
    cumulative = probabilities.cumsum(dim=-1)
    if sampling.top_p is not None:
        before = cumulative - probabilities
        cumulative = probabilities.masked_fill(before >= sampling.top_p, 0.0).cumsum(dim=-1)
    target = uniforms.to(cumulative.dtype)[:, None] * cumulative[:, -1:]
    # The first place whose cumulative share exceeds the target; rounding cannot push it past the last share above 0.
    place = (cumulative <= target).sum(dim=-1).clamp(max=cumulative.shape[1] - 1)
    last = (cumulative < cumulative[:, -1:]).sum(dim=-1)
    token = tokens.gather(1, torch.minimum(place, last)[:, None])[:, 0] + FIRST
    return token if must_end is None else token.masked_fill(must_end, EOS)


def sample(
    decoder: Decoder, start: Start, limits: Sequence[Limits], config: DecodingConfig, keys: Sequence[int]
) -> list[list[Hypothesis]]:
    """`n_best` independent samples a sentence, best score first; two of them may be equal."""
    assert config.sampling is not None
    count, device = config.n_best, start.hidden.device
    finished = [Finished(count) for _ in limits]
    beams = Beams.first(start, count)
    state = start.state.rows(torch.arange(len(limits), device=device)[:, None].expand(-1, count))
    hidden = start.hidden.repeat_interleave(count, dim=0)
    own = torch.arange(count, device=device)
    while True:
        logits = decoder.project(hidden)
        if bool(logits.isnan().any()):
            raise DecodingError(NOT_A_NUMBER)
        uniforms = torch.tensor(
            [uniform(config.seed, keys[each], k, beams.steps) for each in beams.sentences for k in range(count)],
            dtype=wide(device),
            device=device,
        )
        tokens = draw(logits, uniforms, config.sampling, *beams.endings(limits, start.prefixes))
        dtype = logits.dtype if logits.dtype == torch.float64 else torch.float32
        values = torch.log_softmax(logits.to(dtype), dim=-1).gather(1, tokens[:, None])[:, 0].to(wide(device))
        shape = beams.log_probs.shape
        tokens, values = tokens.reshape(shape), values.reshape(shape)
        live = beams.log_probs > -torch.inf
        log_probs = (beams.log_probs + values).masked_fill(tokens == EOS, -torch.inf)
        beams = beams.chosen(own.expand(shape), tokens, values, log_probs)
        _finish(beams, (live & (tokens == EOS)).nonzero().tolist(), start, limits, config, finished)
        going_on = (beams.log_probs > -torch.inf).any(dim=1).nonzero()[:, 0].tolist()
        if not going_on:
            return [each.best for each in finished]
        if not config.reproducible and len(going_on) < len(beams.sentences):
            index = torch.tensor(going_on, device=device)[:, None] * count + own
            beams, state = beams.keep(going_on), state.rows(index)
        hidden, state = decoder.advance(Padded.full(beams.tokens[:, :, -1].reshape(-1, 1)), state)
        hidden = hidden[:, 0]


def _finish(
    beams: Beams,
    ended: list[list[int]],
    start: Start,
    limits: Sequence[Limits],
    config: DecodingConfig,
    finished: list[Finished],
) -> None:
    """Move the samples that just drew EOS to `finished`."""
    for row, column in ended:
        sentence = beams.sentences[row]
        tokens = (*start.prefixes[sentence], *beams.tokens[row, column, :-1].tolist())
        log_probs = (*start.prefix_log_probs[sentence], *beams.token_log_probs[row, column].tolist())
        in_time = len(tokens) < limits[sentence].longest
        finished[sentence].add(Hypothesis.of(config, tokens, log_probs, in_time))
