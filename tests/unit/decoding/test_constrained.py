"""Constrained search: the best translation that holds its phrases, in any batch, and the plain search without them.

Each law is followed by a fault that it catches.
"""

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from clearhead.base.errors import DecodingError
from clearhead.decoding.beam import beam_search
from clearhead.decoding.config import DecodingConfig, Penalty, Sampling
from clearhead.decoding.constrained import Progress, constrained_search
from clearhead.decoding.constraints import Constraints
from clearhead.decoding.hypotheses import Hypothesis, Limits, Model
from clearhead.decoding.prefill import prefill
from clearhead.decoding.search import force, search
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.ensemble import ensemble
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.text.symbols import EOS, UNK
from tests.unit.decoding.markov import Markov, uniform_model
from tests.unit.decoding.placement import holds, phrase_lists

SOURCES = [[4, 5, 3], [5, 3], [6, 4, 4, 3], [3], [4, 6, 3]]
WORDS = (4, 5, 6)
WIDE = 4**5
LONGEST = 4
Phrases = list[list[int]]


def transformer(seed: int = 1, vocab_size: int = 7) -> Seq2Seq:
    config = presets.tiny(
        vocab_size=vocab_size, d_model=16, d_ff=16, encoder_layers=1, decoder_layers=1, attention={"heads": 2}
    )
    model = build(config, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform, so that histories matter
            parameter.mul_(2.0)
    return model.double().eval()


MODELS: dict[str, Callable[[], Model]] = {"markov": Markov, "transformer": transformer}


def batch(sources: Sequence[Sequence[int]] = SOURCES) -> Padded:
    return Padded.from_lists(sources)


def same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> bool:
    return [(each.tokens, each.finished) for each in found] == [(each.tokens, each.finished) for each in expected] and [
        each.score for each in found
    ] == pytest.approx([each.score for each in expected], abs=1e-9)


# ------------------------------------------------------------------------------------------- wide beam == brute force


def every_text(model: Model, source: Sequence[int], config: DecodingConfig) -> list[Hypothesis]:
    """All sequences within the limit, scored by teacher forcing and the formula written out, best first."""
    texts = [text for length in range(LONGEST + 1) for text in itertools.product(WORDS, repeat=length)]
    scored = []
    for each in force(model, batch([source] * len(texts)), texts):
        length = len(each.tokens) + 1
        divisor = {"gnmt": ((5 + length) / 6) ** config.alpha, "length": length**config.alpha, "none": 1.0}
        scored.append(replace(each, score=each.log_prob / divisor[config.penalty], finished=len(each.tokens) < LONGEST))
    return sorted(scored, key=lambda each: -each.score)


def wide_beam_is_brute_force(model: Model, penalty: Penalty = "gnmt", alpha: float = 0.6) -> bool:
    config = DecodingConfig(beam=WIDE, n_best=5, penalty=penalty, alpha=alpha, max_length=LONGEST, max_length_extra=9)
    texts = [every_text(model, source, config) for source in SOURCES]
    agree = True
    for drawn in range(6):
        constraints = phrase_lists(len(SOURCES), WORDS, longest=LONGEST, seed=drawn)
        found = constrained_search(model, batch(), config, constraints)
        for phrases, ours, everything in zip(constraints, found, texts, strict=True):
            expected = [each for each in everything if holds(each.tokens, phrases)][:5]
            agree = agree and bool(expected) and same(ours, expected)
    return agree


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_wide_beam_is_brute_force(make: Callable[[], Model]) -> None:
    assert wide_beam_is_brute_force(make())


@pytest.mark.parametrize(("penalty", "alpha"), [("length", 2.0), ("gnmt", -0.5), ("none", 0.0)])
def test_wide_beam_is_brute_force_under_every_penalty(penalty: Penalty, alpha: float) -> None:
    assert wide_beam_is_brute_force(Markov(seed=4), penalty, alpha)


def test_wide_beam_law_sees_phrases_of_another_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Progress.follow
    monkeypatch.setattr(Progress, "follow", lambda self, origins, tokens: follow(self, origins * 0, tokens))
    assert not wide_beam_is_brute_force(Markov())


def test_wide_beam_law_sees_a_phrase_that_is_not_unwound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The common fault: what was met stays met when the phrase is broken off."""
    after = Constraints.after

    def forgetful(self: Constraints, state: int, token: int) -> int:
        found = after(self, state, token)
        return found if self.met(found) >= self.met(state) else state

    monkeypatch.setattr(Constraints, "after", forgetful)
    assert not wide_beam_is_brute_force(Markov())


# ------------------------------------------------------------------------------------------- every beam meets all


@pytest.mark.parametrize("beam", [1, 2, 4, 9])
def test_phrases_are_met_whatever_the_beam(beam: int) -> None:
    config = DecodingConfig(beam=beam, n_best=min(beam, 3), max_length_extra=9)
    for seed in range(8):
        constraints = phrase_lists(len(SOURCES), (4, 5, 6), longest=9, seed=seed)
        model = Markov(seed=seed, spread=5.0)
        for phrases, found, source in zip(
            constraints, constrained_search(model, batch(), config, constraints), SOURCES, strict=True
        ):
            assert found
            for hypothesis in found:
                assert holds(hypothesis.tokens, phrases)
                assert len(hypothesis.tokens) <= len(source) - 1 + 9
                again = force(model, batch([source]), [hypothesis.tokens], config)[0]
                assert again.score == pytest.approx(hypothesis.score)
                assert again.token_log_probs == pytest.approx(hypothesis.token_log_probs)


@pytest.mark.parametrize("beam", [1, 3])
def test_phrases_are_met_where_they_only_just_fit(beam: int) -> None:
    model = Markov(spread=5.0)
    phrases = [[4, 5, 4], [6, 6], [5]]
    for longest in (6, 7, 8):
        config = DecodingConfig(beam=beam, max_length=longest)
        found = constrained_search(model, batch(), config, [phrases] * 5)
        assert all(holds(each[0].tokens, phrases) and len(each[0].tokens) <= longest for each in found)


def test_a_forced_beginning_counts_and_may_leave_a_phrase_open() -> None:
    config = DecodingConfig(beam=4, max_length=5)
    phrases = [[4, 5, 6], [6]]
    found = constrained_search(Markov(), batch([[4, 3]] * 2), config, [phrases] * 2, prefixes=[(6, 4, 5), (4,)])
    assert found[0][0].tokens[:4] == (6, 4, 5, 6)
    assert found[1][0].tokens[0] == 4
    assert all(holds(each[0].tokens, phrases) for each in found)


def test_ties_go_to_the_lower_token_then_to_the_earlier_hypothesis() -> None:
    config = DecodingConfig(beam=9, n_best=3, penalty="none", max_length=2, min_length=2)
    found = constrained_search(uniform_model(9), batch([[4, 3]]), config, [[[7]]])[0]
    assert [each.tokens for each in found] == [(4, 7), (5, 7), (6, 7)]


# ------------------------------------------------------------------------------- phrases that cannot be met


def test_a_limit_that_is_too_short_is_told_and_the_neighbours_are_not_harmed() -> None:
    config = DecodingConfig(max_length=3)
    constraints: list[Phrases] = [[[4, 5]], [[4, 5], [6, 6]], [], [[6]], [[4, 4, 4, 4]]]
    found = constrained_search(Markov(), batch(), config, constraints)
    plain = search(Markov(), batch(), config)
    for n in (1, 4):
        assert [replace(each, finished=False) for each in plain[n]] == found[n]
        assert not found[n][0].finished
    assert holds(found[0][0].tokens, [[4, 5]]) and holds(found[3][0].tokens, [[6]])
    assert found[2] == plain[2]


def test_a_token_without_any_probability_is_told() -> None:
    model = Markov()
    model.decoder.table[..., 5] = -math.inf
    found = constrained_search(model, batch(), DecodingConfig(max_length=6), [[[5]], [[4]], [], [], []])
    assert not found[0][0].finished
    assert 4 in found[1][0].tokens


# ------------------------------------------------------------------------------- phrases stay with their sentence


def many(count: int = 50) -> tuple[list[list[int]], list[Phrases]]:
    draw = random.Random(7)
    sources = [[*draw.choices(range(4, 17), k=draw.randint(1, 12)), EOS] for _ in range(count)]
    phrases = phrase_lists(count, range(4, 17), longest=9, seed=8)
    return sources, [each if n % 3 else [] for n, each in enumerate(phrases)]


CONFIG = DecodingConfig(beam=5, n_best=2, max_length_extra=8)


def in_batches(model: Model, size: int) -> list[list[Hypothesis]]:
    sources, constraints = many()
    found = []
    for first in range(0, len(sources), size):
        part = slice(first, first + size)
        found += constrained_search(model, batch(sources[part]), CONFIG, constraints[part])
    return found


def each_holds_its_own(size: int) -> bool:
    found = in_batches(transformer(3, vocab_size=17), size)
    return all(holds(each[0].tokens, phrases) for each, phrases in zip(found, many()[1], strict=True))


def test_batches_of_1_7_and_50_agree() -> None:
    model = transformer(3, vocab_size=17)
    alone = in_batches(model, 1)
    assert len({each[0].tokens for each in alone}) > 30
    for size in (7, 50):
        assert all(same(one, other) for one, other in zip(alone, in_batches(model, size), strict=True))
    assert each_holds_its_own(50)


def test_batch_law_sees_phrases_that_stay_behind_when_a_sentence_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq #3279: after the first sentence is done, the others are held to the phrases of their neighbours."""

    def stay(self: Progress, rows: list[int]) -> Progress:
        return Progress(self.constraints[: len(rows)], [self.states[row] for row in rows])

    monkeypatch.setattr(Progress, "keep", stay)
    with contextlib.suppress(IndexError):  # a neighbour's phrases may even lack the state of that number
        assert not each_holds_its_own(50)


def test_batch_law_sees_progress_that_is_not_reordered(monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Progress.follow

    def unordered(self: Progress, origins: torch.Tensor, tokens: torch.Tensor) -> Progress:
        return follow(self, origins.sort(dim=1).values, tokens)

    monkeypatch.setattr(Progress, "follow", unordered)
    assert not each_holds_its_own(50)


def test_order_of_the_sentences_changes_nothing() -> None:
    model = transformer(3, vocab_size=17)
    sources, constraints = many(12)
    found = constrained_search(model, batch(sources), CONFIG, constraints)
    turned = constrained_search(model, batch(sources[::-1]), CONFIG, constraints[::-1])
    assert all(same(one, other) for one, other in zip(found, turned[::-1], strict=True))


# ------------------------------------------------------------------------------- without phrases it is `search`


@pytest.mark.parametrize("config", [CONFIG, DecodingConfig(beam=1), DecodingConfig(beam=3, min_length=4)])
def test_without_phrases_it_is_the_plain_search(config: DecodingConfig) -> None:
    model = transformer(3, vocab_size=17)
    sources = many(12)[0]
    prefixes = [[5, 6] if n % 2 else [] for n in range(12)]
    plain = search(model, batch(sources), config, prefixes=prefixes)
    assert constrained_search(model, batch(sources), config, [[]] * 12, prefixes=prefixes) == plain
    # The guide of phrases, given none, does the same: scores, endings, ties and stopping are those of `search`.
    limits = [Limits.of(config, len(source) - 1, len(prefix)) for source, prefix in zip(sources, prefixes, strict=True)]
    with torch.no_grad():
        start = prefill(model, batch(sources), prefixes)
    nothing = Progress([Constraints([]) for _ in sources], [[0] for _ in sources])
    with torch.no_grad():
        assert beam_search(model.decoder, start, limits, config, nothing) == plain


def test_sentences_without_phrases_are_searched_as_ever_beside_others() -> None:
    model = transformer(3, vocab_size=17)
    sources, constraints = many()
    plain = search(model, batch(sources), CONFIG)
    found = constrained_search(model, batch(sources), CONFIG, constraints)
    free = [n for n, phrases in enumerate(constraints) if not phrases]
    assert len(free) > 10
    assert all(same(found[n], plain[n]) for n in free)


@pytest.mark.parametrize("beam", [1, 4])
def test_reproducible_sentences_do_not_see_their_batch(beam: int) -> None:
    """In float32, to the last bit (see `decoding/fixed.py`)."""
    model = transformer(3, vocab_size=17).float()
    config = CONFIG.model_copy(update={"beam": beam, "n_best": 1, "reproducible": True})
    sources, constraints = many(11)
    prefixes = [[5] if n % 4 == 1 else [] for n in range(11)]
    together = constrained_search(model, batch(sources), config, constraints, prefixes=prefixes)
    for n, source in enumerate(sources):
        alone = constrained_search(model, batch([source]), config, [constraints[n]], prefixes=[prefixes[n]])
        assert alone[0] == together[n]
        assert holds(alone[0][0].tokens, constraints[n])


# ------------------------------------------------------------------------------------------- cost, members, refusals


def test_the_model_reads_no_more_rows_for_more_phrases() -> None:
    config = DecodingConfig(beam=4, penalty="none", max_length=12, min_length=12)
    rows = []
    for phrases in ([[4]], [[4], [5], [6], [4, 5], [5, 6]]):
        model = Markov()
        constrained_search(model, batch(), config, [phrases] * 5)
        rows.append(model.decoder.rows_read)
    assert rows[0] == rows[1]


def test_an_ensemble_is_held_to_the_phrases_too() -> None:
    members = [transformer(seed, vocab_size=17) for seed in (3, 4)]
    sources, constraints = many(10)
    found = constrained_search(ensemble(members), batch(sources), CONFIG, constraints)
    assert all(holds(each[0].tokens, phrases) for each, phrases in zip(found, constraints, strict=True))
    again = force(ensemble(members), batch(sources), [each[0].tokens for each in found], CONFIG)
    assert [each.score for each in again] == pytest.approx([each[0].score for each in found])


def test_sampling_goes_on_without_phrases_and_is_refused_with_them() -> None:
    config, model = DecodingConfig(sampling=Sampling(), max_length=6), Markov()
    drawn = search(model, batch(), config, keys=[5, 6, 7, 8, 9])
    assert constrained_search(model, batch(), config, [[]] * 5, keys=[5, 6, 7, 8, 9]) == drawn
    with pytest.raises(DecodingError, match="cannot be forced while sampling"):
        constrained_search(model, batch(), config, [[[4]], [], [], [], []])


def test_what_is_refused() -> None:
    config = DecodingConfig()
    with pytest.raises(DecodingError, match="5 sentences, 1 lists of constraints, 5 prefixes and 5 keys"):
        constrained_search(Markov(), batch(), config, [[[4]]])
    with pytest.raises(DecodingError, match="sentence 2 must hold has the reserved token 1"):
        constrained_search(Markov(), batch(), config, [[], [], [[UNK]], [], []])
    with pytest.raises(DecodingError, match="token 7, but the model's vocabulary ends at 6"):
        constrained_search(Markov(), batch(), config, [[], [[4, 5], [7]], [], [], []])
    with pytest.raises(DecodingError, match="the prefix of sentence 0 holds the reserved token 3"):
        constrained_search(Markov(), batch(), config, [[[4]], [], [], [], []], prefixes=[[EOS], [], [], [], []])
    assert constrained_search(Markov(), batch([]), config, []) == []
