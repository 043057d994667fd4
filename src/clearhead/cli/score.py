"""`clearhead score`."""

from __future__ import annotations

from typing import Annotated

import typer

from clearhead.cli import alignment
from clearhead.cli import options as shared

__all__ = ["score"]


def score(  # noqa: PLR0913, PLR0917 (one parameter an option)
    context: typer.Context,
    bundle: shared.BundlePath,
    source: Annotated[str, typer.Option("--source", "-s", metavar="FILE", help="Text; - is standard input.")],
    target: Annotated[str, typer.Option("--target", "-t", metavar="FILE", help="Its translation, line by line.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output.")
    ] = "-",
    ensemble: shared.Ensemble = None,
    tag: shared.Tag = None,
    penalty: shared.Penalty = None,
    alpha: shared.Alpha = None,
    json_lines: Annotated[
        bool, typer.Option("--json", help="One object a line: log_prob, score, perplexity, tokens and theirs, flags.")
    ] = False,
    alignments: alignment.Alignments = None,
    alignment_layer: alignment.Layer = None,
    alignment_head: alignment.Head = None,
    alignment_threshold: alignment.Threshold = None,
    alignment_units: alignment.Units = None,
    weights: shared.Weights = "auto",
    device: shared.Device = "auto",
    threads: shared.Threads = None,
    batch_tokens: shared.BatchTokens = None,
    reproducible: shared.Reproducible = False,
) -> None:
    """How likely a model finds given translations: log P and perplexity of each line, with a tab between them.

    The perplexity of the whole goes to standard error.
    """
    from clearhead.base.errors import DecodingError, InputError
    from clearhead.base.log import logger
    from clearhead.formats.lines import count_lines, gives_itself_once

    if not json_lines and (useless := shared.given(context, "penalty", "alpha")):
        verb = "need" if " and " in useless else "needs"
        raise InputError(f"{useless} {verb} --json: without it no score is printed that has a penalty")
    linking = alignment.linking(
        context, alignments is not None, alignment_layer, alignment_head, alignment_threshold, alignment_units
    )
    if alignments is not None:
        alignment.check_places([source, target], output, alignments)
    total = None if gives_itself_once(source) else count_lines(source)
    config = shared.decoding(context, penalty=penalty, alpha=alpha, reproducible=reproducible)
    translator = shared.open_translator(bundle, ensemble, weights, device, threads, tag)

    from clearhead.recipes.alignments import Linker
    from clearhead.recipes.score import score_files

    linker = None if linking is None else Linker(translator, linking, batch_tokens=1 if reproducible else batch_tokens)
    with shared.progress_bar("scoring", total) as progress:
        totals = score_files(
            translator,
            config,
            source,
            target,
            output,
            json_lines=json_lines,
            linker=linker,
            alignments=alignments,
            batch_tokens=batch_tokens,
            progress=progress,
        )
    logger.info("%s", totals)
    if totals.failed:
        raise DecodingError(f"{totals.failed} of {totals.lines} lines could not be scored; the log names them")
