"""`clearhead compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["compare"]


def compare(  # noqa: PLR0913, PLR0917 (one parameter an option)
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where all is written; the same again goes on with it.")],
    corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Holds train, val (or dev) and test files, such as train.en and train.de, plain or compressed; "
            "without it, the demo's corpus is fetched.",
        ),
    ] = None,
    languages: Annotated[str, typer.Option(metavar="SOURCE,TARGET", help="Endings of the files.")] = "en,de",
    quick: Annotated[
        bool, typer.Option("--quick", help="Everything in two minutes, at a size that says nothing about the models.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Train this model of the line-up alone; repeatable.")
    ] = None,
    updates: Annotated[int | None, typer.Option(min=1, help="Of each model. [default: 1200]")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="That the training of a model may take at most. [default: 5]")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=0, help="Models trained at once, one thread each; 0: as many as there are cores.")
    ] = 0,
    page_language: Annotated[
        Literal["en", "zh"], typer.Option(help="What the report opens in; it holds English and Chinese.")
    ] = "en",
) -> None:
    """Train the ancestors and the Transformer alike, and report what each is worth.

    Models of equal size see the same batches equally often; scores, lengths, gradients, times and alignments are
    measured. The report is DIR/report/index.html. A comparison that was stopped goes on where it was.
    """
    from clearhead.base.log import logger
    from clearhead.explorer.comparison_page import build_report
    from clearhead.recipes.compare.run import CompareConfig
    from clearhead.recipes.compare.run import compare as run
    from clearhead.text.languages import parse_pair

    pair = parse_pair(languages)
    config = CompareConfig(out, corpus, pair, quick, tuple(only or ()), updates, minutes, jobs)
    try:
        found = run(config)
    except KeyboardInterrupt:
        logger.warning("what is finished is kept; the same command goes on")
        raise
    page = build_report(found.results, out / "report", page_language)
    logger.info("%s", page)
    if found.failed:
        logger.error("%d models failed: %s", len(found.failed), ", ".join(found.failed))
        raise typer.Exit(1)
