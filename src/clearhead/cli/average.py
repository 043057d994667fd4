"""`clearhead average`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["average"]


def average(
    bundles: Annotated[list[Path], typer.Argument(help="Bundles, or a run with --last.", metavar="BUNDLES…")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The bundle to write.")],
    last: Annotated[int, typer.Option(help="Average the last K checkpoints of one run.", metavar="K", min=0)] = 0,
) -> None:
    """Average the weights of several bundles of one run (the 2017 paper, §6.1, averages the last 5 or 20)."""
    from clearhead.base.log import logger
    from clearhead.recipes.average import average as run

    bundle = run(bundles, out, last=last)
    logger.info("wrote %s (%s)", bundle.path, ", ".join(bundle.training["averaged"]))
