"""`clearhead evaluate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli import options as shared

__all__ = ["evaluate"]

FOR_A_BUNDLE = (
    *("source", "output", "ensemble", "tag", "beam", "penalty", "alpha", "max_length"),
    *("weights", "engine", "precision", "device", "threads", "batch_tokens", "reproducible"),
)
"""Parameters that say how to translate, and mean nothing for what is translated already."""


def evaluate(  # noqa: PLR0913, PLR0917 (one parameter an option)
    context: typer.Context,
    what: Annotated[
        str, typer.Argument(metavar="BUNDLE|HYPOTHESES", help="A saved model or run, or a file of translations; - too.")
    ],
    reference: Annotated[str, typer.Option("--reference", "-r", metavar="FILE", help="The true translations.")],
    source: Annotated[
        str | None, typer.Option("--source", "-s", metavar="FILE", help="What to translate; with a BUNDLE.")
    ] = None,
    languages: Annotated[
        str | None, typer.Option(help="Such as en-de: says how BLEU counts words; with HYPOTHESES.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Keep the translations; with a BUNDLE.")
    ] = None,
    ensemble: shared.Ensemble = None,
    tag: shared.Tag = None,
    beam: shared.Beam = None,
    penalty: shared.Penalty = None,
    alpha: shared.Alpha = None,
    max_length: shared.MaxLength = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    weights: shared.Weights = "auto",
    engine: shared.Engine = "auto",
    precision: shared.Precision = "fp32",
    device: shared.Device = "auto",
    threads: shared.Threads = None,
    batch_tokens: shared.BatchTokens = None,
    reproducible: shared.Reproducible = False,
) -> None:
    """BLEU and chrF, with sacreBLEU's signatures, of a model or of translations that are there already."""
    from clearhead.base.errors import InputError
    from clearhead.base.log import logger
    from clearhead.formats.lines import (
        count_lines,
        display_name,
        gives_itself_once,
        goes_to_standard_output,
        is_standard_stream,
    )

    # Standard output may be where the translations go.
    report_to = sys.stderr if output is not None and goes_to_standard_output(output) else sys.stdout
    if is_standard_stream(what) or Path(what).is_file():
        if languages is None:
            raise InputError("--languages is missing: a file of translations does not say what language it is in")
        if useless := shared.given(context, *FOR_A_BUNDLE):
            raise InputError(
                f"{useless}: for a BUNDLE only, but {display_name(what)} is a file of translations; leave this out"
            )
        from clearhead.recipes.evaluate import evaluate_file, target_language

        result = evaluate_file(what, reference, target_language(languages))
    else:
        if source is None:
            raise InputError("--source is missing: a model needs something to translate")
        total = None if gives_itself_once(source) else count_lines(source)
        config = shared.decoding(
            context, beam=beam, penalty=penalty, alpha=alpha, max_length=max_length, reproducible=reproducible
        )
        translator = shared.open_translator(what, ensemble, weights, device, threads, tag, engine, precision)
        from clearhead.recipes.evaluate import check_languages, evaluate_translator
        from clearhead.recipes.translate import header

        check_languages(translator, languages)
        logger.info("%s", header(translator, config, " + ".join([what, *(ensemble or [])])))
        with shared.progress_bar("translating", total) as progress:
            result = evaluate_translator(
                translator, config, source, reference, output=output, batch_tokens=batch_tokens, progress=progress
            )
    print(result.as_json() if json_output else result, file=report_to)
