"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from clearhead.decoding.config import DecodingConfig
    from clearhead.recipes.translator import Translator

__all__ = [
    "Alpha",
    "BatchTokens",
    "Beam",
    "BundlePath",
    "Device",
    "Engine",
    "Ensemble",
    "MaxLength",
    "MinLength",
    "Penalty",
    "Precision",
    "Reproducible",
    "Tag",
    "Threads",
    "Weights",
    "decoding",
    "given",
    "open_translator",
    "progress_bar",
    "tell_unknown",
]

BundlePath = Annotated[str, typer.Argument(metavar="BUNDLE", help="A saved model, or a run directory (its best).")]
Ensemble = Annotated[
    list[str] | None,
    typer.Option(
        "--ensemble", metavar="BUNDLE", help="Another model with the same tokenizer to vote with; repeatable."
    ),
]
Weights = Annotated[
    Literal["auto", "raw", "ema"],
    typer.Option(help="The weights as trained (raw), their moving average (ema), or the average if there is one."),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Threads = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Processor threads; if not given, as many as cores.")
]
Engine = Annotated[
    Literal["auto", "plain", "fast"],
    typer.Option(help="plain: the modules as trained; fast: packed; auto: fast on a CPU with the native library."),
]
Precision = Annotated[
    Literal["fp32", "bf16", "int8"],
    typer.Option(help="fp32: as the plain engine; bf16: nearly; int8: least memory, some lines worded otherwise."),
]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses kept alive per sentence; 1 is greedy. [default: 4]")]
Penalty = Annotated[
    Literal["gnmt", "length", "none"] | None,
    typer.Option(help="Score = log P over ((5+|Y|)/6)^alpha, |Y|^alpha, or nothing. [default: gnmt]"),
]
Alpha = Annotated[float | None, typer.Option(help="Exponent of the length penalty. [default: 0.6]")]
MinLength = Annotated[int | None, typer.Option(min=0, help="Fewest tokens of a translation. [default: 0]")]
MaxLength = Annotated[
    int | None, typer.Option(min=0, help="Most tokens of a translation. [default: those of the source plus 50]")
]
Tag = Annotated[
    str | None,
    typer.Option(metavar="TAG", help="Put before each source text, such as <2de>, for a model trained with tags."),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(min=1, help="Source tokens x beam searched at once, by each thread. [default: 4096; GPU 65536]"),
]
Reproducible = Annotated[
    bool,
    typer.Option(
        "--reproducible",
        help="The same scores to the last bit in any batch and any order; slower if plain, on a CPU only.",
    ),
]


def given(context: typer.Context, *names: str) -> str | None:
    """Those of the options `names` (of the parameters' names) that stand on the command line, as one writes them.

    None if there are none: `--beam and --alpha`, `--beam`, None.
    """
    found = [
        max(parameter.opts, key=len)
        for parameter in context.command.params
        if parameter.name in names
        and (source := context.get_parameter_source(parameter.name)) is not None
        and source.name == "COMMANDLINE"
    ]
    return " and ".join(part for part in (", ".join(found[:-1]), *found[-1:]) if part) or None


def open_translator(  # noqa: PLR0913, PLR0917 (the options, in their order)
    bundle: str,
    ensemble: list[str] | None,
    weights: Literal["auto", "raw", "ema"],
    device: str,
    threads: int | None,
    tag: str | None = None,
    engine: Literal["auto", "plain", "fast"] = "plain",
    precision: Literal["fp32", "bf16", "int8"] = "fp32",
) -> Translator:
    """Load what the options name.

    Raises InputError for an environment variable that names no instruction set; warns of a library that does not load.
    """
    import torch

    from clearhead.base.errors import InputError
    from clearhead.base.log import logger
    from clearhead.engine.library import misspelt, unusable
    from clearhead.recipes.translate import load

    if engine != "plain" and (mistake := misspelt()) is not None:
        raise InputError(mistake)
    if engine != "plain" and (reason := unusable()) is not None:
        logger.warning("the native library is not used: %s", reason)
    if threads is not None:
        torch.set_num_threads(threads)
    translator = load([bundle, *(ensemble or [])], device, weights, engine, precision)
    return translator if tag is None else translator.tagged(tag)


def decoding(
    context: typer.Context,
    *,
    sample: bool = False,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seeded: bool = True,
    **options: object,
) -> DecodingConfig:
    """The search that the options describe; any sampling option turns sampling on.

    `seeded` says whether --seed, where the command has it, is that of the samples.
    Raises InputError for options that stand on the command line of `context` and would change nothing.
    """
    from clearhead.base.errors import InputError
    from clearhead.recipes.translator import decoding_config

    wanted = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    chosen = {name: value for name, value in wanted.items() if value is not None}
    if sample or chosen:
        options["sampling"] = chosen
        if useless := given(context, "beam"):
            raise InputError(f"{useless} is for a search, and samples are drawn without one; leave one of the two out")
    elif seeded and (useless := given(context, "seed")):
        raise InputError(f"{useless} changes nothing in a search: add --sample, or leave it out")
    if options.get("penalty") == "none" and (useless := given(context, "alpha")):
        raise InputError(
            f"{useless} is the exponent of a penalty, and --penalty none has none; leave one of the two out"
        )
    if options.get("reproducible") and (useless := given(context, "batch_tokens")):
        raise InputError(
            f"{useless} and --reproducible: its batches have a size of their own; leave one of the two out"
        )
    return decoding_config(None, **options)


def tell_unknown(name: str, pieces: Sequence[str]) -> None:
    """Warn of what is written in the text called `name` where the vocabulary has no piece for it, if anything is."""
    from clearhead.base.log import logger

    if pieces:
        count = "1 token" if len(pieces) == 1 else f"{len(pieces)} tokens"
        logger.warning(
            "%s has %s that the vocabulary has no piece for (%s); the model reads <unk> there and knows no more",
            name,
            count,
            ", ".join(map(repr, dict.fromkeys(pieces))),
        )


@contextlib.contextmanager
def progress_bar(what: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[[int], None] | None]:
    """A bar on standard error that is moved by calling it with the number done; None where it could not be seen."""
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
