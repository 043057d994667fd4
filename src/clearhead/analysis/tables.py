"""An account as text: tables of exact numbers, aligned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["human_bytes", "render"]


def render(account: dict[str, Any]) -> str:
    """What `recipes.account.account` found, for people; the same numbers as in its JSON."""
    shape = account["shape"]
    pairs = "1 sentence pair" if shape["batch"] == 1 else f"{shape['batch']:,} sentence pairs"
    head = [
        account["title"],
        f"{pairs}, {shape['source_length']:,} source and {shape['target_length']:,} target positions, {shape['dtype']}",
    ]
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
            f"\n  printed in the paper (Table 3): {found['printed'] // 10**6} million. That is a vocabulary of "
            f"{found['implied_vocabulary']:,.1f}\n  ({low:,} to {high:,} round to it). "
        )
        both = found["vocabularies_that_explain_base_and_big"]
        text += (
            "No vocabulary explains what is printed for base and for big."
            if both is None
            else f"{both[0]:,} to {both[1]:,} explain base and big."
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
    rows = [("", *(f"{what}, {name}" for what in ("last token", "translation") for name in ways.values()))]
    columns = [operations[way][key] for key in ("last_token", "translation") for way in ways]
    for part in columns[-1]:
        rows.append((part, *(f"{column[part]:,}" if part in column else "–" for column in columns)))
    return "operations of greedy decoding: the last token, and the whole translation\n" + _grid(rows)


def _memory(sizes: dict[str, Any]) -> str:
    rows = [
        (name, f"{sizes[key]:,}", human_bytes(sizes[key]))
        for key, name in (("weights", "weights"), ("gradients", "gradients"), ("adam_moments", "Adam's moments"))
    ]
    for group, name in (
        ("activations", "saved for the backward pass"),
        ("kv_cache", "key/value cache"),
        ("score_matrices", "one layer's scores"),
    ):
        for part, count in sizes[group].items():
            if not count:
                continue
            rows.append((f"{name}: {part}", f"{count:,}", human_bytes(count)))
    return "bytes\n" + _grid(rows)


def _crossovers(found: dict[str, Any], d_model: int) -> str:
    rows = []
    for stack, points in found.items():
        for question, length in points.items():
            rows.append((f"{stack} layer: {question}", _crossing(length, d_model)))
    return "lengths at which one term overtakes another (attention = scores and mixing)\n" + _grid(rows, left=2)


def _crossing(length: float, d_model: int) -> str:
    if length <= 0:
        return "at every length the left side is larger"
    return f"n = {length:,.6g} = {length / d_model:.4g}·d"


def _layers(kinds: Sequence[dict[str, Any]], length: int, d_model: int) -> str:
    rows = [("", "", "operations", "sequential", "longest path", "layers to join all")]
    for kind in kinds:
        numbers = (kind["operations"], kind["sequential"], kind["path"], kind["depth"])
        rows.append((kind["name"], kind["formula"], *(f"{number:,}" for number in numbers)))
    return f"kinds of layer at n = {length:,}, d = {d_model:,} (Table 1 of the paper, in numbers)\n" + _grid(
        rows, left=2
    )


def _lengths(lines: Sequence[dict[str, Any]]) -> str:
    rows: list[tuple[str, ...]] = [
        (
            *("n", "attention", "linear terms", "layer", "(att. + proj.) / f.f."),
            *("× attention", "× att. + proj.", "× layer", "scores, one layer", "cache, all layers"),
        )
    ]
    for line in lines:
        linear = line["projections"] + line["feed-forward"]
        rows.append(
            (
                *(f"{number:,}" for number in (line["length"], line["attention"], linear, line["layer"])),
                f"{line['attention_over_feedforward']:.3f}",
                *(f"{line[f'{part}_growth']:,.4g}" for part in ("attention", "sublayer", "layer")),
                human_bytes(line["score_matrix_bytes"]),
                human_bytes(line["kv_cache_bytes"]),
            )
        )
    return "one encoder layer over n tokens (×: against the first line)\n" + _grid(rows, left=0)
