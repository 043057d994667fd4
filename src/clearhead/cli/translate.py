"""`clearhead translate`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from clearhead.cli import options as shared

__all__ = ["translate"]


def translate(  # noqa: PLR0913, PLR0917 (one parameter an option)
    bundle: shared.BundlePath,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Text, one sentence a line; - is standard input.")] = "-",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output.")
    ] = "-",
    ensemble: shared.Ensemble = None,
    beam: shared.Beam = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="Translations per line; with --json. [default: 1]")] = None,
    penalty: shared.Penalty = None,
    alpha: shared.Alpha = None,
    min_length: shared.MinLength = None,
    max_length: shared.MaxLength = None,
    prefix_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="How each translation begins, line by line; may be empty.")
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw at random instead of searching.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Sample; below 1 more peaked. [default: 1]")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample from the likeliest that hold this share.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the samples. [default: 0]")] = None,
    json_lines: Annotated[
        bool, typer.Option("--json", help="One object a line: text, score, log_prob, tokens, flags, alternatives.")
    ] = False,
    weights: shared.Weights = "auto",
    device: shared.Device = "auto",
    threads: shared.Threads = None,
    batch_tokens: shared.BatchTokens = None,
    window: Annotated[
        int | None, typer.Option(min=1, help="Lines read ahead to fill batches. [default: 2000; at a terminal 1]")
    ] = None,
) -> None:
    """Translate text, line by line: as many lines out as in, in their order.

    Standard output carries translations only; what is run and what is to be known about single lines goes to standard
    error.
    """
    from clearhead.base.errors import DecodingError, InputError
    from clearhead.base.log import logger
    from clearhead.formats.lines import count_lines, display_name, gives_itself_once, is_standard_stream

    if (n_best or 1) > 1 and not json_lines:
        raise InputError("--n-best needs --json: without it there is one line out for one line in")
    config = shared.decoding(
        sample=sample,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        beam=beam,
        n_best=n_best,
        penalty=penalty,
        alpha=alpha,
        min_length=min_length,
        max_length=max_length,
        seed=seed,
    )
    total = None if gives_itself_once(file) else count_lines(file)  # a missing file is seen before the model is read
    translator = shared.open_translator(bundle, ensemble, weights, device, threads)

    from clearhead.recipes.translate import header, translate_file
    from clearhead.recipes.translator import WINDOW

    logger.info("%s", header(translator, config, " + ".join([bundle, *(ensemble or [])])))
    typing = is_standard_stream(file) and sys.stdin is not None and sys.stdin.isatty()
    seen = is_standard_stream(output) and sys.stdout is not None and sys.stdout.isatty()
    with shared.progress_bar("translating", total, shown=not seen) as progress:
        outcome = translate_file(
            translator,
            config,
            file,
            output,
            prefixes=prefix_file,
            json_lines=json_lines,
            batch_tokens=batch_tokens,
            window=window or (1 if typing else WINDOW),
            progress=progress,
        )
    logger.info("%s", outcome.summary())
    if failed := outcome.flagged.get("failed"):
        lines = ", ".join(map(str, failed[:5])) + (", …" if len(failed) > 5 else "")
        raise DecodingError(
            f"{display_name(file)}: {len(failed)} of {outcome.lines} lines failed and are empty: {lines}"
        )
