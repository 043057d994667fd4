"""`clearhead verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from clearhead.cli import options as shared

__all__ = ["verify"]


def verify(
    fact: Annotated[
        list[str] | None,
        typer.Option(
            "--fact",
            metavar="ID",
            help="Only this one, such as attn.weights, or this chapter, such as attn; may be given again.",
        ),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Recompute the numbers of the handbook with the modules that train, and compare them with its own.

    Exit code 1 when they differ anywhere by more than 1e-9.
    """
    from clearhead.recipes.verify import render, selected
    from clearhead.recipes.verify import verify as recompute

    wanted = fact or []
    with shared.progress_bar("facts", len(selected(wanted))) as progress:
        report = recompute(wanted, progress=progress)
    if json_output:
        import json

        print(json.dumps(report.table(), ensure_ascii=False, indent=2))
    else:
        print(render(report, each=bool(wanted)))
    if report.failures:
        raise typer.Exit(1)
