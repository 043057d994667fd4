"""Inspection in one call, for notebooks and scripts: what `clearhead inspect` does, as a value that shows itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import get_args

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.explorer.inspect_page import ReportDisplay
from clearhead.explorer.walk_page import PageLanguage
from clearhead.recipes.inspect.depth import Tests
from clearhead.recipes.inspect.families import calibration_for, calibration_measures
from clearhead.recipes.inspect.sample import SampleSize, inspect_sample
from clearhead.recipes.inspect.sample_pairs import take_sample
from clearhead.recipes.inspect.sentence import inspect_sentence
from clearhead.recipes.inspect.stages import Stage
from clearhead.recipes.translator import Translator

__all__ = ["inspect"]


def inspect(  # noqa: PLR0913 (every choice by name)
    translator: Translator,
    text: str,
    *,
    target: str | None = None,
    rank: int = 1,
    tests: Tests = "quick",
    sample: Iterable[tuple[str, str]] = (),
    pairs: int = 200,
    others: Sequence[Translator] = (),
    config: DecodingConfig | None = None,
    name: str = "model",
    seed: int = 1,
    language: PageLanguage = "en",
    progress: Stage | None = None,
) -> ReportDisplay:
    """What the model attends to while it translates `text`, with the evidence beside it.

    As the last value of a notebook's cell the report shows itself; `.attention` and `.evidence` are the records,
    `.sample` what was found over the first `pairs` of `sample` (source, target), if there is one. The other choices are
    those of `clearhead inspect`; `name` is what the report calls the model. `progress` is told the name of each stage
    that begins and how many steps it has, or None: `progress=print` does; if it gives back a function, that is told how
    many steps are done. Raises InputError for what cannot be read.

    `clearhead.inspect(clearhead.load("runs/demo-en-de"), "Turn off the lights").attention.layers[0].weights` is a
    tensor [heads, queries, keys].
    """
    _check(translator, text, tests, pairs, language)
    given = _pairs(sample)
    first = next(given, None)
    taken = None if first is None else take_sample(translator, chain([first], given), pairs)
    attention, evidence = inspect_sentence(
        translator,
        text,
        name=name,
        target=target,
        rank=rank,
        config=config,
        tests=tests,
        others=others,
        seed=seed,
        stage=progress,
    )
    of_sample = None
    if taken is not None:
        size = SampleSize.of(tests, len(taken.chosen))
        of_sample = inspect_sample(translator, taken, name=name, size=size, seed=seed, stage=progress)
    return ReportDisplay(
        attention,
        evidence,
        of_sample,
        calibration_for(translator.model),
        language,
        measures=calibration_measures(),
    )


def _check(translator: object, text: object, tests: str, pairs: int, language: str) -> None:
    """Raises InputError for what the command line would not let through."""
    if not isinstance(translator, Translator):
        raise InputError(f"the first argument is a translator, not {translator!r}: clearhead.load(path) gives one")
    if not isinstance(text, str):
        raise InputError(f"the text is one sentence, not {type(text).__name__}: give a string")
    for name, value, known in (("tests", tests, get_args(Tests)), ("language", language, get_args(PageLanguage))):
        if value not in known:
            raise InputError(f"{name} is {value!r}; choose among {', '.join(known)}")
    if pairs < 1:
        raise InputError(f"pairs is {pairs}: a sample has at least 1")


def _pairs(sample: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The pairs one by one; InputError for what is none."""
    for number, pair in enumerate(sample, start=1):
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(side, str) for side in pair):
            raise InputError(f"sample, pair {number}: not a source and a target, two strings")
        yield pair[0], pair[1]
