"""The learning curve as a PNG: loss and development scores over the updates."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

from clearhead.base.log import logger
from clearhead.training.events import read_metrics
from clearhead.training.progress import Outcome, Validated
from clearhead.training.trainer import Handler, Trainer

__all__ = ["LearningCurve", "draw_curve"]

INK, FAINT = "#1f2933", "#d5dbe1"
SPARING = 50
CJK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "SimHei",
)
TRAIN, DEV, BLEU, CHRF = "#9fb3c8", "#0b69a3", "#c2410c", "#6d28d9"


class LearningCurve(Handler):
    """Redraws the PNG after validations (in at most 2 % of the time) and at the end. Needs matplotlib, or says so."""

    name = "curve"

    def __init__(self, metrics: Path, image: Path, title: str) -> None:
        self.metrics = metrics
        self.image = image
        self.title = title
        self._able = True
        self._drawn_at = 0.0
        self._cost = 0.0

    def validated(self, trainer: Trainer, result: Validated) -> None:
        # Drawing takes some tenths of a second; a run of many quick validations must not spend its time on pictures.
        if time.perf_counter() - self._drawn_at >= SPARING * self._cost:
            self._draw()

    def ended(self, trainer: Trainer, outcome: Outcome) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._able:
            begun = time.perf_counter()
            try:
                draw_curve(self.metrics, self.image, self.title)
            except ImportError:
                self._able = False
                logger.info("no learning curve: matplotlib is not installed (pip install 'clearhead[plots]')")
            except OSError as error:  # a picture is no reason to stop
                logger.warning("%s: not drawn: %s", self.image, error.strerror or error)
            self._drawn_at = time.perf_counter()
            self._cost = self._drawn_at - begun


def draw_curve(metrics: Path, image: Path, title: str) -> None:
    """Draw `metrics` (a metrics.jsonl) to `image`; no file without a line to draw.

    Raises ImportError without matplotlib.
    """
    import matplotlib as mpl
    from matplotlib import font_manager

    lines = read_metrics(metrics)
    if not any("nll" in line or "dev_nll" in line for line in lines):
        return
    installed = set(font_manager.fontManager.get_font_names())
    family = ["DejaVu Sans", *(font for font in CJK_FONTS if font in installed)]
    temporary = image.with_name(f".{image.name}.drawing.png")
    with mpl.rc_context({"font.family": family}), warnings.catch_warnings():
        # A character of the run's name that no installed font has is drawn as a box; that is no reason to complain.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        try:
            _figure(lines, title).savefig(temporary)
            temporary.replace(image)
        finally:
            temporary.unlink(missing_ok=True)


def _figure(lines: list[dict[str, Any]], title: str) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    train = [line for line in lines if "nll" in line]
    dev = [line for line in lines if "dev_nll" in line]
    scored = [line for line in dev if "dev_bleu" in line]
    figure = Figure(figsize=(10 if scored else 6.4, 4.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2 if scored else 1, squeeze=False)[0]
    figure.suptitle(title, fontsize=13, fontweight="bold", color=INK)
    _draw_nll(axes[0], train, dev)
    if scored:
        _draw_scores(axes[1], scored)
    for axis in axes:
        _furnish(axis, lines)
    return figure


def _draw_nll(axis: Any, train: list[dict[str, Any]], dev: list[dict[str, Any]]) -> None:
    axis.set_title("perplexity per token (log scale)", fontsize=10, color=INK)
    axis.set_yscale("log")
    if train:
        axis.plot(_x(train), [line["perplexity"] for line in train], color=TRAIN, lw=1.2, label="train (with dropout)")
    if dev:
        values = [line["dev_perplexity"] for line in dev]
        axis.plot(_x(dev), values, color=DEV, lw=2, marker="o", ms=3.5, label="development")
        best = min(range(len(values)), key=values.__getitem__)
        _mark(axis, dev[best]["update"], values[best], f"{values[best]:.2f}", DEV, above=False)
    from matplotlib.ticker import FuncFormatter, LogLocator

    axis.margins(x=0.04, y=0.1)
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"))
    axis.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    axis.legend(frameon=False, fontsize=9, labelcolor=INK)


def _draw_scores(axis: Any, scored: list[dict[str, Any]]) -> None:
    axis.set_title("development set, translated", fontsize=10, color=INK)
    for name, label, colour in (("dev_bleu", "BLEU", BLEU), ("dev_chrf", "chrF", CHRF)):
        found = [line for line in scored if name in line]
        if not found:
            continue
        values = [line[name] for line in found]
        axis.plot(_x(found), values, color=colour, lw=2, marker="o", ms=3.5, label=label)
        best = max(range(len(values)), key=values.__getitem__)
        _mark(axis, found[best]["update"], values[best], f"{values[best]:.1f}", colour, above=True)
    top = max((line[name] for line in scored for name in ("dev_bleu", "dev_chrf") if name in line), default=0.0)
    axis.margins(x=0.06)
    axis.set_ylim(0, max(5.0, 1.15 * top))
    axis.legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower right")


def _x(lines: list[dict[str, Any]]) -> list[int]:
    return [line["update"] for line in lines]


def _mark(axis: Any, x: float, y: float, text: str, colour: str, *, above: bool) -> None:
    """Name the best point, beside the curve and not on it."""
    axis.annotate(
        text,
        (x, y),
        xytext=(0, 7 if above else -14),
        textcoords="offset points",
        ha="center",
        fontsize=9,
        fontweight="bold",
        color=colour,
    )


def _furnish(axis: Any, lines: list[dict[str, Any]]) -> None:
    """Updates below, minutes above, a quiet grid."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_xlabel("updates", color=INK)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.grid(True, color=FAINT, lw=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(colors=INK, labelsize=9)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(FAINT)
    last = lines[-1]
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    minutes = last["seconds"] / 60
    axis.set_xlabel(f"updates ({last['update']:,} in {minutes:,.1f} minutes)", color=INK, fontsize=9)
