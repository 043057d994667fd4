"""How well word alignments agree with those that people made: precision, recall and alignment error rate.

Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", "Evaluation Methodology": people
mark links as sure (S) or possible (P, of which S is a part). For the links A of a system

    recall = |A ∩ S| / |S|     precision = |A ∩ P| / |A|     AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

Each count is summed over the corpus before anything is divided.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import zip_longest

from clearhead.base.errors import DataError

__all__ = ["AlignmentError", "alignment_error"]

Link = tuple[int, int]


@dataclass
class AlignmentError:
    """The counts of a corpus and the scores that follow from them, from 0 to 1.

    Attributes:
        links, sure, possible: |A|, |S| and |P|.
        right_sure, right: |A ∩ S| and |A ∩ P|.
        pairs: how many were judged.
    """

    links: int = 0
    sure: int = 0
    possible: int = 0
    right_sure: int = 0
    right: int = 0
    pairs: int = 0

    def add(self, links: Set[Link], sure: Set[Link], possible: Set[Link]) -> None:
        """Count one more pair. Sure links count as possible, whether `possible` holds them or not."""
        allowed = sure | possible
        self.pairs += 1
        self.links += len(links)
        self.sure += len(sure)
        self.possible += len(allowed)
        self.right_sure += len(links & sure)
        self.right += len(links & allowed)

    @property
    def precision(self) -> float:
        """The part of the links that are possible; 1 where there are none."""
        return self.right / self.links if self.links else 1.0

    @property
    def recall(self) -> float:
        """The part of the sure links that were found; 1 where there are none."""
        return self.right_sure / self.sure if self.sure else 1.0

    @property
    def error_rate(self) -> float:
        """AER: 0 where every sure link and none but possible ones were found, 1 where all are wrong.

        0 also where there is neither a link nor a sure one. If there are no links that are merely possible, 1 − AER is
        the harmonic mean of precision and recall.
        """
        total = self.links + self.sure
        return 1.0 - (self.right_sure + self.right) / total if total else 0.0

    def __str__(self) -> str:
        return f"AER {self.error_rate:.4f}, precision {self.precision:.4f}, recall {self.recall:.4f}"


def alignment_error(
    links: Iterable[Set[Link]], gold: Iterable[tuple[Set[Link], Set[Link]]], *, name: str = "gold links"
) -> AlignmentError:
    """The scores of a corpus, pair by pair: the links of a system and the (sure, possible) links of people.

    >>> str(alignment_error([{(0, 0), (1, 1)}], [({(0, 0)}, {(0, 1)})]))
    'AER 0.3333, precision 0.5000, recall 1.0000'

    Raises DataError where one of the two has more pairs than the other; `name` is how it calls the second.
    """
    result = AlignmentError()
    for found, judged in zip_longest(links, gold):
        if found is None or judged is None:
            short, long = ("links", "gold links") if found is None else ("gold links", "links")
            raise DataError(
                f"{name}: the {short} end alone after pair {result.pairs}, the {long} go on; both need a line a pair"
            )
        result.add(found, *judged)
    return result
