"""`diagram`: boxes on a grid, joined by arrows, as inline SVG."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from handbook.arrows import Arrow, Box, draw_arrows
from handbook.matrices import FigureDirective
from handbook.svg import EM, Run, draw, escape, measure, read_runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx

__all__ = ["Diagram", "Item", "draw_diagram", "read_diagram", "setup"]

_FONT, _LINE, _SMALL = 14.5, 20.0, 12.5
_POINT = r"(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)"
_NAME = r"([A-Za-z_][A-Za-z0-9_]*)"
_BOX = re.compile(rf"{_NAME}\s*@\s*{_POINT}(?:\s*@\s*{_POINT})?\s*:\s*(.*)")
_BARE = re.compile(rf"{_NAME}\s*\.\.\s*(.*?)\s*@\s*{_POINT}")
_ARROW = re.compile(rf"{_NAME}\s*(-->|->|--)\s*{_NAME}(?:\s*:\s*(.*))?")


@dataclass(frozen=True)
class Item:
    """A box or a bare text, from one point of the grid to another."""

    name: str
    start: tuple[float, float]
    stop: tuple[float, float]
    lines: list[list[Run]]
    bare: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """Width and height that the text needs, in units."""
        wide = max(measure(line, _FONT) for line in self.lines)
        margin = 4 if self.bare else 25
        return max(wide + margin, 0 if self.bare else 44), len(self.lines) * _LINE + (2 if self.bare else 16)


def read_diagram(body: list[str], language: str | None = None) -> tuple[list[Item], list[Arrow]]:
    """The items and arrows of a directive's body. Raises ValueError for unknown forms and names."""
    items: dict[str, Item] = {}
    arrows: list[Arrow] = []

    def add(name: str, start: tuple[float, float], stop: tuple[float, float], text: str, bare: bool) -> None:
        if name in items:
            raise ValueError(f"two boxes are named {name!r}")
        items[name] = Item(name, start, stop, [read_runs(line.strip(), language) for line in text.split("|")], bare)

    for line in (line.strip() for line in body if line.strip()):
        if match := _BOX.fullmatch(line):
            name, x, y, x2, y2, text = match.groups()
            add(name, (float(x), float(y)), (float(x2 or x), float(y2 or y)), text, False)
        elif match := _ARROW.fullmatch(line):
            first, kind, second, text = match.groups()
            arrows.append(Arrow(first, second, kind, read_runs(text or "", language)))
        elif match := _BARE.fullmatch(line):
            name, text, x, y = match.groups()
            add(name, (float(x), float(y)), (float(x), float(y)), text, True)
        else:
            raise ValueError(f"neither box nor arrow nor text: {line!r}")
    unknown = {name for arrow in arrows for name in (arrow.first, arrow.second)} - set(items)
    if unknown:
        raise ValueError(f"arrows name no box: {', '.join(sorted(unknown))}")
    if not items:
        raise ValueError("the diagram is empty")
    return list(items.values()), arrows


def _centres(items: list[Item], arrows: list[Arrow], axis: int, least: float, gap: float) -> dict[float, float]:
    """Where each column or row that is used has its centre: neighbours stand apart by their sizes and labels."""
    places = sorted({point[axis] for item in items for point in (item.start, item.stop)})
    half = dict.fromkeys(places, 0.0)
    for item in items:
        if item.start[axis] == item.stop[axis]:
            half[item.start[axis]] = max(half[item.start[axis]], item.size[axis] / 2, least / 2)
    room = {}
    where = {item.name: item for item in items}
    for before, after in pairwise(places):
        room[before] = gap * min(1.0, after - before)
        for arrow in arrows:
            first, second = where[arrow.first], where[arrow.second]
            start, stop = max(first.start[axis], second.start[axis]), min(first.stop[axis], second.stop[axis])
            if not arrow.label or first is second:
                continue
            if (stop, start) == (before, after) and after - before >= 1:
                wanted = measure(arrow.label, _SMALL) + 20 if axis == 0 else _SMALL + 22
                room[before] = max(room[before], wanted)
            elif axis == 0 and start == before and start <= stop:
                # The label of an upright arrow stands to its right, before the next column's arrow.
                room[before] = max(room[before], measure(arrow.label, _SMALL) + 24 - half[before] - half[after])
    centres: dict[float, float] = {}
    for place in places:
        centres[place] = 0.0
        for other, centre in list(centres.items()):
            if other < place:
                # Half a step away, boxes of the two columns do not stand side by side: they share the width.
                share = min(1.0, place - other)
                space = (half[other] + half[place]) * share + room[max(p for p in places if p < place)]
                centres[place] = max(centres[place], centre + space)
    return centres


def _spread(items: list[Item], centres: dict[float, float], axis: int) -> None:
    """Make room for boxes that span several columns and whose text is wider than these."""
    for item in items:
        first, last = item.start[axis], item.stop[axis]
        if first != last:
            lack = item.size[axis] - 44 - (centres[last] - centres[first])
            for place in centres:
                if place > first and lack > 0:
                    centres[place] += lack * (min(place, last) - first) / (last - first)


def _place(items: list[Item], arrows: list[Arrow], least: float, gap: float) -> dict[str, Box]:
    columns = _centres(items, arrows, 0, least, 38)
    rows = _centres(items, arrows, 1, 0, gap)
    _spread(items, columns, 0)
    boxes: dict[str, Box] = {}
    widest, tallest = (
        {
            place: max(
                (i.size[axis] for i in items if i.start[axis] == i.stop[axis] == place and not i.bare), default=0
            )
            for place in centres
        }
        for axis, centres in enumerate((columns, rows))
    )
    for item in items:
        width, height = item.size
        (x1, y1), (x2, y2) = item.start, item.stop
        left, right = sorted((columns[x1], columns[x2]))
        top, bottom = sorted((rows[y1], rows[y2]))
        if not item.bare:
            # Boxes of a column are equally wide and those of a row equally high, which reads more calmly.
            width = max(width, widest[x1], least) if x1 == x2 else max(widest[x1], widest[x2], 44)
            height = max(height, tallest[y1]) if y1 == y2 else max(tallest[y1], tallest[y2], 36)
        boxes[item.name] = Box(left - width / 2, top - height / 2, right + width / 2, bottom + height / 2)
    return boxes


def draw_diagram(
    items: list[Item], arrows: list[Arrow], alt: str, look: dict[str, set[str]], least: float, gap: float
) -> str:
    """The figure; `look` names the boxes drawn as accent or quiet, `least` is the least width of a box."""
    boxes = _place(items, arrows, least, gap)
    lines, extent = draw_arrows(arrows, boxes, _SMALL)
    left = min([extent.left, *(box.left for box in boxes.values())]) - 3
    top = min([extent.top, *(box.top for box in boxes.values())]) - 3
    right = max([extent.right, *(box.right for box in boxes.values())]) + 3
    bottom = max([extent.bottom, *(box.bottom for box in boxes.values())]) + 3
    width, height = right - left, bottom - top
    parts = [
        f'<svg class="diagram" role="img" viewBox="{left:.1f} {top:.1f} {width:.1f} {height:.1f}" '
        f'style="--width:{width / EM:.3f}em"><title>{escape(alt)}</title>'
    ]
    frames, texts = [], []
    for item in items:
        box = boxes[item.name]
        middle, centre = (box.left + box.right) / 2, (box.top + box.bottom) / 2
        marks = next((kind for kind, names in look.items() if item.name in names), "plain")
        spans = item.start != item.stop
        if not item.bare:
            frames.append(
                (
                    -(box.right - box.left) * (box.bottom - box.top) if spans else 0.0,
                    f'<rect class="box {marks}" x="{box.left:.1f}" y="{box.top:.1f}" rx="6" '
                    f'width="{box.right - box.left:.1f}" height="{box.bottom - box.top:.1f}"/>',
                )
            )
        start = centre - (len(item.lines) - 1) * _LINE / 2 + 5
        for number, line in enumerate(item.lines):
            second = " second" if number and not item.bare else ""
            kind = "bare" if item.bare else "box-text"
            texts.append(draw(line, middle, start + number * _LINE, _FONT, kind + second))
    # Wide boxes lie behind those that stand on them.
    parts += [frame for _, frame in sorted(frames, key=lambda frame: frame[0])]
    return "".join([*parts, *lines, *texts]) + "</svg>"


class Diagram(FigureDirective):
    """Boxes and arrows."""

    option_spec: ClassVar[dict[str, Callable[[str], object]]] = {
        **FigureDirective.option_spec,
        "accent": str.split,
        "quiet": str.split,
        "width": float,
        "gap": float,
    }

    def drawing(self) -> str:
        """The figure in a box of its own that scrolls where the screen is too narrow."""
        items, arrows = read_diagram(list(self.content), self.config.language)
        look = {kind: set(self.options.get(kind, [])) for kind in ("accent", "quiet")}
        unknown = set().union(*look.values()) - {item.name for item in items}
        if unknown:
            raise ValueError(f"no box is named {', '.join(sorted(unknown))}")
        least, gap = self.options.get("width", 0.0) * EM, self.options.get("gap", 2.0) * EM
        drawing = draw_diagram(items, arrows, self.options["alt"], look, least, gap)
        return f'<div class="diagrams">{drawing}</div>'


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("diagram", Diagram)
