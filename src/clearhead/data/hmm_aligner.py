"""Word alignment by a hidden Markov model (Vogel, Ney and Tillmann 1996, "HMM-Based Word Alignment in Statistical
Translation"): a word is linked near where the word before it was linked.

The null word is that of Och and Ney 2003 (section 2.1.1): with probability p₀ the next word has no counterpart, and the
place of the last one that has is remembered. So with a_j the given word that generated word j is linked to, a_j = 0 for
the null word, and q the last of a_1 … a_{j−1} that is not 0 (or q = 0, the place before the first given word),

    P(f, a | e) = Π_j t(f_j | e_{a_j}) · (p₀ if a_j = 0, else (1 − p₀) · p(a_j | q))
    p(i | q) = c(i − q) / Σ_{i'=1..l} c(i' − q)      (Vogel et al., eq. (5))

with one weight c for each jump width, or beyond 8 words for each bucket of widths.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from clearhead.data.aligner import ModelOne, Table
from clearhead.data.bitext import Batch, Bitext

__all__ = ["HiddenMarkov", "Jumps"]

NULL = 0.2
"""p₀: the value that Och and Ney 2003 used."""

SINGLE = 8
"""Jumps of up to so many words, to either side, have a weight of their own; from there 9–16, 17–32 and 33 or more."""

WIDEST = SINGLE + 3
STEPS = 3
"""How often a round improves the weights of jumps by its counts."""

TINY = 1e-300


@lru_cache(maxsize=64)
def _buckets(length: int) -> NDArray[np.int64]:
    """The number of the weight for a jump from each place, 0 to `length`, to each given word: [1 + length, length]."""
    width = np.arange(1, length + 1)[None, :] - np.arange(length + 1)[:, None]
    far = np.abs(width)
    bucket = np.minimum(far, SINGLE) + (far > SINGLE) + (far > 2 * SINGLE) + (far > 4 * SINGLE)
    found: NDArray[np.int64] = np.sign(width) * bucket + WIDEST
    return found


class Jumps:
    """The weights c of the jump widths, by bucket, and what a round counts to improve them.

    Attributes:
        weights: from the widest jump back to the widest ahead, sum 1: [2 · WIDEST + 1].
    """

    def __init__(self) -> None:
        self.weights: NDArray[np.float64] = np.full(2 * WIDEST + 1, 1.0 / (2 * WIDEST + 1))
        self._made: NDArray[np.float64] = np.zeros(2 * WIDEST + 1)
        self._left: dict[int, NDArray[np.float64]] = {}

    def matrix(self, length: int) -> NDArray[np.float64]:
        """p(i | q) for each place q and given word i: [1 + length, length], rows sum to 1."""
        weights = self.weights[_buckets(length)]
        sums = weights.sum(axis=1, keepdims=True)
        # Where every weight that could be needed has vanished, nothing jumps from; any numbers do.
        chances: NDArray[np.float64] = np.full_like(weights, 1.0 / length)
        np.divide(weights, sums, out=chances, where=sums > 0)
        return chances

    def expect(self, times: NDArray[np.float64]) -> None:
        """Count that the jump from each place to each given word was made so many times (shape as `matrix`)."""
        length = times.shape[1]
        self._made += np.bincount(_buckets(length).ravel(), times.ravel(), minlength=len(self._made))
        self._left[length] = self._left.get(length, 0.0) + times.sum(axis=1)

    def update(self) -> None:
        """Better weights for the counts, and begin to count anew.

        The sums below the line of p(i | q) hold the same weights over and over, so that relative frequencies, as Vogel
        et al. take them, may make the likelihood fall. The step of Hunter 2004, "MM Algorithms for Generalized
        Bradley–Terry Models", never does: with n(d) jumps made into bucket d, N_l(q) left from place q of l words,
        k(q, d) the words of bucket d seen from q, and Z_l(q) the sum below the line with the old weights,

            c(d) = n(d) / Σ_{l, q} N_l(q) · k(q, d) / Z_l(q)
        """
        for _ in range(STEPS):
            below = np.zeros(len(self.weights))
            for length, left in self._left.items():
                buckets = _buckets(length)
                sums = np.maximum(self.weights[buckets].sum(axis=1), TINY)
                share = np.repeat(left / sums, length)
                below += np.bincount(buckets.ravel(), share, minlength=len(below))
            np.divide(self._made, below, out=self.weights, where=below > 0)
            self.weights /= self.weights.sum()
        self._made[:] = 0.0
        self._left.clear()


class HiddenMarkov:
    """The model of one direction, to begin with the translation probabilities that Model 1 has learnt.

    Its states are places q alone: a word linked to q and a null word after it lead on alike.
    """

    def __init__(self, bitext: Bitext, first: ModelOne) -> None:
        self.table: Table = first.table
        self.jumps = Jumps()
        self._bitext = bitext

    def round(self) -> Iterator[tuple[int, float]]:
        """One round of EM (`Aligner.round`), by the forward-backward algorithm."""
        for batch in self._bitext.batches():
            cells = self.table.cells(batch)
            times, jumped, likelihood = self._expected(self.table.probabilities[cells])
            self.table.expect(cells, times)
            self.jumps.expect(jumped)
            yield len(batch.pairs), likelihood
        self.table.update()
        self.jumps.update()

    def _expected(self, chances: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """How often each link and, over the batch, each jump is expected; the log-likelihood of the batch.

        `chances` are t of each generated word for each given one, the null word first: [B, 1 + given, generated], and
        so are the links. The jumps are as `Jumps.matrix`.
        """
        pairs, places, words = chances.shape
        matrix = self.jumps.matrix(places - 1)
        linked, null = self._by_word(chances)
        # reached[j]: for each place, what leads there by j words, of which `arrived` by a link; both over `scale`.
        reached = np.zeros((words + 1, pairs, places))
        reached[0, :, 0] = 1.0
        arrived, scale = np.empty_like(linked), np.empty((words, pairs, 1))
        for j in range(words):
            arrived[j] = (reached[j] @ matrix) * linked[j]
            reached[j + 1] = reached[j] * null[j]
            reached[j + 1, :, 1:] += arrived[j]
            scale[j] = np.maximum(reached[j + 1].sum(axis=1, keepdims=True), TINY)
            reached[j + 1] /= scale[j]
            arrived[j] /= scale[j]
        times = np.empty((words, pairs, places))
        jumped = np.zeros(matrix.shape)
        ahead = np.ones((pairs, places))  # what follows from each place, scaled so that reached · ahead sums to 1
        for j in reversed(range(words)):
            times[j, :, 1:] = arrived[j] * ahead[:, 1:]
            stay = null[j] / scale[j]
            times[j, :, 0] = (reached[j] * stay * ahead).sum(axis=1)
            onward = linked[j] / scale[j] * ahead[:, 1:]
            jumped += reached[j].T @ onward
            ahead = onward @ matrix.T + stay * ahead
        return times.transpose(1, 2, 0), jumped * matrix, float(np.log(scale).sum())

    def align(self, batch: Batch) -> NDArray[np.int32]:
        """The most probable alignment (`Aligner.align`), by Viterbi's algorithm; of equals always the same."""
        chances = self.table.probabilities[self.table.cells(batch)]
        pairs, places, words = chances.shape
        matrix = self.jumps.matrix(places - 1)
        linked, null = self._by_word(chances)
        best = np.zeros((pairs, places))
        best[:, 0] = 1.0
        origin = np.zeros((words, pairs, places), dtype=np.int32)  # the place before a link to each place
        stayed = np.ones((words, pairs, places), dtype=np.bool_)  # whether the word is better left without a link
        for j in range(words):
            ways = best[:, :, None] * matrix
            origin[j, :, 1:] = ways.argmax(axis=1)
            arrived = ways.max(axis=1) * linked[j]
            best = best * null[j]
            stayed[j, :, 1:] = best[:, 1:] > arrived
            best[:, 1:] = np.maximum(best[:, 1:], arrived)
            best /= np.maximum(best.max(axis=1, keepdims=True), TINY)
        found = np.zeros((pairs, words), dtype=np.int32)
        place, rows = best.argmax(axis=1), np.arange(pairs)
        for j in reversed(range(words)):
            here = stayed[j, rows, place]
            found[:, j] = np.where(here, 0, place)
            place = np.where(here, place, origin[j, rows, place])
        return found

    @staticmethod
    def _by_word(chances: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """t times 1 − p₀ for the given words, and times p₀ for the null word: [generated, B, given] and [… , B, 1]."""
        first = np.ascontiguousarray(chances.transpose(2, 0, 1))
        return first[:, :, 1:] * (1.0 - NULL), first[:, :, :1] * NULL
