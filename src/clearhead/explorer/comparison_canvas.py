"""One picture of the report: its colours, its fonts, and the files that it becomes."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from clearhead.base.errors import InputError
from clearhead.explorer.content import Both
from clearhead.training.curve import CJK_FONTS

__all__ = ["COLOURS", "INK", "Picture", "Style", "check_pictures", "label", "logarithmic", "picture", "style"]

INK, FAINT = "#1d2330", "#d8d6cf"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK, "#7f7f7f")
"""Okabe and Ito's palette (2008), without its yellow, which white paper swallows, and with grey."""
DARK = {INK: "#e7e9ee", FAINT: "#363d4a", "#0072b2": "#4fa3e0", "#d55e00": "#f08a4b", "#7f7f7f": "#a5a5a5"}
"""What takes the place of these colours on a dark page; the others are light enough for both."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
SIZE = (4.8, 3.9)


@dataclass(frozen=True)
class Style:
    """How a series looks: colour, marker and line differ together, so that none is needed to tell it."""

    colour: str
    marker: str
    line: Any


@dataclass(frozen=True)
class Picture:
    """A drawing: `name` is that of its PNG and CSV, `rows` are its numbers, the first of them the heads."""

    name: str
    caption: Both
    png: bytes
    light: str
    dark: str
    rows: list[list[object]]


def check_pictures() -> None:
    """Raises InputError if there is no matplotlib, before the long work."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError("the report needs matplotlib (pip install 'clearhead[plots]')") from None


def style(place: int) -> Style:
    """The look of series number `place`.

    >>> style(0).colour == style(8).colour, style(0) == style(8)
    (True, False)
    """
    marker = MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
    return Style(COLOURS[place % len(COLOURS)], marker, LINES[(place + place // len(COLOURS)) % len(LINES)])


def picture(
    name: str,
    caption: Both,
    rows: list[list[object]],
    draw: Callable[[Any], None],
    size: tuple[float, float] = SIZE,
) -> Picture:
    """Let `draw` fill the axes of a new figure, and write it as PNG and as SVG for a light and for a dark page."""
    check_pictures()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    look: Any = {
        "font.family": ["DejaVu Sans", *_chinese_fonts()],
        "svg.hashsalt": "clearhead",
        "svg.fonttype": "path",
        "text.parse_math": False,  # a word of the corpus may hold dollar signs
        "axes.unicode_minus": True,
    }
    with mpl.rc_context(look), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        _furnish(axis)
        draw(axis)
        _legend(figure, axis)
        drawn, vector = io.BytesIO(), io.StringIO()
        figure.savefig(drawn, format="png", dpi=160, facecolor="white")
        figure.set_layout_engine("none")  # where everything stands is decided, and costs as much as drawing it
        figure.savefig(vector, format="svg", transparent=True, metadata={"Date": None})
    light = vector.getvalue()
    dark = light
    for colour, other in DARK.items():
        dark = dark.replace(colour, other)
    return Picture(name, caption, drawn.getvalue(), light, dark, rows)


def label(words: Both, between: str = " · ") -> str:
    """Both languages on an axis, or English alone where no installed font has Chinese."""
    return f"{words.en}{between}{words.zh}" if _chinese_fonts() and words.en != words.zh else words.en


def logarithmic(axis: Any, base: int = 10) -> None:
    """Powers on the vertical axis as text, since mathematics is not parsed."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _power(value, base)))
    axis.yaxis.set_minor_formatter(NullFormatter())


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(value: float, base: int) -> str:
    if value <= 0:
        return ""
    exponent = round(math.log(value, base))
    return f"{value:g}" if abs(exponent) <= 2 else f"{base}{str(exponent).translate(SUPERSCRIPTS)}"


@cache
def _chinese_fonts() -> tuple[str, ...]:
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return tuple(name for name in CJK_FONTS if name in installed)


def _furnish(axis: Any) -> None:
    axis.grid(True, color=FAINT, lw=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(colors=INK, labelsize=9)
    for name in ("top", "right"):
        axis.spines[name].set_visible(False)
    for name in ("left", "bottom"):
        axis.spines[name].set_color(FAINT)
    for side in (axis.xaxis, axis.yaxis):
        side.label.set_color(INK)
        side.label.set_fontsize(9.5)


def _legend(figure: Any, axis: Any) -> None:
    """Below the drawing, so that it hides nothing."""
    handles, names = axis.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=8.5, labelcolor=INK,
            handlelength=3.2,
        )  # fmt: skip
