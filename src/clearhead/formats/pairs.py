"""Parallel text: two aligned files, or one file of tab-separated columns."""

from collections.abc import Iterator
from pathlib import Path

from clearhead.base.errors import DataError, InputError
from clearhead.formats.lines import display_name, is_one_stream, is_standard_stream, read_lines

__all__ = ["read_pairs", "read_tsv"]


def read_pairs(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    """The pairs of two files whose lines belong together by number, in order, as a stream.

    Raises DataError with both counts when one file is longer (the longer one is read to its end for that), and
    InputError when both are standard input or one pipe, which would give its lines to both by turns.
    """
    if is_standard_stream(source) and is_standard_stream(target):
        raise InputError("source and target cannot both be standard input ('-'); name a file for one of them")
    if is_one_stream(source, target):
        raise InputError(
            f"{display_name(source)} and {display_name(target)} are one and the same stream, which gives every line "
            f"once; name a file for one of them"
        )
    return _paired(source, target, read_lines(source), read_lines(target))


def read_tsv(path: str | Path, columns: tuple[int, int] = (1, 2)) -> Iterator[tuple[str, str]]:
    r"""The pairs of a tab-separated file: one line, one pair; no quoting, no escapes; other columns are left alone.

    `columns` names the source and the target column, counted from 1. Raises InputError for columns that are none or
    the same, and DataError naming file and line for a line that has not got them.
    """
    if min(columns) < 1:
        raise InputError(f"{display_name(path)}: columns are counted from 1, got {columns[0]} and {columns[1]}")
    if columns[0] == columns[1]:
        raise InputError(f"{display_name(path)}: source and target cannot both be column {columns[0]}")
    return _columns(path, columns, read_lines(path))


def _paired(
    source: str | Path, target: str | Path, sources: Iterator[str], targets: Iterator[str]
) -> Iterator[tuple[str, str]]:
    count = 0
    while True:
        left, right = next(sources, None), next(targets, None)
        if left is None and right is None:
            return
        if left is None or right is None:
            source_count = count + (left is not None) + sum(1 for _ in sources)
            target_count = count + (right is not None) + sum(1 for _ in targets)
            raise DataError(
                f"{display_name(source)} has {source_count} lines but {display_name(target)} has {target_count}; "
                f"aligned files need the same number (a line ends at a line feed only)"
            )
        count += 1
        yield left, right


def _columns(path: str | Path, columns: tuple[int, int], lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    needed = max(2, *columns)
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        if len(fields) < needed:
            raise DataError(
                f"{display_name(path)}, line {number}: {len(fields)} column{'s' * (len(fields) != 1)} where {needed} "
                f"are needed; columns are separated by tabs: {line[:80]!r}"
            )
        yield fields[columns[0] - 1], fields[columns[1] - 1]
