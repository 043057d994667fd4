"""The pictures of how the models work: gradients through time, times of layers, and alignment matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from clearhead.analysis.gradients import GradientCurve
from clearhead.analysis.layer_times import LayerTime, crossovers
from clearhead.explorer.comparison_canvas import INK, Picture, label, logarithmic, picture, style
from clearhead.explorer.comparison_findings import Findings
from clearhead.explorer.comparison_words import AXES, CURVES, LAYERS, PICTURES
from clearhead.explorer.content import Both
from clearhead.recipes.compare.results import AlignmentMatrix

__all__ = ["gradient_pictures", "layer_pictures", "matrix_pictures"]

FLOOR = 1e-12
"""Smaller norms are not drawn: to a text they are zero, and they would press all else together."""
WORD, WORDS = 14, 40
"""As many letters of a word, and words of a sentence, as a matrix has room for."""


def gradient_pictures(found: Findings) -> list[Picture]:
    """Norms against distance: at first, trained, and by spectral radius."""
    plain = [each for each in found.gradients if each.radius is None]
    groups = {
        "gradients-initial": [each for each in plain if not each.trained],
        "gradients-trained": [each for each in plain if each.trained],
        "gradients-radius": [each for each in found.gradients if each.radius is not None],
    }
    return [_norms(name, curves) for name, curves in groups.items() if curves]


def _norms(name: str, curves: Sequence[GradientCurve]) -> Picture:
    rows: list[list[object]] = [["name", "state", "trained", "radius", "distance", "median", "low", "high"]]
    for each in curves:
        columns = zip(each.distances, each.median, each.low, each.high, strict=True)
        radius = "" if each.radius is None else each.radius
        rows += [[each.name, each.state, each.trained, radius, *column] for column in columns]

    def draw(axis: Any) -> None:
        for place, each in enumerate(curves):
            look = style(place)
            points = [
                column
                for column in zip(each.distances, each.median, each.low, each.high, strict=True)
                if column[1] >= FLOOR
            ]
            if not points:
                continue
            distances, medians, lows, highs = zip(*points, strict=True)
            axis.plot(
                distances, medians, color=look.colour, lw=1.7, linestyle=look.line, marker=look.marker, ms=4.5,
                markevery=(place * 3 % 20, 20), label=_curve_name(each),
            )  # fmt: skip
            floored = [max(low, FLOOR) for low in lows]
            axis.fill_between(distances, floored, highs, color=look.colour, alpha=0.13, lw=0)
        logarithmic(axis)
        axis.set_ylim(bottom=max(FLOOR, axis.get_ylim()[0]))
        axis.set_xlabel(label(AXES["distance"]))
        axis.set_ylabel(label(AXES["norm"], "\n"))

    return picture(name, PICTURES[name], rows, draw)


def _curve_name(curve: GradientCurve) -> str:
    name = CURVES.get(curve.name, curve.name)
    return name if curve.radius is None else f"{name}, ρ = {curve.radius:g}"


def layer_pictures(found: Findings) -> list[Picture]:
    """Measured seconds against n with the crossovers, and the counted steps that wait for one another."""
    if not found.layers:
        return []
    kinds = list(dict.fromkeys(each.layer for each in found.layers))
    rows: list[list[object]] = [
        ["layer", "n", "d", "sequential", "path", "table_1_operations", "flops", "seconds", "low", "high"]
    ]
    for each in found.layers:
        counted = [each.sequential, each.path, each.operations, each.flops]
        rows.append([each.layer, each.length, each.width, *counted, each.seconds, each.low, each.high])

    def line(axis: Any, place: int, times: Sequence[LayerTime], values: Sequence[float]) -> None:
        look = style(place)
        axis.plot(
            [each.length for each in times], values, color=look.colour, marker=look.marker, ms=4.5, lw=1.7,
            linestyle=look.line, label=LAYERS.get(times[0].layer, times[0].layer),
        )  # fmt: skip

    def times_of(kind: str) -> list[LayerTime]:
        return sorted((each for each in found.layers if each.layer == kind), key=lambda each: each.length)

    def measured(axis: Any) -> None:
        for place, kind in enumerate(kinds):
            times = times_of(kind)
            line(axis, place, times, [1000 * each.seconds for each in times])
        own = {each.length: 1000 * each.seconds for each in times_of("self-attention")}
        for crossing in crossovers(found.layers):
            if crossing.measured is not None:
                height = _between(own, crossing.measured)
                axis.plot([crossing.measured], [height], marker="o", ms=11, mfc="none", mec=INK, mew=1.4, ls="none")
                axis.annotate(
                    f"{crossing.measured:,.0f}", (crossing.measured, height), xytext=(7, -11),
                    textcoords="offset points", fontsize=8.5, color=INK,
                )  # fmt: skip
        _tokens(axis, found.layers)
        axis.set_ylabel(label(AXES["milliseconds"], "\n"))

    def steps(axis: Any) -> None:
        for place, kind in enumerate(kinds):
            times = times_of(kind)
            line(axis, place, times, [each.sequential for each in times])
        _tokens(axis, found.layers)
        axis.set_ylabel(label(AXES["steps"], "\n"))

    return [
        picture("layers-time", PICTURES["layers-time"], rows, measured),
        picture("layers-steps", PICTURES["layers-steps"], rows, steps),
    ]


def _between(values: dict[int, float], length: float) -> float:
    """The height of a curve between two of its points, on logarithmic scales."""
    below = max((each for each in values if each <= length), default=min(values))
    above = min((each for each in values if each >= length), default=max(values))
    if below == above:
        return values[below]
    share = (math.log(length) - math.log(below)) / (math.log(above) - math.log(below))
    return math.exp(math.log(values[below]) * (1 - share) + math.log(values[above]) * share)


def _tokens(axis: Any, times: Sequence[LayerTime]) -> None:
    from matplotlib.ticker import NullLocator

    lengths = sorted({each.length for each in times})
    axis.set_xscale("log", base=2)
    axis.set_xticks(lengths, [str(each) for each in lengths])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel(label(AXES["tokens"]))
    logarithmic(axis)


def matrix_pictures(found: Findings) -> list[Picture]:
    """One matrix each, in the order in which they were written: the models of a sentence side by side."""
    matrices = found.alignments.matrices if found.alignments is not None else []
    drawn = [(place, each) for place, each in enumerate(matrices, start=1) if each.source and each.target]
    return [_matrix(f"alignment-{place}", each) for place, each in drawn]


def _matrix(name: str, matrix: AlignmentMatrix) -> Picture:
    rows: list[list[object]] = [["target \\ source", *matrix.source]]
    rows += [[word, *weights] for word, weights in zip(matrix.target, matrix.weights, strict=True)]
    source, target = matrix.source[:WORDS], matrix.target[:WORDS]

    def draw(axis: Any) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        # From clear to blue: what is not attended to shows the page, light or dark.
        shades = LinearSegmentedColormap.from_list("attention", [(0.0, 0.447, 0.698, 0.0), (0.0, 0.447, 0.698, 1.0)])
        weights = [row[: len(source)] for row in matrix.weights[: len(target)]]
        axis.pcolormesh(weights, cmap=shades, vmin=0, vmax=1, edgecolor="none")
        axis.set_xticks([place + 0.5 for place in range(len(source))], [_cut(word) for word in source], rotation=60)
        axis.set_yticks([place + 0.5 for place in range(len(target))], [_cut(word) for word in target])
        for tick in axis.get_xticklabels():
            tick.set_ha("left")
            tick.set_rotation_mode("anchor")
        axis.invert_yaxis()
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.grid(False)

    size = (1.9 + 0.3 * len(source), 1.5 + 0.27 * len(target))
    told = Both(f"{matrix.model}, {matrix.attention}", f"{matrix.model}，{matrix.attention}")
    return picture(name, told, rows, draw, size)


def _cut(word: str) -> str:
    """A word without control characters, which no font draws, and not too long."""
    shown = "".join(letter if letter.isprintable() else "·" for letter in word)
    return shown if len(shown) <= WORD else shown[: WORD - 1] + "…"
