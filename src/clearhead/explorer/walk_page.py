"""The walk-through of one sentence as one HTML file that needs nothing else."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Literal

from clearhead.base.files import atomic_write
from clearhead.explorer.content import Both, Fold, Group, Matrix, Window
from clearhead.explorer.ending import output_group, overview_group, search_group
from clearhead.explorer.html import both, navigation, section
from clearhead.explorer.single_file import filled, policy, resource, script_json
from clearhead.explorer.stages import Stages
from clearhead.recipes.translate import load
from clearhead.recipes.translator import decoding_config
from clearhead.recipes.walk import Walk, walk

__all__ = ["PageLanguage", "groups", "page", "write_page", "write_walk"]

PageLanguage = Literal["en", "zh"]

LABELS = {
    "handbook": Both("Handbook", "手册"),
    "skip": Both("Skip to the step", "跳到当前步骤"),
    "steps": Both("Steps", "步骤"),
    "previous": Both("Back", "上一步"),
    "next": Both("Next", "下一步"),
    "keys": Both(
        "← → steps · Tab into a matrix, then arrows for cells · Esc back",
        "← → 换步骤 · Tab 进入矩阵后用方向键看单元格 · Esc 返回",
    ),
    "theme": Both("Light / dark", "浅色 / 深色"),
    "readout": Both(
        "Point at a number, or move to it with the keys, to read it in full.",
        "指向或用键盘移到一个数字，即可读到完整数值。",
    ),
}


def write_walk(
    bundle: str | Path,
    text: str,
    output: str | Path,
    *,
    target: str | None = None,
    beam: int | None = None,
    max_length: int | None = None,
    language: PageLanguage = "en",
    back: str | None = None,
) -> Walk:
    """Walk `text` through the model at `bundle` on the CPU, and write the page to `output`, whole or not at all.

    `target` is walked in place of the translation that the search finds; `language` is what the page opens in (it
    holds both); `back` is a relative address for a link out of the page, where it is part of a site. Raises BundleError
    and InputError as `load` and `walk` do.
    """
    config = decoding_config(beam=beam, max_length=max_length)
    found = walk(load(bundle, device="cpu", engine="plain"), text, config, target)
    write_page(found, output, language, back)
    return found


def write_page(found: Walk, output: str | Path, language: PageLanguage = "en", back: str | None = None) -> None:
    """Write the page of a walk to `output`, whole or not at all."""
    atomic_write(Path(output), page(found, language, back))


def groups(found: Walk) -> list[Group]:
    """All steps of a walk, in their order."""
    width = int(found.replay.hidden.shape[-1])
    window = Window.of(width)
    stages = Stages(found, window)
    return [
        overview_group(found),
        stages.source(),
        *stages.encoder(),
        *stages.decoder(),
        output_group(found, window),
        search_group(found),
    ]


def page(found: Walk, language: PageLanguage = "en", back: str | None = None) -> str:
    """The HTML of a walk: no address in it leads out but `back`, and its policy lets nothing in."""
    everything = groups(found)
    style, script = resource("walk.css"), resource("walk.js")
    title = Both(f"clearhead · {found.text[:60]}", f"clearhead · {found.text[:60]}")
    parts = {
        "lang": "zh-CN" if language == "zh" else "en",
        "language": language,
        "policy": policy(script, style),
        "title": escape(title.zh if language == "zh" else title.en),
        "brand": _brand(back),
        "style": style,
        "script": script,
        "data": script_json(_data(everything)),
        "navigation": navigation(everything),
        "sections": "".join(section(group, step) for group in everything for step in group.steps),
        **{f"label_{name}": both(words) for name, words in LABELS.items() if name != "handbook"},
    }
    return filled(resource("walk.html"), parts)


def _brand(back: str | None) -> str:
    """What stands at the head: the page's name, or the way back to the site that it is part of."""
    return "clearhead <b>walk</b>" if back is None else f'<a href="{escape(back)}">← {both(LABELS["handbook"])}</a>'


def _data(everything: list[Group]) -> dict[str, object]:
    """The matrices in full precision, for whoever points at a number, and for other programs."""
    steps = [step for group in everything for step in group.steps]
    items = [item for step in steps for part in (step.before, *(each.items for each in step.variants)) for item in part]
    shown = [each for item in items for each in (item.items if isinstance(item, Fold) else (item,))]
    matrices = {each.name: _numbers(each) for each in shown if isinstance(each, Matrix)}
    return {"format": "clearhead walk 1", "matrices": matrices}


def _numbers(matrix: Matrix) -> dict[str, object]:
    return {
        "rows": matrix.rows,
        "columns": matrix.columns,
        "shape": matrix.shape,
        "values": [[_exact(cell, matrix) for cell in row] for row in matrix.values],
    }


def _exact(cell: float | None, matrix: Matrix) -> float | str:
    """Nine digits, which tell every float32 from its neighbours."""
    if cell is None:
        return 0.0 if matrix.scale == "share" else "-inf"
    return float(f"{cell:.9g}") if math.isfinite(cell) else str(cell)
