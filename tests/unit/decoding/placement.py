"""Whether a text holds phrases, told by trying every way to lay them out: slow, and nothing shared with the search."""

import itertools
import random
from collections.abc import Sequence

__all__ = ["holds", "phrase_lists"]


def holds(words: Sequence[int], phrases: Sequence[Sequence[int]]) -> bool:
    """Each phrase stands in `words`, side by side, as often as it is listed, and no word serves two of them."""
    return _placed(list(words), [list(phrase) for phrase in phrases])


def _placed(words: list[int], phrases: list[list[int]]) -> bool:
    if not phrases:
        return True
    first, *rest = phrases
    for place in range(len(words) - len(first) + 1):
        if words[place : place + len(first)] == first:
            taken = [*words[:place], *[-1] * len(first), *words[place + len(first) :]]
            if _placed(taken, rest):
                return True
    return False


def phrase_lists(count: int, words: Sequence[int], longest: int, seed: int = 0) -> list[list[list[int]]]:
    """`count` lists of one to three phrases of one to three words, at most `longest` words together.

    Drawn from so few words that phrases often share beginnings, lie in one another, overlap or come twice.
    """
    draw = random.Random(seed)
    found: list[list[list[int]]] = []
    while len(found) < count:
        phrases = [draw.choices(words, k=draw.randint(1, 3)) for _ in range(draw.randint(1, 3))]
        if len(list(itertools.chain(*phrases))) <= longest:
            found.append(phrases)
    return found
