"""`clearhead inspect`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clearhead.cli import options as shared

if TYPE_CHECKING:
    from clearhead.inspection.records import AttentionRecord, EvidenceRecord
    from clearhead.inspection.sites import Stack
    from clearhead.recipes.inspect.sample_pairs import Sample
    from clearhead.recipes.inspect.stages import Stage
    from clearhead.recipes.translator import Translator

__all__ = ["inspect"]

SHOWN = 120
"""Letters of the translation that the last line shows."""
FOR_A_SAMPLE = ("pairs", "links")
FOR_AN_EXPORT = ("formats", "scale", "stacks", "layers", "heads")
FOR_A_SEARCH = ("hypothesis", "beam", "max_length")


def inspect(  # noqa: PLR0913, PLR0917 (one parameter an option)
    context: typer.Context,
    bundle: shared.BundlePath,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="One sentence; without it, the first pair of --sample.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The report.")] = "report.html",
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Read this translation, not the one that the search finds.")
    ] = None,
    hypothesis: Annotated[
        int, typer.Option(min=1, metavar="N", help="Read the N-th best translation of the search.")
    ] = 1,
    tests: Annotated[
        Literal["none", "quick", "full"],
        typer.Option(
            help="none: reading alone; quick: also gradients, ablation, permuted weights; full: adversarial ones too."
        ),
    ] = "quick",
    sample: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="SOURCE TARGET", help="Two files of aligned lines: what the heads do over many pairs."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, metavar="N", help="The first N pairs of --sample.")] = 200,
    links: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Links i-j of the words of --sample, a line a pair: finds aligned heads."),
    ] = None,
    seeds: Annotated[
        list[str] | None,
        typer.Option(
            "--other-seed", metavar="BUNDLE", help="The same model trained from another seed, to compare; repeatable."
        ),
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save", metavar="DIR", help="Keep the records, as JSON and arrays.")
    ] = None,
    export: Annotated[
        str | None, typer.Option("--export", metavar="DIR", help="Write maps and numbers into this folder.")
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Of --export: png, svg, csv, parquet, npz; repeatable. [default: png csv]",
        ),
    ] = None,
    stacks: Annotated[
        list[str] | None,
        typer.Option("--stack", metavar="STACK", help="Export only encoder, decoder or cross; repeatable."),
    ] = None,
    layers: Annotated[
        list[int] | None, typer.Option("--layer", min=1, metavar="N", help="Export only this layer; repeatable.")
    ] = None,
    heads: Annotated[
        list[int] | None,
        typer.Option("--head", min=1, metavar="N", help="Export only this head, a picture each; repeatable."),
    ] = None,
    scale: Annotated[Literal["linear", "log"], typer.Option(help="Colours of exported maps.")] = "linear",
    seed: Annotated[int, typer.Option(help="Of whatever is drawn: shuffles, starts, probes.")] = 1,
    language: Annotated[
        Literal["en", "zh"], typer.Option(help="What the report opens in; it holds English and Chinese.")
    ] = "en",
    tag: shared.Tag = None,
    beam: shared.Beam = None,
    penalty: shared.Penalty = None,
    alpha: shared.Alpha = None,
    max_length: shared.MaxLength = None,
    weights: shared.Weights = "auto",
    device: shared.Device = "auto",
    threads: shared.Threads = None,
) -> None:
    """Show what a model attends to, with evidence beside every map, as one HTML file.

    Attention weights say what was read, not why. Beside each head stand what closing it costs, what happens if it looks
    elsewhere, what gradients say, and how well each method did on tasks whose answer is known. What was not run is
    called not tested. The file needs no network.
    """
    from clearhead.base.errors import InputError
    from clearhead.base.log import logger

    _check_useless(context, sample is None, FOR_A_SAMPLE, "of a sample; add --sample SOURCE TARGET")
    _check_useless(context, export is None, FOR_AN_EXPORT, "of exported files; add --export DIR")
    _check_useless(context, tests == "none", ("seed",), "of what is drawn, and --tests none draws nothing")
    _check_useless(context, target is not None, FOR_A_SEARCH, "of a search, and --target is read without one")
    from clearhead.recipes.inspect.places import check_places

    if text is None and sample is None:
        raise InputError("there is nothing to look at: give a sentence, or --sample SOURCE TARGET")
    if text is None and target is not None:
        raise InputError("--target is the translation of a sentence: give the sentence as well")
    config = shared.decoding(context, beam=beam, penalty=penalty, alpha=alpha, max_length=max_length, seeded=False)
    check_places(output, save, export)
    translator = shared.open_translator(bundle, None, weights, device, threads, tag)
    others = [shared.open_translator(each, None, weights, device, threads, tag) for each in seeds or []]

    from clearhead.inspection.sites import attention_sites
    from clearhead.recipes.inspect.sentence import check_others, inspect_pair

    check_others(translator, others, seeds or [])

    from clearhead.explorer.inspect_page import write_report
    from clearhead.inspection.record_files import save_records
    from clearhead.recipes.inspect.bundles import model_name, seed_beside
    from clearhead.recipes.inspect.families import calibration_for, calibration_measures
    from clearhead.recipes.inspect.pair import choose_pair, unknown_tokens
    from clearhead.recipes.inspect.sample_pairs import read_sample

    name = model_name(bundle)
    calibration = calibration_for(translator.model)
    there = [(site.stack, site.layer, site.heads) for site in attention_sites(translator.model)]
    write_exports = _exporter(name, there, export, formats, stacks, layers, heads, scale, language)
    taken = None if sample is None else read_sample(translator, *sample, pairs, links)
    if text is None:
        assert taken is not None
        pair = taken.chosen[0]
    else:
        pair = choose_pair(translator, text, config, target=target, rank=hypothesis)
    for side, unknown in zip(("the text", "the translation"), unknown_tokens(translator, pair), strict=True):
        shared.tell_unknown(side, unknown)
    of_sample = None
    with _stages() as stage:
        record, evidence = inspect_pair(translator, pair, name=name, tests=tests, others=others, seed=seed, stage=stage)
        if taken is not None:
            beside = seed if shared.given(context, "seed") else seed_beside(bundle)
            of_sample = _evidence(translator, taken, name, tests, seed, (bundle, beside), stage)
    if save is not None:
        save_records(save, record, evidence, of_sample)
    write_exports(record, evidence, of_sample)
    measures = calibration_measures()
    write_report(output, record, evidence, of_sample, calibration=calibration, measures=measures, language=language)
    told = record.target_text if len(record.target_text) <= SHOWN else f"{record.target_text[: SHOWN - 1]}…"
    logger.info("%s: %s", output, told or "(an empty translation)")


@contextlib.contextmanager
def _stages() -> Iterator[Stage]:
    """What tells the name of each stage in the log and, on a terminal, shows with a bar how far it is."""
    from clearhead.base.log import logger

    with contextlib.ExitStack() as bar:

        def begin(name: str, steps: int | None) -> Callable[[int], None] | None:
            bar.close()  # that of the stage before
            logger.info("%s", name)
            if steps is None:
                return None
            return bar.enter_context(shared.progress_bar(name.partition(":")[0], steps))

        yield begin


def _evidence(  # noqa: PLR0913, PLR0917 (what the command knows by then)
    translator: Translator,
    taken: Sample,
    name: str,
    tests: Literal["none", "quick", "full"],
    seed: int,
    beside: tuple[str, int],
    stage: Stage,
) -> EvidenceRecord:
    """The evidence over the sample; `beside` is the bundle and the seed of the untrained model for the probes."""
    from clearhead.base.log import logger
    from clearhead.recipes.inspect.bundles import untrained_model
    from clearhead.recipes.inspect.sample import SampleSize, inspect_sample

    size = SampleSize.of(tests, len(taken.chosen))
    untrained = None
    if size.probed:
        bundle, other_seed = beside
        logger.info("probes will also be of an untrained model of this configuration, seed %d", other_seed)
        untrained = untrained_model(bundle, seed=other_seed, device=translator.device)
    return inspect_sample(translator, taken, name=name, size=size, untrained=untrained, seed=seed, stage=stage)


def _exporter(  # noqa: PLR0913, PLR0917 (the options of --export)
    model: str,
    there: list[tuple[Stack, int, int]],
    directory: str | None,
    formats: list[str] | None,
    stacks: list[str] | None,
    layers: list[int] | None,
    heads: list[int] | None,
    scale: Literal["linear", "log"],
    language: str,
) -> Callable[[AttentionRecord, EvidenceRecord, EvidenceRecord | None], None]:
    """What writes the exports; what cannot be written is told now, before anything is computed."""
    if directory is None:
        return lambda record, evidence, sample: None
    from pathlib import Path

    from clearhead.inspection.sites import STACKS
    from clearhead.recipes.inspect.exports import check_choice, check_formats, check_stacks, export

    wanted = check_formats(formats or ["png", "csv"])
    chosen = check_stacks(stacks or STACKS)
    if there or stacks or layers or heads:  # without attention there are still the tables of the evidence
        check_choice(model, there, chosen, layers, heads)

    def write(record: AttentionRecord, evidence: EvidenceRecord, sample: EvidenceRecord | None) -> None:
        if record.layers:
            export(record, directory, wanted, stacks=chosen, layers=layers, heads=heads, scale=scale, language=language)
        export(evidence, directory, wanted)
        if sample is not None:  # the same names again, so it has a folder of its own
            export(sample, Path(directory) / "sample", wanted)

    return write


def _check_useless(context: typer.Context, idle: bool, names: tuple[str, ...], why: str) -> None:
    from clearhead.base.errors import InputError

    if idle and (useless := shared.given(context, *names)):
        raise InputError(f"{useless}: {why}, or leave it out")
