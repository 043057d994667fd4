"""Records as files for other programs and for print: tables, arrays and heat maps, each with a sidecar in JSON.

The sidecar `NAME.meta.json` says which model the numbers are from (by the hash of its weights), where and how they were
taken, and what a row is.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from clearhead.analysis.heatmap import Scale, check_heatmaps
from clearhead.base.errors import InputError
from clearhead.base.files import atomic_write, file_error
from clearhead.inspection.records import AttentionLayer, AttentionRecord, EvidenceRecord
from clearhead.inspection.sites import STACKS, Stack
from clearhead.recipes.inspect.pictures import LANGUAGES, PICTURES, Picture, draw_layer
from clearhead.recipes.inspect.sidecars import about_evidence, about_pair, write_sidecar
from clearhead.recipes.inspect.tables import (
    Table,
    attention_table,
    check_parquet,
    evidence_tables,
    write_csv,
    write_parquet,
)

__all__ = ["FORMATS", "PICTURES", "Format", "Picture", "check_choice", "check_formats", "check_stacks", "export"]

Format = Literal["png", "svg", "csv", "parquet", "npz"]

FORMATS: tuple[Format, ...] = ("png", "svg", "csv", "parquet", "npz")
_DRAWN: tuple[Format, ...] = ("png", "svg")

Chosen = Sequence[tuple[AttentionLayer, tuple[int, ...]]]


def export(  # noqa: PLR0913 (every choice by its name)
    record: AttentionRecord | EvidenceRecord,
    directory: str | Path,
    formats: Sequence[Format] = FORMATS,
    *,
    stacks: Sequence[Stack] = STACKS,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    pictures: Sequence[Picture] | None = None,
    scale: Scale = "linear",
    language: str = "en",
) -> list[Path]:
    """Write a record into `directory`, which is made if it is not there, and return the files in the order written.

    Of attention: `attention-weights` as CSV, Parquet and NPZ, and heat maps as PNG and SVG, of the chosen `stacks`,
    `layers` and `heads` (from 1; None: all). `pictures` None draws each head by itself if heads are chosen, else each
    layer, its heads side by side and their mean. Of evidence: its tables as CSV and Parquet, its token scores as NPZ;
    PNG and SVG are passed over, and so is the choice of heads. `language` "en" or "zh" is that of the pictures.

    Raises InputError for a format, picture, layer or head that is not there, for a record without attention, where
    pyarrow or matplotlib is missing, and for a directory that cannot be written to.
    """
    formats = check_formats(formats)
    stacks = check_stacks(stacks)
    _check_choice("picture", pictures or (), PICTURES)
    _check_choice("language", (language,), LANGUAGES)
    _check_choice("scale", (scale,), ("linear", "log"))
    folder = Path(directory)
    if isinstance(record, EvidenceRecord):
        return _evidence(record, _made(folder), formats)
    chosen = _choose(record, stacks, layers, heads)
    drawn: list[Format] = [each for each in _DRAWN if each in formats]
    written = _attention_data(record, _made(folder), formats, chosen)
    wanted = pictures or (("head",) if heads is not None else ("layer", "mean"))
    for layer, numbers in chosen if drawn else ():
        for picture in (each for each in PICTURES if each in wanted):
            written += draw_layer(record, layer, numbers, picture, folder, drawn, scale, language)
    return written


def check_formats(formats: Sequence[str]) -> list[Format]:
    """`formats` as such; InputError for one that is not there, or for which pyarrow or matplotlib is missing."""
    _check_choice("format", formats, FORMATS)
    if "parquet" in formats:
        check_parquet()
    for each in formats:
        if each in _DRAWN:
            check_heatmaps(f"attention.{each}")
    return [each for each in FORMATS if each in formats]


def check_stacks(stacks: Sequence[str]) -> list[Stack]:
    """`stacks` as such; InputError for one that is not there."""
    _check_choice("stack", stacks, STACKS)
    return [each for each in STACKS if each in stacks]


def _check_choice(name: str, given: Sequence[str], known: Sequence[str]) -> None:
    if others := [each for each in given if each not in known]:
        raise InputError(f"{name}: {others[0]!r}; choose among {', '.join(known)}")


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise file_error(folder, "made", error) from None
    return folder


def _choose(
    record: AttentionRecord, stacks: Sequence[Stack], layers: Sequence[int] | None, heads: Sequence[int] | None
) -> Chosen:
    there = [(layer.stack, layer.layer, len(layer.weights)) for layer in record.layers]
    found = check_choice(record.provenance.model, there, stacks, layers, heads)
    of = {(layer.stack, layer.layer): layer for layer in record.layers}
    return [(of[stack, number], numbers) for (stack, number), numbers in found.items()]


def check_choice(
    model: str,
    there: Sequence[tuple[Stack, int, int]],
    stacks: Sequence[Stack],
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
) -> dict[tuple[Stack, int], tuple[int, ...]]:
    """The chosen heads by stack and layer, of those that are `there`: stack, layer and number of heads of each.

    Raises InputError, with the name of the `model`, for one that is not there, and if none is.
    """
    if not there:
        raise InputError(f"{model}: this model has no attention, so there are no weights to export")
    within = [each for each in there if each[0] in stacks]
    if not within:
        raise InputError(f"{model}: has no attention in the {' and '.join(stacks)} stack")
    last = max(layer for _, layer, _ in within)
    for number in layers or ():
        if not 1 <= number <= last:
            raise InputError(f"layer {number} is not there: layers count from 1, and the last is {last}")
    most = max(count for _, _, count in within)
    for number in heads or ():
        if not 1 <= number <= most:
            raise InputError(f"head {number} is not there: heads count from 1, and the last is {most}")
    found = {
        (stack, layer): tuple(head for head in range(1, count + 1) if heads is None or head in heads)
        for stack, layer, count in within
        if layers is None or layer in layers
    }
    if not any(found.values()):
        raise InputError("none of the chosen layers has one of the chosen heads")
    return {place: numbers for place, numbers in found.items() if numbers}


# --------------------------------------------------------------------------------------------------- tables and arrays


def _attention_data(record: AttentionRecord, folder: Path, formats: Sequence[Format], chosen: Chosen) -> list[Path]:
    table = attention_table(record, chosen)
    written = _write_tables([table], folder, formats)
    if "npz" in formats:
        written.append(folder / f"{table.name}.npz")
        _write_arrays(_weight_arrays(chosen), written[-1])
    if not written:
        return []
    about = {
        "stacks": {
            f"{layer.stack}-{layer.layer}": {"heads": numbers, "path": layer.path, "rows_sum_to_1": layer.normalised}
            for layer, numbers in chosen
        },
        "counting": "layers and heads from 1, queries and keys from 0",
        "tables": "one row for each key that a query may read; what it may not read has weight 0 and no row",
        "arrays": "STACK-LAYER.weights [heads, queries, keys] in the order of `heads`, STACK-LAYER.visible "
        "[queries, keys]",
    }
    return [*written, write_sidecar(folder, table.name, written, about | about_pair(record))]


def _weight_arrays(chosen: Chosen) -> Iterator[tuple[str, Any]]:
    for layer, numbers in chosen:
        name = f"{layer.stack}-{layer.layer}"
        yield f"{name}.weights", layer.weights[[number - 1 for number in numbers]].numpy()
        yield f"{name}.visible", layer.visible.numpy()


def _evidence(record: EvidenceRecord, folder: Path, formats: Sequence[Format]) -> list[Path]:
    written = _write_tables(evidence_tables(record), folder, formats)
    scores = {
        f"{number}.{each.method}.{side}": values.numpy()
        for number, each in enumerate(record.scores, 1)
        for side, values in (("source", each.source), ("prefix", each.prefix))
        if values is not None
    }
    if "npz" in formats and scores:
        written.append(folder / "token-scores.npz")
        _write_arrays(scores.items(), written[-1])
    if not written:
        return []
    return [*written, write_sidecar(folder, f"evidence-{record.scope}", written, about_evidence(record))]


def _write_tables(tables: Sequence[Table], folder: Path, formats: Sequence[Format]) -> list[Path]:
    """Each as CSV and as Parquet, where these are wanted."""
    written: list[Path] = []
    for table in tables:
        for kind, write in (("csv", write_csv), ("parquet", write_parquet)):
            if kind in formats:
                written.append(folder / f"{table.name}.{kind}")
                write(table, written[-1])
    return written


def _write_arrays(arrays: Any, path: Path) -> None:
    import numpy as np

    packed = io.BytesIO()
    np.savez_compressed(packed, **dict(arrays))
    atomic_write(path, packed.getvalue())
