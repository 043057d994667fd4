"""Drawing tokens: the distribution is the stated one, and a draw depends on its own four numbers only."""

import math
from collections import Counter

import pytest
import torch

from clearhead.base.errors import DecodingError
from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.decoding.sampling import draw, uniform
from clearhead.decoding.search import search
from clearhead.nn.padding import Padded
from tests.unit.decoding.markov import Markov

P = torch.tensor([0.2, 0.1, 0.1, 0.15, 0.1, 0.05, 0.3], dtype=torch.float64)  # PAD, UNK, BOS, EOS, 4, 5, 6


def shares(sampling: Sampling, grid: int = 20000) -> dict[int, float]:
    """The part of [0, 1) that each token gets, by a fine grid of uniform numbers."""
    uniforms = (torch.arange(grid, dtype=torch.float64) + 0.5) / grid
    tokens = draw(P.log().expand(grid, -1), uniforms, sampling)
    return {token: count / grid for token, count in Counter(tokens.tolist()).items()}


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        # 0.15 + 0.1 + 0.05 + 0.3 = 0.6 may be emitted at all.
        (Sampling(), {6: 0.5, 3: 0.25, 4: 1 / 6, 5: 1 / 12}),
        # Squares: 0.09, 0.0225, 0.01, 0.0025, together 0.125.
        (Sampling(temperature=0.5), {6: 0.72, 3: 0.18, 4: 0.08, 5: 0.02}),
        (Sampling(top_k=2), {6: 2 / 3, 3: 1 / 3}),
        # 6 and 3 hold 0.75 of what may be emitted, so 0.8 needs the third, 4.
        (Sampling(top_p=0.8), {6: 6 / 11, 3: 3 / 11, 4: 2 / 11}),
        (Sampling(top_p=0.4), {6: 1.0}),
        (Sampling(top_p=1e-9), {6: 1.0}),
        # Among the top 3 (0.55), 6 and 3 hold 0.818.
        (Sampling(top_k=3, top_p=0.8), {6: 2 / 3, 3: 1 / 3}),
    ],
)
def test_shares_are_the_stated_distribution(sampling: Sampling, expected: dict[int, float]) -> None:
    found = shares(sampling)
    assert found.keys() == expected.keys()
    assert all(found[token] == pytest.approx(share, abs=1e-3) for token, share in expected.items())


def test_the_ends_of_the_interval_stay_inside() -> None:
    ends = torch.tensor([0.0, math.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert draw(P.log().expand(2, -1), ends, Sampling(top_k=3)).tolist() == [6, 4]
    # A share that rounding leaves at nothing is never drawn.
    spike = torch.full((1, 7), -1000.0, dtype=torch.float64)
    spike[0, 5] = 0.0
    assert draw(spike, ends[1:], Sampling()).tolist() == [5]


def test_equal_tokens_share_in_order_of_id() -> None:
    uniforms = torch.tensor([0.1, 0.3, 0.6, 0.9], dtype=torch.float64)
    assert draw(torch.zeros(4, 7), uniforms, Sampling()).tolist() == [3, 4, 5, 6]


def test_uniform_numbers_depend_on_all_four_and_on_nothing_else() -> None:
    assert uniform(1, 2, 3, 4) == uniform(1, 2, 3, 4)
    different = {uniform(*key) for key in [(1, 2, 3, 4), (2, 2, 3, 4), (1, 3, 3, 4), (1, 2, 4, 4), (1, 2, 3, 5)]}
    assert len(different) == 5
    many = [uniform(0, key, 0, 0) for key in range(4000)]
    assert 0.0 <= min(many) < 0.002
    assert 0.998 < max(many) < 1.0
    assert sum(many) / len(many) == pytest.approx(0.5, abs=0.02)


def test_samples_follow_the_model() -> None:
    """First tokens of 4,000 samples against the model's own renormalised probabilities (5 standard errors)."""
    model, count = Markov(seed=4, kinds=1, spread=1.0), 4000
    source = Padded.from_lists([[4, 3]] * count)
    found = search(model, source, DecodingConfig(sampling=Sampling(), max_length=3))
    firsts = Counter(each[0].tokens[0] if each[0].tokens else 3 for each in found)
    expected = model.table[0, 0, 2, 3:].softmax(-1).tolist()
    for token, probability in enumerate(expected, 3):
        error = math.sqrt(probability * (1 - probability) / count)
        assert firsts[token] / count == pytest.approx(probability, abs=5 * error)


def test_cold_sampling_is_greedy() -> None:
    source = Padded.from_lists([[4, 5, 3], [5, 3], [6, 3]])
    for seed in range(10):
        model = Markov(seed=seed)
        greedy = search(model, source, DecodingConfig(beam=1, max_length=9))
        cold = search(model, source, DecodingConfig(sampling=Sampling(temperature=1e-6), max_length=9, seed=seed))
        assert [each[0].tokens for each in cold] == [each[0].tokens for each in greedy]


def test_keys_carry_the_samples_from_batch_to_batch() -> None:
    model = Markov(seed=2)
    config = DecodingConfig(sampling=Sampling(), n_best=3, max_length=9, seed=5)
    sources = [[4, 3], [5, 3], [6, 3]]
    together = search(model, Padded.from_lists(sources), config, keys=[70, 71, 72])
    backwards = search(model, Padded.from_lists(sources[::-1]), config, keys=[72, 71, 70])
    assert [[h.tokens for h in each] for each in together] == [[h.tokens for h in each] for each in backwards[::-1]]
    other = search(model, Padded.from_lists(sources), config, keys=[0, 1, 2])
    assert [[h.tokens for h in each] for each in together] != [[h.tokens for h in each] for each in other]
    more = search(model, Padded.from_lists(sources), config.model_copy(update={"n_best": 5}), keys=[70, 71, 72])
    assert all({h.tokens for h in few} <= {h.tokens for h in many} for few, many in zip(together, more, strict=True))


def test_not_a_number_is_an_error() -> None:
    model = Markov()
    model.decoder.table = model.table * math.nan
    with pytest.raises(DecodingError, match="not a number"):
        search(model, Padded.from_lists([[4, 3]]), DecodingConfig(sampling=Sampling()))
