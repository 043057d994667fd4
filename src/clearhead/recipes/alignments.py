"""Alignments of translations: which source word each target word was made from, as attention has it.

The search itself records nothing. When a window of texts has been translated, the finished hypotheses are read once
more by a twin that records (`inspection/alignment.py`), in batches, by teacher forcing and without the projection onto
the vocabulary. What stands there says what attention is, and is not.

Unknown words are replaced the same way: each UNK by the translation of the source word that it is linked to, if a
lexicon has one, else by that word itself (Luong et al. 2015b, §3; Jean et al. 2015, §3.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from clearhead.base.errors import ClearheadError, DataError, InputError
from clearhead.base.log import logger
from clearhead.decoding.search import Hypothesis
from clearhead.formats.lines import display_name, read_lines
from clearhead.formats.pharaoh import Links
from clearhead.inspection.alignment import AttentionReader, Reading, links, over_words
from clearhead.recipes.batching import attempt, batches
from clearhead.recipes.plans import Piece, Plan
from clearhead.recipes.translation import Translation
from clearhead.text.glossary import UNSPACED_SCRIPTS
from clearhead.text.languages import language
from clearhead.text.spans import Span, source_spans, spelt, word_at
from clearhead.text.symbols import UNK

if TYPE_CHECKING:
    from clearhead.recipes.translator import Translator

__all__ = ["Aligned", "Linker", "Linking", "Unit", "make_linker", "read_lexicon"]

Unit = Literal["words", "pieces"]


@dataclass(frozen=True)
class Linking:
    """How links are made of attention.

    Attributes:
        reading: the layer and head that are read.
        threshold: link a target to every source of at least this weight, instead of the one of the greatest.
        unit: words, which white space separates, or the pieces of the tokenizers.
    """

    reading: Reading = field(default_factory=Reading)
    threshold: float | None = None
    unit: Unit = "words"

    def __post_init__(self) -> None:
        """Raises InputError for a threshold that no weight could be compared with."""
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise InputError(f"a threshold of {self.threshold:g}: weights lie between 0 and 1, choose one of these")


@dataclass(frozen=True)
class Aligned:
    """A pair of texts in tokens, and what each target token read of each source token, EOS on neither side."""

    source: str
    source_ids: Sequence[int]
    target_ids: Sequence[int]
    weights: Tensor


@dataclass(frozen=True)
class _Job:
    source: str
    source_ids: Sequence[int]
    target_ids: Sequence[int]
    place: int

    @property
    def length(self) -> int:
        return len(self.source_ids) + len(self.target_ids) + 2


def read_lexicon(path: str | Path) -> dict[str, str]:
    """The best translation of each word out of a file as `clearhead data align --lexicon` writes it.

    A line is source, tab, target, and perhaps a tab and a probability; without one the first of a word counts. Raises
    DataError naming file and line for what is no such line, and for a probability that does not lie between 0 and 1.
    """
    found: dict[str, tuple[str, float]] = {}
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) not in (2, 3) or not columns[0].strip() or not columns[1].strip():
            raise DataError(
                f"{display_name(path)}, line {number}: no lexicon entry: {line[:80]!r}; expected source, tab, target, "
                "and perhaps a tab and a probability"
            )
        try:
            probability = float(columns[2]) if len(columns) == 3 else 0.0
        except ValueError:
            probability = math.nan
        if not 0 <= probability <= 1:
            raise DataError(
                f"{display_name(path)}, line {number}: the third column is no probability: {columns[2][:20]!r}"
            )
        if columns[0] not in found or probability > found[columns[0]][1]:
            found[columns[0]] = columns[1], probability
    return {source: target for source, (target, _) in found.items()}


class Linker:
    """Links what a translator has translated, and replaces its unknown words.

    `lexicon` None leaves unknown words alone; an empty one copies every word. `batch_tokens` 1 reads each pair
    alone, so that its links do not depend on its neighbours even in the last bit.
    """

    def __init__(
        self,
        translator: Translator,
        linking: Linking | None = None,
        *,
        lexicon: Mapping[str, str] | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        """Raises InputError if the model has no attention to the source, or not that layer or head."""
        self._linking = linking or Linking()
        self._reader = AttentionReader(translator.model, self._linking.reading)
        self._source, self._target = translator.tokenizers.source, translator.tokenizers.target
        self._lead = translator.lead
        self._lexicon = lexicon
        scripts = [language(name).script in UNSPACED_SCRIPTS for name in translator.languages]
        self._copies_pieces, self._space = scripts[0], "" if scripts[1] else " "
        self._budget = batch_tokens or (4096 if translator.device.type == "cpu" else 65536)

    def link(
        self,
        texts: Sequence[str],
        plans: Sequence[Plan],
        found: Sequence[Sequence[Sequence[Hypothesis]]],
        translations: Sequence[Translation],
        prefixes: Sequence[str] | None = None,
    ) -> list[Translation]:
        """The translations of a window with their links, and with unknown words replaced.

        `found` holds the n-best list of each piece of each plan, `prefixes` how each translation was made to begin:
        its unknown words stay what they are there. A text that cannot be linked is flagged "unaligned".
        """
        begun = prefixes or [""] * len(texts)
        chosen = [
            self._hypotheses(of_text, translation) for of_text, translation in zip(found, translations, strict=True)
        ]
        jobs = [
            _Job(piece.text, piece.ids, hypothesis.tokens, 0)
            for plan, hypotheses in zip(plans, chosen, strict=True)
            for piece, hypothesis in zip(plan.pieces, hypotheses, strict=False)
        ]
        read = iter(self._read(jobs))
        return [
            self._linked(text, plan.pieces, [next(read) for _ in hypotheses], translation, prefix)
            for text, plan, hypotheses, translation, prefix in zip(
                texts, plans, chosen, translations, begun, strict=True
            )
        ]

    def pairs(self, texts: Sequence[tuple[str, str]], done: int = 0) -> list[Links | None]:
        """The links of each given (source, target); None for one that cannot be read, with a warning.

        The warning numbers the pairs from 1; `done` came before these.
        """
        jobs: list[_Job] = []
        for place, (source, target) in enumerate(texts):
            try:
                jobs.append(_Job(source, self._source.encode(source), self._target.encode(target), place))
            except ClearheadError as error:
                logger.warning("pair %d cannot be aligned: %s", done + place + 1, error)
        found: list[Links | None] = [None] * len(texts)
        for job, aligned in zip(jobs, self._read(jobs), strict=True):
            if aligned is not None:
                target = texts[job.place][1]
                spans = source_spans(self._target, job.target_ids, target)
                found[job.place] = self._links(job.source, target, [(aligned, 0, spans)])
        return found

    # ---------------------------------------------------------------------------------------------------- inside

    def _hypotheses(self, found: Sequence[Sequence[Hypothesis]], translation: Translation) -> Sequence[Hypothesis]:
        """The hypothesis of each piece that the translation was made of; none if it was not made of any."""
        for hypotheses in zip(*found, strict=False):
            tokens = chain.from_iterable(each.tokens for each in hypotheses)
            if tuple(self._target.pieces(tokens)) == translation.tokens and "failed" not in translation.flags:
                return hypotheses
        return ()

    def _read(self, jobs: Sequence[_Job]) -> list[Aligned | None]:
        """What was read in each pair, in order; None where that failed."""
        found: list[Aligned | None] = [None] * len(jobs)
        order = sorted(range(len(jobs)), key=lambda place: (jobs[place].length, place))
        for batch in batches(order, self._budget, lambda place: jobs[place].length):
            results = attempt(
                batch,
                lambda places: self._reader.read(
                    [[*self._lead, *jobs[place].source_ids] for place in places],
                    [jobs[place].target_ids for place in places],
                ),
                lambda place: f"the alignment of {jobs[place].source[:40]!r}",
            )
            for place, weights in zip(batch, results, strict=True):
                if weights is not None:
                    job = jobs[place]
                    own = weights[:-1, len(self._lead) : -1].float()
                    found[place] = Aligned(job.source, job.source_ids, job.target_ids, own)
        return found

    def _linked(
        self, text: str, pieces: Sequence[Piece], read: Sequence[Aligned | None], translation: Translation, prefix: str
    ) -> Translation:
        parts = [each for each in read if each is not None]
        if not parts or len(parts) != len(pieces):
            blank = not pieces or "failed" in translation.flags
            return replace(translation, links=frozenset(), flags=translation.flags + (() if blank else ("unaligned",)))
        written, flags, placed = "", translation.flags, []
        for number, part in enumerate(parts):
            begun = self._begun(pieces[number].prefix, prefix)
            known = [] if self._lexicon is None else self._replacements(part, begun)
            spelling, spans = spelt(self._target, part.target_ids, known)
            start = len(written) + (len(self._space) if number else 0)
            written += (self._space if number else "") + spelling
            placed.append((part, start, spans))
            if known:
                flags += ("unknown_replaced",)
        if "newline" in flags:
            written = written.replace("\n", " ")
        return replace(
            translation, text=written, flags=tuple(dict.fromkeys(flags)), links=self._links(text, written, placed)
        )

    def _links(self, source: str, target: str, parts: Sequence[tuple[Aligned, int, Sequence[Span]]]) -> Links:
        """The links of a pair of texts: of each part what was read, where its target begins, and its tokens' places."""
        found: set[tuple[int, int]] = set()
        reach = sources = targets = 0
        for part, start, spans in parts:
            if self._linking.unit == "pieces":
                own = links(part.weights, self._linking.threshold)
                found |= {(left + sources, right + targets) for left, right in own}
                sources, targets = sources + len(part.source_ids), targets + len(part.target_ids)
                continue
            begin = max(reach, source.find(part.source, reach))
            reach = begin + len(part.source)
            places = [(first + begin, last + begin) for first, last in self._places(part)]
            read, wrote = word_at(source, places), word_at(target, [(a + start, b + start) for a, b in spans])
            found |= links(over_words(part.weights, read, wrote), self._linking.threshold)
        return frozenset(found)

    def _begun(self, ids: Sequence[int], prefix: str) -> list[str]:
        """What each token stands for with which the translation was made to begin."""
        return [prefix[start:end].strip() for start, end in source_spans(self._target, ids, prefix)] if ids else []

    def _replacements(self, part: Aligned, begun: Sequence[str]) -> list[str]:
        """What is written for each UNK, in their order: what was asked for there, else what it is linked to."""
        return [begun[row] if row < len(begun) else self._replacement(part, row) for row in _unknown(part)]

    def _places(self, part: Aligned) -> list[Span]:
        return source_spans(self._source, part.source_ids, part.source)

    def _replacement(self, part: Aligned, row: int) -> str:
        """What is written for the UNK that row `row` predicts."""
        assert self._lexicon is not None
        places = self._places(part)
        words = word_at(part.source, places)
        among = over_words(part.weights[row : row + 1], words, [0])
        if not among.numel() or float(among.max()) <= 0:
            return "\u2047"
        number = int(among[0].argmax())
        inside = [index for index, word in enumerate(words) if word == number]
        if self._copies_pieces:  # where words are not separated, the "word" would be the whole sentence
            inside = [max(inside, key=lambda index: float(part.weights[row, index]))]
        word = part.source[places[inside[0]][0] : places[inside[-1]][1]].strip()
        return self._lexicon.get(word, word)


def make_linker(  # noqa: PLR0913, PLR0917 (what the command takes)
    translator: Translator,
    linking: Linking,
    align: bool,
    replace_unknown: bool,
    lexicon: str | Path | None,
    batch_tokens: int | None,
) -> tuple[Translator, Linker | None]:
    """The translator and the linker for a command that wants alignments, or unknown words replaced, or both.

    A tokenizer that spells every text knows no unknown words: that is told, and nothing is replaced.
    """
    if replace_unknown and translator.tokenizers.target.config.byte_fallback:
        logger.info("no unknown words to replace: this model spells every word, in bytes if need be")
        replace_unknown = False
    if not replace_unknown:
        return translator, Linker(translator, linking, batch_tokens=batch_tokens) if align else None
    translator = translator.writing_unknown()
    known = {} if lexicon is None else read_lexicon(lexicon)
    return translator, Linker(translator, linking, lexicon=known, batch_tokens=batch_tokens)


def _unknown(part: Aligned) -> list[int]:
    """The rows that predict UNK."""
    return [row for row, token in enumerate(part.target_ids) if token == UNK]
