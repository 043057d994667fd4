"""Records as long tables, one fact a row, written as CSV or Parquet.

Layers and heads count from 1, queries and keys from 0, as the arrays do. The row of a query names the token that it has
read last (`query_token`) and the one that it `predicts`; in the encoder nothing is predicted.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from clearhead.base.errors import InputError
from clearhead.base.files import atomic_stream
from clearhead.inspection.records import AttentionLayer, AttentionRecord, EvidenceRecord, Token, Unit

__all__ = [
    "Kind",
    "Table",
    "attention_table",
    "check_parquet",
    "evidence_tables",
    "sides",
    "write_csv",
    "write_parquet",
]

Kind = Literal["text", "whole", "number", "single"]
"""Of a column: words, integers, float64, float32."""

Columns = Sequence[Any]
"""A block of a table: one list or array a column, all as long."""

_COLUMNS = {
    "attention-weights": "model origin stack layer head query key query_token key_token predicts weight",
    "findings": "model scope method stack layer head kind name value text",
    "token-scores": "model method stack layer head side query token_place score",
    "token-series": "model method stack layer head name query value",
    "lens": "model layer query place token probability gold_rank gold_probability divergence",
    "curves": "model method name x_name x series value",
    "probes": "model label stack layer kind accuracy control selectivity majority untrained classes examples",
}
_WHOLE = "layer head query key token_place place gold_rank classes examples"
_NUMBER = "value score probability gold_probability divergence x accuracy control selectivity majority untrained"
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(_WHOLE.split(), "whole"),
    **dict.fromkeys(_NUMBER.split(), "number"),
    "weight": "single",
}
"""The columns that are not words."""


@dataclass(frozen=True)
class Table:
    """A long table: its `name`, what its columns are, and its rows, block by block, made anew each time."""

    name: str
    columns: dict[str, Kind]
    blocks: Callable[[], Iterable[Columns]]


def sides(record: AttentionRecord, layer: AttentionLayer) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The tokens that stand at the queries and at the keys of a layer."""
    return {
        "encoder": (record.source, record.source),
        "decoder": (record.prefix, record.prefix),
        "cross": (record.prefix, record.source),
    }[layer.stack]


def attention_table(record: AttentionRecord, chosen: Sequence[tuple[AttentionLayer, Sequence[int]]]) -> Table:
    """The weights of some heads (from 1) of some layers; a row for each key that each query may read."""

    def blocks() -> Iterator[Columns]:
        for layer, heads in chosen:
            places = layer.visible.nonzero().tolist()
            queries, keys = [row for row, _ in places], [column for _, column in places]
            asking, asked = ([token.text for token in side] for side in sides(record, layer))
            predicted = [token.text for token in record.gold] if layer.stack != "encoder" else [""] * len(asking)
            words = (
                [asking[row] for row in queries],
                [asked[key] for key in keys],
                [predicted[row] for row in queries],
            )
            same = (record.provenance.model, record.origin, layer.stack, layer.layer)
            weights = torch.cat([layer.weights[head - 1][layer.visible] for head in heads]).numpy()
            yield [
                *([each] * len(weights) for each in same),
                [head for head in heads for _ in places],
                *(column * len(heads) for column in (queries, keys, *words)),
                weights,
            ]

    name = "attention-weights"
    return Table(name, {column: _KINDS.get(column, "text") for column in _COLUMNS[name].split()}, blocks)


def evidence_tables(record: EvidenceRecord) -> list[Table]:
    """What a record of evidence holds, those tables only that have a row.

    `findings`: a row for each value, word and setting; `token-scores`: one for each prediction and token, with the
    numbers of each prediction in `token-series`; `lens`, `curves`, `probes`.
    """
    model = record.provenance.model
    made = [
        _rows("findings", ([model, record.scope, *row] for row in _findings(record))),
        _rows("token-scores", ([model, *row] for row in _scores(record))),
        _rows(
            "token-series",
            (
                [model, each.method, *_named(each.unit), name, query, value]
                for each in record.scores
                for name, values in sorted(each.series.items())
                for query, value in enumerate(values)
            ),
        ),
        _rows("lens", ([model, *row] for row in _lens(record))),
        _rows(
            "curves",
            (
                [model, each.method, each.name, each.x_name, x, name, value]
                for each in record.curves
                for name, values in sorted(each.series.items())
                for x, value in zip(each.x, values, strict=True)
            ),
        ),
        _rows(
            "probes",
            (
                [model, each.label, each.place, each.layer, each.kind, each.accuracy, each.control, each.selectivity]
                + [each.majority, each.untrained, each.classes, each.examples]
                for each in record.probes
            ),
        ),
    ]
    return [table for table in made if table is not None]


def write_csv(table: Table, path: Path) -> None:
    """UTF-8, names first; quoted where a token holds a comma, a quote or a line break. Whole or not at all."""
    with atomic_stream(path) as stream:
        writer = csv.writer(codecs.getwriter("utf-8")(stream), lineterminator="\n")
        writer.writerow(table.columns)
        for block in table.blocks():
            # A float32 is written with as many digits as it has, not with those of the float64 that it would become.
            shown = [
                [str(each) for each in column] if kind == "single" else column
                for kind, column in zip(table.columns.values(), block, strict=True)
            ]
            writer.writerows(zip(*shown, strict=True))


def check_parquet() -> None:
    """Raises InputError without pyarrow."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise InputError("Parquet needs pyarrow (pip install 'clearhead[parquet]'), or choose csv") from None


def write_parquet(table: Table, path: Path) -> None:
    """The same table, words as dictionaries, with null where CSV has nothing; whole or not at all.

    Raises InputError without pyarrow.
    """
    check_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"text": pa.dictionary(pa.int32(), pa.string()), "whole": pa.int32(), "number": pa.float64()}
    types["single"] = pa.float32()
    schema = pa.schema([(name, types[kind]) for name, kind in table.columns.items()])
    with atomic_stream(path) as stream, pq.ParquetWriter(stream, schema) as writer:
        for block in table.blocks():
            arrays = [
                pa.array(column, pa.string()).dictionary_encode() if kind == "text" else pa.array(column, types[kind])
                for kind, column in zip(table.columns.values(), block, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


# ----------------------------------------------------------------------------------------------------------------- rows


def _rows(name: str, rows: Iterable[Sequence[Any]]) -> Table | None:
    """The table of that name, of rows that are few; None if there are none."""
    block = list(zip(*rows, strict=True))
    columns = {column: _KINDS.get(column, "text") for column in _COLUMNS[name].split()}
    return Table(name, columns, lambda: [block]) if block else None


def _named(unit: Unit | None) -> tuple[str | None, int | None, int | None]:
    return (None, None, None) if unit is None else (unit.stack, unit.layer, unit.head)


def _findings(record: EvidenceRecord) -> Iterator[list[Any]]:
    for each in record.findings:
        about = [each.method, *_named(each.unit)]
        for kind, values in (("value", each.values), ("setting", each.settings)):
            yield from ([*about, kind, name, value, None] for name, value in sorted(values.items()))
        yield from ([*about, "word", name, None, word] for name, word in sorted(each.words.items()))


def _lens(record: EvidenceRecord) -> Iterator[list[Any]]:
    for layer in record.lens:
        for query, seen in enumerate(layer.places):
            told = [seen.gold_rank, seen.gold_probability, seen.divergence]
            for place, (token, probability) in enumerate(seen.likeliest, 1):
                yield [layer.layer, query, place, token.text, probability, *told]


def _scores(record: EvidenceRecord) -> Iterator[list[Any]]:
    for each in record.scores:
        about = [each.method, *_named(each.unit)]
        for side, scores in (("source", each.source), ("prefix", each.prefix)):
            if scores is None:
                continue
            for query, line in enumerate(scores.tolist()):
                # What stands behind the query in the prefix it has not read.
                read = line if side == "source" else line[: query + 1]
                yield from ([*about, side, query, token, score] for token, score in enumerate(read))
