"""Attention weights as a heat map, by the call that the chapter writes, and the heads of a layer side by side.

A weight says what was read, not why: the title and the bar speak of attention weights and of nothing else.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.analysis.glyphs import drawable, width
from clearhead.analysis.heatmap_parts import (
    MAP_SHARE,
    Scale,
    colour_norm,
    draw_bar,
    draw_cells,
    draw_labels,
    font_size,
    new_figure,
    one_line,
    text_style,
)
from clearhead.base.errors import InputError
from clearhead.base.files import atomic_write

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Bool, Float
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["Scale", "check_heatmaps", "plot_attention_grid", "plot_attention_heatmap", "save_figure"]

SIZE = (10.0, 8.0)
"""Inches, the chapter's."""
FORMATS = ("png", "svg")


def plot_attention_heatmap(  # noqa: PLR0913 (the chapter's four, and every choice by its name)
    attn_weights: Float[Tensor, "H T S"] | NDArray[Any] | Sequence[Any],
    tokens: Sequence[str],
    head_idx: int,
    layer_idx: int,
    *,
    key_tokens: Sequence[str] | None = None,
    scale: Scale = "linear",
    mask: Bool[Tensor, "T S"] | NDArray[Any] | None = None,
    limits: tuple[float, float] | None = None,
    path: str | Path | None = None,
    title: str | None = None,
    x_label: str = "Key Position",
    y_label: str = "Query Position",
    bar_label: str = "attention weight",
    figsize: tuple[float, float] = SIZE,
    dpi: int = 200,
    cmap: str = "Blues",
) -> Figure:
    """A head's weights in a square of squares: a row is a query, a column a key, and the colour the weight.

    Runs as the chapter "attention pattern visualisation" writes it, `plot_attention_heatmap(w, tokens, 0, 0)`, and
    needs neither seaborn nor pyplot. `attn_weights` may be a tensor on any device, with or without a gradient.
    `head_idx` counts from 0, as the chapter's index does; `layer_idx` only stands in the title.

    `tokens` name the queries and, where `key_tokens` do not name them, the keys: cross-attention has both, and a map
    that is not square. `mask` is True where a query may read a key; elsewhere the map is hatched. `scale` "log" shows
    the small weights, too, down to 1/100,000 of the largest, below which all have the palest colour; a weight of
    exactly 0 has no logarithm and is left in the colour of the ground. `limits` are the weights of the palest and the
    darkest colour; None is 0 (or the smallest above it) to the largest.

    With `path`, the picture is written there, PNG or SVG by its name, the same bytes each time; an SVG keeps text as
    text. Raises InputError for shapes that do not fit, a head that is not there, weights that are no numbers, a token
    that no installed font can write (Chinese, Japanese, Korean), and without matplotlib.
    """
    weights = _weights(attn_weights)
    head = _head(head_idx, len(weights))
    visible = _visible(mask, weights)
    rows, columns = _labels(weights, tokens, key_tokens)
    target = None if path is None else check_heatmaps(path)
    figure = new_figure(figsize, dpi)
    axis = figure.subplots()
    norm = colour_norm(weights[head], visible, scale, limits)
    image = draw_cells(axis, weights[head], visible, norm, cmap)
    size = font_size(figsize, weights.shape[1:], 1)
    draw_labels(axis, rows, columns, size, figsize)
    named = title if title is not None else f"Layer {layer_idx}, Head {head_idx}"
    axis.set_title(one_line(named), fontsize=14, **text_style())
    axis.set_xlabel(one_line(x_label), fontsize=12, **text_style())
    axis.set_ylabel(one_line(y_label), fontsize=12, **text_style())
    draw_bar(figure, image, [axis], bar_label)
    if target is not None:
        save_figure(figure, target, dpi=dpi)
    return figure


def plot_attention_grid(  # noqa: PLR0913 (every choice by its name)
    attn_weights: Float[Tensor, "H T S"] | NDArray[Any] | Sequence[Any],
    tokens: Sequence[str],
    *,
    names: Sequence[str],
    key_tokens: Sequence[str] | None = None,
    scale: Scale = "linear",
    mask: Bool[Tensor, "T S"] | NDArray[Any] | None = None,
    title: str | None = None,
    x_label: str = "Key Position",
    y_label: str = "Query Position",
    bar_label: str = "attention weight",
    dpi: int = 200,
    cmap: str = "Blues",
) -> Figure:
    """All heads of a layer side by side, one colour scale for all; `names` stand above them, one a head.

    Otherwise as `plot_attention_heatmap`, and the same errors.
    """
    weights = _weights(attn_weights)
    if len(names) != len(weights):
        raise InputError(f"names: {len(names)} for {len(weights)} heads: give one for each")
    visible = _visible(mask, weights)
    rows, columns = _labels(weights, tokens, key_tokens)
    across = min(4, math.ceil(math.sqrt(len(weights))))
    down = math.ceil(len(weights) / across)
    side = 3.4 if max(weights.shape[1:]) > 8 else 2.6  # inches of a map, its labels not counted
    room = (side / MAP_SHARE, side / MAP_SHARE)
    size = font_size(room, weights.shape[1:], across)
    beside, below = (max(map(width, labels)) * size / 72 + 0.4 for labels in (rows, columns))
    figsize = (across * (side + beside) + 1.4, down * (side + below) + 0.8)
    figure = new_figure(figsize, dpi)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    norm = colour_norm(weights, visible, scale, None)
    for axis, head, name in zip(axes, weights, names, strict=False):
        image = draw_cells(axis, head, visible, norm, cmap)
        draw_labels(axis, rows, columns, size, room)
        axis.set_title(one_line(name), fontsize=11, **text_style())
    for axis in axes[len(weights) :]:
        axis.set_axis_off()
    if title is not None:
        figure.suptitle(one_line(title), fontsize=14, **text_style())
    figure.supxlabel(one_line(x_label), fontsize=12, **text_style())
    figure.supylabel(one_line(y_label), fontsize=12, **text_style())
    draw_bar(figure, image, list(axes), bar_label)
    return figure


def check_heatmaps(path: str | Path) -> Path:
    """The path. Raises InputError if no heat map can be written there: not PNG or SVG by its name, or no matplotlib."""
    image = Path(path)
    if image.suffix.lower()[1:] not in FORMATS:
        raise InputError(f"{image}: a heat map is PNG or SVG; give it a name that ends in .png or .svg")
    _matplotlib()
    return image


def save_figure(figure: Figure, path: str | Path, *, dpi: int = 200) -> None:
    """Write a figure of this module, PNG or SVG by the name, whole or not at all and to the same bytes each time."""
    image = check_heatmaps(path)
    import matplotlib as mpl

    kind = image.suffix.lower()[1:]
    written = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "clearhead", "svg.fonttype": "none"}):
        figure.savefig(written, format=kind, dpi=dpi, metadata={"Date": None} if kind == "svg" else None)
    atomic_write(image, written.getvalue())


# --------------------------------------------------------------------------------------------------------------- checks


def _matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError("a heat map needs matplotlib (pip install 'clearhead[plots]')") from None


def _array(values: Any) -> NDArray[Any]:
    import numpy as np

    if hasattr(values, "detach"):  # a tensor, perhaps of a kind that NumPy does not have
        values = values.detach().cpu()
        values = values if str(values.dtype) == "torch.bool" else values.double()
    return np.asarray(values)


def _weights(values: Any) -> NDArray[np.float64]:
    """As float64 [H, T, S]."""
    _matplotlib()
    import numpy as np

    try:
        weights = _array(values).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("attn_weights: not numbers in the shape (heads, queries, keys)") from None
    if weights.ndim != 3 or not weights.size:
        hint = {2: ": for one head give attn_weights[None]", 4: ": of a batch give one sentence, attn_weights[0]"}
        raise InputError(
            f"attn_weights: expected the shape (heads, queries, keys), got {weights.shape}{hint.get(weights.ndim, '')}"
        )
    if not np.isfinite(weights).all():
        head, row, column = np.argwhere(~np.isfinite(weights))[0].tolist()
        raise InputError(f"attn_weights: no number at head {head}, query {row}, key {column} (counted from 0)")
    return weights


def _head(head: int, count: int) -> int:
    if isinstance(head, bool) or not 0 <= int(head) < count or int(head) != head:
        raise InputError(f"head_idx: {head}, and there are {count} heads: give 0 to {count - 1}")
    return int(head)


def _visible(mask: Any, weights: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    if mask is None:
        return None
    visible = _array(mask).astype(bool)
    if visible.shape != weights.shape[1:]:
        raise InputError(f"mask: expected the shape {weights.shape[1:]} of the map, got {visible.shape}")
    return visible


def _labels(
    weights: NDArray[np.float64], tokens: Sequence[str], key_tokens: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    _, queries, keys = weights.shape
    columns = tokens if key_tokens is None else key_tokens
    if len(tokens) != queries:
        raise InputError(f"tokens: {len(tokens)} for {queries} queries: give one for each")
    if len(columns) != keys:
        name = "tokens" if key_tokens is None else "key_tokens"
        hint = " (a map that is not square needs key_tokens)" if key_tokens is None else ""
        raise InputError(f"{name}: {len(columns)} for {keys} keys: give one for each{hint}")
    return drawable([str(each) for each in tokens]), drawable([str(each) for each in columns])
