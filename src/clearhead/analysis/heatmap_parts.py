"""The parts of a heat map: the scale of its colours, its cells, its labels and its bar."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any, Literal

from clearhead.analysis.glyphs import drawable, families, width
from clearhead.base.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = [
    "MAP_SHARE",
    "Scale",
    "colour_norm",
    "draw_bar",
    "draw_cells",
    "draw_labels",
    "font_size",
    "new_figure",
    "one_line",
    "text_style",
]

Scale = Literal["linear", "log"]

MAP_SHARE = 0.72
"""Of the shorter side of a figure, the part that the map takes; the labels have the rest."""

_INK, _HIDDEN, _ZERO = "#1d2330", "#c9c9c4", "#f1efe8"
_LARGEST, _SMALLEST = 12.0, 5.0  # points of a label
_DECADES = 1e-5
"""The darkest colour of a logarithmic scale stands for this many times the palest, at most."""


def text_style() -> dict[str, Any]:
    """How every text is drawn, whatever the user's settings are."""
    return {"fontfamily": list(families()), "parse_math": False, "color": _INK}


def one_line(text: str) -> str:
    """A title or the name of an axis, with nothing in it that could be formatting; InputError as `drawable`."""
    return drawable([text], longest=200)[0]


def new_figure(figsize: tuple[float, float], dpi: int) -> Figure:
    """An empty figure of so many inches, which pyplot does not know of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Plain

    class Shown(Plain):
        """A figure that a notebook shows, though pyplot does not know of it."""

        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            self.savefig(written, format="png", dpi=100)
            return written.getvalue()

    figure = Shown(figsize=figsize, dpi=dpi, layout="compressed", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def colour_norm(
    weights: NDArray[np.float64],
    visible: NDArray[np.bool_] | None,
    scale: Scale,
    limits: tuple[float, float] | None,
) -> Any:
    """From weights to 0 … 1."""
    from matplotlib.colors import LogNorm, Normalize

    read = weights if visible is None else weights[..., visible]
    lowest, highest = (float(read.min()), float(read.max())) if read.size else (0.0, 1.0)
    if scale == "linear":
        low, high = limits or (min(0.0, lowest), highest)
        return Normalize(low, high if high > low else low + 1.0)
    if scale != "log":
        raise InputError(f"scale: {scale!r}; choose 'linear' or 'log'")
    if lowest < 0:
        raise InputError(f"attn_weights: {lowest:.4g} has no logarithm; choose scale 'linear'")
    positive = read[read > 0]
    high = limits[1] if limits else highest
    high = high if high > 0 else 1.0
    low = limits[0] if limits else max(float(positive.min(initial=high)), high * _DECADES)
    if low <= 0:
        raise InputError(f"limits: {low:.4g} has no logarithm; give a smallest weight above 0")
    return LogNorm(low if low < high else high / 10, high, clip=True)


def draw_cells(axis: Any, weights: NDArray[np.float64], visible: NDArray[np.bool_] | None, norm: Any, cmap: str) -> Any:
    """The coloured cells of one head; what cannot be read is hatched, and a 0 without a logarithm is left out."""
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    if cmap not in colormaps:
        raise InputError(f"cmap: matplotlib has no colours named {cmap!r}; 'Blues' and 'cividis' are there")
    left_out = np.zeros(weights.shape, dtype=bool) if visible is None else ~visible
    if isinstance(norm, LogNorm):
        left_out = left_out | (weights <= 0)
    axis.set_facecolor(_ZERO)
    shown = np.ma.masked_array(weights, left_out)
    image = axis.imshow(shown, cmap=cmap, norm=norm, aspect="equal", interpolation="nearest")
    if visible is not None:
        _hatch(axis, visible)
    for side in axis.spines.values():
        side.set_color(_INK)
        side.set_linewidth(0.6)
    return image


def _hatch(axis: Any, visible: NDArray[np.bool_]) -> None:
    """One hatched strip for each run of cells in a row that the query may not read."""
    import numpy as np
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    strips = []
    for row, line in enumerate(~visible):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], line.astype(np.int8), [0]))))
        strips += [
            Rectangle((start - 0.5, row - 0.5), end - start, 1.0)
            for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        ]
    if strips:
        hatched = PatchCollection(strips, facecolor="white", edgecolor=_HIDDEN, linewidth=0, hatch="////")
        axis.add_collection(hatched)


def font_size(inches: tuple[float, float], shape: tuple[int, ...], across: int) -> float:
    """The size of the labels, in points: as large as the rows leave room, and never too small to read."""
    room = MAP_SHARE * min(inches) * 72 / max(shape)
    return max(_SMALLEST, min(_LARGEST if across == 1 else 9.0, 0.85 * room))


def draw_labels(axis: Any, rows: list[str], columns: list[str], size: float, inches: tuple[float, float]) -> None:
    """A label at every row and column, or at every so many where they would touch one another."""
    cell = MAP_SHARE * min(inches) * 72 / max(len(rows), len(columns))  # points
    every = max(1, math.ceil(1.05 * size / cell))
    level = max(map(width, columns)) * size < 0.95 * cell
    axis.set_xticks(range(0, len(columns), every))
    axis.set_xticklabels(columns[::every], rotation=0 if level else 90, fontsize=size, **text_style())
    axis.set_yticks(range(0, len(rows), every))
    axis.set_yticklabels(rows[::every], fontsize=size, **text_style())
    axis.tick_params(length=2.5, width=0.6, color=_INK)


def draw_bar(figure: Figure, image: Any, axes: list[Any], label: str) -> None:
    """The colours and their numbers beside `axes`."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    bar = figure.colorbar(image, ax=axes, shrink=0.82, pad=0.02)
    if isinstance(image.norm, LogNorm):
        bar.ax.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 3.0)))
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    bar.set_label(one_line(label), fontsize=11, **text_style())
    bar.outline.set_linewidth(0.6)
    bar.ax.tick_params(labelsize=10, labelcolor=_INK, labelfontfamily=families()[0], width=0.6, color=_INK)
