"""One set of links out of two alignments of a pair, each of which has links from one side only.

A model gives each word of one side one link at most, so that no phrase can stand for a word there. Trained in both
directions and put together, the links are better than those of either (Och and Ney 2003, "Symmetrization").
"""

from collections.abc import Callable, Set
from typing import Literal, get_args

from clearhead.base.errors import InputError

__all__ = ["Symmetrisation", "symmetriser"]

Symmetrisation = Literal["intersection", "union", "grow-diag-final-and", "none"]

Link = tuple[int, int]

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetriser(method: str) -> Callable[[Set[Link], Set[Link]], set[Link]]:
    """The function that puts two sets of (source, target) links together.

    The first is that of the model of targets given sources, the second that of sources given targets.

    intersection: links that both have; the most precise.
    union: links that one has; the most complete.
    grow-diag-final-and: the intersection, grown through the union (`grow_diag_final_and`).
    none: the first set alone.

    Raises InputError for another name.
    """
    match method:
        case "intersection":
            return lambda forward, backward: set(forward & backward)
        case "union":
            return lambda forward, backward: set(forward | backward)
        case "grow-diag-final-and":
            return grow_diag_final_and
        case "none":
            return lambda forward, _: set(forward)
    raise InputError(f"unknown symmetrisation {method!r}: use one of {', '.join(get_args(Symmetrisation))}")


def grow_diag_final_and(forward: Set[Link], backward: Set[Link]) -> set[Link]:
    """Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation", section 3.1, with diagonal neighbours ("diag")
    and the last step in the variant in which both words must be without a link ("final-and"; Koehn et al. 2005,
    "Edinburgh System Description for the 2005 IWSLT Speech Translation Evaluation").

    It begins with the intersection. Grow: a link of the union that touches one of these, also across the corner, is
    taken if one of its words has no link yet, until there is none. Final: what is left of `forward`, then of
    `backward`, is taken if neither of its words has a link. Links are looked at in order of source, then target words,
    and their neighbours beside before those across; since the order decides between rivals, other programs may differ
    in a few.
    """
    union = forward | backward
    links = set(forward & backward)
    sources, targets = {source for source, _ in links}, {target for _, target in links}

    def take(source: int, target: int) -> None:
        links.add((source, target))
        sources.add(source)
        targets.add(target)

    front = sorted(links)
    while front:
        grown = []
        for source, target in front:
            for down, right in NEIGHBOURS:
                link = source + down, target + right
                if link in union and link not in links and (link[0] not in sources or link[1] not in targets):
                    take(*link)
                    grown.append(link)
        # The neighbours of a link that was looked at can only become ineligible, so that the new ones are all to see.
        front = sorted(grown)
    for directed in (forward, backward):
        for source, target in sorted(directed - links):
            if source not in sources and target not in targets:
                take(source, target)
    return links
