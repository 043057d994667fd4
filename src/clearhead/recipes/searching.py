"""From pieces of text to hypotheses, and from pairs to their scores, by whichever engine a translator has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import torch

from clearhead.base.errors import ClearheadError, InputError
from clearhead.base.log import logger
from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.constrained import constrained_search
from clearhead.decoding.fixed import ROWS
from clearhead.decoding.search import Hypothesis, Model, force, search
from clearhead.decoding.select import NOT_A_NUMBER
from clearhead.decoding.unknown import with_unknown, written
from clearhead.engine.abreast import abreast
from clearhead.engine.choose import Engine
from clearhead.engine.processors import usable_processors
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.recipes.batching import attempt, batches
from clearhead.recipes.phrases import FORCED_BEAM
from clearhead.recipes.plans import Piece, Plan
from clearhead.text.symbols import EOS, UNK
from clearhead.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from clearhead.engine.native import NativeModel

__all__ = ["Progress", "Searcher", "Steps"]

Progress = Callable[[int], None]
"""Called now and then with the number of texts done so far."""

CPU_TOKENS, GPU_TOKENS = 4096, 65536
"""Sentences × longest source × hypotheses in one batch; in the native library, source tokens × hypotheses a thread."""

Job = tuple[int, int, Piece]
"""The line of a text in its window, the number of a piece of it, and that piece."""


@dataclass(frozen=True)
class _Pair:
    """A pair to be scored."""

    line: int
    source: list[int]
    target: list[int]

    @property
    def length(self) -> int:
        return len(self.source) + len(self.target) + 2


class _Abandoned(BaseException):
    """Whoever is told of the progress raised `error`: nothing that a batch could be tried in halves for."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Steps:
    """How many decoder steps sentences took so far, as far as the engine counts them: the native library does."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counted = (0, 0)

    def add(self, steps: int, sentences: int) -> None:
        """Count the steps of one search: each sentence takes part in a step, or it does not."""
        with self._lock:
            self._counted = self._counted[0] + steps, self._counted[1] + sentences

    def so_far(self) -> tuple[int, int]:
        """Steps and sentences."""
        return self._counted


class Searcher:
    """An engine with what it needs to be asked. Threads may share one: nothing changes but what `steps` counts."""

    def __init__(self, engine: Engine, tokenizers: Tokenizers, lead: Sequence[int], *, unknown: bool) -> None:
        """`lead` goes before every source. With `unknown` a search may write UNK, which takes the plain model."""
        self.engine = engine
        self.steps = Steps()
        self._tokenizers = tokenizers
        self._lead = lead
        self._unknown = tokenizers.target.vocab_size if unknown else None
        self._writer = None if self._unknown is None else with_unknown(self.plain, self._unknown)

    @property
    def plain(self) -> Seq2Seq:
        """The modules as they were trained; InputError where they cannot be had, BundleError where they are gone."""
        if (found := self.engine.as_trained()) is None:
            raise InputError(
                f"this needs the weights as they were trained, and precision {self.engine.precision} keeps them packed "
                "alone: leave out the precision"
            )
        return found

    def check(self, config: DecodingConfig, batch_tokens: int | None, *, native: bool = True) -> None:
        """Raises InputError for what cannot be; `native` says whether the native library might do all that is asked."""
        device = self.engine.device
        if batch_tokens is not None and type(batch_tokens) is not int:
            raise InputError(f"batch_tokens: must be a whole number, got {batch_tokens!r}")
        if batch_tokens is not None and batch_tokens < 1:
            raise InputError(f"batch_tokens: must be at least 1, got {batch_tokens}")
        if not config.reproducible:
            return
        if batch_tokens is not None:
            raise InputError("batch_tokens cannot be chosen with reproducible, whose batches have a size of their own")
        if device.type != "cpu":
            raise InputError(f"reproducible works on a CPU, not on {device}: choose the device cpu")
        if not self.engine.has_plain and not (native and self._native(config)):
            raise InputError(
                f"reproducible in precision {self.engine.precision} is for searches of the native library, which are "
                "without sampling, glossary, ensemble and scoring: leave out the precision"
            )

    def search(
        self,
        plans: Sequence[Plan],
        config: DecodingConfig,
        batch_tokens: int | None,
        done: int,
        progress: Progress | None,
    ) -> list[list[list[Hypothesis]]]:
        """For each plan the n-best list of each piece, an empty one for a piece that failed.

        `done` texts came before these.
        """
        jobs = [(line, part, piece) for line, plan in enumerate(plans) for part, piece in enumerate(plan.pieces)]
        jobs.sort(key=lambda each: (each[2].length, each[0], each[1]))
        found: list[list[list[Hypothesis]]] = [[[] for _ in plan.pieces] for plan in plans]
        waiting = [len(plan.pieces) for plan in plans]

        def name(job: Job) -> str:
            return f"text {done + job[0] + 1}"

        def told(count: int) -> None:
            """`count` of the native library's are done: of the texts about as many in proportion."""
            if progress is None:
                return
            blank = len(plans) - len({line for line, _, _ in jobs})
            try:
                progress(done + blank + count * (len(plans) - blank) // max(len(jobs), 1))
            except Exception as error:
                raise _Abandoned(error) from None

        try:
            for batch, results in self._results(jobs, config, batch_tokens, name, told):
                for (line, part, _), hypotheses in zip(batch, results, strict=True):
                    found[line][part] = hypotheses or []
                    waiting[line] -= 1
                if progress is not None:
                    progress(done + waiting.count(0))
        except _Abandoned as abandoned:
            reason = abandoned.error
        else:
            return found
        raise reason

    def score(
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
                ids = self._tokenizers.source.encode(source), self._tokenizers.target.encode(target)
                encoded.append(_Pair(index, *ids))
            except ClearheadError as error:
                logger.warning("pair %d cannot be scored: %s", done + index + 1, error)
        encoded.sort(key=lambda each: (each.length, each.line))
        found: dict[int, Hypothesis] = {}
        longest = encoded[-1].length if encoded else 0
        budget = self._budget(config, batch_tokens, 1, longest)
        model = self.engine.as_trained() or self.engine.model
        for batch in batches(encoded, budget, lambda each: each.length):
            results = attempt(
                batch, lambda these: self._force(model, these, config), lambda each: f"pair {done + each.line + 1}"
            )
            found.update({each.line: one for each, one in zip(batch, results, strict=True) if one is not None})
            if progress is not None:
                progress(done + len(found))
        return found

    # ---------------------------------------------------------------------------------------------------- inside

    def _native(self, config: DecodingConfig) -> NativeModel | None:
        """The native library's model, if it can do this search."""
        return self.engine.native if config.sampling is None and self._unknown is None else None

    def _budget(self, config: DecodingConfig, batch_tokens: int | None, width: int, longest: int) -> int:
        """The greatest sentences × longest of a batch, where a sentence has `width` hypotheses.

        With fixed shapes a batch of the `longest` still fills the rows that are calculated in any case.
        """
        budget = max(1, (batch_tokens or (CPU_TOKENS if self.engine.device.type == "cpu" else GPU_TOKENS)) // width)
        return max(budget, ROWS * longest) if config.reproducible else budget

    def _results(
        self,
        jobs: Sequence[Job],
        config: DecodingConfig,
        batch_tokens: int | None,
        name: Callable[[Job], str],
        told: Progress,
    ) -> Iterator[tuple[Sequence[Job], list[list[Hypothesis] | None]]]:
        """Batches of the jobs, which come by length, each with its results.

        The native library is given all that it can search at once: it shares them out among its threads by itself.
        """
        native = self._native(config)
        if native is not None:
            able = [not piece.phrases and self._reaches(native, piece, config) for _, _, piece in jobs]
            given = [job for job, here in zip(jobs, able, strict=True) if here]
            jobs = [job for job, here in zip(jobs, able, strict=True) if not here]
            if given:
                found = attempt(given, lambda each: self._natively(each, config, batch_tokens, name, told), name)
                yield given, found
        parts = list(self._batches(jobs, config, batch_tokens))
        if not parts:
            return

        def run(model: Model, batch: Sequence[Job]) -> list[list[Hypothesis] | None]:
            return attempt(batch, lambda each: self._translate(model, [piece for _, _, piece in each], config), name)

        model = self._model(config)
        packed = model is self.engine.model and self.engine.name == "fast" and self.engine.device.type == "cpu"
        threads = self._threads() if packed else 1
        yield from zip(parts, abreast(model, parts, run, threads), strict=True)

    def _threads(self) -> int:
        return min(torch.get_num_threads(), usable_processors())

    def _batches(self, jobs: Sequence[Job], config: DecodingConfig, batch_tokens: int | None) -> Iterator[list[Job]]:
        """Batches of the jobs; those with phrases, which take a wider beam, by themselves."""
        for forced in (False, True):
            part = [each for each in jobs if bool(each[2].phrases) is forced]
            width = config.n_best if config.sampling else max(config.beam, FORCED_BEAM) if forced else config.beam
            budget = self._budget(config, batch_tokens, width, part[-1][2].length if part else 0)
            yield from batches(part, budget, lambda each: each[2].length)

    def _natively(
        self,
        jobs: Sequence[Job],
        config: DecodingConfig,
        batch_tokens: int | None,
        name: Callable[[Job], str],
        told: Progress,
    ) -> Sequence[list[Hypothesis] | None]:
        assert self.engine.native is not None
        found = self.engine.native.search(
            [self._read(piece) for _, _, piece in jobs],
            config,
            prefixes=[piece.prefix for _, _, piece in jobs],
            batch_tokens=batch_tokens or CPU_TOKENS,
            threads=self._threads(),
            progress=told,
        )
        self.steps.add(*self.engine.native.steps)
        for job, hypotheses in zip(jobs, found, strict=True):
            if hypotheses is None:
                logger.warning("%s failed: %s", name(job), NOT_A_NUMBER)
        return found

    def _translate(self, model: Model, pieces: Sequence[Piece], config: DecodingConfig) -> list[list[Hypothesis]]:
        source = Padded.from_lists([self._read(piece) for piece in pieces], self.engine.device)
        prefixes, keys = [self._shown(piece.prefix) for piece in pieces], [piece.key for piece in pieces]
        phrases = [piece.phrases for piece in pieces]
        if not any(phrases):
            return self._named(search(model, source, config, prefixes=prefixes, keys=keys))
        config = config.model_copy(update={"beam": max(config.beam, FORCED_BEAM)})
        return self._named(constrained_search(model, source, config, phrases, prefixes=prefixes, keys=keys))

    def _reaches(self, native: NativeModel, piece: Piece, config: DecodingConfig) -> bool:
        return native.reaches(config, len(piece.ids) + len(self._lead), len(piece.prefix))

    def _read(self, piece: Piece) -> list[int]:
        """What the encoder reads."""
        return [*self._lead, *piece.ids, EOS]

    def _model(self, config: DecodingConfig) -> Model:
        """For a search in PyTorch; of the plain model alone it is proved that no figure depends on the batch."""
        return self._writer or (self.plain if config.reproducible else self.engine.model)

    def _shown(self, prefix: list[int]) -> list[int]:
        """The tokens of a prefix as the model that writes is shown them."""
        return prefix if self._unknown is None else [self._unknown if each == UNK else each for each in prefix]

    def _named(self, found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        return found if self._unknown is None else [written(each, self._unknown) for each in found]

    def _force(self, model: Model, pairs: Sequence[_Pair], config: DecodingConfig) -> list[Hypothesis]:
        source = Padded.from_lists([[*self._lead, *pair.source, EOS] for pair in pairs], self.engine.device)
        return force(model, source, [pair.target for pair in pairs], config)
