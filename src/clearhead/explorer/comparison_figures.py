"""The pictures of the report, each with the numbers that it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from clearhead.explorer.comparison_canvas import INK, Picture, label, picture, style
from clearhead.explorer.comparison_findings import Findings
from clearhead.explorer.comparison_words import AXES, GROUP_TITLES, GROUPS, NAMES_AXES, PICTURES
from clearhead.explorer.content import Both
from clearhead.recipes.compare.results import CurvePoint, LengthScore, ModelResult

__all__ = ["choice_pictures", "curve_pictures", "length_pictures"]

STORY = ("transformer", "seq2seq", "seq2seq-reversed", "encdec", "rnnsearch", "luong", "convs2s", "bytenet")
"""The models that the lines are drawn of, in the order of their colours; the variants are bars."""


def _story(found: Findings) -> list[tuple[int, ModelResult]]:
    return [(place, found.models[name]) for place, name in enumerate(STORY) if name in found.models]


def curve_pictures(found: Findings) -> list[Picture]:
    """The development loss by updates and by seconds of training."""
    models = [(place, each) for place, each in _story(found) if each.curve]
    if not models:
        return []
    rows: list[list[object]] = [["model", "update", "seconds", "dev_nll"]]
    rows += [[each.name, one.update, one.seconds, one.dev_nll] for _, each in models for one in each.curve]

    def drawn(name: str, across: Callable[[CurvePoint], float]) -> Picture:
        def draw(axis: Any) -> None:
            for place, model in models:
                look = style(place)
                axis.plot(
                    [across(one) for one in model.curve], [one.dev_nll for one in model.curve], color=look.colour,
                    marker=look.marker, ms=4, lw=1.7, linestyle=look.line, label=model.label,
                )  # fmt: skip
            axis.set_xlabel(label(AXES[name]))
            axis.set_ylabel(label(AXES["nll"], "\n"))

        return picture(name, PICTURES[name], rows, draw)

    return [
        drawn("curves-updates", lambda one: one.update),
        drawn("curves-seconds", lambda one: one.seconds),
    ]


def length_pictures(found: Findings) -> list[Picture]:
    """BLEU by source length with intervals, on the test set and on joined captions."""
    shown = [
        _by_length("lengths-test", _story(found), lambda model: model.by_length),
        _by_length("lengths-joined", _story(found), lambda model: model.long_by_length),
    ]
    return [each for each in shown if each is not None]


def _by_length(
    name: str, models: Sequence[tuple[int, ModelResult]], take: Callable[[ModelResult], list[LengthScore]]
) -> Picture | None:
    lows = sorted({each.low for _, model in models for each in take(model)})
    if not lows:
        return None
    at = {low: place for place, low in enumerate(lows)}
    buckets = {each.low: each for _, model in models for each in take(model)}
    rows: list[list[object]] = [["model", "words_from", "words_to", "sentences", "bleu", "low", "high", "chrf"]]
    for _, model in models:
        for each in take(model):
            scores = [each.bleu.value, each.bleu.low, each.bleu.high, each.chrf] if each.available else ["n/a"] * 4
            rows.append([model.name, each.low, "" if each.high is None else each.high, each.sentences, *scores])

    def draw(axis: Any) -> None:
        for order, (place, model) in enumerate(models):
            scores = [each for each in take(model) if each.available and each.sentences]
            look = style(place)
            # Beside each other within a bucket, so that the intervals can be told apart.
            shift = (order - (len(models) - 1) / 2) * 0.07
            axis.errorbar(
                [at[each.low] + shift for each in scores], [each.bleu.value for each in scores],
                yerr=_errors([(each.bleu.value, each.bleu.low, each.bleu.high) for each in scores]),
                color=look.colour, marker=look.marker, ms=4.5, lw=1.7, linestyle=look.line, elinewidth=0.9,
                label=model.label,
            )  # fmt: skip
        names = [_bucket(buckets[low]) for low in lows]
        axis.set_xticks(range(len(lows)), names, rotation=30 if len(lows) > 6 else 0)
        axis.set_xlabel(label(AXES["length"]))
        axis.set_ylabel("BLEU")
        axis.set_ylim(bottom=0)

    return picture(name, PICTURES[name], rows, draw)


def _bucket(score: LengthScore) -> str:
    words = f"{score.low}+" if score.high is None else f"{score.low}–{score.high}"
    return f"{words}\n({score.sentences})"


def _errors(values: Sequence[tuple[float, float, float]]) -> list[list[float]]:
    """How far an interval reaches to either side; a bootstrap's may lie beside its score."""
    below = [max(0.0, value - low) for value, low, _ in values]
    return [below, [max(0.0, high - value) for value, _, high in values]]


def choice_pictures(found: Findings) -> list[Picture]:
    """Bars with intervals, a picture for each choice that has at least two models."""
    shown = []
    for name, members in GROUPS.items():
        models = [(text, found.models[member]) for member, text in members if member in found.models]
        if len(models) > 1:
            shown.append(_bars(name, models))
    return shown


def _bars(name: str, models: Sequence[tuple[Both, ModelResult]]) -> Picture:
    rows: list[list[object]] = [["choice", "model", "bleu", "low", "high"]]
    rows += [[text.en, each.name, each.bleu.value, each.bleu.low, each.bleu.high] for text, each in models]
    values = [(each.bleu.value, each.bleu.low, each.bleu.high) for _, each in models]

    def draw(axis: Any) -> None:
        from matplotlib.colors import to_rgba

        places = range(len(models))
        colours = [style(place).colour for place in places]
        axis.bar(
            places, [value for value, _, _ in values], width=0.62, edgecolor=colours, linewidth=1.2,
            color=[to_rgba(colour, 0.45) for colour in colours], yerr=_errors(values), capsize=4,
            error_kw={"ecolor": INK, "elinewidth": 1.2},
        )  # fmt: skip
        top = max(max(high, value) for value, _, high in values)
        for place, (value, _, high) in zip(places, values, strict=True):
            axis.text(
                place, max(value, high) + 0.02 * (top or 1.0), f"{value:.1f}", ha="center", va="bottom", fontsize=9.5,
                color=INK,
            )  # fmt: skip
        axis.set_xticks(list(places), [label(text, "\n") for text, _ in models], fontsize=8.5)
        axis.set_ylim(0, (top or 1.0) * 1.12)
        axis.grid(False, axis="x")
        axis.set_ylabel("BLEU")
        axis.set_xlabel(label(NAMES_AXES[name]))

    return picture(f"choice-{name}", GROUP_TITLES[name], rows, draw, (4.2, 3.4))
