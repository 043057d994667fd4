"""`clearhead info`."""

from __future__ import annotations

from typing import Annotated

import typer

from clearhead.cli import options as shared

__all__ = ["info"]


def info(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="BUNDLE|PRESET", help="A saved model, a run, or a preset's name.")],
    vocab_size: Annotated[int, typer.Option(min=5, help="Of a preset's joint vocabulary.")] = 37000,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Configuration, parameters by part, versions and training summary of a model."""
    from clearhead.base.errors import InputError
    from clearhead.base.log import logger
    from clearhead.recipes.info import describe, render

    table = describe(what, vocab_size)
    if "preset" not in table and (useless := shared.given(context, "vocab_size")):
        raise InputError(f"{useless} is for a preset; the vocabulary of {what} is what it was trained with")
    if "preset" in table and not shared.given(context, "vocab_size"):
        logger.info("the vocabulary of %s is about the paper's; --vocab-size gives another", f"{vocab_size:,}")
    if json_output:
        import json

        print(json.dumps(table, ensure_ascii=False, indent=2))
    else:
        print(render(table))
