"""The text of a run on its way to the trainer: stores, the endless stream of batches, the development set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from clearhead.base.errors import DataError
from clearhead.base.log import logger
from clearhead.base.seeds import mix
from clearhead.data.batches import BatchPlan, Cursor, length_batches
from clearhead.data.collate import Batch, collate
from clearhead.data.config import DataConfig
from clearhead.data.store import PairStore, Store, build_store
from clearhead.text.tokenizer import Tokenizers
from clearhead.training.progress import Drawn

__all__ = ["Development", "TrainingStream", "open_stores"]


def open_stores(data: DataConfig, tokenizers: Tokenizers, cache: Path, seed: int) -> tuple[Store, Store | None]:
    """The token stores of training and development text, built or found in `cache`; what was dropped is logged."""
    directory = Path(data.cache) if data.cache else cache

    def progress(count: int) -> None:
        if count % 1_000_000 < 2000:
            logger.info("%s pairs encoded", f"{count:,}")

    sampling = tokenizers.config.sampling > 0
    train = build_store(
        data.train.pairs, tokenizers, data, directory, progress, sampling=sampling, seed=seed, name="training text"
    )
    _report("training", train)
    if data.dev is None:
        return train, None
    dev = build_store(data.dev.pairs, tokenizers, data, directory, name="development text")
    _report("development", dev)
    return train, dev


class TrainingStream:
    """Batches without end from any position of a store; see `Stream` in the trainer."""

    def __init__(self, store: Store, data: DataConfig, seed: int, device: torch.device) -> None:
        self.store = store
        self.device = device
        self.plan = BatchPlan(store, data.batch_tokens, seed, batch_pairs=data.batch_pairs, pool=data.pool)

    def __call__(self, cursor: Cursor) -> Iterator[Drawn[Batch]]:
        epoch = cursor.epoch
        for indices, after in self.plan.stream(cursor):
            numbers: list[int] = indices.tolist()
            pairs = [self.store.pair(number, epoch) for number in numbers]
            yield Drawn(
                batch=collate(pairs, self.device),
                pairs=numbers,
                tokens=sum(len(target) + 1 for _, target in pairs),
                source_tokens=sum(len(source) + 1 for source, _ in pairs),
                cursor=after,
            )
            epoch = after.epoch


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
        """Every source and every reference, those too long for a batch included."""
        if self.data.dev is None:
            raise DataError("there is no development text; give data.dev (--dev-source, --dev-target)")
        pairs = list(self.data.dev.pairs())
        return [source for source, _ in pairs], [target for _, target in pairs]


def data_identity(train: Store, dev: Store | None) -> dict[str, Any]:
    """What the text is, by content: a resumed run must have the same."""
    return {"train": train.key, "dev": "" if dev is None else dev.key}


def stream_seed(seed: int) -> int:
    """The seed of the order of the data, apart from those of weights and dropout."""
    return mix(seed, 3)


def _report(name: str, store: PairStore | Any) -> None:
    report = store.report
    (logger.warning if report.read > report.kept else logger.info)("%s text: %s", name, report.summary())
