"""`clearhead walk`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from clearhead.cli import options as shared

__all__ = ["walk"]


def walk(  # noqa: PLR0913, PLR0917 (one parameter an option)
    context: typer.Context,
    bundle: shared.BundlePath,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One sentence to translate.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")] = "walk.html",
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Walk through this translation, not the one that is found.")
    ] = None,
    tag: shared.Tag = None,
    beam: shared.Beam = None,
    penalty: shared.Penalty = None,
    alpha: shared.Alpha = None,
    max_length: shared.MaxLength = None,
    language: Annotated[
        Literal["en", "zh"], typer.Option(help="What the page opens in; it holds English and Chinese.")
    ] = "en",
    weights: shared.Weights = "auto",
    threads: shared.Threads = None,
) -> None:
    """Show how one sentence is translated, number by number, as one HTML page.

    The page steps through tokens, embeddings, every layer and head, probabilities and the beam search. It opens in any
    browser and needs nothing else, no network either. Of wide models it shows the first columns of each matrix.
    """
    from clearhead.base.errors import InputError
    from clearhead.base.log import logger

    if output == "-":
        raise InputError("--output: the page is written to a file, not to standard output; give it a name")
    config = shared.decoding(context, beam=beam, penalty=penalty, alpha=alpha, max_length=max_length)
    translator = shared.open_translator(bundle, None, weights, "cpu", threads, tag)

    from clearhead.explorer.walk_page import write_page
    from clearhead.recipes.walk import walk as walk_through

    found = walk_through(translator, text, config, target)
    shared.tell_unknown("the text", found.source_unknown)
    shared.tell_unknown("--target", found.target_unknown)
    write_page(found, output, language)
    logger.info("%s: %s", output, found.walked_text)
