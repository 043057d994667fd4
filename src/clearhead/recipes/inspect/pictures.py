"""The heat maps of a layer as files: one head, the heads side by side, or their mean, in English or Chinese."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from clearhead.analysis.heatmap import Scale, plot_attention_grid, plot_attention_heatmap, save_figure
from clearhead.inspection.records import AttentionLayer, AttentionRecord
from clearhead.recipes.inspect.sidecars import about_pair, write_sidecar
from clearhead.recipes.inspect.tables import sides

__all__ = ["LANGUAGES", "PICTURES", "Picture", "draw_layer"]

Picture = Literal["head", "layer", "mean"]
"""One head; all chosen heads of a layer side by side; their mean."""

PICTURES: tuple[Picture, ...] = ("head", "layer", "mean")
_ENDINGS = {"layer": "heads", "mean": "mean"}
_LABEL = 12  # letters of each of two tokens at a row

_WORDS = {
    "en": {
        "encoder": "encoder self-attention",
        "decoder": "decoder self-attention",
        "cross": "cross-attention",
        "head": "{stack}, layer {layer}, head {head}",
        "layer": "{stack}, layer {layer}",
        "mean": "{stack}, layer {layer}, mean of {count} heads",
        "name": "head {head}",
        "key": "key: the token that is read",
        "query": "query: the token that reads",
        "predicting": "query: the last token read → the token that it predicts",
        "weight": "attention weight",
    },
    "zh": {
        "encoder": "编码器自注意力",
        "decoder": "解码器自注意力",
        "cross": "交叉注意力",
        "head": "{stack}，第 {layer} 层，第 {head} 个头",
        "layer": "{stack}，第 {layer} 层",
        "mean": "{stack}，第 {layer} 层，{count} 个头的平均",
        "name": "第 {head} 个头",
        "key": "键：被读取的词元",
        "query": "查询：正在读取的词元",
        "predicting": "查询：最后读到的词元 → 它所预测的词元",
        "weight": "注意力权重",
    },
}
LANGUAGES = tuple(_WORDS)


def draw_layer(  # noqa: PLR0913, PLR0917 (one call, every part of it chosen by the user)
    record: AttentionRecord,
    layer: AttentionLayer,
    numbers: tuple[int, ...],
    picture: Picture,
    folder: Path,
    formats: Sequence[str],
    scale: Scale,
    language: str,
) -> list[Path]:
    """Write the heads `numbers` (from 1) of a layer as one kind of `picture`, in each of `formats`, with sidecars.

    Returns the files. Raises what `clearhead.analysis.heatmap` raises.
    """
    words = _WORDS[language]
    asking, asked = sides(record, layer)
    rows = [token.text for token in asking]
    if layer.stack != "encoder":
        rows = [f"{_cut(row)} → {_cut(token.text)}" for row, token in zip(rows, record.gold, strict=True)]
    look: dict[str, Any] = {
        "key_tokens": [token.text for token in asked],
        "scale": scale,
        "mask": layer.visible,
        "x_label": words["key"],
        "y_label": words["query" if layer.stack == "encoder" else "predicting"],
        "bar_label": words["weight"],
    }
    weights = layer.weights[[number - 1 for number in numbers]]
    place = f"{layer.stack}-layer-{layer.layer}"
    told = {"stack": words[layer.stack], "layer": layer.layer, "count": len(numbers)}
    written: list[Path] = []
    for number in numbers if picture == "head" else (None,):
        title = words[picture].format(head=number, **told)
        title = title[0].upper() + title[1:]
        if picture == "layer":
            names = [words["name"].format(head=each) for each in numbers]
            figure = plot_attention_grid(weights, rows, names=names, title=title, **look)
        else:
            one = weights.mean(0, keepdim=True) if number is None else layer.weights[number - 1][None]
            figure = plot_attention_heatmap(one, rows, 0, layer.layer, title=title, **look)
        name = (
            f"{place}-head-{number}" if number is not None else f"{place}-{'heads' if picture == 'layer' else 'mean'}"
        )
        files = [folder / f"{name}.{each}" for each in formats]
        for file in files:
            save_figure(figure, file)
        about = {
            "picture": title,
            "stack": layer.stack,
            "layer": layer.layer,
            "heads": [number] if number is not None else list(numbers),
            "path": layer.path,
            "scale": scale,
            "hatched": "what a query may not read",
        }
        written += [*files, write_sidecar(folder, name, files, about | about_pair(record))]
    return written


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"
