"""BLEU and chrF of a saved model, or of translations that are there already."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from clearhead.base.errors import DataError, DecodingError, InputError
from clearhead.decoding.config import DecodingConfig
from clearhead.formats.lines import display_name, is_one_stream, read_lines, write_lines
from clearhead.metrics.scores import Scores, score_corpus
from clearhead.recipes.translator import Progress, Translator
from clearhead.text.languages import language, parse_pair

__all__ = ["Evaluation", "check_languages", "evaluate_file", "evaluate_translator", "target_language"]


@dataclass(frozen=True)
class Evaluation:
    """Scores of one corpus, and the translations that were scored."""

    scores: Scores
    hypotheses: list[str]
    target_language: str

    def __str__(self) -> str:
        return str(self.scores)

    def as_json(self) -> str:
        """One object: bleu and chrf, each with name, value and signature; target_language; lines."""
        table = {
            **dataclasses.asdict(self.scores),
            "target_language": self.target_language,
            "lines": len(self.hypotheses),
        }
        return json.dumps(table, ensure_ascii=False)


def evaluate_translator(
    translator: Translator,
    config: DecodingConfig,
    source: str | Path,
    reference: str | Path,
    *,
    output: str | Path | None = None,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Translate `source` and score it against `reference`; `output`, if given, receives the translations.

    Raises DataError with both counts if the files differ in length (before anything is translated), and
    DecodingError if a line failed: a score over the rest would not be this corpus' score.
    """
    sources, references = _read_both(source, reference)
    found = list(translator.stream(sources, config, batch_tokens=batch_tokens, progress=progress))
    if failed := [number for number, each in enumerate(found, 1) if "failed" in each.flags]:
        raise DecodingError(f"{display_name(source)}: {len(failed)} lines failed, the first is line {failed[0]}")
    hypotheses = [each.text for each in found]
    if output is not None:
        with write_lines(output) as write:
            for text in hypotheses:
                write(text)
    code = translator.languages[1]
    return Evaluation(score_corpus(hypotheses, references, target_language=code), hypotheses, code)


def evaluate_file(hypotheses: str | Path, reference: str | Path, target: str) -> Evaluation:
    """Score the lines of a file; `target` is the code of their language. Raises DataError with both counts."""
    texts, references = _read_both(hypotheses, reference)
    return Evaluation(score_corpus(texts, references, target_language=target), texts, language(target).code)


def target_language(languages: str) -> str:
    """The target of `en-de` (or `en,de`); a single code is taken as the target. Raises InputError for neither.

    >>> target_language("en-de"), target_language("zh")
    ('de', 'zh')
    """
    try:
        return parse_pair(languages)[1]
    except InputError:
        return language(languages).code


def check_languages(translator: Translator, languages: str | None) -> None:
    """Raises InputError if `languages`, a pair, is not what the model translates."""
    if languages is not None and parse_pair(languages) != tuple(language(code).code for code in translator.languages):
        raise InputError(f"--languages {languages}: the model translates {'→'.join(translator.languages)}")


def _read_both(one: str | Path, other: str | Path) -> tuple[list[str], list[str]]:
    if is_one_stream(one, other):
        raise InputError("standard input ('-') or a pipe can be read once only; name a file for one of the two")
    first, second = list(read_lines(one)), list(read_lines(other))
    if len(first) != len(second):
        raise DataError(
            f"{display_name(one)} has {len(first)} lines but {display_name(other)} has {len(second)}; "
            f"they must belong together line by line"
        )
    return first, second
