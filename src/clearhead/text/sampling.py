"""Draw a segmentation instead of the best one (subword regularisation), from a generator of our own.

SentencePiece samples from a hidden per-thread generator that cannot be set back, so a training run could never be
repeated or resumed exactly. Here every draw comes from the `random.Random` that the caller keys.

A *word* is what SentencePiece never merges across: an optional leading space mark and what follows up to the next.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import exp, log
from random import Random
from typing import Protocol

from clearhead.text.config import SPACE_MARK

__all__ = ["BpeSampler", "Sampler", "UnigramSampler", "words"]

_WORD = re.compile(f"{SPACE_MARK}?[^{SPACE_MARK}]+|{SPACE_MARK}")
_UNKNOWN_PENALTY = 10.0  # what SentencePiece takes off the lowest piece score for a character it does not know
_CACHED_WORDS = 50_000
_CACHED_LENGTH = 24

_Ends = list[tuple[tuple[int, ...], tuple[float, ...]]]


def words(marked: str) -> list[str]:
    """Cut text whose spaces are already written as ▁ before every ▁."""
    return _WORD.findall(marked)


class Sampler(Protocol):
    """Splits one word into strings that are pieces of the vocabulary or single unknown characters."""

    def split(self, word: str, strength: float, rng: Random) -> list[str]:
        """The parts of `word` in their order; joined they are the word. What `strength` means differs by kind."""
        ...


class BpeSampler:
    """Byte-pair merges of which each is dropped with some probability (Provilkov, Emelianenko and Voita 2020).

    At every step each possible merge of the word is dropped with probability `strength` and the best of the rest is
    carried out; a dropped merge stands for choice again at the next step; the word is done when nothing is left
    (their Algorithm 1). Going through the merges in order of priority and stopping at the first that is kept draws
    from the same distribution, so a heap serves and the cost is n log n. Strength 0 is SentencePiece's own encoding,
    strength 1 leaves single characters.
    """

    def __init__(self, ranks: Mapping[str, int]) -> None:
        """ranks: every piece that a merge can make → its priority, the lowest first."""
        self._ranks = ranks

    def split(self, word: str, strength: float, rng: Random) -> list[str]:
        """strength: the probability, from 0 to 1, that a merge is dropped."""
        count = len(word)
        rank = self._ranks.get
        parts = list(word)
        following = list(range(1, count + 1))
        previous = list(range(-1, count - 1))
        # (rank, left part, characters in both): an entry is stale when the two parts no longer add up to its length.
        candidates = [(r, i, 2) for i in range(count - 1) if (r := rank(word[i : i + 2])) is not None]
        heapify(candidates)
        dropped: list[tuple[int, int, int]] = []
        while candidates:
            candidate = heappop(candidates)
            _, left, length = candidate
            right = following[left]
            if right == count or not parts[left] or len(parts[left]) + len(parts[right]) != length:
                continue
            if strength and rng.random() < strength:
                dropped.append(candidate)
                continue
            for again in dropped:
                heappush(candidates, again)
            dropped.clear()
            parts[left] += parts[right]
            parts[right] = ""
            after = following[left] = following[right]
            if after < count:
                previous[after] = left
                self._consider(candidates, parts, left, after)
            before = previous[left]
            if before >= 0:
                self._consider(candidates, parts, before, left)
        return [part for part in parts if part]

    def _consider(self, candidates: list[tuple[int, int, int]], parts: list[str], left: int, right: int) -> None:
        merged = parts[left] + parts[right]
        rank = self._ranks.get(merged)
        if rank is not None:
            heappush(candidates, (rank, left, len(merged)))


class UnigramSampler:
    """A segmentation drawn with probability proportional to P(segmentation)^alpha (Kudo 2018, section 3.2).

    Kudo draws from the n best; here the draw is from *all* segmentations (his n → ∞), by summing forwards over the
    lattice and drawing backwards, which costs length × longest piece and needs no n.
    """

    def __init__(self, scores: Mapping[str, float]) -> None:
        """scores: every piece → its log-probability."""
        self._scores = scores
        self._longest = max(map(len, scores), default=1)
        self._unknown = min(scores.values(), default=0.0) - _UNKNOWN_PENALTY
        self._cached = lru_cache(maxsize=_CACHED_WORDS)(self._lattice)

    def split(self, word: str, strength: float, rng: Random) -> list[str]:
        """strength: the exponent alpha; near 0 all segmentations are alike, a large one leaves only the best."""
        ends = self._cached(word, strength) if len(word) <= _CACHED_LENGTH else self._lattice(word, strength)
        parts = []
        end = len(word)
        while end:
            starts, cumulative = ends[end]
            # The last sum can fall short of 1 by rounding, so that the draw is held inside the list.
            choice = min(bisect_right(cumulative, rng.random()), len(starts) - 1)
            parts.append(word[starts[choice] : end])
            end = starts[choice]
        parts.reverse()
        return parts

    def _lattice(self, word: str, alpha: float) -> _Ends:
        """For every end: where the last piece can start, and the running sum of the probabilities of those starts."""
        total = [0.0]  # log of the summed weight of all segmentations of word[:end]
        ends: _Ends = [((), ())]
        for end in range(1, len(word) + 1):
            starts: list[int] = []
            weights: list[float] = []
            for start in range(max(0, end - self._longest), end):
                score = self._scores.get(word[start:end])
                if score is None:
                    if end - start > 1:
                        continue
                    score = self._unknown
                starts.append(start)
                weights.append(total[start] + alpha * score)
            peak = max(weights)
            shares = [exp(weight - peak) for weight in weights]
            whole = sum(shares)
            total.append(peak + log(whole))
            ends.append((tuple(starts), tuple(accumulate(share / whole for share in shares))))
        return ends
