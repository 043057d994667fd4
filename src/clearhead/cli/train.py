"""`clearhead train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["train"]

TEXT = "Text"
RUN = "Run"


def train(  # noqa: PLR0913, PLR0917 (one parameter an option)
    recipe: Annotated[Path | None, typer.Argument(help="A recipe (TOML). Flags and --set change it.")] = None,
    source: Annotated[str | None, typer.Option(help="Source text to train on.", rich_help_panel=TEXT)] = None,
    target: Annotated[str | None, typer.Option(help="Its translation, line by line.", rich_help_panel=TEXT)] = None,
    tsv: Annotated[str | None, typer.Option(help="Or both in one tab-separated file.", rich_help_panel=TEXT)] = None,
    dev_source: Annotated[str | None, typer.Option(help="Source of the development set.", rich_help_panel=TEXT)] = None,
    dev_target: Annotated[str | None, typer.Option(help="Its references.", rich_help_panel=TEXT)] = None,
    dev_tsv: Annotated[str | None, typer.Option(help="Or both in one file.", rich_help_panel=TEXT)] = None,
    languages: Annotated[str | None, typer.Option(help="Two codes such as en,de.", rich_help_panel=TEXT)] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Size of the model: tiny, small, base, big, bench-tiny, seq2seq, rnnsearch, luong-local-p, convs2s, "
            "bytenet, seq2seq-tiny, rnnsearch-tiny, luong-local-p-tiny, convs2s-tiny, bytenet-tiny.",
            rich_help_panel=RUN,
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="The run directory, made or resumed.", rich_help_panel=RUN)
    ] = None,
    init: Annotated[str | None, typer.Option(help="A bundle or run to fine-tune.", rich_help_panel=RUN)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key, such as training.updates=500.", rich_help_panel=RUN),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh/--resume", help="Start again instead of going on from checkpoints.", rich_help_panel=RUN),
    ] = False,
) -> None:
    """Train a translator from parallel text, or go on with a run.

    A run that was stopped or killed goes on when it is started again; `clearhead train --out RUN` is enough. Ctrl-C
    saves first.
    """
    from clearhead.config.toml import load_toml
    from clearhead.text.languages import parse_pair

    flags = _flags(source, target, tsv, "train") | {}
    development = _flags(dev_source, dev_target, dev_tsv, "dev")
    data: dict[str, Any] = flags | development
    if languages is not None:
        data["languages"] = list(parse_pair(languages))
    table: dict[str, Any] = {"data": data} if data else {}
    if preset is not None:
        table["model"] = {"preset": preset}
    if out is not None:
        table["out"] = out
    if init is not None:
        table["init"] = init
    from clearhead.recipes.run_config import begun_with, compose
    from clearhead.recipes.train import train as run

    base, where = begun_with(table, settings or ()) if recipe is None else (load_toml(recipe), str(recipe))
    result = run(compose(base, table, settings or (), where), fresh=fresh)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _flags(source: str | None, target: str | None, tsv: str | None, part: str) -> dict[str, Any]:
    given = {"source": source, "target": target, "tsv": tsv}
    corpus = {key: value for key, value in given.items() if value is not None}
    return {part: corpus} if corpus else {}
