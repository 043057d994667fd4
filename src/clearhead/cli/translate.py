"""`clearhead translate`."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from clearhead.cli import alignment, document
from clearhead.cli import options as shared

__all__ = ["translate"]


def translate(  # noqa: PLR0913, PLR0917 (one parameter an option)
    context: typer.Context,
    bundle: shared.BundlePath,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Text or a document; - is standard input.")] = "-",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output.")
    ] = "-",
    format: Annotated[
        Literal["auto", "lines", "tsv", "jsonl", "xliff", "tmx", "po"],
        typer.Option(help="What FILE is: lines of text, or a document; auto: as its name says."),
    ] = "auto",
    fill: Annotated[
        Literal["empty", "review", "all"] | None,
        typer.Option(
            help="Entries of a document to translate: those without a translation, those to be reviewed, too, or all. "
            "[default: empty]"
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="N,N", help="Source and target column of TSV. [default: 1,2]")
    ] = None,
    fields: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Fields of JSONL. [default: source,target]")
    ] = None,
    any_languages: Annotated[
        bool, typer.Option("--any-languages", help="Fill a PO or XLIFF file that says it is in other languages.")
    ] = False,
    glossary: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Terms to be used: source, tab, target; perhaps tab, i (in any case)."),
    ] = None,
    protect: Annotated[
        bool, typer.Option("--protect", help="Keep placeholders and tags in lines, too; in documents they always are.")
    ] = False,
    ensemble: shared.Ensemble = None,
    tag: shared.Tag = None,
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
    alignments: alignment.Alignments = None,
    alignment_layer: alignment.Layer = None,
    alignment_head: alignment.Head = None,
    alignment_threshold: alignment.Threshold = None,
    alignment_units: alignment.Units = None,
    replace_unknown: Annotated[
        bool,
        typer.Option(
            "--replace-unknown",
            help="Let a model of words write unknown ones, and put in the source word that its attention links to.",
        ),
    ] = False,
    lexicon: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Put in this word's translation, as `data align --lexicon` wrote it."),
    ] = None,
    weights: shared.Weights = "auto",
    engine: shared.Engine = "auto",
    precision: shared.Precision = "fp32",
    device: shared.Device = "auto",
    threads: shared.Threads = None,
    batch_tokens: shared.BatchTokens = None,
    reproducible: shared.Reproducible = False,
    window: Annotated[
        int | None,
        typer.Option(
            min=1, help="Lines read ahead to fill batches. [default: 2000; at a terminal 1; entries of documents 1000]"
        ),
    ] = None,
) -> None:
    """Translate text, line by line, or fill what is empty in a document.

    Of text there are as many lines out as in, in their order. A document (TSV, JSONL, XLIFF, TMX, PO) keeps every byte
    but the entries that are filled; these are marked as needing review, and their placeholders and tags are kept.

    Standard output carries translations only; what is run and what is to be known about single lines goes to standard
    error.
    """
    from clearhead.base.errors import DecodingError, InputError
    from clearhead.base.log import logger
    from clearhead.formats.glossary import read_glossary
    from clearhead.formats.lines import (
        check_apart,
        check_exists,
        count_lines,
        display_name,
        gives_itself_once,
        is_one_stream,
        is_standard_stream,
    )

    kind = document.kind_of(context, file, format)
    sides = document.sides(columns, fields)
    if (n_best or 1) > 1 and not json_lines:
        raise InputError("--n-best needs --json: without it there is one line out for one line in")
    config = shared.decoding(
        context,
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
        reproducible=reproducible,
    )
    if config.sampling is not None and (useless := shared.given(context, "glossary", "protect")):
        raise InputError(f"{useless} needs a search, and samples are drawn without one; leave one of the two out")
    if lexicon is not None and not replace_unknown:
        raise InputError("--lexicon is for unknown words: add --replace-unknown, or leave it out")
    if replace_unknown and (n_best or 1) > 1:
        raise InputError("--replace-unknown and --n-best: only the best translation is linked; leave one out")
    asked = "--alignments" if alignments is not None else "--replace-unknown" if replace_unknown else None
    if asked is not None:
        alignment.check_company(asked, protect=protect, precision=precision)
    linking = alignment.linking(
        context, asked is not None, alignment_layer, alignment_head, alignment_threshold, alignment_units
    )
    beside = [each for each in (prefix_file, glossary, lexicon) if each is not None]
    check_apart(beside, [output], "--output")
    if alignments is not None:
        alignment.check_places([file, *beside], output, alignments)
    for each in (file, *beside):  # before the model is read
        check_exists(each)
    if lexicon is not None and is_one_stream(file, lexicon):
        raise InputError(f"{display_name(file)}: cannot be both the text and the lexicon; name a file for one of them")
    total = None if kind != "lines" or gives_itself_once(file) else count_lines(file)
    terms = None if glossary is None else read_glossary(glossary)
    translator = shared.open_translator(bundle, ensemble, weights, device, threads, tag, engine, precision)

    from clearhead.recipes.alignments import make_linker
    from clearhead.recipes.translate import header, translate_file
    from clearhead.recipes.translator import WINDOW

    linker = None
    if linking is not None:
        translator, linker = make_linker(
            translator, linking, alignments is not None, replace_unknown, lexicon, 1 if reproducible else batch_tokens
        )
    translator.check(config, phrases=terms is not None)
    logger.info("%s", header(translator, config, " + ".join([bundle, *(ensemble or [])])))
    if kind != "lines":
        pieces = document.opener(file, kind, translator.languages, sides, any_languages=any_languages)
        document.fill(translator, config, file, pieces, output, fill or "empty", terms, batch_tokens, window)
        return
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
            glossary=terms,
            protect=protect,
            linker=linker,
            alignments=alignments,
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
