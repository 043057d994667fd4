"""Arrows between the boxes of a diagram: straight where boxes face each other, else curved around what lies between."""

from __future__ import annotations

import math
from dataclasses import dataclass

from handbook.svg import Run, draw, measure

__all__ = ["Arrow", "Box", "draw_arrows"]

Point = tuple[float, float]
_HEAD, _LEAST = 8.0, 8.0


@dataclass(frozen=True)
class Box:
    """A rectangle of the figure, in units."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def middle(self) -> Point:
        """The centre."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def meets(self, other: Box) -> bool:
        """Whether the two share a point."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def around(self, points: list[Point]) -> Box:
        """The least rectangle that holds this one and the points."""
        xs, ys = [x for x, _ in points], [y for _, y in points]
        return Box(min(self.left, *xs), min(self.top, *ys), max(self.right, *xs), max(self.bottom, *ys))


@dataclass(frozen=True)
class Arrow:
    """From one box to another: kind `->`, `-->` (dashed) or `--` (no head)."""

    first: str
    second: str
    kind: str
    label: list[Run]


@dataclass(frozen=True)
class _Route:
    """A cubic curve; the label stands beside its middle: `above`, `right` or `on` it."""

    points: tuple[Point, Point, Point, Point]
    side: str

    def at(self, t: float) -> Point:
        a, b, c, d = self.points
        u = 1 - t
        weights = (u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t)
        x, y = (sum(w * p[axis] for w, p in zip(weights, (a, b, c, d), strict=True)) for axis in (0, 1))
        return x, y

    def crosses(self, boxes: list[Box]) -> bool:
        """Whether the curve runs over one of the boxes."""
        points = [self.at(step / 24) for step in range(25)]
        return any(box.meets(Box(x, y, x, y)) for box in boxes for x, y in points)


def draw_arrows(arrows: list[Arrow], boxes: dict[str, Box], size: float) -> tuple[list[str], Box]:
    """The arrows' SVG, labels last so that no line crosses them, and the room that they take."""
    lines: list[str] = []
    labels: list[str] = []
    extent = next(iter(boxes.values()))
    flow = _flow(arrows, boxes)
    pairs = {(arrow.first, arrow.second) for arrow in arrows}
    for arrow in arrows:
        first, second = boxes[arrow.first], boxes[arrow.second]
        others = [box for name, box in boxes.items() if name not in (arrow.first, arrow.second)]
        shift = 6.0 if (arrow.second, arrow.first) in pairs and arrow.first != arrow.second else 0.0
        route = _route(first, second, others, shift, flow)
        lines.append(_path(route, arrow.kind))
        extent = extent.around([route.at(step / 8) for step in range(9)])
        if arrow.label:
            text, room = _label(route, arrow.label, size)
            labels.append(text)
            extent = extent.around([(room.left, room.top), (room.right, room.bottom)])
    return lines + labels, extent


def _flow(arrows: list[Arrow], boxes: dict[str, Box]) -> int:
    """1 where most arrows of the figure point down, −1 where most point up, 0 where most point across."""
    down = up = across = 0
    for arrow in arrows:
        first, second = boxes[arrow.first], boxes[arrow.second]
        if min(first.right, second.right) > max(first.left, second.left):
            down += first.bottom < second.top
            up += second.bottom < first.top
        across += min(first.bottom, second.bottom) > max(first.top, second.top)
    if across >= max(down, up):
        return 0
    return 1 if down > up else -1


def _route(first: Box, second: Box, others: list[Box], shift: float, flow: int) -> _Route:
    (x1, y1), (x2, y2) = first.middle, second.middle
    if first == second:
        reach = first.right + 34
        return _Route(((first.right, y1 - 9), (reach, y1 - 22), (reach, y1 + 22), (first.right, y1 + 9)), "right")
    low, high = max(first.top, second.top), min(first.bottom, second.bottom)
    near, far = max(first.left, second.left), min(first.right, second.right)
    if high - low > _LEAST and far < near:
        start, end = (first.right, second.left) if x1 < x2 else (first.left, second.right)
        y = y1 if low < y1 < high else y2 if low < y2 < high else (low + high) / 2
        y += shift if x1 < x2 else -shift
        between = [box for box in others if box.meets(Box(min(start, end), y - 1, max(start, end), y + 1))]
        if not between:
            return _straight((start, y), (end, y), "above")
        top = min(first.top, second.top, *(box.top for box in between)) - 26
        over = (x1, top - (first.top - top) / 3), (x2, top - (second.top - top) / 3)
        return _Route(((x1, first.top), *over, (x2, second.top)), "above")
    if far - near > _LEAST and high < low:
        start, end = (first.bottom, second.top) if y1 < y2 else (first.top, second.bottom)
        x = x1 if near < x1 < far else x2 if near < x2 < far else (near + far) / 2
        x += shift if y1 < y2 else -shift
        between = [box for box in others if box.meets(Box(x - 1, min(start, end), x + 1, max(start, end)))]
        if not between:
            return _straight((x, start), (x, end), "right")
        side = max(first.right, second.right, *(box.right for box in between)) + 26
        beyond = (side + (side - first.right) / 3, y1), (side + (side - second.right) / 3, y2)
        return _Route(((first.right, y1), *beyond, (second.right, y2)), "right")
    across, down = near - far, low - high
    widths = sorted((first.right - first.left, second.right - second.left))
    # Along the flow of the figure, and into a wide box, an arrow goes from edge to edge rather than from side to side.
    along = flow * (y2 - y1) > 0 or widths[1] > 1.8 * widths[0]
    if across >= min(down, 30) and not (along and down >= 20):
        begin, finish = (first.right, second.left) if x1 < x2 else (first.left, second.right)
        bend = (begin + finish) / 2
        route = _Route(((begin, y1), (bend, y1), (bend, y2), (finish, y2)), "on")
        if down < 12 or not route.crosses(others):
            return route
    x1, x2 = _within(first, x1, x2), _within(second, x2, x1)
    begin, finish = (first.bottom, second.top) if y1 < y2 else (first.top, second.bottom)
    bend = (begin + finish) / 2
    return _Route(((x1, begin), (x1, bend), (x2, bend), (x2, finish)), "on")


def _within(box: Box, own: float, other: float) -> float:
    """Where on its top or bottom a box is met: its middle, or for a wide box the place nearest to the other box."""
    slack = max(0.0, (box.right - box.left) / 2 - 24)
    return min(max(other, own - slack), own + slack)


def _straight(start: Point, end: Point, side: str) -> _Route:
    third = ((2 * start[0] + end[0]) / 3, (2 * start[1] + end[1]) / 3)
    rest = ((start[0] + 2 * end[0]) / 3, (start[1] + 2 * end[1]) / 3)
    return _Route((start, third, rest, end), side)


def _path(route: _Route, kind: str) -> str:
    a, b, c, d = route.points
    head = ""
    if kind != "--":
        angle = math.atan2(d[1] - c[1], d[0] - c[0])
        cosine, sine = math.cos(angle), math.sin(angle)
        back = (d[0] - _HEAD * cosine, d[1] - _HEAD * sine)
        wing = (_HEAD * 0.45 * sine, _HEAD * 0.45 * cosine)
        head = (
            f'<path class="head" d="M{d[0]:.1f} {d[1]:.1f}L{back[0] - wing[0]:.1f} {back[1] + wing[1]:.1f}'
            f'L{back[0] + wing[0]:.1f} {back[1] - wing[1]:.1f}Z"/>'
        )
        d = (d[0] - 0.8 * _HEAD * cosine, d[1] - 0.8 * _HEAD * sine)
    marks = "arrow dashed" if kind == "-->" else "arrow"
    curve = f"M{a[0]:.1f} {a[1]:.1f}C{b[0]:.1f} {b[1]:.1f} {c[0]:.1f} {c[1]:.1f} {d[0]:.1f} {d[1]:.1f}"
    return f'<path class="{marks}" d="{curve}"/>{head}'


def _label(route: _Route, label: list[Run], size: float) -> tuple[str, Box]:
    x, y = route.at(0.5)
    wide = measure(label, size)
    if route.side == "above":
        text = draw(label, x, y - 6, size, "arrow-text")
        return text, Box(x - wide / 2, y - 6 - size, x + wide / 2, y - 2)
    if route.side == "right":
        text = draw(label, x + 7, y + size / 3, size, "arrow-text", "start")
        return text, Box(x + 7, y - size / 2, x + 9 + wide, y + size / 2)
    return draw(label, x, y + size / 3, size, "arrow-text on-line"), Box(x - wide / 2, y - size, x + wide / 2, y + size)
