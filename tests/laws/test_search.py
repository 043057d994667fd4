"""What must hold of every search, whatever the model: in float64 on a Markov table, a Transformer, recurrent models.

Each law is followed by a fault that it catches.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from clearhead.decoding import beam
from clearhead.decoding.config import DecodingConfig, Penalty, Sampling
from clearhead.decoding.hypotheses import Finished, Hypothesis, Limits, Model
from clearhead.decoding.search import force, search
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.protocols import Decoder, Encoder, Memory
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS
from tests.unit.decoding.markov import Markov, MarkovState

VOCABULARY = 7  # EOS and the words 4, 5, 6
WORDS = range(EOS + 1, VOCABULARY)
WIDE = (len(WORDS) + 1) ** 4
"""A beam that holds every continuation, endings included, of every sequence of up to four words."""
SOURCES = [[4, 5, 3], [5, 3], [6, 4, 4, 3], [3], [4, 6, 3]]


def transformer(seed: int = 1, vocab_size: int = VOCABULARY) -> Model:
    config = presets.tiny(
        vocab_size=vocab_size, d_model=16, d_ff=16, encoder_layers=1, decoder_layers=1, attention={"heads": 2}
    )
    model = build(config, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform, so that histories matter
            parameter.mul_(2.0)
    return model.double().eval()


def recurrent(preset: str) -> Model:
    half = {"embedding": 8, "width": 8}
    model = build(presets.named(preset, VOCABULARY, {"encoder": half, "decoder": half}), seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model.double().eval()


MODELS: dict[str, Callable[[], Model]] = {
    "markov": Markov,
    "transformer": transformer,
    "rnnsearch": lambda: recurrent("rnnsearch-tiny"),
    "luong-local-p": lambda: recurrent("luong-local-p-tiny"),
}
models = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
penalties = pytest.mark.parametrize("penalty", ["gnmt", "length", "none"])


def batch(sources: Sequence[Sequence[int]] = SOURCES) -> Padded:
    return Padded.from_lists(sources)


def enumerate_all(model: Model, source: Sequence[int], config: DecodingConfig, longest: int) -> list[Hypothesis]:
    """Every sequence of at most `longest` words, scored by one teacher-forced pass and the formula written out."""
    sequences = [words for length in range(longest + 1) for words in itertools.product(WORDS, repeat=length)]
    scored = []
    for each in force(model, batch([source] * len(sequences)), sequences):
        length = len(each.tokens) + 1
        divisor = {"gnmt": ((5 + length) / 6) ** config.alpha, "length": length**config.alpha, "none": 1.0}
        scored.append(replace(each, score=each.log_prob / divisor[config.penalty]))
    return sorted(scored, key=lambda each: -each.score)


def same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis], tolerance: float = 1e-9) -> bool:
    return [each.tokens for each in found] == [each.tokens for each in expected] and all(
        abs(one.score - other.score) < tolerance and abs(one.log_prob - other.log_prob) < tolerance
        for one, other in zip(found, expected, strict=True)
    )


# ------------------------------------------------------------------------------------------- wide beam == brute force


def wide_beam_is_brute_force(model: Model, penalty: Penalty, alpha: float) -> bool:
    longest = 4
    config = DecodingConfig(beam=WIDE, n_best=9, penalty=penalty, alpha=alpha, max_length=longest, max_length_extra=9)
    found = search(model, batch(), config)
    return all(
        same(each, enumerate_all(model, source, config, longest)[:9])
        for each, source in zip(found, SOURCES, strict=True)
    )


@models
@penalties
@pytest.mark.parametrize("alpha", [0.6, 2.0, -0.5])
def test_wide_beam_is_brute_force(make: Callable[[], Model], penalty: Penalty, alpha: float) -> None:
    assert wide_beam_is_brute_force(make(), penalty, alpha)


def test_wide_beam_law_sees_a_length_that_leaves_eos_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.decoding import hypotheses, penalties

    monkeypatch.setattr(hypotheses, "score", lambda config, total, length: penalties.score(config, total, length - 1))
    assert not wide_beam_is_brute_force(Markov(), "gnmt", 2.0)


def test_wide_beam_law_sees_a_state_that_is_not_reordered(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer()
    kind = type(model.decoder.start(model.encoder(batch())))
    rows = kind.rows

    def unordered(self: object, index: Tensor) -> object:
        return rows(self, index.sort(dim=1).values)

    monkeypatch.setattr(kind, "rows", unordered)
    assert not wide_beam_is_brute_force(model, "none", 0.0)


# ------------------------------------------------------------------------------------------- a beam of one is greedy


def greedy(model: Model, source: Sequence[int], longest: int) -> tuple[int, ...]:
    """The textbook loop: the likeliest word after everything written so far, recomputed from the start each time."""
    written: list[int] = []
    while len(written) < longest:
        state = model.decoder.start(model.encoder(batch([source])))
        hidden, _ = model.decoder.advance(Padded.from_lists([[BOS, *written]]), state)
        logits = model.decoder.project(hidden[0, -1])
        best = max(range(EOS, VOCABULARY), key=lambda token: float(logits[token]))
        if best == EOS:
            break
        written.append(best)
    return tuple(written)


def beam_of_one_is_greedy(seeds: range, penalty: Penalty) -> bool:
    config = DecodingConfig(beam=1, penalty=penalty, max_length=12)
    agree = True
    for seed in seeds:
        for model in (Markov(seed=seed, spread=0.7), transformer(seed)):
            with torch.no_grad():
                expected = [greedy(model, source, 12) for source in SOURCES]
            agree = agree and [each[0].tokens for each in search(model, batch(), config)] == expected
    return agree


@penalties
def test_beam_of_one_is_greedy(penalty: Penalty) -> None:
    assert beam_of_one_is_greedy(range(6), penalty)


def test_greedy_law_sees_an_ending_below_the_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were any of the 2·beam candidates allowed to end, a beam of one would prefer short output."""
    finish = beam._finish

    def eager(candidates: beam.Candidates, *rest: object) -> None:
        config = rest[3]
        assert isinstance(config, DecodingConfig)
        finish(candidates, *rest[:3], config.model_copy(update={"beam": 2 * config.beam}), *rest[4:])

    monkeypatch.setattr(beam, "_finish", eager)
    assert not beam_of_one_is_greedy(range(6), "none")


# ------------------------------------------------------------------------------------- a batch changes nothing


def many(count: int = 50) -> list[list[int]]:
    generator = torch.Generator().manual_seed(7)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return [[*torch.randint(4, 17, (n,), generator=generator).tolist(), EOS] for n in lengths]


def in_batches(model: Model, size: int, config: DecodingConfig) -> list[list[Hypothesis]]:
    sources = many()
    found = []
    for first in range(0, len(sources), size):
        part = sources[first : first + size]
        keys = range(first, first + len(part))
        prefixes = [source[: key % 3] if key % 2 and len(source) > 3 else [] for key, source in zip(keys, part)]
        found += search(model, batch(part), config, keys=keys, prefixes=prefixes)
    return found


CONFIGS = {
    "beam": DecodingConfig(n_best=3, max_length_extra=6),
    "greedy": DecodingConfig(beam=1, max_length_extra=6),
    "sampling": DecodingConfig(sampling=Sampling(temperature=0.8, top_k=9, top_p=0.95), n_best=2, max_length_extra=6),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_batches_of_1_7_and_50_agree(config: DecodingConfig) -> None:
    model = transformer(3, vocab_size=17)
    alone = in_batches(model, 1, config)
    assert len({each[0].tokens for each in alone}) > 5
    for size in (7, 50):
        together = in_batches(model, size, config)
        assert all(same(one, other) for one, other in zip(alone, together, strict=True))
        assert [[h.finished for h in each] for each in alone] == [[h.finished for h in each] for each in together]


def test_batch_law_sees_a_limit_taken_from_the_longest_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    model, config = transformer(3, vocab_size=17), CONFIGS["beam"]
    alone = in_batches(model, 1, config)
    monkeypatch.setattr(Limits, "of", classmethod(lambda cls, config, tokens, prefix: cls(0, 17)))
    together = in_batches(model, 50, config)
    assert not all(same(one, other) for one, other in zip(alone, together, strict=True))


# ------------------------------------------------------------------------------- stepping == full recomputation


@dataclass(frozen=True)
class Transcript:
    """A state without a cache: what was read so far, and the source."""

    memory: Memory
    tokens: Tensor

    @property
    def positions(self) -> Tensor:
        return torch.full((len(self.tokens),), self.tokens.shape[1])

    def rows(self, index: Tensor) -> "Transcript":
        return Transcript(self.memory.rows(index.reshape(-1)), self.tokens[index.reshape(-1)])


@dataclass
class Recomputing:
    """The same model, reading each hypothesis from its first token in every step."""

    encoder: Encoder
    inner: Decoder

    @property
    def decoder(self) -> "Recomputing":
        return self

    def start(self, memory: Memory) -> Transcript:
        return Transcript(memory, torch.zeros(len(memory.mask), 0, dtype=torch.int64))

    def advance(self, tokens: Padded, state: Transcript) -> tuple[Tensor, Transcript]:
        read = torch.cat([state.tokens, tokens.ids], dim=1)
        hidden, _ = self.inner.advance(Padded.full(read), self.inner.start(state.memory))
        return hidden[:, state.tokens.shape[1] :], Transcript(state.memory, read)

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        return self.inner.project(hidden, vocabulary)


def test_cached_steps_are_full_recomputation() -> None:
    model = transformer(4, vocab_size=17)
    config = DecodingConfig(n_best=4, max_length_extra=8)
    slow = search(Recomputing(model.encoder, model.decoder), batch(many(12)), config)
    assert all(same(one, two) for one, two in zip(search(model, batch(many(12)), config), slow, strict=True))


def test_recomputation_law_sees_a_stale_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    model = transformer(4, vocab_size=17)
    config = DecodingConfig(n_best=4, max_length_extra=8)
    slow = search(Recomputing(model.encoder, model.decoder), batch(many(12)), config)
    kind = type(model.decoder.start(model.encoder(batch())))
    rows = kind.rows
    monkeypatch.setattr(kind, "rows", lambda self, index: rows(self, index.sort(dim=1).values))
    assert not all(same(one, two) for one, two in zip(search(model, batch(many(12)), config), slow, strict=True))


# ------------------------------------------------------------------------------- score(translate(x)) == reported


def reported_scores_are_the_forced_ones(model: Model, config: DecodingConfig, prefixes: list[list[int]]) -> bool:
    found = search(model, batch(), config, prefixes=prefixes)
    return all(
        same(list(each), force(model, batch([source] * len(each)), [h.tokens for h in each], config))
        for each, source in zip(found, SOURCES, strict=True)
    )


@models
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("prefixes", [[[]] * 5, [[4], [], [6, 6, 6], [5, 4], []]], ids=["free", "forced"])
def test_reported_scores_are_the_forced_ones(
    make: Callable[[], Model], config: DecodingConfig, prefixes: list[list[int]]
) -> None:
    assert reported_scores_are_the_forced_ones(make(), config, prefixes)


def test_score_law_sees_probabilities_renormalised_over_what_may_be_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    top = beam.top_tokens

    def renormalised(logits: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
        hidden = torch.arange(logits.shape[1]) < EOS
        return top(logits.masked_fill(hidden, -math.inf), *rest)

    monkeypatch.setattr(beam, "top_tokens", renormalised)
    assert not reported_scores_are_the_forced_ones(Markov(), CONFIGS["beam"], [[]] * 5)


# ------------------------------------------------------------------------------------------- the stopping rule


def stops_without_loss(monkeypatch: pytest.MonkeyPatch, penalty: Penalty, alpha: float, n_best: int) -> bool:
    """Whether a search that stops finds what the same search finds that runs to every sentence's length limit."""
    config = DecodingConfig(penalty=penalty, alpha=alpha, n_best=n_best, max_length_extra=12)
    found = [search(Markov(seed=seed), batch(), config) for seed in range(25)]
    with monkeypatch.context() as patch:
        patch.setattr(Finished, "beaten_by", lambda self, bound: True)
        whole = [search(Markov(seed=seed), batch(), config) for seed in range(25)]
    return all(
        same(one, two) for ours, theirs in zip(found, whole, strict=True) for one, two in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize(
    ("penalty", "alpha"), [("gnmt", 0.6), ("gnmt", 1.5), ("length", 1.0), ("gnmt", -0.7), ("none", 0.0)]
)
@pytest.mark.parametrize("n_best", [1, 4])
def test_stopping_loses_nothing(monkeypatch: pytest.MonkeyPatch, penalty: Penalty, alpha: float, n_best: int) -> None:
    assert stops_without_loss(monkeypatch, penalty, alpha, n_best)


def test_stopping_law_sees_a_stop_at_enough_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Finished, "beaten_by", lambda self, bound: len(self.best) < self.wanted)
    assert not stops_without_loss(monkeypatch, "length", 1.0, 1)


def test_stopping_law_sees_a_bound_at_the_present_length(monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.decoding.penalties import divisor

    monkeypatch.setattr(beam, "attainable", lambda config, now, end: divisor(config.penalty, config.alpha, now))
    assert not stops_without_loss(monkeypatch, "length", 1.0, 1)


def test_search_stops_as_soon_as_no_live_hypothesis_can_win() -> None:
    # p(EOS) = 0.9 at once. The best live one has p = 0.05: log 0.05 = −3.00 over at most ((5 + 11) / 6)^0.6 = 1.80
    # is −1.66, worse than log 0.9 = −0.105. So the one call that reads BOS is all.
    model = Markov()
    probabilities = torch.tensor([0.0, 0.0, 0.0, 0.9, 0.05, 0.03, 0.02], dtype=torch.float64)
    model.decoder.table = probabilities.log().expand_as(model.table)
    config = DecodingConfig(max_length_ratio=0.0, max_length_extra=10)
    assert search(model, batch([[4, 3]]), config)[0][0].tokens == ()
    assert model.decoder.calls == 1
    # With |Y|^2 the live one may still hope for −3.00 / 121, and the search has to go on.
    search(model, batch([[4, 3]]), config.model_copy(update={"penalty": "length", "alpha": 2.0}))
    assert model.decoder.calls > 2


def test_finished_sentences_leave_the_batch() -> None:
    model = Markov(kinds=2)
    model.decoder.table = torch.zeros_like(model.table)
    model.decoder.table[0, :, :, EOS] = 50.0  # sentences that begin with an even token end at once,
    model.decoder.table[1, :, :, EOS] = -50.0  # the others never by themselves
    search(model, batch([[4, 3]] * 9 + [[5, 3]]), DecodingConfig(beam=4, max_length=10))
    first, rest = 10, 10 * 4  # BOS for ten sentences, then ten steps with the four hypotheses of one
    assert model.decoder.rows_read == first + rest


# ------------------------------------------------------------------------------------------- n-best, forced prefixes


@models
def test_n_best_are_sorted_distinct_and_complete(make: Callable[[], Model]) -> None:
    found = search(make(), batch(), DecodingConfig(beam=8, n_best=8, max_length_extra=5))
    for each in found:
        assert len(each) == 8
        assert len({h.tokens for h in each}) == 8
        assert [h.score for h in each] == sorted((h.score for h in each), reverse=True)


@models
def test_asking_for_more_does_not_change_the_best(make: Callable[[], Model]) -> None:
    few, most = (search(make(), batch(), DecodingConfig(n_best=n, max_length_extra=9)) for n in (1, 4))
    assert all(one[0] == four[0] for one, four in zip(few, most, strict=True))


@models
def test_forced_prefixes_restrict_the_brute_force(make: Callable[[], Model]) -> None:
    model, longest = make(), 4
    prefixes = [[4], [], [6, 6, 6], [5, 4], [6]]
    config = DecodingConfig(beam=WIDE, n_best=3, max_length=longest, max_length_extra=9)
    found = search(model, batch(), config, prefixes=prefixes)
    for each, source, prefix in zip(found, SOURCES, prefixes, strict=True):
        every = enumerate_all(model, source, config, longest)
        assert same(each, [h for h in every if list(h.tokens[: len(prefix)]) == prefix][: len(each)])
        assert len(each) == 3


def test_prefix_law_sees_prefixes_that_change_places(monkeypatch: pytest.MonkeyPatch) -> None:
    start = MarkovState.rows
    model = Markov()
    config = DecodingConfig(beam=WIDE, n_best=3, max_length=4, max_length_extra=9)
    prefixes = [[4], [], [6, 6, 6], [5, 4], [6]]
    right = search(model, batch(), config, prefixes=prefixes)
    monkeypatch.setattr(MarkovState, "rows", lambda self, index: start(self, index.flip(0)))
    wrong = search(model, batch(), config, prefixes=prefixes)
    assert not all(same(one, two) for one, two in zip(right, wrong, strict=True))
