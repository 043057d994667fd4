"""The text of a run on its way to the trainer: stores, the endless stream of batches, the development set."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from clearhead.base.errors import ConfigError, DataError
from clearhead.base.files import file_error
from clearhead.base.log import logger
from clearhead.base.seeds import mix
from clearhead.data.batches import BatchPlan, Cursor, length_batches
from clearhead.data.collate import Batch, collate
from clearhead.data.config import CorpusConfig, DataConfig
from clearhead.data.mixture import Mixture, weighted_pairs
from clearhead.data.store import Store, build_store
from clearhead.formats.corpus import open_corpus
from clearhead.formats.lines import display_name, gives_itself_once
from clearhead.formats.scanner import XML_LANGUAGE, Element
from clearhead.formats.xml import open_xml
from clearhead.text.tokenizer import Tokenizers
from clearhead.training.progress import Drawn

__all__ = [
    "Development",
    "TrainingStream",
    "check_cache",
    "check_text",
    "data_identity",
    "open_stores",
    "store_directory",
    "stream_seed",
    "tokenizer_text",
]

_UNUSED = {
    "empty": "without a translation",
    "review": "in need of review",
    "closed": "not to be translated, or without a source",
}


def store_directory(data: DataConfig, run: Path) -> Path:
    """Where the token stores of the run in `run` lie."""
    return Path(data.cache) if data.cache else run / "cache"


def check_cache(data: DataConfig, run: Path) -> None:
    """Make the directory of the token stores. Raises `file_error`'s, naming the key, if it cannot be written."""
    directory = store_directory(data, run)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        told = file_error(directory, "written", error)
        raise type(told)(f"data.cache: {told}" if data.cache else str(told)) from None


def check_text(data: DataConfig) -> None:
    """Read the beginning of the training text and all of the development text, which is short.

    Raises DataError if a file cannot be read, is empty or can be read only once, and if the development text breaks
    the line contract or is not aligned.
    """
    for key, corpus in data.named:
        for path in corpus.files():
            if not path.is_dir() and gives_itself_once(path):
                raise DataError(
                    f"{key}: {display_name(path)} can be read only once, but training reads its text several times; "
                    "write it to a file first"
                )
        pairs = corpus.pairs(data.languages)
        if next(pairs, None) is None:
            raise DataError(f"{key}: {_why_empty(corpus, data.languages)}")
        if corpus is data.dev:
            for _ in pairs:
                pass


def _why_empty(corpus: CorpusConfig, languages: tuple[str, str]) -> str:
    """What a corpus without a pair holds instead: nothing, other languages, or entries that have no translation."""
    opened = open_corpus(corpus.files(), languages) if corpus.file is not None else None
    if opened and opened.format == "tmx":
        there = _languages_in(opened.files[0])
        known = {code.partition("-")[0] for code in there}
        missing = [code for code in languages if code.partition("-")[0].lower() not in known]
        if there and missing:
            return (
                f"{corpus} has no text in {' or '.join(missing)}; there are {', '.join(there)}: change data.languages "
                "(--languages)"
            )
    states = Counter(entry.state for entry in opened.states()) if opened else Counter[str]()
    if not states:
        return f"{corpus} is empty"
    found = ", ".join(f"{count:,} {_UNUSED.get(state, state)}" for state, count in states.items())
    entries = f"{states.total():,} {'entry' if states.total() == 1 else 'entries'}"
    return f"{corpus} has no translation from {languages[0]} into {languages[1]} to train on, only {entries}: {found}"


def _languages_in(path: Path) -> list[str]:
    """The languages of a TMX file."""
    found: set[str] = set()

    def watch(element: Element) -> bool:
        if element.name == "tuv":
            found.add((element.attributes.get(XML_LANGUAGE) or element.attributes.get("lang", "")).lower())
        return False

    with open_xml(path) as document:
        for _ in document.records(watch):
            pass
    return sorted(found - {""})


def tokenizer_text(data: DataConfig) -> Iterator[tuple[str, str]]:
    """The text that a tokenizer is learnt from: every corpus to train on, in proportion to its weight."""
    readers = [partial(corpus.pairs, data.languages) for corpus in data.corpora]
    return weighted_pairs(readers, [corpus.weight for corpus in data.corpora])


def open_stores(
    data: DataConfig, tokenizers: Tokenizers, run: Path, seed: int, expected: Mapping[str, Any] | None = None
) -> tuple[Mixture, Store | None]:
    """The token stores of training and development text, built or found; what was dropped is logged.

    `expected` is the `data_identity` that the run in `run` was begun with: `ConfigError` if the text is another, before
    any of it is encoded.
    """
    directory = store_directory(data, run)
    keys = None if expected is None else _expected_keys(expected, len(data.corpora))

    def progress(count: int) -> None:
        if count % 1_000_000 < 2000:
            logger.info("%s pairs encoded", f"{count:,}")

    def store(key: str, name: str, corpus: CorpusConfig, seed: int, sampling: bool) -> Store:
        built = build_store(
            partial(corpus.pairs, data.languages),
            tokenizers,
            data,
            directory,
            progress,
            sampling=sampling,
            seed=seed,
            tag=None if corpus.tag is None else tokenizers.source.symbol(corpus.tag),
            name=name,
            accept=_same(key, run, keys),
        )
        _report(name, built)
        return built

    sampling = tokenizers.config.sampling > 0
    train: list[Store] = []
    dev: Store | None = None
    for place, (key, corpus) in enumerate(data.named):
        if corpus is data.dev:
            dev = store(key, "development text", corpus, seed, sampling=False)
        else:
            name = "training text" if len(data.corpora) == 1 else f"{key} ({corpus})"
            train.append(store(key, name, corpus, mix(seed, 4, place) if place else seed, sampling))
    if dev is None:
        _same("data.dev", run, keys)("")
    mixture = Mixture(train, [corpus.weight for corpus in data.corpora], mix(seed, 5))
    _report_shares(data, mixture)
    return mixture, dev


def _expected_keys(identity: Mapping[str, Any], corpora: int) -> dict[str, str]:
    """The content that a `data_identity` names, by the key of the corpus."""
    train = identity.get("train", "")
    names = ["data.train"] if corpora == 1 else [f"data.train[{place}]" for place in range(corpora)]
    contents = train if isinstance(train, list) else [train]
    return dict(zip(names, contents, strict=False)) | {"data.dev": str(identity.get("dev", ""))}


def _same(key: str, run: Path, expected: Mapping[str, str] | None) -> Callable[[str], None]:
    """What refuses, for the corpus at `key`, another content than `expected`."""

    def accept(content: str) -> None:
        if expected is not None and content != expected.get(key, ""):
            raise ConfigError(
                f"{key}: the text is not what {run} was trained on (content {expected.get(key) or 'none'} "
                f"then, {content or 'none'} now); restore it, or start again with --fresh"
            )

    return accept


class TrainingStream:
    """Batches without end from any position of a mixture; see `Stream` in the trainer."""

    def __init__(self, mixture: Mixture, data: DataConfig, seed: int, device: torch.device) -> None:
        self.mixture = mixture
        self.data = data
        self.seed = seed
        self.device = device

    def __call__(self, cursor: Cursor) -> Iterator[Drawn[Batch]]:
        while True:
            for drawn in self._to_the_end_of_the_epoch(cursor):
                yield drawn
                cursor = drawn.cursor

    def _to_the_end_of_the_epoch(self, cursor: Cursor) -> Iterator[Drawn[Batch]]:
        data, epoch = self.data, cursor.epoch
        lengths = self.mixture.epoch(epoch)  # a plan an epoch, since a weight may show other pairs in the next one
        plan = BatchPlan(lengths, data.batch_tokens, self.seed, batch_pairs=data.batch_pairs, pool=data.pool)
        for slots, after in plan.stream(cursor):
            numbers, pairs = self.mixture.batch(slots, epoch)
            yield Drawn(
                batch=collate(pairs, self.device),
                pairs=numbers,
                tokens=sum(len(target) + 1 for _, target in pairs),
                source_tokens=sum(len(source) + 1 for source, _ in pairs),
                cursor=after,
            )
            if after.epoch != epoch:
                return


@dataclass(frozen=True)
class Development:
    """The development set: as batches for the NLL, as text for BLEU and chrF."""

    store: Store
    data: DataConfig
    device: torch.device

    @cached_property
    def batches(self) -> list[Batch]:
        """All pairs that fit, longest first; the same at every call."""
        store = self.store
        longest = [max(s, t) + 1 for s, t in zip(store.lengths("source"), store.lengths("target"), strict=True)]
        cuts = length_batches(longest, min(self.data.batch_tokens, 8192))
        return [collate([store.pair(int(i)) for i in cut], self.device) for cut in cuts]

    @cached_property
    def text(self) -> tuple[Sequence[str], Sequence[str]]:
        """Every source, without its tag, and every reference, those too long for a batch included."""
        if self.data.dev is None:
            raise DataError("there is no development text; give data.dev (--dev-source, --dev-target)")
        pairs = list(self.data.dev.pairs(self.data.languages))
        return [source for source, _ in pairs], [target for _, target in pairs]


def data_identity(train: Mixture, dev: Store | None) -> dict[str, Any]:
    """What the text is, by content: a resumed run must have the same. Weights are in the configuration."""
    keys = list(train.keys)
    return {"train": keys if len(keys) > 1 else keys[0], "dev": "" if dev is None else dev.key}


def stream_seed(seed: int) -> int:
    """The seed of the order of the data, apart from those of weights and dropout."""
    return mix(seed, 3)


def _report(name: str, store: Store) -> None:
    report = store.report
    (logger.warning if report.read > report.kept else logger.info)("%s: %s", name, report.summary())


def _report_shares(data: DataConfig, mixture: Mixture) -> None:
    """What an epoch is made of, where it is not each pair once."""
    if len(data.corpora) == 1 and data.corpora[0].weight == 1.0:
        return
    for (key, _), corpus, slots in zip(data.named, data.corpora, mixture.slots, strict=False):
        tag = f", tag {corpus.tag}" if corpus.tag else ""
        share = slots / len(mixture)
        logger.info("%s: weight %g, %s pairs an epoch (%.1f %%)%s", key, corpus.weight, f"{slots:,}", 100 * share, tag)
