"""A parallel corpus of which the links are known."""

import random
from collections.abc import Iterator


def invented(seed: int, count: int, longest: int = 10) -> Iterator[tuple[str, str, set[tuple[int, int]]]]:
    """(source, target, links) of a language of 120 words: each is translated by one of its own, 15 % are lost, as many
    come out of nothing, and neighbouring pairs of words are often exchanged.
    """
    rng = random.Random(seed)
    weights = [1 / (n + 3) for n in range(120)]
    for _ in range(count):
        source = rng.choices(range(120), weights, k=rng.randint(3, longest))
        order = list(range(len(source)))
        for start in range(0, len(order) - 3, 4):
            if rng.random() < 0.4:
                order[start : start + 4] = order[start + 2 : start + 4] + order[start : start + 2]
        target, links = [], set()
        for i in order:
            if rng.random() < 0.15:
                target.append(f"t{rng.choices(range(120), weights)[0]}")
            if rng.random() > 0.15:
                links.add((i, len(target)))
                target.append(f"t{source[i]}")
        if target:
            yield " ".join(f"s{n}" for n in source), " ".join(target), links
