"""How right a method is where the truth is known: shares of gold links, and ranks of heads.

What follows from a map goes by one rule: a target word is linked to the source word with the largest absolute score,
the first of equals. The row of EOS and target words without a gold link are not asked for. Links say nothing of the end
of the source, and a model may rightly need it (where it begins to reverse, say), so EOS is no word to be linked to;
with `end` it is a place like the others, which is stricter, and fair to a map of weights that ought to sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.data.synthetic import Link
from clearhead.inspection.agreement import spearman

__all__ = ["Hits", "area_under_curve", "baselines", "hits", "precision_recall", "rank_correlation"]


@dataclass(frozen=True)
class Hits:
    """How many of `asked` target words were linked to a gold place. Adds up over sentences."""

    right: float = 0.0
    asked: int = 0

    def __add__(self, other: Hits) -> Hits:
        return Hits(self.right + other.right, self.asked + other.asked)

    @property
    def share(self) -> float:
        """Right of asked; NaN if nothing was asked."""
        return self.right / self.asked if self.asked else math.nan


def hits(scores: Float[Tensor, "T S"], links: frozenset[Link], *, end: bool = False) -> Hits:
    """Of one map: rows the target's words and EOS, columns the source's words and EOS; `links` are (source, target).

    With `end` a word whose largest score is on EOS is linked wrongly. A row of zeros links nothing and is wrong. Raises
    InputError for numbers that are not finite, and for links that the map has no place for.

    >>> scores, links = torch.tensor([[0.1, -0.4, 0.5], [0.6, 0.3, 0.1], [0.0, 0.0, 1.0]]), frozenset({(1, 0), (1, 1)})
    >>> hits(scores, links), hits(scores, links, end=True)
    (Hits(right=1, asked=2), Hits(right=0, asked=2))
    """
    if not bool(torch.isfinite(scores).all()):
        raise InputError("a map holds numbers that are not finite, so it has no largest")
    rows, columns = scores.shape[0] - 1, scores.shape[1] - 1
    if any(not (0 <= i < columns and 0 <= j < rows) for i, j in links):
        raise InputError(f"a link lies outside of a map of {rows} target words and {columns} source words")
    asked = sorted({target for _, target in links})
    sizes, places = (scores if end else scores[:, :columns]).abs().max(dim=1)
    right = sum(1 for row in asked if float(sizes[row]) > 0 and (int(places[row]), row) in links)
    return Hits(right, len(asked))


def baselines(words: int, written: int, links: frozenset[Link]) -> dict[str, Hits]:
    """What is right of one sentence of `words` words and its translation of `written` without looking at either.

    `diagonal` links each target word to the source word as far along; `random` is the expectation of drawing a
    word; `uniform` is a map of equal weights, whose first word has the largest.
    """
    asked = sorted({target for _, target in links})
    scale = (words - 1) / (written - 1) if written > 1 else 0.0
    diagonal = sum((round(target * scale), target) in links for target in asked)
    uniform = sum((0, target) in links for target in asked)
    return {
        "diagonal": Hits(diagonal, len(asked)),
        "random": Hits(len(links) / words, len(asked)),
        "uniform": Hits(uniform, len(asked)),
    }


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Spearman's ρ, the correlation of the ranks; None where one side does not vary or fewer than three are given."""
    if len(left) != len(right):
        raise InputError(f"{len(left)} numbers beside {len(right)}: give as many of each")
    if len(left) < 3 or len(set(left)) == 1 or len(set(right)) == 1:
        return None
    mine, others = (torch.tensor([side], dtype=torch.float64) for side in (left, right))
    return float(spearman(mine, others)[0])


def area_under_curve(values: Sequence[float], positive: Sequence[bool]) -> float | None:
    """How often a positive one has the larger value than a negative one, ties counted as half; None without both.

    >>> area_under_curve([0.9, 0.2, 0.4], [True, False, True])
    1.0
    """
    if len(values) != len(positive):
        raise InputError(f"{len(values)} numbers beside {len(positive)} classes: give as many of each")
    yes = [value for value, is_so in zip(values, positive, strict=True) if is_so]
    no = [value for value, is_so in zip(values, positive, strict=True) if not is_so]
    if not yes or not no:
        return None
    return sum((a > b) + (a == b) / 2 for a in yes for b in no) / (len(yes) * len(no))


def precision_recall(said: Iterable[object], true: Iterable[object]) -> tuple[float | None, float | None]:
    """Of what was said, the share that is true; of what is true, the share that was said. None for a share of nothing.

    >>> precision_recall(["a", "b"], ["b", "c", "d", "e"])
    (0.5, 0.25)
    """
    found, gold = set(said), set(true)
    both = len(found & gold)
    return (both / len(found) if found else None), (both / len(gold) if gold else None)
