"""Draws against distributions worked out by listing every case, and the cost counted in operations."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
import sentencepiece

from clearhead.base.seeds import python_rng
from clearhead.text.sampling import BpeSampler, UnigramSampler, words
from clearhead.text.tokenizer import Tokenizer, Tokenizers

DRAWS = 20_000
RANKS = {"ab": 0, "bc": 1, "cd": 2, "abc": 3, "bcd": 4, "abcd": 5, "aa": 6}
SCORES = {"a": -2.0, "b": -2.5, "c": -3.0, "ab": -3.1, "bc": -4.0, "abc": -5.0, "cab": -6.0, "xa": -3.0}

Parts = tuple[str, ...]


def dropout_distribution(parts: Parts, ranks: dict[str, int], p: float) -> dict[Parts, float]:
    """Provilkov et al. 2020, Algorithm 1, by listing every set of dropped merges at every step."""
    merges = [i for i in range(len(parts) - 1) if parts[i] + parts[i + 1] in ranks]
    result: dict[Parts, float] = Counter()
    for kept in itertools.product([True, False], repeat=len(merges)):
        chance = math.prod(1 - p if keep else p for keep in kept)
        left = [i for i, keep in zip(merges, kept, strict=True) if keep]
        if not left:
            result[parts] += chance
            continue
        best = min(left, key=lambda i: (ranks[parts[i] + parts[i + 1]], i))
        merged = (*parts[:best], parts[best] + parts[best + 1], *parts[best + 2 :])
        for outcome, inner in dropout_distribution(merged, ranks, p).items():
            result[outcome] += chance * inner
    return result


def segmentations(word: str) -> Iterator[Parts]:
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        places = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(word)]
        yield tuple(word[a:b] for a, b in itertools.pairwise(places))


def assert_drawn_from(drawn: Counter[Parts], expected: dict[Parts, float]) -> None:
    """Every share within five standard deviations of its probability, and nothing else drawn."""
    assert drawn.keys() <= expected.keys()
    for outcome, chance in expected.items():
        deviation = math.sqrt(DRAWS * chance * (1 - chance))
        assert abs(drawn[outcome] - DRAWS * chance) <= 5 * deviation + 1e-6, outcome


class TestBpe:
    @pytest.mark.parametrize("word", ["abcd", "abcab", "aaaa", "xabc"])
    @pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
    def test_merges_are_dropped_as_the_paper_says(self, word: str, p: float) -> None:
        rng = python_rng(1, len(word), int(10 * p))
        drawn = Counter(tuple(BpeSampler(RANKS).split(word, p, rng)) for _ in range(DRAWS))
        assert_drawn_from(drawn, dropout_distribution(tuple(word), RANKS, p))

    def test_dropping_a_merge_for_good_would_be_noticed(self) -> None:
        """The control: SentencePiece's own variant, in which a dropped merge does not come back, differs."""
        p = 0.5
        once = Counter[Parts]()
        rng = python_rng(2)
        for _ in range(DRAWS):
            kept = {piece: rank for piece, rank in RANKS.items() if rng.random() >= p}
            once[tuple(BpeSampler(kept).split("abcd", 0.0, rng))] += 1
        with pytest.raises(AssertionError):
            assert_drawn_from(once, dropout_distribution(tuple("abcd"), RANKS, p))

    def test_dropping_nothing_is_the_best_encoding(self, trained: dict[str, Tokenizers], texts: list[str]) -> None:
        for name in ("bpe", "bpe with symbols", "bpe a side"):
            tokenizer = trained[name].target
            processor = sentencepiece.SentencePieceProcessor()
            processor.LoadFromSerializedProto(tokenizer.model)
            for text in [*texts, "ab  c", "kato" * 50, "日本{name}ren{n{name}é", "ΩΩ 日 "]:
                assert tokenizer._sampled(text, 0.0, Random(0)) == processor.encode(" " + text), text

    def test_dropping_everything_leaves_characters(self, trained: dict[str, Tokenizers], texts: list[str]) -> None:
        plain = trained["bpe"].source
        tokenizer = Tokenizer(plain.model, plain.config.model_copy(update={"sampling": 1.0}))
        for text in texts[:200]:
            assert max(map(len, map(tokenizer.decode, ([i] for i in tokenizer.encode_sampled(text, 0))))) <= 1

    def test_a_long_run_costs_in_proportion(self) -> None:
        def cost(length: int, p: float) -> int:
            ranks = CountingRanks({"a" * 2**k: k for k in range(1, 5)})
            rng = CountingRandom(1)
            parts = BpeSampler(ranks).split("a" * length, p, rng)
            assert "".join(parts) == "a" * length
            return ranks.lookups + rng.draws

        for p in (0.0, 0.1, 0.9):
            assert cost(50_000, p) <= 2.2 * cost(25_000, p)
            assert cost(50_000, p) <= 50_000 * 40


class CountingRanks(dict[str, int]):
    lookups = 0

    def get(self, piece: str, default: int | None = None) -> int | None:  # type: ignore[override]
        self.lookups += 1
        return super().get(piece, default)


class CountingRandom(Random):
    draws = 0

    def random(self) -> float:
        self.draws += 1
        return super().random()


class TestUnigram:
    @pytest.mark.parametrize("alpha", [0.1, 1.0, 2.0])
    @pytest.mark.parametrize("word", ["abc", "abcab", "axb", "axab", "cabcabc"])
    def test_all_segmentations_by_their_power(self, word: str, alpha: float) -> None:
        scores = {**SCORES, "x": min(SCORES.values()) - 10}  # SentencePiece's score of an unknown character
        weights = {
            parts: math.exp(alpha * sum(scores[part] for part in parts))
            for parts in segmentations(word)
            if all(part in scores for part in parts)
        }
        expected = {parts: weight / sum(weights.values()) for parts, weight in weights.items()}
        rng = python_rng(3, int(10 * alpha))
        sampler = UnigramSampler(SCORES)
        drawn = Counter(tuple(sampler.split(word, alpha, rng)) for _ in range(DRAWS))
        assert_drawn_from(drawn, expected)

    def test_a_large_exponent_finds_the_best(self, trained: dict[str, Tokenizers], texts: list[str]) -> None:
        """Against SentencePiece's Viterbi search: the same, or another of the same probability."""
        for name in ("unigram", "unigram with symbols"):
            tokenizer = trained[name].source
            processor = sentencepiece.SentencePieceProcessor()
            processor.LoadFromSerializedProto(tokenizer.model)

            def score(ids: list[int], processor: sentencepiece.SentencePieceProcessor = processor) -> float:
                return sum(processor.get_score(ids))

            same = 0
            for text in texts:
                best, drawn = tokenizer.encode(text), tokenizer._sampled(text, 1e4, Random(0))
                assert score(drawn) == pytest.approx(score(best), abs=1e-3), text
                same += drawn == best
            assert same > 0.9 * len(texts)

    def test_a_long_run_stays_a_run(self) -> None:
        sampler = UnigramSampler(SCORES)
        word = "abc" * 20_000
        assert "".join(sampler.split(word, 0.5, Random(0))) == word


def test_words_begin_at_every_space() -> None:
    assert words("▁ka▁▁to▁") == ["▁ka", "▁", "▁to", "▁"]
    assert words("ka▁to") == ["ka", "▁to"]
    assert words("") == []


def test_no_piece_reaches_over_a_space(trained: dict[str, Tokenizers]) -> None:
    """What makes the words independent of each other."""
    for tokenizers in trained.values():
        for tokenizer in (tokenizers.source, tokenizers.target):
            assert [p for p in tokenizer.pieces(range(tokenizer.vocab_size)) if "▁" in p[1:]] == []
