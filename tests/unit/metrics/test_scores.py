"""Scores against numbers worked out by hand, a plain count of n-grams, and sacreBLEU's own significance test."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from clearhead.base.errors import DataError, InputError
from clearhead.metrics.scores import Scores, paired_bootstrap, score_corpus


def plain_bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """BLEU-4 as the paper defines it, over tokens; the k-th order without a match counts 1/2^k (NIST's smoothing)."""
    matched, total = [0] * 4, [0] * 4
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for order in range(4):
            grams = Counter(tuple(hypothesis[i : i + order + 1]) for i in range(len(hypothesis) - order))
            known = Counter(tuple(reference[i : i + order + 1]) for i in range(len(reference) - order))
            matched[order] += sum(min(count, known[gram]) for gram, count in grams.items())
            total[order] += sum(grams.values())
    if matched[0] == 0 or 0 in total:
        return 0.0
    halvings, log_sum = 0, 0.0
    for right, all_of_them in zip(matched, total, strict=True):
        if right == 0:
            halvings += 1
        log_sum += math.log((right or 0.5**halvings) / all_of_them) / 4
    ours, theirs = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * math.exp(log_sum) * min(1.0, math.exp(1 - theirs / ours))


def plain_chrf(hypotheses: list[str], references: list[str]) -> float:
    """chrF2: precision and recall averaged over the orders 1 to 6 that both sides have, spaces left out, beta 2."""
    counts = np.zeros((6, 3))
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        left, right = "".join(hypothesis.split()), "".join(reference.split())
        for order in range(6):
            ours = Counter(left[i : i + order + 1] for i in range(len(left) - order))
            theirs = Counter(right[i : i + order + 1] for i in range(len(right) - order))
            both = sum((ours & theirs).values())
            # An order that the reference is too short for says nothing against the hypothesis.
            counts[order] += (sum(ours.values()) if theirs else 0, sum(theirs.values()), both)
    used = [(h, r, m) for h, r, m in counts if h and r]
    if not used:
        return 0.0
    precision = sum(m / h for h, _, m in used) / len(used)
    recall = sum(m / r for _, r, m in used) / len(used)
    return 100 * 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0


def score(hypotheses: list[str], references: list[str], target_language: str = "de") -> Scores:
    return score_corpus(hypotheses, references, target_language=target_language)


def test_bleu_by_hand() -> None:
    # the cat sat on a mat / the cat sat on the mat: matches 5 of 6, 3 of 5, 2 of 4, 1 of 3, no brevity penalty.
    result = score(["the cat sat on a mat"], ["the cat sat on the mat"])
    assert result.bleu.value == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    # Half as long, all right: precision 1 and exp(1 - 8/4).
    result = score(["a b c d"], ["a b c d e f g h"])
    assert result.bleu.value == pytest.approx(100 * math.exp(-1))


def test_bleu_clips_repeated_words() -> None:
    result = score(["the the the the the the the"], ["the cat is on the mat now"])
    assert result.bleu.value == pytest.approx(100 * (2 / 7 * (0.5 / 6) * (0.25 / 5) * (0.125 / 4)) ** 0.25)


def test_bleu_is_of_the_corpus_and_no_mean_of_sentences() -> None:
    hypotheses, references = ["a b c d e f g h", "x y"], ["a b c d e f g h", "p q"]
    together = score(hypotheses, references).bleu.value
    assert together == pytest.approx(100 * (8 / 10 * 7 / 8 * 6 / 6 * 5 / 5) ** 0.25)
    apart = [score([h], [r]).bleu.value for h, r in zip(hypotheses, references, strict=True)]
    assert abs(together - sum(apart) / 2) > 10


words = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=9)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=5))
@settings(max_examples=60)
def test_bleu_and_chrf_are_the_plain_counts(pairs: list[tuple[list[str], list[str]]]) -> None:
    hypotheses, references = [list(side) for side in zip(*pairs, strict=True)]
    texts = [" ".join(tokens) for tokens in hypotheses], [" ".join(tokens) for tokens in references]
    result = score(*texts)
    assert result.bleu.value == pytest.approx(plain_bleu(hypotheses, references))
    assert result.chrf.value == pytest.approx(plain_chrf(*texts))


def test_perfect_and_empty_translations() -> None:
    references = ["Ein Satz, der lang genug ist.", "Noch einer, ebenfalls lang genug."]
    assert score(references, references).bleu.value == 100
    assert score(references, references).chrf.value == 100
    nothing = score(["", ""], references)
    assert nothing.bleu.value == 0
    assert nothing.chrf.value == 0


def test_the_signature_says_how_it_was_counted() -> None:
    import sacrebleu

    result = score(["ja"], ["ja"])
    version = f"version:{sacrebleu.__version__}"
    assert result.bleu.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}"
    assert result.chrf.signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}"
    assert str(result).splitlines() == [
        f"BLEU 0.00  {result.bleu.signature}",
        f"chrF2 100.00  {result.chrf.signature}",
    ]


def test_chinese_is_counted_by_characters_not_by_spaces() -> None:
    hypothesis, reference = ["我们今天去公园散步"], ["我们今天去公园跑步"]
    chinese = score(hypothesis, reference, "zh-Hans")
    assert "tok:zh" in chinese.bleu.signature
    # 9 characters, the eighth wrong: 8 of 9, 6 of 8, 5 of 7, 4 of 6.
    assert chinese.bleu.value == pytest.approx(100 * (8 / 9 * 6 / 8 * 5 / 7 * 4 / 6) ** 0.25)
    assert score(hypothesis, reference, "de").bleu.value == 0


def test_counts_that_differ_and_nothing_at_all_are_refused() -> None:
    with pytest.raises(DataError, match="2 hypotheses but 3 references"):
        score(["a", "b"], ["a", "b", "c"])
    with pytest.raises(DataError, match="nothing to score"):
        score([], [])
    with pytest.raises(DataError, match="1 candidate hypotheses but 2 references"):
        paired_bootstrap(["a", "b"], ["a"], ["a", "b"], target_language="de")
    with pytest.raises(InputError, match="samples: must be at least 1, got 0"):
        paired_bootstrap(["a"], ["a"], ["a"], target_language="de", samples=0)


def corpus(errors: float, seed: int, size: int = 150) -> tuple[list[str], list[str]]:
    """References, and translations in which each word is wrong with probability `errors`."""
    rng = random.Random(0)
    references = [[f"w{rng.randrange(50)}" for _ in range(rng.randint(5, 15))] for _ in range(size)]
    rng = random.Random(seed)
    noisy = [[word if rng.random() > errors else "x" for word in line] for line in references]
    return [" ".join(line) for line in references], [" ".join(line) for line in noisy]


def test_a_clear_difference_is_significant_and_the_intervals_hold_the_scores() -> None:
    references, good = corpus(0.1, 1)
    bad = corpus(0.3, 2)[1]
    for name, result in paired_bootstrap(bad, good, references, target_language="de", samples=300).items():
        whole = getattr(score(good, references), name)
        assert result.candidate.value == pytest.approx(whole.value)
        assert result.candidate.signature == f"{whole.signature}|bs:300|seed:12345"
        assert result.p_value == pytest.approx(1 / 301)
        assert result.baseline_interval.low < result.baseline.value < result.baseline_interval.high
        assert result.candidate_interval.low < result.candidate.value < result.candidate_interval.high
        assert 0 < result.difference_interval.low < result.difference < result.difference_interval.high


def test_equally_good_systems_do_not_differ_significantly_and_a_system_never_from_itself() -> None:
    references, first = corpus(0.2, 1)
    second = corpus(0.2, 2)[1]
    assert paired_bootstrap(first, second, references, target_language="de", samples=300)["bleu"].p_value > 0.05
    itself = paired_bootstrap(first, first, references, target_language="de", samples=50)
    assert itself["bleu"].p_value == itself["chrf"].p_value == 1
    assert itself["bleu"].difference_interval.low == itself["bleu"].difference_interval.high == 0


def test_the_same_seed_gives_the_same_answer_and_another_nearly_the_same() -> None:
    references, first = corpus(0.2, 1)
    second = corpus(0.22, 2)[1]
    runs = [
        paired_bootstrap(first, second, references, target_language="de", samples=200, seed=seed)["bleu"]
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0].p_value != runs[2].p_value
    assert runs[0].p_value == pytest.approx(runs[2].p_value, abs=0.15)


@pytest.mark.parametrize("errors", [0.2, 0.22, 0.24])
def test_the_p_value_agrees_with_sacrebleus_own_test(errors: float) -> None:
    references, baseline = corpus(0.2, 1)
    candidate = corpus(errors, 5)[1]
    ours = paired_bootstrap(baseline, candidate, references, target_language="de", samples=400)
    metrics = {"BLEU": BLEU(references=[references]), "chrF2": CHRF(references=[references])}
    systems = [("baseline", baseline), ("candidate", candidate)]
    _, theirs = PairedTest(systems, metrics, None, test_type="bs", n_samples=400)()
    for key, name in (("bleu", "BLEU"), ("chrf", "chrF2")):
        expected = theirs[name][1]
        assert ours[key].candidate.value == pytest.approx(expected.score)
        assert ours[key].p_value == pytest.approx(expected.p_value, abs=0.1)  # two draws of 400: deviation 0.035
        width = ours[key].candidate_interval.high - ours[key].candidate_interval.low
        assert width / 2 == pytest.approx(expected.ci, rel=0.2)
