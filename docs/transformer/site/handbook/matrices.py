"""`matrices`: blocks of numbers, coloured by size, with the operators between them, as inline SVG."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from handbook import values
from handbook.numbers import typeset
from handbook.svg import EM, Run, draw, escape, measure, plain, read_runs
from handbook.words import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx

__all__ = ["Block", "FigureDirective", "draw_block", "read_blocks", "setup"]

_SIGNS = {"×", "+", "=", "→", "⊙", "−", "·"}
_LABEL = re.compile(r"(.*?)\s*<([^<>]+)>")
_CELL, _ROW, _SMALL, _FONT = 14.0, 30.0, 12.5, 15.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Block:
    """A matrix (label, fact, rows as they are written), or an operator alone (label, no rows)."""

    label: str
    fact: str = ""
    rows: list[list[str]] = field(default_factory=list)

    @property
    def is_operator(self) -> bool:
        """Whether this stands between matrices."""
        return not self.rows


def read_blocks(body: list[str]) -> list[Block]:
    """The blocks of a directive's body, which blank lines separate. Raises ValueError for a block of no known form."""
    blocks: list[Block] = []
    for chunk in re.split(r"\n\s*\n", "\n".join(body).strip()):
        lines = [line.strip() for line in chunk.splitlines()]
        if len(lines) == 1 and (lines[0] in _SIGNS or re.fullmatch(r"\[[^\]]+\]", lines[0])):
            blocks.append(Block(lines[0].strip("[]") if len(lines[0]) > 1 else lines[0]))
            continue
        head = _LABEL.fullmatch(lines[0])
        if head is None or len(lines) == 1:
            raise ValueError(f"a block begins with `label <fact>` and has rows below it: {lines[0]!r}")
        rows = [line.split() for line in lines[1:]]
        if len({len(row) for row in rows}) != 1:
            raise ValueError(f"the rows of {lines[0]!r} differ in length")
        blocks.append(Block(head[1], head[2].strip(), rows))
    return blocks


def _number(text: str) -> float:
    text = text.replace(",", "").replace("−", "-").replace("×10^", "e").rstrip("%")
    return float("-inf") if text == "-∞" else float(text)


def _cell_id(block: Block, row: int, column: int) -> str:
    value = values.fact(block.fact)
    if not isinstance(value, list):
        return block.fact if values.has_facts() else f"{block.fact}.{row}.{column}"
    if value and isinstance(value[0], list):
        return f"{block.fact}.{row}.{column}"
    return f"{block.fact}.{column if len(block.rows) == 1 else row}"


def _cell(block: Block, row: int, column: int, box: tuple[float, float, float], largest: float) -> str:
    """One cell, coloured by its value as a share of the largest of its block."""
    x, y, width = box
    shown = block.rows[row][column]
    value = _number(shown)
    identifier = _cell_id(block, row, column)
    exact = values.fact(identifier)
    tip = identifier if exact is None else f"{identifier} = {values.describe(exact)}"
    if value == float("-inf"):
        kind, strength = "forbidden", 1.0
    else:
        kind = "negative" if value < 0 else "positive"
        strength = 0.0 if value == 0 else 0.1 + 0.5 * abs(value) / largest
    return (
        f'<g class="cell"><title>{escape(tip)}</title>'
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_ROW:g}" '
        f'fill-opacity="{strength:.3g}"/>'
        f'<text data-fact="{escape(identifier)}" x="{x + width / 2:.1f}" y="{y + 20:.1f}" font-size="{_CELL:g}" '
        f'text-anchor="middle">{escape(typeset(shown))}</text></g>'
    )


def draw_block(block: Block, names: tuple[list[str], list[str]], language: str | None) -> str:
    """One matrix: label and shape, names of rows and columns where their number fits, brackets and cells."""
    rows, columns = len(block.rows), len(block.rows[0])
    row_names = [read_runs(name, language) for name in names[0]] if len(names[0]) == rows else []
    column_names = [read_runs(name, language) for name in names[1]] if len(names[1]) == columns else []
    label = read_runs(block.label, language)
    shape = f"{rows} × {columns}"
    longest = max(len(cell) for row in block.rows for cell in row)
    width = max([38.0, longest * 0.6 * _CELL + 16, *(measure(name, _SMALL) + 10 for name in column_names)])
    left = 8 + max([0.0, *(measure(name, _SMALL) + 8 for name in row_names)])
    top = 26.0 + (20 if column_names else 0)
    head = 1.12 * measure(label, _FONT) + measure([Run(shape)], _SMALL) + 12  # the label is bold, which is wider
    full = left + max(columns * width, head) + 8
    bottom = top + rows * _ROW
    largest = max((abs(v) for row in block.rows for v in map(_number, row) if v != float("-inf")), default=1) or 1
    say = words(language)
    spoken = " ".join(
        say["values"].format(row=number + 1, cells=", ".join(row)) for number, row in enumerate(block.rows)
    )
    parts = [
        f'<svg class="matrix" role="img" viewBox="0 0 {full:.1f} {bottom + 6:.1f}" '
        f'style="width:{full / EM:.3f}em;height:{(bottom + 6) / EM:.3f}em">',
        f"<title>{escape(plain(label))}, {shape}</title><desc>{escape(spoken)}</desc>",
        draw([*label, Run(shape, "shape")], left, 15, _FONT, "label", "start"),
    ]
    for column, name in enumerate(column_names):
        parts.append(draw(name, left + (column + 0.5) * width, top - 6, _SMALL, "quiet"))
    for row, name in enumerate(row_names):
        parts.append(draw(name, left - 8, top + row * _ROW + 20, _SMALL, "quiet", "end"))
    for row in range(rows):
        for column in range(columns):
            box = (left + column * width, top + row * _ROW, width)
            parts.append(_cell(block, row, column, box, largest))
    right = left + columns * width
    for x, inward in ((left - 3, 5), (right + 3, -5)):
        parts.append(
            f'<path class="bracket" d="M{x + inward:.1f} {top - 2:g}H{x:.1f}V{bottom + 2:g}H{x + inward:.1f}"/>'
        )
    return "".join(parts) + "</svg>"


class FigureDirective(SphinxDirective):
    """What figures that are written in the page have in common: text for those who cannot see them, and a caption."""

    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], object]]] = {
        "alt": directives.unchanged_required,
        "caption": directives.unchanged,
        "note": directives.unchanged,
        "name": directives.unchanged,
    }

    def drawing(self) -> str:
        """The figure's HTML. Raises ValueError for what cannot be drawn."""
        raise ValueError(f"{self.name} draws nothing")

    def run(self) -> list[nodes.Node]:
        """A figure node around the drawing."""
        try:
            if not self.options.get("alt"):
                raise ValueError(":alt: is required")
            markup = self.drawing()
        except ValueError as error:
            _log.warning("%s: %s", self.name, error, location=self.get_location())
            return []
        figure = nodes.figure("", nodes.raw("", markup, format="html"), classes=[f"figure-{self.name}"])
        self.set_source_info(figure)
        for option, kind in (("caption", nodes.caption), ("note", nodes.legend)):
            if option in self.options:
                inline, messages = self.state.inline_text(self.options[option], self.lineno)
                inside = [*inline, *messages]
                figure += kind("", "", *inside) if kind is nodes.caption else kind("", nodes.paragraph("", "", *inside))
        return [figure]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split("|")]


class Matrices(FigureDirective):
    """Matrices step by step."""

    option_spec: ClassVar[dict[str, Callable[[str], object]]] = {
        **FigureDirective.option_spec,
        "rows": _names,
        "columns": _names,
    }

    def drawing(self) -> str:
        """The blocks in a row that wraps; an operator keeps to the block behind it."""
        names = (self.options.get("rows", []), self.options.get("columns", []))
        steps: list[str] = []
        operator = ""
        for block in read_blocks(list(self.content)):
            if block.is_operator:
                kind = "sign" if block.label in _SIGNS else "step"
                operator += f'<span class="{kind}"><span>{escape(block.label)}</span></span>'
                continue
            steps.append(f'<div class="step-block">{operator}{draw_block(block, names, self.config.language)}</div>')
            operator = ""
        if operator:
            raise ValueError("an operator stands between two blocks")
        return f'<div class="matrices" role="group" aria-label="{escape(self.options["alt"])}">{"".join(steps)}</div>'


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("matrices", Matrices)
