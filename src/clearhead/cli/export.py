"""`clearhead export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from clearhead.cli import options as shared

__all__ = ["export"]


def export(
    bundle: shared.BundlePath,
    to: Annotated[Literal["ctranslate2", "huggingface"], typer.Option(help="The program that is to read it.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
    sample: Annotated[
        Path | None, typer.Option(help="Sentences to compare by, a line each. [default: drawn from the vocabulary]")
    ] = None,
    weights: shared.Weights = "auto",
    threads: shared.Threads = None,
) -> None:
    """Write a model for CTranslate2 or transformers, once that program makes the same of it."""
    import torch

    from clearhead.base.log import logger
    from clearhead.recipes.export import export_bundle

    if threads is not None:
        torch.set_num_threads(threads)
    agreement = export_bundle(bundle, to, out, sample=sample, weights=weights)
    logger.info("wrote %s; %s", out, agreement)
