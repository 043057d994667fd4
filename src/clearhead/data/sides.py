"""Which of the two languages of a corpus a text is in, as the corpus itself tells.

Naive Bayes over character trigrams (Cavnar and Trenkle 1994 showed that they tell languages apart; the likelihood ratio
of two such models is Dunning 1994, "Statistical Identification of Language"). Both models are learnt from the two sides
of the corpus in question, so nothing is known of other languages and none has to be named. As long as most lines are on
their right side, swapped, untranslated and copied lines stand out, also where both languages share one script.

Trigrams are counted in a table of fixed size by a hash, so that memory does not grow with the corpus. A trigram counts
if its middle is a letter; what is no letter is a space, and placeholders, addresses and file names are left out. One
sighting of each is left out of account, so that a line does not testify for itself. Of a text only the first
`MOST_CHARACTERS` are looked at, which tell its language and bound the memory (some 50 bytes a character).
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from clearhead.data.scripts import plain_words

__all__ = ["SideModel"]

BUCKETS = 1 << 18
SMOOTHING = 0.5
LEAST_LEARNT = 20_000
MOST_CHARACTERS = 100_000
LEAST_TRIGRAMS = 18
MARGIN = 1.0
LEAST_EVIDENCE = 22.0
STRONGEST = 4.0
_NO_WORDS = re.compile(r"[{%<&@/\\_=]")


class SideModel:
    """Counts of both sides, [2, BUCKETS]; first `learn` all of a corpus, then `foreign` for any part of it."""

    def __init__(self) -> None:
        self._counts = np.zeros((2, BUCKETS), dtype=np.int64)
        self._ratio: NDArray[np.float64] | None = None

    @property
    def usable(self) -> bool:
        """Whether each side had the `LEAST_LEARNT` trigrams without which nothing is said."""
        return bool((self._counts.sum(axis=1) >= LEAST_LEARNT).all())

    def learn(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Count the trigrams of some texts; the order in which texts are learnt makes no difference."""
        self._ratio = None
        for side, texts in enumerate((sources, targets)):
            buckets, _ = _trigrams(texts)
            self._counts[side] += np.bincount(buckets[buckets < BUCKETS], minlength=BUCKETS)

    def foreign(self, texts: Sequence[str], side: int) -> NDArray[np.bool_]:
        """Whether each text of a side (0 source, 1 target) reads like the other one: [texts].

        It does if the other model wins by `MARGIN` nats a trigram and `LEAST_EVIDENCE` in all, over at least
        `LEAST_TRIGRAMS`; what one trigram says is bounded by `STRONGEST`.
        """
        if not texts or not self.usable:
            return np.zeros(len(texts), dtype=np.bool_)
        evidence, trigrams = self.evidence(texts, side)
        enough = (trigrams >= LEAST_TRIGRAMS) & (evidence >= LEAST_EVIDENCE)
        return np.asarray(enough & (evidence >= MARGIN * trigrams))

    def rules_broken(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Which pairs break a rule on languages, by their index, in order; identical sides are not looked at."""
        foreign = self.foreign(sources, 0), self.foreign(targets, 1)
        for index in np.flatnonzero(foreign[0] | foreign[1]).tolist():
            if sources[index] != targets[index]:
                for side, flags in zip(("source", "target"), foreign, strict=True):
                    if flags[index]:
                        yield index, f"wrong {side} language"

    def evidence(self, texts: Sequence[str], side: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The log-likelihood ratio of the other side to this one, in nats, and the number of trigrams: [texts] each."""
        if self._ratio is None:
            counts = np.maximum(self._counts - 1, 0) + SMOOTHING
            logs = np.log(counts) - np.log(counts.sum(axis=1, keepdims=True))
            # The last place is that of what is no trigram.
            self._ratio = np.append(np.clip(logs[1] - logs[0], -STRONGEST, STRONGEST), 0.0)
        buckets, starts = _trigrams(texts)
        evidence = np.add.reduceat(self._ratio[buckets], starts) * (1.0 if side == 0 else -1.0)
        return evidence, np.add.reduceat((buckets < BUCKETS).astype(np.int64), starts)


def _trigrams(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bucket of the trigram around each character, BUCKETS where that is no letter, and where each text starts."""
    if not texts:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    texts = [text[:MOST_CHARACTERS] for text in texts]
    lowered = [(plain_words(text) if _NO_WORDS.search(text) else text).lower() for text in texts]
    data = "".join(f"{text}\n" for text in lowered).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(data, dtype=np.uint32).astype(np.int64)
    letter = _is_letter()[codes]
    codes[~letter] = 32
    around = np.concatenate(([32], codes, [32]))
    hashed = (around[:-2] * 0x9E3779B1 + codes * 0x85EBCA77 + around[2:] * 0xC2B2AE3D) & 0xFFFFFFFFFFFF
    # The product's middle bits depend on all of all three; each text ends with a space, which parts it from the next.
    buckets = (hashed ^ (hashed >> 15)) % BUCKETS
    buckets[~letter] = BUCKETS
    starts = np.cumsum([0] + [len(text) + 1 for text in lowered[:-1]])
    return buckets, starts


@cache
def _is_letter() -> NDArray[np.bool_]:
    """For every code point whether it is a letter or a mark on one: [1,114,112]."""
    return np.fromiter((unicodedata.category(chr(code))[0] in "LM" for code in range(0x110000)), dtype=np.bool_)
