"""The cost of a layer over the length of its text, with the points where one term overtakes another."""

from __future__ import annotations

import io
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

from clearhead.analysis.crossover import LayerCost
from clearhead.base.errors import InputError
from clearhead.base.files import atomic_write

__all__ = ["check_plot", "draw_crossovers"]

FORMATS = ("png", "svg")
INK, FAINT = "#1f2933", "#d5dbe1"
TERMS = {
    "attention": ("scores and mixing, grows with n²", "#c2410c"),
    "projections": ("projections", "#0b69a3"),
    "feed-forward": ("feed-forward", "#15803d"),
    "linear": ("all linear terms", "#6d28d9"),
}
MET = {
    "attention = its own projections": "projections",
    "attention = feed-forward": "feed-forward",
    "attention = all linear terms": "linear",
}
"""Which curve `LayerCost.crossovers` says that the quadratic term meets."""


def check_plot(image: Path) -> None:
    """Raises InputError if `image` cannot be drawn: not PNG or SVG by its name, or no matplotlib."""
    if image.suffix.lower()[1:] not in FORMATS:
        raise InputError(f"{image}: a plot is PNG or SVG; give it a name that ends in .png or .svg")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(f"{image}: a plot needs matplotlib (pip install 'clearhead[plots]')") from None


def draw_crossovers(costs: dict[str, LayerCost], d_model: int, image: Path, title: str) -> None:
    """One panel for each of `costs`: the operations of a layer over n, both logarithmic, to beyond the last crossover.

    Written whole or not at all, and to the same bytes each time. Raises what `check_plot` raises, and InputError if
    the file cannot be written.
    """
    check_plot(image)
    import matplotlib as mpl
    from matplotlib import font_manager
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    written = io.BytesIO()
    kind = image.suffix.lower()[1:]
    family = ["DejaVu Sans", *sorted(name for name in font_manager.get_font_names() if "CJK SC" in name)]
    look: Any = {"font.family": family, "svg.hashsalt": "clearhead", "svg.fonttype": "path"}
    with mpl.rc_context(look), warnings.catch_warnings():
        # A character of the model's name that no installed font has is drawn as a box; that is no reason to complain.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(5.6 * len(costs), 4.6), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title, fontsize=12, fontweight="bold", color=INK)
        axes = figure.subplots(1, len(costs), squeeze=False, sharey=True)[0]
        last = max(256.0, 6 * max(float(length) for cost in costs.values() for length in _met(cost).values()))
        for axis, (name, cost) in zip(axes, costs.items(), strict=True):
            _panel(axis, name, cost, d_model, _spread(16, last))
        axes[0].set_ylabel("operations in one layer", fontsize=9, color=INK)
        figure.savefig(written, format=kind, metadata={"Date": None} if kind == "svg" else None)
    atomic_write(image, written.getvalue())


def _met(cost: LayerCost) -> dict[str, Fraction]:
    """Where the quadratic term meets each curve."""
    crossovers = cost.crossovers()
    return {term: crossovers[question] for question, term in MET.items()}


def _panel(axis: Any, name: str, cost: LayerCost, d_model: int, lengths: list[float]) -> None:
    curves = {
        "attention": [cost.attention * n * n for n in lengths],
        "projections": [cost.projections * n for n in lengths],
        "feed-forward": [cost.feedforward * n for n in lengths],
        "linear": [(cost.projections + cost.feedforward) * n for n in lengths],
    }
    hidden = cost.projections == cost.feedforward  # then one curve would lie on the other
    for term, values in curves.items():
        label, colour = TERMS[term]
        dashes = (0, (4, 4)) if hidden and term == "feed-forward" else "solid"
        axis.plot(lengths, values, color=colour, lw=2.4 if term == "attention" else 1.6, linestyle=dashes, label=label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    seen = {float(length): TERMS[term][1] for term, length in _met(cost).items()}
    for rank, (length, colour) in enumerate(sorted(seen.items(), reverse=True)):
        _mark(
            axis,
            length,
            cost.attention * length * length,
            colour,
            f"n = {length:,.6g} = {length / d_model:.3g}·d",
            rank,
        )
    _furnish(axis, f"{name} layer", lengths)


def _mark(axis: Any, length: float, height: float, colour: str, text: str, rank: int) -> None:
    """A dot where two curves meet, a line down to its length, and what that length is, `rank` lines above the axis."""
    axis.plot([length], [height], marker="o", ms=6, color=colour, zorder=5)
    axis.plot([length, length], [0.0, height], color=colour, lw=0.9, linestyle=":", zorder=1)
    axis.annotate(
        text,
        (length, 0.0),
        xycoords=("data", "axes fraction"),
        xytext=(5, 6 + 16 * rank),
        textcoords="offset points",
        fontsize=8.5,
        color=colour,
        fontweight="bold",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )


def _furnish(axis: Any, title: str, lengths: list[float]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_title(title, fontsize=10, color=INK)
    axis.set_xlabel("n, tokens", fontsize=9, color=INK)
    axis.set_xlim(lengths[0], lengths[-1])
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(True, color=FAINT, lw=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(colors=INK, labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(FAINT)
    axis.legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="upper left")


def _spread(first: float, last: float, count: int = 80) -> list[float]:
    """Numbers from `first` to `last`, each the same factor above the one before."""
    factor = (last / first) ** (1 / (count - 1))
    return [first * factor**step for step in range(count)]
