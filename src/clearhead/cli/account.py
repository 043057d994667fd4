"""`clearhead account`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["account"]


def account(  # noqa: PLR0913, PLR0917 (one parameter an option)
    what: Annotated[
        str, typer.Argument(metavar="PRESET|BUNDLE|RUN", help="A preset's name, a saved model, or a run (its best).")
    ],
    vocab_size: Annotated[
        int | None, typer.Option(min=5, help="Of a preset's joint vocabulary. [default: 37000]")
    ] = None,
    source_length: Annotated[int, typer.Option(min=1, help="Tokens of the source, EOS included.")] = 64,
    target_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens of the target, EOS included. [default: as many]")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sentence pairs at once, all of these lengths.")] = 1,
    beam: Annotated[
        int, typer.Option(min=1, help="Hypotheses of a sentence that have a key/value cache of their own.")
    ] = 1,
    lengths: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Also one encoder layer at these lengths, side by side.")
    ] = None,
    cache: Annotated[
        bool | None,
        typer.Option("--cache/--no-cache", help="Decoding with a key/value cache, or without. [default: both]"),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Of all numbers: float64, float32, bfloat16 or float16.")] = "float32",
    kernel: Annotated[int, typer.Option(min=3, help="Width k of the convolutions compared; odd.")] = 3,
    window: Annotated[int, typer.Option(min=3, help="Width r of the restricted attention compared; odd.")] = 33,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a preset, such as model.attention.kv_heads=1."),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with every number exact.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png|svg", help="Draw where attention overtakes the linear terms.")
    ] = None,
) -> None:
    """What a model costs, exactly: parameters, operations, bytes, path lengths and crossovers."""
    from clearhead.analysis.sizes import Lengths
    from clearhead.analysis.tables import render
    from clearhead.base.log import logger
    from clearhead.recipes import account as recipe

    question = recipe.Question(
        Lengths(source_length, target_length or source_length, batch),
        dtype=dtype,
        cache=cache,
        table=_lengths(lengths),
        kernel=kernel,
        window=window,
        beam=beam,
    )
    subject = recipe.find(what, vocab_size, settings or ())
    table = recipe.account(subject, question)
    if plot is not None:
        recipe.plot(subject, plot)
        logger.info("wrote %s", plot)
    if json_output:
        import json

        print(json.dumps(table, ensure_ascii=False, indent=2))
    else:
        print(render(table))


def _lengths(text: str | None) -> tuple[int, ...]:
    from clearhead.base.errors import InputError

    if text is None:
        return ()
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if wrong := [part for part in parts if not (part.isascii() and part.isdigit() and int(part))]:
        raise InputError(f"--lengths {text}: {wrong[0]!r} is no length; write whole numbers with commas: 512,1024")
    return tuple(int(part) for part in parts)
