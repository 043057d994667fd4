import random
import time

import numpy as np
import pytest

from clearhead.data.sides import SideModel

ENGLISH = "the quick house which was there has often been with children and they should know what nothing means through"
GERMAN = "das schnelle Haus welches dort stand ist oft mit Kindern gewesen und sie sollten wissen was nichts durch"


def sentences(words: str, count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(words.split(), k=9)) for _ in range(count)]


@pytest.fixture(scope="module")
def model() -> SideModel:
    learnt = SideModel()
    learnt.learn(sentences(ENGLISH, 900, 1), sentences(GERMAN, 900, 2))
    return learnt


def test_texts_on_the_wrong_side_are_told_and_others_are_not(model):
    english, german = sentences(ENGLISH, 50, 3), sentences(GERMAN, 50, 4)
    assert not model.foreign(english, 0).any()
    assert not model.foreign(german, 1).any()
    assert model.foreign(german, 0).all()
    assert model.foreign(english, 1).all()


def test_a_text_is_told_alone_as_among_others(model):
    texts = [*sentences(ENGLISH, 5, 5), "", "x", *sentences(GERMAN, 5, 6)]
    together = model.evidence(texts, 1)
    alone = [model.evidence([text], 1) for text in texts]
    np.testing.assert_allclose(together[0], np.concatenate([one[0] for one in alone]), atol=1e-9)
    np.testing.assert_array_equal(together[1], np.concatenate([one[1] for one in alone]))


def test_the_order_of_learning_and_how_it_is_cut_make_no_difference(model):
    sources, targets = sentences(ENGLISH, 900, 1), sentences(GERMAN, 900, 2)
    other = SideModel()
    for start in range(800, -1, -100):
        other.learn(sources[start : start + 100], targets[start : start + 100])
    texts = sentences(ENGLISH, 20, 7)
    np.testing.assert_array_equal(model.evidence(texts, 1)[0], other.evidence(texts, 1)[0])


def test_the_evidence_is_the_likelihood_ratio_counted_by_hand():
    small = SideModel()
    small.learn(["ab ab ab", "ab"], ["cd cd", "ab"])
    # Trigrams " ab" and "ab ": 4 times on the source side, once on the target side; one sighting of each is left out.
    total = [2 * 3 + 0.5 * (1 << 18), 2 * 1 + 0.5 * (1 << 18)]
    expected = 2 * (np.log(0.5 / total[1]) - np.log(3.5 / total[0]))
    evidence, trigrams = small.evidence(["ab"], 0)
    assert trigrams.tolist() == [2]
    assert evidence[0] == pytest.approx(expected)


def test_too_little_text_and_one_language_twice_tell_nothing(model):
    little = SideModel()
    little.learn(sentences(ENGLISH, 20, 1), sentences(GERMAN, 20, 2))
    assert not little.usable
    assert not little.foreign(sentences(GERMAN, 5, 3), 0).any()
    same = SideModel()
    same.learn(sentences(ENGLISH, 900, 1), sentences(ENGLISH, 900, 2))
    assert same.usable
    assert not same.foreign(sentences(ENGLISH, 50, 3), 1).any()
    assert not model.foreign(["{the_quick_house_which_was_there_often_been}", "/the/quick/house/which/was"], 1).any()


def test_time_grows_with_the_text(model):
    def seconds(size: int) -> float:
        best = 9.0
        for _ in range(3):
            start = time.process_time()
            model.foreign(["ab{" * (size // 3)], 0)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(400_000) <= 3 * seconds(200_000) + 0.02
