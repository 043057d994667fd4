"""Translating files with saved models: N lines in, N lines out."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from clearhead.base.errors import BundleError, DecodingError, InputError
from clearhead.base.log import logger
from clearhead.bundle.bundle import Bundle, Weights, load_bundle
from clearhead.bundle.manifest import read_manifest
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.penalties import formula
from clearhead.engine.choose import EngineName, choose_engine
from clearhead.formats.lines import display_name, read_lines, write_lines
from clearhead.formats.pairs import read_pairs
from clearhead.formats.pharaoh import pharaoh_line
from clearhead.models.ensemble import ensemble
from clearhead.recipes.alignments import Linker
from clearhead.recipes.phrases import Phrases
from clearhead.recipes.protection import Protector
from clearhead.recipes.translation import Translation
from clearhead.recipes.translator import WINDOW, Progress, Translator
from clearhead.text.glossary import Glossary
from clearhead.training.device import choose_device

if TYPE_CHECKING:
    from clearhead.engine.products import Precision
    from clearhead.models.seq2seq import Seq2Seq

__all__ = ["Outcome", "Translator", "as_json", "header", "load", "translate_file"]


def load(
    path: str | Path | Sequence[str | Path],
    device: str | torch.device | None = None,
    weights: Weights = "auto",
    engine: EngineName = "auto",
    precision: Precision = "fp32",
) -> Translator:
    """The translator that was saved at `path`: a bundle, or a run directory (its best checkpoint).

    Several paths make an ensemble; its members must share tokenizer and languages. `device` None is the first GPU,
    else the CPU. `weights`: "raw" as trained, "ema" their moving average, "auto" the average if there is one.
    `engine`: "plain" the modules as they were trained, "fast" their weights packed anew, "auto" the fast one where it
    can run the model and is worth it. `precision` of the fast engine: "fp32", "bf16" or "int8". Its weights are kept
    packed alone: what needs them as they were trained (alignments, `inspect`) reads the bundle once more, and in the
    last two is refused. Raises BundleError for what is missing, damaged or does not fit, ConfigError for an engine or a
    precision that the model or the device cannot have, MemoryError.

    `load("runs/demo-en-de").translate(["Turn off the lights"])[0].text` is a translation.
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    if not paths:
        raise BundleError("no bundle given: name at least one")
    chosen = choose_device("auto" if device is None else str(device))
    alone = len(paths) == 1 and engine != "plain"  # then the weights are packed as they are read
    bundles = [load_bundle(each, weights=weights, device=chosen, whole=not alone) for each in paths]
    first = bundles[0]
    for other in bundles[1:]:
        _check_ensemble(first, other)
    if tags := first.training.get("tags"):
        logger.info("%s was trained with tags: %s; --tag chooses one", first.path, ", ".join(map(str, tags)))
    model = first.model if len(bundles) == 1 else ensemble([each.model for each in bundles])
    reread = _Reread(first, weights, chosen) if alone and precision == "fp32" else None
    consume = alone or precision != "fp32"
    chosen_engine = choose_engine(model, engine, precision, consume=consume, reader=first.reader, reread=reread)
    return Translator(chosen_engine, first.tokenizers, first.languages)


class _Reread:
    """The model of a bundle once more, read when somebody first asks. Threads may share one."""

    def __init__(self, bundle: Bundle, weights: Weights, device: torch.device) -> None:
        assert bundle.path is not None, "a bundle in memory alone"
        self._path, self._weights, self._device = bundle.path.absolute(), weights, device
        self._manifest = read_manifest(self._path)
        self._lock = threading.Lock()
        self._model: Seq2Seq | None = None

    def __call__(self) -> Seq2Seq:
        """Raises BundleError if it is not there any more as it was."""
        with self._lock:
            if self._model is None:
                found = load_bundle(self._path, weights=self._weights, device=self._device).model
                if read_manifest(self._path) != self._manifest:
                    raise BundleError(f"{self._path}: was written anew after it was loaded; load it again")
                self._model = found
            return self._model


def _check_ensemble(first: Bundle, other: Bundle) -> None:
    if first.tokenizers.fingerprint != other.tokenizers.fingerprint:
        raise BundleError(
            f"{other.path}: its tokenizer is not that of {first.path}; the members of an ensemble must share one"
        )
    if first.languages != other.languages:
        ours, theirs = ("→".join(each.languages) for each in (first, other))
        raise BundleError(
            f"{other.path}: translates {theirs}, but {first.path} {ours}; an ensemble needs one direction"
        )


def header(translator: Translator, config: DecodingConfig, name: str) -> str:
    """What is about to run, in one line: model, languages, device, engine, search, formula of the score, limit."""
    millions = translator.engine.parameters / 1e6
    if config.sampling is not None:
        drawn = config.sampling
        method = f"sampling, temperature {drawn.temperature:g}"
        method += "".join(
            f", {name} {value:g}" for name, value in (("top-k", drawn.top_k), ("top-p", drawn.top_p)) if value
        )
        method += f", seed {config.seed}"
    else:
        method = f"beam {config.beam}" if config.beam > 1 else "greedy"
    config, threads = translator.within_positions(config), torch.get_num_threads()
    limit = f"source × {config.max_length_ratio:g} + {config.max_length_extra} tokens"
    if config.max_length is not None:
        limit += f", at most {config.max_length}"
    return (
        f"{name}: {'→'.join(translator.languages)}, {millions:.1f}M parameters; {translator.device}, "
        f"{threads} thread{'s' * (threads != 1)}; {translator.engine.description}; "
        f"{method}, score {formula(config)}, length ≤ {limit}" + (", reproducible" if config.reproducible else "")
    )


@dataclass(frozen=True)
class Outcome:
    """What became of a file: its lines, and the numbers (from 1) of those with each flag.

    `steps` are decoder steps a sentence, each of which counts the steps that it took part in; None if nobody counted.
    """

    lines: int
    flagged: dict[str, list[int]]
    steps: float | None = None

    def summary(self) -> str:
        """`1,200 lines; 3 max_length, 1 split; 24.1 decoder steps a sentence`."""
        flags = ", ".join(f"{len(lines):,} {flag}" for flag, lines in sorted(self.flagged.items()) if flag != "blank")
        steps = None if self.steps is None else f"{self.steps:.1f} decoder steps a sentence"
        return "; ".join(part for part in (f"{self.lines:,} line{'s' * (self.lines != 1)}", flags, steps) if part)


def translate_file(  # noqa: PLR0913 (every choice by name)
    translator: Translator,
    config: DecodingConfig,
    source: str | Path,
    output: str | Path,
    *,
    prefixes: str | Path | None = None,
    json_lines: bool = False,
    glossary: Glossary | None = None,
    protect: bool = False,
    linker: Linker | None = None,
    alignments: str | Path | None = None,
    batch_tokens: int | None = None,
    window: int = WINDOW,
    progress: Progress | None = None,
) -> Outcome:
    """Translate the lines of `source` ("-": standard input) into `output` ("-": standard output), a line a line.

    Memory does not grow with the file. With `json_lines` each line is an object (`as_json`). `prefixes` names a file
    that says how each translation begins, `glossary` holds terms that are forced, and with `protect` placeholders are
    kept (`recipes/protection.py`); neither of the two goes together with sampling (InputError). `linker` says how
    unknown words are replaced and links made, which does not go together with `protect` (InputError); `alignments` gets
    the links, a line a text in Pharaoh format. A named output appears whole at the end or not at all. Raises DataError
    for text that breaks the line contract, and DecodingError should the number of lines out not be that in.
    """
    if protect and linker is not None:
        raise InputError("alignments and unknown words go by what the model wrote, and --protect changes it; leave one")
    read = 0

    def counted() -> Iterator[tuple[str, str]]:
        nonlocal read
        pairs = ((line, "") for line in read_lines(source)) if prefixes is None else read_pairs(source, prefixes)
        for pair in pairs:
            read += 1
            yield pair

    written, before = 0, translator.steps.so_far()
    flagged: dict[str, list[int]] = {}
    with ExitStack() as stack:
        write = stack.enter_context(write_lines(output))
        write_links = None if alignments is None else stack.enter_context(write_lines(alignments))
        if protect:
            stream = Protector(translator, config, glossary, batch_tokens).stream(
                counted(), window=window, progress=progress
            )
        else:
            stream = translator.stream_forced(
                counted(),
                config,
                phrases=None if glossary is None else Phrases(glossary),
                linker=linker,
                batch_tokens=batch_tokens,
                window=window,
                progress=progress,
            )
        for translation in stream:
            write(as_json(translation) if json_lines else translation.text)
            if write_links is not None:
                write_links(pharaoh_line(translation.links or ()))
            written += 1
            for flag in translation.flags:
                flagged.setdefault(flag, []).append(written)
        if written != read:
            raise DecodingError(
                f"{display_name(source)}: {read} lines in but {written} out; this is a fault of clearhead"
            )
    steps, sentences = (now - then for now, then in zip(translator.steps.so_far(), before, strict=True))
    return Outcome(written, flagged, steps / sentences if sentences else None)


def as_json(translation: Translation) -> str:
    """One object on one line: text, score, log_prob, tokens, flags, and alternatives and links if there are any."""
    table = _table(translation)
    if translation.alternatives:
        table["alternatives"] = [_table(each) for each in translation.alternatives]
    return json.dumps(table, ensure_ascii=False, allow_nan=False)


def _table(translation: Translation) -> dict[str, object]:
    fields = ("text", "score", "tokens", "flags", "log_prob")
    table: dict[str, object] = {name: getattr(translation, name) for name in fields}
    if translation.links is not None:
        table["links"] = sorted(translation.links)
    return table
