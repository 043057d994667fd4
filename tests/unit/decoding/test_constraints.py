"""The bookkeeping of phrases against every way to lay them out, on all short texts of three words."""

import itertools

import pytest

from clearhead.base.errors import DecodingError
from clearhead.decoding import constraints as module
from clearhead.decoding.constraints import START, Constraints
from clearhead.text.symbols import BOS, EOS, PAD, UNK
from tests.unit.decoding.placement import holds, phrase_lists

WORDS = (4, 5, 6)
TEXTS = [text for length in range(7) for text in itertools.product(WORDS, repeat=length)]
AWKWARD = {
    "one": [[4, 5]],
    "twice the same": [[4, 5], [4, 5]],
    "shared beginning": [[4, 5], [4, 6]],
    "one a beginning of the other": [[4], [4, 5]],
    "one inside the other": [[5], [4, 5, 6]],
    "one at the end of the other": [[5, 6], [4, 5, 6]],
    "end of one, beginning of the other": [[4, 5], [5, 6]],
    "overlaps itself": [[4, 4], [4, 4]],
    "the early one is in the way": [[4, 5], [5, 6, 4], [6]],
    "fails late": [[4, 4, 5]],
}


@pytest.mark.parametrize("phrases", AWKWARD.values(), ids=AWKWARD.keys())
def test_all_is_met_exactly_where_the_phrases_can_be_laid_out(phrases: list[list[int]]) -> None:
    constraints = Constraints(phrases)
    met = [constraints.missing(constraints.read(text)) == 0 for text in TEXTS]
    assert met == [holds(text, phrases) for text in TEXTS]
    assert any(met) and not all(met)


def test_so_it_is_for_phrases_drawn_at_random() -> None:
    for phrases in phrase_lists(60, WORDS, longest=6):
        constraints = Constraints(phrases)
        texts = TEXTS[:364]  # up to five words
        assert [constraints.missing(constraints.read(text)) == 0 for text in texts] == [
            holds(text, phrases) for text in texts
        ], phrases


def test_missing_is_the_length_of_the_shortest_ending_that_meets_all() -> None:
    for phrases in [*AWKWARD.values(), *phrase_lists(20, WORDS, longest=4, seed=1)]:
        constraints = Constraints(phrases)
        for text in TEXTS[:40]:  # up to three words
            missing = constraints.missing(constraints.read(text))
            if missing > 4:
                continue
            shorter = [end for end in TEXTS if len(end) < missing]
            exact = [end for end in TEXTS if len(end) == missing]
            assert not any(holds((*text, *end), phrases) for end in shorter), (phrases, text)
            assert any(holds((*text, *end), phrases) for end in exact), (phrases, text)


def test_a_wanted_token_always_leads_on() -> None:
    for phrases in [*AWKWARD.values(), *phrase_lists(20, WORDS, longest=5, seed=2)]:
        constraints = Constraints(phrases)
        for text in TEXTS[:121]:
            state = constraints.read(text)
            missing = constraints.missing(state)
            steps = {token: constraints.missing(constraints.after(state, token)) - missing for token in WORDS}
            assert {token for token, step in steps.items() if step < 0} <= set(constraints.wanted(state))
            assert min(steps.values()) == (-1 if missing else 0)
            assert missing or constraints.wanted(state) == ()


def test_a_phrase_that_is_broken_off_is_unwound() -> None:
    constraints = Constraints([[4, 5, 6]])
    met = [constraints.met(constraints.read(text)) for text in ([4, 5], [4, 5, 9], [4, 5, 4], [4, 5, 4, 5, 6], [6])]
    assert met == [2, 0, 1, 3, 0]


def test_so_many_readings_are_cut_without_losing_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """With next to no room for readings some placements go unseen, but there is always a way to meet all."""
    monkeypatch.setattr(module, "READINGS", 2)
    unseen = 0
    for phrases in phrase_lists(60, WORDS, longest=6, seed=3):
        constraints = Constraints(phrases)
        for text in TEXTS[:364]:
            state = constraints.read(text)
            if constraints.missing(state) == 0:
                assert holds(text, phrases)
            else:
                unseen += holds(text, phrases)
                assert any(
                    constraints.missing(constraints.after(state, token)) == constraints.missing(state) - 1
                    for token in constraints.wanted(state)
                )
    assert unseen


def test_nothing_to_meet() -> None:
    constraints = Constraints([])
    assert (constraints.missing(START), constraints.wanted(START), constraints.after(START, 9)) == (0, (), START)


@pytest.mark.parametrize("reserved", [PAD, UNK, BOS, EOS])
def test_what_can_never_be_written_is_refused(reserved: int) -> None:
    with pytest.raises(DecodingError, match=rf"\[4, {reserved}\] that sentence 7 must hold has the reserved"):
        Constraints([[5], [4, reserved]], "sentence 7")
    with pytest.raises(DecodingError, match="sentence 7 must hold is empty"):
        Constraints([[]], "sentence 7")
