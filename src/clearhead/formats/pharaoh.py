"""Word alignments in Pharaoh format: a line a pair, a link `i-j` between source word i and target word j, from 0.

A gold standard tells sure links from possible ones (Och and Ney 2003, "Evaluation Methodology"). Of the spellings in
use for a possible link, `i?j` and `ipj`, both are read. Links are separated by white space; a blank line has none.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from clearhead.base.errors import DataError
from clearhead.formats.lines import display_name, read_lines

__all__ = ["GoldLinks", "Links", "pharaoh_line", "read_gold_links", "read_links"]

Links = frozenset[tuple[int, int]]
"""(source word, target word) of each link of a pair, both counted from 0."""

_LINK = re.compile(r"([0-9]{1,9})([-?p])([0-9]{1,9})")


class GoldLinks(NamedTuple):
    """What people linked in a pair. Every sure link is a possible one as well."""

    sure: Links
    possible: Links


def pharaoh_line(links: Iterable[tuple[int, int]]) -> str:
    """The links of a pair as a line, in order of the source words.

    >>> pharaoh_line({(1, 0), (0, 2), (0, 1)})
    '0-1 0-2 1-0'
    """
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_links(path: str | Path) -> Iterator[Links]:
    """The links of each line of a file. Raises DataError naming file and line for what is no `i-j`."""
    for number, line in enumerate(read_lines(path), 1):
        yield frozenset((source, target) for source, _, target in _parse(path, number, line, "-"))


def read_gold_links(path: str | Path) -> Iterator[GoldLinks]:
    """The sure (`i-j`) and possible (`i?j` or `ipj`) links of each line; one that is given as both is sure.

    Raises DataError naming file and line for what is neither.
    """
    for number, line in enumerate(read_lines(path), 1):
        found = list(_parse(path, number, line, "-?p"))
        yield GoldLinks(
            frozenset((source, target) for source, mark, target in found if mark == "-"),
            frozenset((source, target) for source, _, target in found),
        )


def _parse(path: str | Path, number: int, line: str, marks: str) -> Iterator[tuple[int, str, int]]:
    for word in line.split():
        found = _LINK.fullmatch(word)
        if found is None or found[2] not in marks:
            expected = " or ".join(f"3{mark}4" for mark in marks)
            raise DataError(
                f"{display_name(path)}, line {number}: {word[:40]!r} is no link such as {expected} (source "
                f"word, target word, counted from 0)"
            )
        yield int(found[1]), found[2], int(found[3])
