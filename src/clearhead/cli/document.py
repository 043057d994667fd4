"""What `clearhead translate` does with a document: its options, how it is opened, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import typer

from clearhead.cli import options as shared

if TYPE_CHECKING:
    from clearhead.decoding.config import DecodingConfig
    from clearhead.formats.document import Piece
    from clearhead.recipes.document_files import DocumentFormat, Fill
    from clearhead.recipes.documents import Filled
    from clearhead.recipes.translator import Translator
    from clearhead.text.glossary import Glossary

__all__ = ["Sides", "fill", "kind_of", "opener", "sides"]

_LINES_ONLY = (
    *("n_best", "prefix_file", "json_lines", "protect", "sample", "temperature", "top_k", "top_p", "seed"),
    *("alignments", "alignment_layer", "alignment_head", "alignment_threshold", "alignment_units"),
    *("replace_unknown", "lexicon"),
)
_DIGITS = 9  # of the number of a column
_NAMED = 5  # entries of a kind that are named in a message


class Sides(NamedTuple):
    """Where source and target stand: columns of TSV, fields of JSONL."""

    columns: tuple[int, int]
    fields: tuple[str, str]


def kind_of(context: typer.Context, file: str, format: str) -> Literal["lines"] | DocumentFormat:
    """What FILE is, as asked or as its name says. Raises InputError for options that mean nothing for it."""
    from clearhead.base.errors import InputError
    from clearhead.recipes.document_files import document_format

    kind: Literal["lines"] | DocumentFormat
    match format:
        case "lines" | "tsv" | "jsonl" | "xliff" | "tmx" | "po":
            kind = format
        case _:
            kind = document_format(file) or "lines"
    if kind == "lines":
        unfit: tuple[str, ...] = ("fill", "columns", "fields", "any_languages")
    else:
        unfit = _LINES_ONLY
        unfit += () if kind == "tsv" else ("columns",)
        unfit += () if kind == "jsonl" else ("fields",)
        unfit += () if kind in ("xliff", "po") else ("any_languages",)
    if useless := shared.given(context, *unfit):
        what = "lines of text" if kind == "lines" else f"a {kind.upper()} document"
        raise InputError(f"{useless} means nothing for {what}, as {file} is read; leave it out, or choose a --format")
    return kind


def sides(columns: str | None, fields: str | None) -> Sides:
    """What the options --columns and --fields say. Raises InputError for what is not two of each."""
    from clearhead.base.errors import InputError

    numbers = [number.strip() for number in (columns or "1,2").split(",")]
    names = [name.strip() for name in (fields or "source,target").split(",")]
    if len(numbers) != 2 or not all(number.isascii() and number.isdecimal() for number in numbers):
        raise InputError(f"--columns takes two numbers with a comma between them, such as 1,2; got {columns!r}")
    if max(len(number.lstrip("0")) for number in numbers) > _DIGITS:
        raise InputError(f"--columns: no line has so many columns; got a number of more than {_DIGITS} digits")
    if len(names) != 2 or not all(names):
        raise InputError(f"--fields takes two names with a comma between them, such as source,target; got {fields!r}")
    return Sides((int(numbers[0]), int(numbers[1])), (names[0], names[1]))


def opener(
    file: str, kind: DocumentFormat, languages: tuple[str, str], where: Sides, *, any_languages: bool
) -> Callable[[], Iterator[Piece]]:
    """What opens the document, each time that it is called."""
    from clearhead.recipes.document_files import open_document

    return partial(
        open_document,
        file,
        kind,
        languages,
        columns=where.columns,
        fields=where.fields,
        any_languages=any_languages,
    )


def fill(  # noqa: PLR0913, PLR0917 (what the options say)
    translator: Translator,
    config: DecodingConfig,
    file: str,
    pieces: Callable[[], Iterator[Piece]],
    output: str,
    which: Fill,
    glossary: Glossary | None,
    batch_tokens: int | None,
    window: int | None,
) -> None:
    """Fill the document, and tell what became of it on standard error. Raises DecodingError if an entry failed."""
    from clearhead.base.errors import DecodingError
    from clearhead.base.log import logger
    from clearhead.formats.lines import display_name, gives_itself_once
    from clearhead.recipes.document_files import count_slots
    from clearhead.recipes.documents import FAILED, WINDOW, translate_document

    # A document that is read twice shows what is wrong with its end before an hour has gone into its beginning.
    total = None if gives_itself_once(file) else count_slots(pieces(), which)
    with shared.progress_bar("filling", total) as progress:
        outcome = translate_document(
            translator,
            config,
            pieces(),
            output,
            fill=which,
            glossary=glossary,
            batch_tokens=batch_tokens,
            window=window or WINDOW,
            progress=progress,
        )
    _tell(outcome, display_name(file))
    logger.info("%s", outcome.summary())
    if failed := outcome.left.get(FAILED):
        raise DecodingError(f"{display_name(file)}: {len(failed)} of {outcome.entries} entries failed: {_some(failed)}")


def _tell(outcome: Filled, name: str) -> None:
    from clearhead.base.log import logger

    for reason, places in outcome.left.items():
        logger.warning("%s: left as it was, %s: %s", name, reason, _some(places))
    for flag, meaning in _WORTH_A_LOOK.items():
        if places := outcome.flagged.get(flag, []):
            logger.info("%s: %s: %s", name, meaning, _some(places))


_WORTH_A_LOOK = {
    "placeholders_repaired": "placeholders repaired",
    "glossary": "a term of the glossary is missing",
    "max_length": "perhaps cut short by the length limit",
}


def _some(places: list[str]) -> str:
    return ", ".join(places[:_NAMED]) + (f" and {len(places) - _NAMED:,} more" if len(places) > _NAMED else "")
