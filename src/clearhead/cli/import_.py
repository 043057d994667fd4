"""`clearhead import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli import options as shared

__all__ = ["import_"]


def import_(
    folder: Annotated[Path, typer.Argument(help="A Marian or OPUS-MT model in Hugging Face format.", metavar="FOLDER")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The bundle to write.")],
    languages: Annotated[
        str | None, typer.Option(help="Source and target, such as en-de, if the folder does not say.", metavar="PAIR")
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="Sentences to compare by, a line each. [default: drawn from the vocabulary]")
    ] = None,
    threads: shared.Threads = None,
) -> None:
    """Read a translator of Marian's kind, once transformers makes the same of it."""
    import torch

    from clearhead.base.log import logger
    from clearhead.recipes.import_marian import import_folder

    if threads is not None:
        torch.set_num_threads(threads)
    bundle, agreement = import_folder(folder, out, languages=languages, sample=sample)
    logger.info("wrote %s (%s); %s", out, "→".join(bundle.languages), agreement)
