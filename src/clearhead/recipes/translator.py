"""The translator: texts in, translations out, in their order, none lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig, Penalty, Sampling
from clearhead.engine.choose import Engine, plain_engine
from clearhead.models.seq2seq import Seq2Seq
from clearhead.recipes.assembly import assemble, scored
from clearhead.recipes.batching import paired, windows
from clearhead.recipes.decoding_options import decoding_config
from clearhead.recipes.phrases import Phrases
from clearhead.recipes.plans import Plan, make_plan
from clearhead.recipes.searching import Progress, Searcher, Steps
from clearhead.recipes.translation import Scored, Translation
from clearhead.text.glossary import UNSPACED_SCRIPTS, Glossary
from clearhead.text.languages import language
from clearhead.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from clearhead.recipes.alignments import Linker

__all__ = ["Progress", "Translator", "decoding_config"]

WINDOW = 2000
"""Texts read ahead to make batches of equal lengths: memory stays bounded however long the file."""
MAX_SOURCE_LENGTH = 512
"""Tokens of one piece: longer than the sentences that models are trained on, short enough for attention's square."""


class Translator:
    """A model with its tokenizers and languages. Threads may share one: nothing in it changes but what it counts."""

    def __init__(
        self,
        model: Seq2Seq | Engine,
        tokenizers: Tokenizers,
        languages: tuple[str, str],
        *,
        max_source_length: int = MAX_SOURCE_LENGTH,
        tag: str | None = None,
        unknown: bool = False,
    ) -> None:
        """Puts `model` into evaluation mode; an engine runs a model in its own way (`engine/choose.py`).

        `max_source_length` is in tokens without EOS; longer text is translated in pieces. A model that learnt its
        positions may allow less. `tag` is put before every source, as that of a corpus was in training; InputError if
        the model does not know it. With `unknown` a search may write UNK, which otherwise it never does.
        """
        if max_source_length < 1:
            raise InputError(f"max_source_length: must be at least 1, got {max_source_length}")
        self.engine = model if isinstance(model, Engine) else plain_engine(model)
        if self.engine.plain is not None:
            self.engine.plain.eval()
        self.tokenizers = tokenizers
        self.languages = languages
        self.device = self.engine.device
        self.tag = tag
        self.lead = [] if tag is None else [tokenizers.source.symbol(tag)]
        self._unknown = unknown
        self._searcher = Searcher(self.engine, tokenizers, self.lead, unknown=unknown)
        self._script = language(languages[1]).script
        limit = self.engine.max_positions
        most = max_source_length if limit is None else min(max_source_length, limit - 1)
        self.max_source_length = max(1, most - len(self.lead))
        self._max_target_length = None if limit is None else limit - 1  # BOS takes a position, too

    @property
    def model(self) -> Seq2Seq:
        """The modules as they were trained, to inspect and align; read again if they were packed in fp32 and let go.

        InputError where a precision keeps their weights packed alone, BundleError where the bundle is no longer there.
        """
        return self._searcher.plain

    @property
    def steps(self) -> Steps:
        """Decoder steps that all translations so far took."""
        return self._searcher.steps

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
        alone, in any batch and any order, on one machine. The native library does so in any case, with any number of
        threads; elsewhere it takes longer, a CPU, and one number of threads.
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
        self._searcher.check(config, batch_tokens, native=phrases is None)
        if phrases is not None and config.sampling is not None:
            raise InputError("a glossary cannot be forced while sampling: leave out one of the two")
        config = self.within_positions(config)
        done = 0
        for part in windows(texts, window):
            plans = [self._plan(*both, index, done + index, phrases) for index, both in enumerate(part)]
            found = self._searcher.search(plans, config, batch_tokens, done, progress)
            target, space = self.tokenizers.target, "" if self._script in UNSPACED_SCRIPTS else " "
            translations = [assemble(plan, found[index], config, target, space) for index, plan in enumerate(plans)]
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
        return self._like(tag, self._unknown)

    def writing_unknown(self) -> Translator:
        """This translator, whose searches may write UNK: for words that a `Linker` replaces."""
        return self._like(self.tag, True)

    def check(self, config: DecodingConfig, *, phrases: bool = False) -> None:
        """Raises InputError for what this translator cannot do, before anything is read; `phrases`: with a glossary."""
        self._searcher.check(config, None, native=not phrases)

    def _like(self, tag: str | None, unknown: bool) -> Translator:
        longest = self.max_source_length + len(self.lead)
        return Translator(
            self.engine, self.tokenizers, self.languages, max_source_length=longest, tag=tag, unknown=unknown
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
        self._searcher.check(config, batch_tokens, native=False)
        done = 0
        for part in windows(pairs, window):
            found = self._searcher.score(part, config, batch_tokens, done, progress)
            links = [None] * len(part) if linker is None else linker.pairs(part, done)
            for index in range(len(part)):
                yield replace(scored(found.get(index), self.tokenizers.target), links=links[index])
            done += len(part)

    # ---------------------------------------------------------------------------------------------------- inside

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
            script=self._script,
        )
