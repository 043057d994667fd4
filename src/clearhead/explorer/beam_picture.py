"""A beam search as one picture: a column a step, a box a hypothesis, lines to what it continues."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from html import escape

from clearhead.explorer.content import Lattice
from clearhead.inspection.search_account import Candidate
from clearhead.text.symbols import EOS

__all__ = ["draw"]

COLUMN, ROW, WIDTH, HEIGHT, LEFT, TOP = 132, 46, 100, 34, 4, 6
LETTERS = 11
"""How many letters of a token a box holds; a wide one counts twice."""


def draw(lattice: Lattice, label: str) -> str:
    """The picture as SVG; `label` is the id of the element that names it. Colours are the style sheet's."""
    columns = list(_columns(lattice))
    rows = max((len(column) for column in columns), default=1)
    width, height = LEFT + COLUMN * (len(columns) + 1), TOP + ROW * rows
    lines, boxes = [], [_box(0, 0, "<s>", "", "kept won")]
    before: dict[tuple[int, ...], int] = {(): 0}
    for number, column in enumerate(columns, start=1):
        places = {}
        for place, each in enumerate(column):
            won = " won" if _leads_to(lattice.winner, each) else ""
            origin = each.tokens if each.token == EOS else each.tokens[:-1]
            lines.append(_line(number, before[origin], place, won))
            figure = f"{each.log_prob:.2f}".replace("-", "−")
            boxes.append(_box(number, place, lattice.vocabulary[each.token], figure, each.fate + won))
            if each.token != EOS:
                places[each.tokens] = place
        before = places
    lines.sort(key=lambda line: "won" in line)  # the winner's way above the others
    return (
        f'<svg class="beam" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{label}">{"".join(lines)}{"".join(boxes)}</svg>'
    )


def _columns(lattice: Lattice) -> Iterator[list[Candidate]]:
    """What each step made, without what it dropped, in the order of its candidates."""
    for step in lattice.account.steps:
        yield [each for each in step.candidates if each.fate != "dropped"]


def _leads_to(winner: tuple[int, ...], each: Candidate) -> bool:
    """Whether a candidate is the winner itself or a beginning of it."""
    return each.tokens == winner if each.token == EOS else each.tokens == winner[: len(each.tokens)]


def _box(column: int, place: int, piece: str, figure: str, kind: str) -> str:
    x, y = LEFT + column * COLUMN, TOP + place * ROW
    below = f'<text class="figure" x="{x + WIDTH / 2:g}" y="{y + 29}">{figure}</text>' if figure else ""
    middle = y + (15 if figure else 22)
    return (
        f'<g class="{kind}"><title>{escape(piece)} {figure}</title>'
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
        f'<text x="{x + WIDTH / 2:g}" y="{middle}">{escape(_cut(piece))}</text>{below}</g>'
    )


def _line(column: int, origin: int, place: int, won: str) -> str:
    start, end = LEFT + (column - 1) * COLUMN + WIDTH, LEFT + column * COLUMN
    y, to, bend = TOP + origin * ROW + HEIGHT // 2, TOP + place * ROW + HEIGHT // 2, (COLUMN - WIDTH) // 2
    return f'<path class="line{won}" d="M{start} {y}C{start + bend} {y} {end - bend} {to} {end} {to}"/>'


def _cut(piece: str) -> str:
    """As much of a piece as a box holds."""
    room = LETTERS
    for place, letter in enumerate(piece):
        room -= 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if room < 0:
            return piece[:place] + "…"
    return piece
