"""An account says what a search did; each step is worked out anew here from the model's table alone."""

import math

import pytest
import torch

from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.search import search
from clearhead.inspection.search_account import account_of_search
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS
from tests.unit.decoding.markov import Markov

SOURCE = [4, 5, 6]


def log_p(model: Markov, hypothesis: tuple[int, ...], token: int) -> float:
    """log P(token | hypothesis) of the sentence SOURCE, straight from the table."""
    table = model.decoder.table
    last = hypothesis[-1] if hypothesis else BOS
    row = table[SOURCE[0] % table.shape[0], len(hypothesis) % table.shape[1], last].double()
    return float(row.log_softmax(0)[token])


def expected(model: Markov, live: list[tuple[int, ...]], totals: dict[tuple[int, ...], float], beam: int):
    """The 2·beam best continuations, in Python's own sorting."""
    vocabulary = model.decoder.table.shape[-1]
    found = [
        (totals[each] + log_p(model, each, token), token, place, each)
        for place, each in enumerate(live)
        for token in range(EOS, vocabulary)
    ]
    return sorted(found, key=lambda each: (-each[0], each[1], each[2]))[: 2 * beam]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("beam", [1, 2, 3])
def test_every_step_is_the_one_that_the_probabilities_call_for(seed: int, beam: int) -> None:
    model = Markov(seed=seed)
    config = DecodingConfig(beam=beam, max_length=6, n_best=1)
    account = account_of_search(model, SOURCE, config)
    live: list[tuple[int, ...]] = [()]
    totals: dict[tuple[int, ...], float] = {(): 0.0}
    finished = []
    for number, step in enumerate(account.steps):
        if number == account.limits.longest:  # the last step may only end
            assert all(each.token == EOS for each in step.candidates)
            break
        assert [each for each, _ in step.live] == live
        truth = expected(model, live, totals, beam)
        assert [(each.token, each.origin) for each in step.candidates] == [(each[1], each[2]) for each in truth]
        kept = [each for each in truth if each[1] != EOS][:beam]
        for place, (told, (total, token, _, before)) in enumerate(zip(step.candidates, truth)):
            assert told.log_prob == pytest.approx(total, abs=1e-5)
            assert told.tokens == (before if token == EOS else (*before, token))
            ended = token == EOS and place < beam
            living = token != EOS and (total, token) in [(each[0], each[1]) for each in kept]
            assert told.fate == ("finished" if ended else "kept" if living else "dropped")
            if ended:
                score = total / math.pow((5 + len(before) + 1) / 6, 0.6)
                assert told.score == pytest.approx(score, abs=1e-5)
                finished.append((score, before))
            else:
                assert told.score is None
        live = [(*each[3], each[1]) for each in kept]
        totals = {(*each[3], each[1]): each[0] for each in kept}
    truth = search(model, Padded.from_lists([[*SOURCE, EOS]]), config)[0]
    assert list(account.hypotheses) == truth
    if finished and truth[0].finished:
        assert truth[0].tokens == max(finished)[1]


def test_fillers_are_no_hypotheses() -> None:
    """A beam wider than the vocabulary has places that nothing fills: none of them is told."""
    account = account_of_search(Markov(vocab_size=5, seed=1), SOURCE, DecodingConfig(beam=9, max_length=2))
    assert len(account.steps[0].live) == 1
    assert len(account.steps[0].candidates) == 2  # EOS, and the one token that is no special
    assert all(math.isfinite(total) for step in account.steps for _, total in step.live)


def test_an_account_does_without_gradients() -> None:
    with torch.enable_grad():
        account = account_of_search(Markov(seed=2), SOURCE, DecodingConfig(beam=2, max_length=3))
    assert account.hypotheses
