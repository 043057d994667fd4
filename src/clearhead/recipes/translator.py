"""The translator: texts in, translations out, in their order, none lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import TYPE_CHECKING

from clearhead.base.errors import ClearheadError, InputError
from clearhead.base.log import logger
from clearhead.decoding.config import DecodingConfig, Penalty, Sampling
from clearhead.decoding.constrained import constrained_search
from clearhead.decoding.fixed import ROWS
from clearhead.decoding.penalties import score as penalised
from clearhead.decoding.search import Hypothesis, force, search
from clearhead.decoding.unknown import with_unknown, written
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.recipes.batching import attempt, batches, paired, windows
from clearhead.recipes.decoding_options import decoding_config
from clearhead.recipes.phrases import FORCED_BEAM, Phrases
from clearhead.recipes.plans import Piece, Plan, make_plan
from clearhead.recipes.translation import Scored, Translation
from clearhead.text.glossary import UNSPACED_SCRIPTS, Glossary
from clearhead.text.languages import language
from clearhead.text.symbols import EOS, UNK
from clearhead.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from clearhead.recipes.alignments import Linker

__all__ = ["Progress", "Translator", "decoding_config"]

Progress = Callable[[int], None]
"""Called now and then with the number of texts done so far."""

WINDOW = 2000
"""Texts read ahead to make batches of equal lengths: memory stays bounded however long the file."""
MAX_SOURCE_LENGTH = 512
"""Tokens of one piece: longer than the sentences that models are trained on, short enough for attention's square."""


@dataclass(frozen=True)
class _Pair:
    """A pair to be scored."""

    line: int
    source: list[int]
    target: list[int]

    @property
    def length(self) -> int:
        return len(self.source) + len(self.target) + 2


class Translator:
    """A model with its tokenizers and languages. Nothing in it changes, so threads may share one."""

    def __init__(
        self,
        model: Seq2Seq,
        tokenizers: Tokenizers,
        languages: tuple[str, str],
        *,
        max_source_length: int = MAX_SOURCE_LENGTH,
        tag: str | None = None,
        unknown: bool = False,
    ) -> None:
        """Puts `model` into evaluation mode.

        `max_source_length` is in tokens without EOS; longer text is translated in pieces. A model that learnt its
        positions may allow less. `tag` is put before every source, as that of a corpus was in training; InputError if
        the model does not know it. With `unknown` a search may write UNK, which otherwise it never does.
        """
        if max_source_length < 1:
            raise InputError(f"max_source_length: must be at least 1, got {max_source_length}")
        self.model = model.eval()
        self.tokenizers = tokenizers
        self.languages = languages
        self.device = next(model.parameters()).device
        self.tag = tag
        self.lead = [] if tag is None else [tokenizers.source.symbol(tag)]
        self._unknown = tokenizers.target.vocab_size if unknown else None
        self._writer = self.model if self._unknown is None else with_unknown(self.model, self._unknown)
        limit = model.max_positions
        most = max_source_length if limit is None else min(max_source_length, limit - 1)
        self.max_source_length = max(1, most - len(self.lead))
        self._max_target_length = None if limit is None else limit - 1  # BOS takes a position, too

    def translate(  # noqa: PLR0913 (every choice by name)
        self,
        texts: Iterable[str],
        *,
        config: DecodingConfig | None = None,
        beam: int | None = None,
        n_best: int | None = None,
        alpha: float | None = None,
        penalty: Penalty | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        sampling: Sampling | None = None,
        seed: int | None = None,
        reproducible: bool | None = None,
        prefixes: Iterable[str] | None = None,
        glossary: Glossary | None = None,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
    ) -> list[Translation]:
        """The translation of each text, in order.

        The options are those of `config` (`DecodingConfig()` if none: beam 4, alpha 0.6, at most 50 tokens more than
        the source) with the named ones in their place. `beam` 1 is greedy. `prefixes` force how each translation
        begins ("" where nothing is forced), `glossary` the terms that it holds; texts with a term are searched with a
        beam of 10 or more, the others as ever. `sampling` draws `n_best` translations at random, those of the n-th
        text from `seed` and n alone. With `reproducible` a text is translated alike to the last bit of its score,
        alone, in any batch and any order (on one machine with one number of threads); that takes longer, and a CPU.
        For very many texts see `stream`. Raises ConfigError for an option out of range, and InputError for two that do
        not go together; a text that cannot be translated raises nothing but is flagged "failed".
        """
        if isinstance(texts, str):
            raise InputError("translate takes a list of texts, not one text: put it in brackets")
        chosen = decoding_config(
            config,
            beam=beam,
            n_best=n_best,
            alpha=alpha,
            penalty=penalty,
            min_length=min_length,
            max_length=max_length,
            sampling=sampling,
            seed=seed,
            reproducible=reproducible,
        )
        phrases = None if glossary is None else Phrases(glossary)
        both = zip(texts, repeat(""), strict=False) if prefixes is None else paired(texts, prefixes)
        return list(self.stream_forced(both, chosen, phrases=phrases, batch_tokens=batch_tokens, progress=progress))

    def stream(
        self,
        texts: Iterable[str],
        config: DecodingConfig,
        *,
        prefixes: Iterable[str] | None = None,
        batch_tokens: int | None = None,
        window: int = WINDOW,
        progress: Progress | None = None,
    ) -> Iterator[Translation]:
        """Translate an endless supply: `window` texts are read ahead, sorted by length, batched and given out in order.

        `batch_tokens` bounds sentences × longest source × hypotheses in one batch (4,096 on a CPU, 65,536 on a GPU);
        with `config.reproducible` batches are of a size of their own. Raises InputError when prefixes and texts are
        not equally many.
        """
        both = zip(texts, repeat(""), strict=False) if prefixes is None else paired(texts, prefixes)
        return self.stream_forced(both, config, batch_tokens=batch_tokens, window=window, progress=progress)

    def stream_forced(
        self,
        texts: Iterable[tuple[str, str]],
        config: DecodingConfig,
        *,
        phrases: Phrases | None = None,
        linker: Linker | None = None,
        batch_tokens: int | None = None,
        window: int = WINDOW,
        progress: Progress | None = None,
    ) -> Iterator[Translation]:
        """`stream` for pairs of a text and how its translation begins ("" where nothing is forced).

        `phrases` says what the translations hold; they cannot be forced while sampling (InputError). `linker` adds
        their alignments, and replaces unknown words.
        """
        self._check(config, batch_tokens)
        if phrases is not None and config.sampling is not None:
            raise InputError("a glossary cannot be forced while sampling: leave out one of the two")
        config = self.within_positions(config)
        done = 0
        for part in windows(texts, window):
            plans = [self._plan(*both, index, done + index, phrases) for index, both in enumerate(part)]
            found = self._search(plans, config, batch_tokens, done, progress)
            translations = [self._assemble(plan, found[index], config) for index, plan in enumerate(plans)]
            if linker is not None:
                texts_here, prefixes = [text for text, _ in part], [prefix for _, prefix in part]
                translations = linker.link(texts_here, plans, found, translations, prefixes)
            for index, translation in enumerate(translations):
                if phrases is not None and not {"blank", "failed"} & set(translation.flags):
                    missing = phrases.flags(part[index][0], translation.text)
                    yield replace(translation, flags=translation.flags + missing)
                else:
                    yield translation
            done += len(part)

    def tagged(self, tag: str | None) -> Translator:
        """This translator with another tag before every source (None: without); InputError if it is not known."""
        return self._like(tag, self._unknown is not None)

    def writing_unknown(self) -> Translator:
        """This translator, whose searches may write UNK: for words that a `Linker` replaces."""
        return self._like(self.tag, True)

    def _like(self, tag: str | None, unknown: bool) -> Translator:
        longest = self.max_source_length + len(self.lead)
        return Translator(
            self.model, self.tokenizers, self.languages, max_source_length=longest, tag=tag, unknown=unknown
        )

    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        alpha: float | None = None,
        penalty: Penalty | None = None,
        reproducible: bool | None = None,
        batch_tokens: int | None = None,
    ) -> list[Scored]:
        """How likely the model finds each of `targets` as the translation of its source.

        `alpha` and `penalty` (0.6 and "gnmt" if None) make the score out of the log-probability; `reproducible` is as
        in `translate`. Raises InputError when sources and targets are not equally many.
        """
        pairs = paired(sources, targets)
        config = decoding_config(alpha=alpha, penalty=penalty, reproducible=reproducible)
        return list(self.score_stream(pairs, config, batch_tokens=batch_tokens))

    def score_stream(
        self,
        pairs: Iterable[tuple[str, str]],
        config: DecodingConfig,
        *,
        linker: Linker | None = None,
        batch_tokens: int | None = None,
        window: int = WINDOW,
        progress: Progress | None = None,
    ) -> Iterator[Scored]:
        """`score` for an endless supply of (source, target), in order; `linker` adds their alignments."""
        self._check(config, batch_tokens)
        done = 0
        for part in windows(pairs, window):
            found = self._score(part, config, batch_tokens, done, progress)
            links = [None] * len(part) if linker is None else linker.pairs(part, done)
            for index in range(len(part)):
                yield replace(self._scored(found.get(index)), links=links[index])
            done += len(part)

    # ---------------------------------------------------------------------------------------------------- inside

    def _check(self, config: DecodingConfig, batch_tokens: int | None) -> None:
        if batch_tokens is not None and batch_tokens < 1:
            raise InputError(f"batch_tokens: must be at least 1, got {batch_tokens}")
        if config.reproducible and batch_tokens is not None:
            raise InputError("batch_tokens cannot be chosen with reproducible, whose batches have a size of their own")
        if config.reproducible and self.device.type != "cpu":
            raise InputError(f"reproducible works on a CPU, not on {self.device}: choose the device cpu")

    def _budget(self, config: DecodingConfig, batch_tokens: int | None, width: int, longest: int) -> int:
        """The greatest sentences × longest of a batch, where a sentence has `width` hypotheses.

        With fixed shapes a batch of the `longest` still fills the rows that are calculated in any case.
        """
        budget = max(1, (batch_tokens or (4096 if self.device.type == "cpu" else 65536)) // width)
        return max(budget, ROWS * longest) if config.reproducible else budget

    def within_positions(self, config: DecodingConfig) -> DecodingConfig:
        """`config` with no more tokens allowed than the model has positions for, if it learnt its positions."""
        limit = self._max_target_length
        if limit is None or (config.max_length is not None and config.max_length <= limit):
            return config
        return config.model_copy(update={"max_length": limit})

    def _plan(self, text: str, prefix: str, line: int, number: int, phrases: Phrases | None) -> Plan:
        """`line` is the place of the text in the window, `number` that among all texts."""
        return make_plan(
            text,
            prefix,
            line=line,
            number=number,
            tokenizers=self.tokenizers,
            longest=self.max_source_length,
            phrases=phrases,
            script=language(self.languages[1]).script,
        )

    def _search(
        self,
        plans: Sequence[Plan],
        config: DecodingConfig,
        batch_tokens: int | None,
        done: int,
        progress: Progress | None,
    ) -> list[list[list[Hypothesis]]]:
        """For each plan the n-best list of each piece, an empty one for a piece that failed."""
        pieces = [(line, part, piece) for line, plan in enumerate(plans) for part, piece in enumerate(plan.pieces)]
        pieces.sort(key=lambda each: (each[2].length, each[0], each[1]))
        found: list[list[list[Hypothesis]]] = [[[] for _ in plan.pieces] for plan in plans]
        waiting = [len(plan.pieces) for plan in plans]
        for batch in self._batches(pieces, config, batch_tokens):
            results = attempt(
                batch,
                lambda these: self._translate([piece for _, _, piece in these], config),
                lambda each: f"text {done + each[0] + 1}",
            )
            for (line, part, _), hypotheses in zip(batch, results, strict=True):
                found[line][part] = hypotheses or []
                waiting[line] -= 1
            if progress is not None:
                progress(done + sum(not left for left in waiting))
        return found

    def _batches(
        self, pieces: Sequence[tuple[int, int, Piece]], config: DecodingConfig, batch_tokens: int | None
    ) -> Iterator[list[tuple[int, int, Piece]]]:
        """Batches of the pieces, which come by length; those with phrases, which take a wider beam, by themselves."""
        for forced in (False, True):
            part = [each for each in pieces if bool(each[2].phrases) is forced]
            width = config.n_best if config.sampling else max(config.beam, FORCED_BEAM) if forced else config.beam
            budget = self._budget(config, batch_tokens, width, part[-1][2].length if part else 0)
            yield from batches(part, budget, lambda each: each[2].length)

    def _score(
        self,
        pairs: Sequence[tuple[str, str]],
        config: DecodingConfig,
        batch_tokens: int | None,
        done: int,
        progress: Progress | None,
    ) -> dict[int, Hypothesis]:
        """The forced hypothesis of each pair, by its place; those that failed are missing."""
        encoded: list[_Pair] = []
        for index, (source, target) in enumerate(pairs):
            try:
                ids = self.tokenizers.source.encode(source), self.tokenizers.target.encode(target)
                encoded.append(_Pair(index, *ids))
            except ClearheadError as error:
                logger.warning("pair %d cannot be scored: %s", done + index + 1, error)
        encoded.sort(key=lambda each: (each.length, each.line))
        found: dict[int, Hypothesis] = {}
        longest = encoded[-1].length if encoded else 0
        budget = self._budget(config, batch_tokens, 1, longest)
        for batch in batches(encoded, budget, lambda each: each.length):
            results = attempt(
                batch, lambda these: self._force(these, config), lambda each: f"pair {done + each.line + 1}"
            )
            found.update({each.line: one for each, one in zip(batch, results, strict=True) if one is not None})
            if progress is not None:
                progress(done + len(found))
        return found

    def _translate(self, pieces: Sequence[Piece], config: DecodingConfig) -> list[list[Hypothesis]]:
        source = Padded.from_lists([[*self.lead, *piece.ids, EOS] for piece in pieces], self.device)
        prefixes, keys = [self._shown(piece.prefix) for piece in pieces], [piece.key for piece in pieces]
        if not any(piece.phrases for piece in pieces):
            return self._named(search(self._writer, source, config, prefixes=prefixes, keys=keys))
        config = config.model_copy(update={"beam": max(config.beam, FORCED_BEAM)})
        phrases = [piece.phrases for piece in pieces]
        return self._named(constrained_search(self._writer, source, config, phrases, prefixes=prefixes, keys=keys))

    def _shown(self, prefix: list[int]) -> list[int]:
        """The tokens of a prefix as the model that writes is shown them."""
        return prefix if self._unknown is None else [self._unknown if each == UNK else each for each in prefix]

    def _named(self, found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        return found if self._unknown is None else [written(each, self._unknown) for each in found]

    def _force(self, pairs: Sequence[_Pair], config: DecodingConfig) -> list[Hypothesis]:
        source = Padded.from_lists([[*self.lead, *pair.source, EOS] for pair in pairs], self.device)
        return force(self.model, source, [pair.target for pair in pairs], config)

    def _assemble(self, plan: Plan, found: list[list[Hypothesis]], config: DecodingConfig) -> Translation:
        if not plan.pieces:
            return Translation("", 0.0, flags=plan.flags)
        if not all(found):
            return Translation("", 0.0, flags=(*plan.flags, "failed"))
        # The n-th translation of a text in pieces is made of the n-th of every piece, as far as all have one.
        ranked = [self._joined(hypotheses, plan.flags, config) for hypotheses in zip(*found, strict=False)]
        best, *others = sorted(ranked, key=lambda each: -each.score)
        return Translation(best.text, best.score, best.tokens, best.flags, best.log_prob, tuple(others))

    def _joined(self, hypotheses: Sequence[Hypothesis], flags: tuple[str, ...], config: DecodingConfig) -> Translation:
        target = self.tokenizers.target
        space = "" if language(self.languages[1]).script in UNSPACED_SCRIPTS else " "
        text = space.join(target.decode(each.tokens) for each in hypotheses)
        if not all(each.finished for each in hypotheses):
            flags += ("max_length",)
        if "\n" in text:
            text, flags = text.replace("\n", " "), (*flags, "newline")
        log_prob = sum(each.log_prob for each in hypotheses)
        length = sum(len(each.token_log_probs) for each in hypotheses)
        pieces = target.pieces(chain.from_iterable(each.tokens for each in hypotheses))
        return Translation(text, penalised(config, log_prob, length), tuple(pieces), flags, log_prob)

    def _scored(self, hypothesis: Hypothesis | None) -> Scored:
        if hypothesis is None:
            return Scored(math.nan, math.nan, flags=("failed",))
        pieces = tuple(self.tokenizers.target.pieces(hypothesis.tokens))
        return Scored(hypothesis.score, hypothesis.log_prob, pieces, hypothesis.token_log_probs)
