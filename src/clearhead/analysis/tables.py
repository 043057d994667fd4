"""An account as text: tables of exact numbers, aligned."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

__all__ = ["human_bytes", "render"]

WIDTH = 100
"""Columns that every line fits in, a name of the user's apart."""


def render(account: dict[str, Any]) -> str:
    """What `recipes.account.account` found, for people; the same numbers as in its JSON."""
    shape = account["shape"]
    pairs = "1 sentence pair" if shape["batch"] == 1 else f"{shape['batch']:,} sentence pairs"
    beam = f", beam {shape['beam']:,}" if shape["beam"] > 1 else ""
    head = [
        *textwrap.wrap(account["title"], WIDTH, subsequent_indent="  ", break_long_words=False),
        f"{pairs}, {shape['source_length']:,} source and {shape['target_length']:,} target positions, "
        f"{shape['dtype']}{beam}",
    ]
    if account["vocabulary_assumed"]:
        size = account["model"]["vocab_size"]
        head.append(f"the vocabulary of {size:,} is about the paper's; --vocab-size gives another, and other counts")
    sections = [
        "\n".join(head),
        _parameters(account),
        _training(account["operations"]),
        _decoding(account["operations"]),
        _memory(account["bytes"]),
        _crossovers(account["crossovers"], account["model"]["d_model"]),
        _layers(account["layer_kinds"], shape["source_length"], account["model"]["d_model"]),
    ]
    if "lengths" in account:
        sections.append(_lengths(account["lengths"]))
    return "\n\n".join(sections)


def human_bytes(count: int) -> str:
    """`count` in the largest binary unit that leaves a number of at least one.

    >>> human_bytes(2**30), human_bytes(1536), human_bytes(3)
    ('1.00 GiB', '1.50 KiB', '3 B')
    """
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:,.2f} {unit}"
    return f"{count} B"


def _grid(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows in columns: the first `left` to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _parameters(account: dict[str, Any]) -> str:
    counts = account["parameters"]
    rows = [
        (part, f"{count:,}", f"{count / counts['total']:.1%}")
        for part, count in counts.items()
        if count or part == "output projection"
    ]
    text = "parameters (a shared matrix counts once)\n" + _grid(rows)
    if "printed" in account:
        found = account["printed"]
        low, high = found["vocabulary_between"]
        text += (
            f"\n  the paper prints {found['printed'] // 10**6} million (Table 3), which a vocabulary of {low:,} to "
            f"{high:,} would give;\n  "
        )
        both = found["vocabularies_that_explain_base_and_big"]
        text += (
            "no one vocabulary gives both what it prints for base and what it prints for big"
            if both is None
            else f"one of {both[0]:,} to {both[1]:,} gives both what it prints for base and for big"
        )
    return text


def _training(operations: dict[str, Any]) -> str:
    forward, backward = operations["forward"], operations["backward"]
    rows = [("", "forward", "backward", "share")]
    rows += [
        (part, f"{count:,}", f"{backward[part]:,}", f"{count / forward['total']:.1%}")
        for part, count in forward.items()
    ]
    return "operations of a training step (two a multiply-add, products only)\n" + _grid(rows)


def _decoding(operations: dict[str, Any]) -> str:
    ways = {way: name for way, name in (("with_cache", "cache"), ("without_cache", "no cache")) if way in operations}
    tables = []
    for key, what in (("last_token", "the last token"), ("translation", "the whole translation")):
        columns = [operations[way][key] for way in ways]
        rows = [("", *ways.values())]
        rows += [(part, *(f"{column[part]:,}" for column in columns)) for part in columns[0]]
        tables.append(f"operations of greedy decoding: {what}\n{_grid(rows)}")
    return "\n\n".join(tables)


def _memory(sizes: dict[str, Any]) -> str:
    names = {
        "weights": "weights",
        "gradients": "gradients",
        "adam_moments": "Adam's moments",
        "activations": "saved for the backward pass",
        "training": "training, together (weights, gradients, moments, saved)",
        "kv_cache": "key/value cache",
        "translating": "translating, together (weights, cache)",
        "score_matrices": "one layer's scores",
    }
    rows = []
    for key, name in names.items():
        parts = sizes[key] if isinstance(sizes[key], dict) else {"": sizes[key]}
        for part, count in parts.items():
            if count:
                rows.append((f"{name}: {part}" if part else name, f"{count:,}", human_bytes(count)))
    return "bytes\n" + _grid(rows)


def _crossovers(found: dict[str, Any], d_model: int) -> str:
    rows = []
    for stack, points in found.items():
        for question, length in points.items():
            rows.append((f"{stack} layer: {question}", _crossing(length, d_model)))
    return "lengths at which one term overtakes another (attention = scores and mixing)\n" + _grid(rows, left=2)


def _crossing(length: float | None, d_model: int) -> str:
    if length is None:
        return "at every length the left side is larger"
    return f"n = {_plain(length)} = {_plain(length / d_model)}·d"


def _plain(number: float) -> str:
    """A number without a power of ten: whole where it is whole or large, else with four digits.

    >>> _plain(1024), _plain(10000.0), _plain(1365.33), _plain(13.5567)
    ('1,024', '10,000', '1,365', '13.56')
    """
    return f"{number:,.0f}" if number == int(number) or number >= 1000 else f"{number:.4g}"


def _layers(kinds: Sequence[dict[str, Any]], length: int, d_model: int) -> str:
    rows = [("", "", "operations", "sequential", "longest path", "layers to join all")]
    for kind in kinds:
        numbers = (kind["operations"], kind["sequential"], kind["path"], kind["depth"])
        rows.append((kind["name"], kind["formula"], *(f"{number:,}" for number in numbers)))
    return f"kinds of layer at n = {length:,}, d = {d_model:,} (Table 1 of the paper, in numbers)\n" + _grid(
        rows, left=2
    )


def _lengths(lines: Sequence[dict[str, Any]]) -> str:
    costs: list[tuple[str, ...]] = [("n", "attention", "linear terms", "layer")]
    growth: list[tuple[str, ...]] = [("n", "(att. + proj.) / f.f.", "× attention", "× att. + proj.", "× layer")]
    sizes: list[tuple[str, ...]] = [("n", "scores of one encoder layer", "the decoder's own cache, all layers")]
    for line in lines:
        n, linear = f"{line['length']:,}", line["projections"] + line["feed-forward"]
        costs.append((n, *(f"{number:,}" for number in (line["attention"], linear, line["layer"]))))
        grown = (_plain(line[f"{part}_growth"]) for part in ("attention", "sublayer", "layer"))
        growth.append((n, f"{line['attention_over_feedforward']:,.3f}", *grown))
        sizes.append((n, human_bytes(line["score_matrix_bytes"]), human_bytes(line["kv_cache_bytes"])))
    titles = (
        "operations of one encoder layer over n tokens",
        "the same in proportion (×: against the first line)",
        "bytes over n tokens",
    )
    tables = zip(titles, (costs, growth, sizes), strict=True)
    return "\n\n".join(f"{title}\n{_grid(rows, left=0)}" for title, rows in tables)
