"""The options by which `translate` and `score` write alignments, and `clearhead data aer`, which judges them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clearhead.cli import options as shared

if TYPE_CHECKING:
    from clearhead.recipes.alignments import Linking

__all__ = ["Alignments", "Head", "Layer", "Threshold", "Units", "aer", "check_company", "check_places", "linking"]

Alignments = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write a line of links (0-0 1-2 …: source word, target word) for each line, by the model's attention.",
    ),
]
Layer = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Decoder layer whose attention is read, from 1; 0: the mean over all. "
        "[default: a Transformer's last but one, the mean of a convolutional decoder]",
    ),
]
Head = Annotated[int | None, typer.Option(min=1, help="Head that is read, from 1. [default: the mean over all]")]
Threshold = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Link to every source of this weight. [default: to the one of the greatest]"),
]
Units = Annotated[
    Literal["words", "pieces"] | None,
    typer.Option(help="Count words, which white space separates, or the tokenizer's pieces. [default: words]"),
]

_READING = ("alignment_layer", "alignment_head", "alignment_threshold", "alignment_units")


def linking(  # noqa: PLR0913, PLR0917 (the options, in their order)
    context: typer.Context,
    wanted: bool,
    layer: int | None,
    head: int | None,
    threshold: float | None,
    units: Literal["words", "pieces"] | None,
) -> Linking | None:
    """How links are made, if they are `wanted`. Raises InputError for options that would change nothing."""
    from clearhead.base.errors import InputError

    if not wanted:
        if useless := shared.given(context, *_READING):
            raise InputError(f"{useless} changes nothing without --alignments; add it, or leave out the other")
        return None
    from clearhead.inspection.alignment import Reading
    from clearhead.recipes.alignments import Linking

    return Linking(Reading(layer, head), threshold, units or "words")


def check_company(name: str, *, protect: bool, precision: str) -> None:
    """Raise InputError where the option `name` reads attention, and something beside it takes that away."""
    from clearhead.base.errors import InputError

    if protect:
        raise InputError(f"{name} goes by what the model wrote, and --protect changes it; leave one of the two out")
    if precision != "fp32":
        raise InputError(
            f"{name} reads the weights as they were trained, and --precision {precision} keeps them packed alone; "
            "leave one of the two out"
        )


def check_places(read: Sequence[str], output: str, alignments: str) -> None:
    """Raise InputError where links would be written over what is read, or over the translations or scores."""
    from clearhead.base.errors import InputError
    from clearhead.formats.lines import check_apart, goes_to_standard_output

    if not alignments.strip():
        raise InputError("--alignments: empty; name the file for the links, or leave it out")
    check_apart(read, [output, alignments], "--output or --alignments")
    if goes_to_standard_output(output) and goes_to_standard_output(alignments):
        raise InputError(f"{alignments}: would be written twice; name another file with --output or --alignments")


def aer(
    links: Annotated[Path, typer.Argument(metavar="LINKS", help="Links of a system, a line a pair (0-0 1-2 …).")],
    gold: Annotated[
        Path, typer.Argument(metavar="GOLD", help="Those that people made, sure (0-0) or possible (0?0, 0p0).")
    ],
    json_output: Annotated[bool, typer.Option("--json", help="Print the scores and counts as JSON.")] = False,
) -> None:
    """Alignment error rate, precision and recall of links against those that people made.

    LINKS is what `data align`, `translate --alignments` or `score --alignments` wrote; both files have a line a pair.
    """
    from clearhead.recipes.align import judge_links, scores_of

    scores = judge_links(links, gold)
    if json_output:
        import json

        print(json.dumps(scores_of(scores), indent=2))
    else:
        print(f"{scores}, {scores.pairs:,} pairs")
