"""Word alignment by IBM Model 1: which word of one side a word of the other translates, learnt from pairs of sentences.

The model is that of Brown, Della Pietra, Della Pietra and Mercer 1993, "The Mathematics of Statistical Machine
Translation", section 4.1. In the paper French words f are generated from English words e. Here one side is *generated*
from the words of the other, which are *given* together with the null word; either side may be either. A model is
improved by rounds of EM: each counts how often a word is expected to come from another, and makes the counts into
probabilities.
"""

from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from clearhead.data.bitext import Batch, Bitext

__all__ = ["Aligner", "Generated", "ModelOne", "Table", "best_translations"]

Generated = Literal["source", "target"]
"""The side whose words are generated from those of the other one."""


class Table:
    """Translation probabilities t(w | g) of a generated word w for a given word g: one number a cell of the bitext.

    They begin all alike, 1 over the number of different words. Those of all w for one g sum to 1.

    Attributes:
        generated: the side that w belongs to.
        probabilities: [cells of the bitext].
    """

    def __init__(self, bitext: Bitext, generated: Generated) -> None:
        forward = generated == "target"
        self.generated = generated
        self._given = bitext.source_of if forward else bitext.target_of
        words = max(1, len(bitext.words[1 if forward else 0]) - 1)
        generates = (bitext.target_of if forward else bitext.source_of) != 0  # the null word is never generated
        self.probabilities: NDArray[np.float64] = np.where(generates, 1.0 / words, 0.0)
        self._counts: NDArray[np.float64] = np.zeros(len(self.probabilities))

    def cells(self, batch: Batch) -> NDArray[np.int32]:
        """The cells of a batch: [B, 1 + given, generated], of the given words the null word first."""
        cells = batch.cells if self.generated == "target" else batch.cells.transpose(0, 2, 1)
        return cells[:, :, 1:]

    def expect(self, cells: NDArray[np.int32], times: NDArray[np.float64]) -> None:
        """Count that each generated word came from each given one so many times; both of one shape."""
        np.add.at(self._counts, cells.ravel(), times.ravel())

    def update(self) -> None:
        """Make the counts into probabilities, and begin to count anew: Brown et al., eq. (14)."""
        totals = np.bincount(self._given, self._counts)[self._given]
        # Where nothing was counted (a word that is never needed, its counts too small for a number) they stay.
        np.divide(self._counts, totals, out=self.probabilities, where=totals > 0)
        self._counts[:] = 0.0


class Aligner(Protocol):
    """A model of one direction: of the `table.generated` side, given the other."""

    table: Table

    def round(self) -> Iterator[tuple[int, float]]:
        """One round of EM. For each batch the number of its pairs, and their log-likelihood (nats) before the round."""
        ...

    def align(self, batch: Batch) -> NDArray[np.int32]:
        """The best alignment of each pair: for each generated word its given word, from 1, or 0 for the null word.

        [B, generated]
        """
        ...


class ModelOne:
    """Each generated word comes from any given word or the null word, with equal probability before it is known which.

    Brown et al. 1993, eq. (15), with ε = 1, for m generated words f and l given words e, e₀ the null word:

        P(f | e) = 1 / (l+1)^m · Π_j Σ_{i=0..l} t(f_j | e_i)
    """

    def __init__(self, bitext: Bitext, generated: Generated) -> None:
        self.table = Table(bitext, generated)
        self._bitext = bitext

    def round(self) -> Iterator[tuple[int, float]]:
        """One round of EM (`Aligner.round`): the expected counts are those of Brown et al., eq. (17)."""
        for batch in self._bitext.batches():
            cells = self.table.cells(batch)
            chances = self.table.probabilities[cells]
            sums = chances.sum(axis=1)  # over the given words: [B, W]
            self.table.expect(cells, chances / sums[:, None, :])
            yield len(batch.pairs), float(np.log(sums / cells.shape[1]).sum())
        self.table.update()

    def align(self, batch: Batch) -> NDArray[np.int32]:
        """The best alignment (`Aligner.align`): word by word; of equals the first given word, the null word last."""
        chances = self.table.probabilities[self.table.cells(batch)]
        best = chances[:, 1:].argmax(axis=1)
        null = chances[:, 0] > np.take_along_axis(chances[:, 1:], best[:, None], axis=1)[:, 0]
        return np.where(null, 0, best + 1).astype(np.int32)


def best_translations(
    bitext: Bitext, table: Table, *, most: int = 5, least: float = 0.01
) -> Iterator[tuple[str, str, float]]:
    """(given word, generated word, probability) of the `most` best translations of each word with at least `least`.

    Given words come in the order of their characters, the translations of each by falling probability. The null word
    has none here.
    """
    forward = table.generated == "target"
    given, generated = (bitext.source_of, bitext.target_of) if forward else (bitext.target_of, bitext.source_of)
    given_words, generated_words = bitext.words if forward else bitext.words[::-1]
    kept = np.flatnonzero((table.probabilities >= least) & (given != 0) & (generated != 0))
    order = kept[np.lexsort((generated[kept], -table.probabilities[kept], given[kept]))]
    starts = np.searchsorted(given[order], np.arange(len(given_words) + 1))
    for number in sorted(range(1, len(given_words)), key=given_words.__getitem__):
        for cell in order[starts[number] : min(starts[number + 1], starts[number] + most)].tolist():
            yield given_words[number], generated_words[generated[cell]], float(table.probabilities[cell])
