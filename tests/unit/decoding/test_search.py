"""Limits, forced beginnings, ties and refusals of a search."""

import math

import pytest
import torch

from clearhead.base.errors import DecodingError
from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.decoding.hypotheses import Limits
from clearhead.decoding.search import force, search
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS, PAD, UNK
from tests.unit.decoding.markov import Markov, uniform_model

SOURCE = Padded.from_lists([[4, 5, 6, 3], [5, 3]])


def never_ending() -> Markov:
    model = Markov()
    model.table[..., EOS] = -30.0
    return model


def test_a_hypothesis_may_be_fifty_longer_than_its_own_source() -> None:
    found = search(never_ending(), SOURCE, DecodingConfig())
    assert [len(each[0].tokens) for each in found] == [3 + 50, 1 + 50]  # EOS of the source is not counted
    assert not any(each[0].finished for each in found)


def test_the_limit_is_paid_with_the_models_own_price_for_eos() -> None:
    best = search(never_ending(), SOURCE, DecodingConfig(max_length=2))[0][0]
    assert best.token_log_probs[-1] < -20.0
    assert best.log_prob == pytest.approx(sum(best.token_log_probs))


@pytest.mark.parametrize(
    ("config", "prefix", "expected"),
    [
        (DecodingConfig(), 0, Limits(0, 60)),
        (DecodingConfig(max_length_ratio=1.5, max_length_extra=3), 0, Limits(0, 18)),
        (DecodingConfig(max_length=7), 0, Limits(0, 7)),
        (DecodingConfig(max_length=7, min_length=5), 0, Limits(5, 7)),
        (DecodingConfig(max_length=7), 9, Limits(0, 9)),
        (DecodingConfig(max_length_extra=0, min_length=30), 0, Limits(10, 10)),
    ],
)
def test_limits(config: DecodingConfig, prefix: int, expected: Limits) -> None:
    assert Limits.of(config, 10, prefix) == expected


@pytest.mark.parametrize("sampling", [None, Sampling()])
def test_minimum_length_is_kept(sampling: Sampling | None) -> None:
    model = Markov()
    model.table[..., EOS] = 9.0  # wants to end at once
    found = search(model, SOURCE, DecodingConfig(min_length=3, sampling=sampling))
    assert all(len(each[0].tokens) >= 3 for each in found)
    assert all(len(each[0].tokens) == 0 for each in search(model, SOURCE, DecodingConfig()))


@pytest.mark.parametrize("sampling", [None, Sampling()])
def test_reserved_tokens_are_never_emitted(sampling: Sampling | None) -> None:
    model = Markov()
    model.table[..., [PAD, UNK, BOS]] = 20.0
    for each in search(model, SOURCE, DecodingConfig(n_best=4, max_length=6, sampling=sampling)):
        assert all(token > EOS for h in each for token in h.tokens)


@pytest.mark.parametrize("sampling", [None, Sampling()])
def test_forced_beginnings_belong_to_the_hypothesis(sampling: Sampling | None) -> None:
    model, prefixes = Markov(), [(6, 6), (4, 5, 4, 5)]
    config = DecodingConfig(sampling=sampling, max_length=8)
    found = search(model, SOURCE, config, prefixes=prefixes)
    assert [each[0].tokens[: len(prefix)] for each, prefix in zip(found, prefixes, strict=True)] == prefixes
    forced = force(model, SOURCE, [each[0].tokens for each in found])
    for each, again in zip(found, forced, strict=True):
        assert each[0].token_log_probs == pytest.approx(again.token_log_probs)
        assert len(each[0].token_log_probs) == len(each[0].tokens) + 1


def test_ties_go_to_the_lower_token_then_to_the_earlier_hypothesis() -> None:
    config = DecodingConfig(beam=3, n_best=3, penalty="none", max_length=2, min_length=2)
    found = search(uniform_model(9), SOURCE, config)
    # All sequences of two tokens are equally likely. The beam first holds 4, 5, 6; their continuations tie and 4 is
    # the lowest token, after each of them in turn.
    assert [h.tokens for h in found[0]] == [(4, 4), (5, 4), (6, 4)]
    assert found[0] == found[1]


def test_hand_worked_beam_of_two() -> None:
    """Greedy takes 4 (0.5) and ends on 0.5 · 0.4; the beam finds 5 (0.4), then EOS with 0.9: 0.36."""
    model = Markov(kinds=1)
    after = torch.zeros(7, 7, dtype=torch.float64)
    after[BOS] = torch.tensor([0, 0, 0, 0.05, 0.5, 0.4, 0.05])
    after[4] = torch.tensor([0, 0, 0, 0.4, 0.3, 0.2, 0.1])
    after[5] = torch.tensor([0, 0, 0, 0.9, 0.05, 0.03, 0.02])
    after[6] = torch.tensor([0, 0, 0, 1.0, 0, 0, 0])
    model.decoder.table = after.log().expand(1, 3, 7, 7)
    config = DecodingConfig(beam=2, n_best=2, penalty="none")
    first, second = search(model, Padded.from_lists([[4, 3]]), config)[0]
    assert (first.tokens, second.tokens) == ((5,), (4,))
    assert first.log_prob == pytest.approx(math.log(0.36))
    assert second.log_prob == pytest.approx(math.log(0.2))
    assert search(model, Padded.from_lists([[4, 3]]), DecodingConfig(beam=1))[0][0].tokens == (4,)


def test_fewer_sequences_than_asked_for() -> None:
    found = search(Markov(vocab_size=5), SOURCE, DecodingConfig(beam=8, n_best=8, max_length=2))
    assert [sorted(h.tokens for h in each) for each in found] == [[(), (4,), (4, 4)]] * 2


def test_no_sentences() -> None:
    assert search(Markov(), Padded.from_lists([]), DecodingConfig()) == []
    assert force(Markov(), Padded.from_lists([]), []) == []


def test_what_is_refused() -> None:
    with pytest.raises(DecodingError, match="2 sentences, 1 prefixes"):
        search(Markov(), SOURCE, DecodingConfig(), prefixes=[()])
    with pytest.raises(DecodingError, match="2 sentences, 2 prefixes and 3 keys"):
        search(Markov(), SOURCE, DecodingConfig(), keys=[1, 2, 3])
    with pytest.raises(DecodingError, match="prefix of sentence 1 holds the reserved token 3"):
        search(Markov(), SOURCE, DecodingConfig(), prefixes=[(), (4, EOS)])
    with pytest.raises(DecodingError, match="2 sources and 1 targets"):
        force(Markov(), SOURCE, [(4,)])
    with pytest.raises(DecodingError, match="target 0 holds the reserved token 2"):
        force(Markov(), SOURCE, [(BOS, 4), (4,)])
    broken = Markov()
    broken.decoder.table = broken.table * math.nan
    with pytest.raises(DecodingError, match="not a number"):
        search(broken, SOURCE, DecodingConfig())
    with pytest.raises(DecodingError, match="not a number"):
        force(broken, SOURCE, [(4,), (5,)])


def test_forced_scores_by_hand() -> None:
    model = Markov(kinds=1)
    logs = model.table[0].log_softmax(-1)
    expected = [float(logs[0, BOS, 5]), float(logs[1, 5, 6]), float(logs[2, 6, EOS])]
    found = force(model, Padded.from_lists([[4, 3]]), [(5, 6)], DecodingConfig(penalty="length", alpha=1.0))[0]
    assert found.token_log_probs == pytest.approx(expected)
    assert found.score == pytest.approx(sum(expected) / 3)
