"""Token stores: a corpus encoded once, on disk, mapped into memory.

`build_store` reads the text twice and no pair stays in memory: once to hash it, and, if no store with that hash is
there, once to encode it. The key is a hash of the text, the tokenizers and the settings, so a store is used again when
all of them are the same and never otherwise; it lies at `directory/KEY`, and a damaged one is built again.

Two kinds with one interface (`len`, `lengths`, `pair`):

- `PairStore` holds token ids;
- `TextStore` holds the text, for subword sampling: a pair is encoded when it is asked for, anew in each epoch.

Both keep `lengths` as int32 and `offsets` as int64 on disk as well: a process pays for the pages that it touches.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from clearhead.base.errors import DataError
from clearhead.base.files import atomic_directory, sha256_file
from clearhead.base.log import logger
from clearhead.base.seeds import mix
from clearhead.data.report import DropReport

__all__ = ["PairStore", "Pairs", "Store", "TextStore", "build_store", "store_key"]

FORMAT = 1
SIDES = ("source", "target")
PARTS = ("values", "offsets", "lengths")
CHUNK_PAIRS = 2000
CHUNK_CHARACTERS = 2_000_000
THREADS = 2

Pairs = Callable[[], Iterable[tuple[str, str]]]
Progress = Callable[[int], None]
Accept = Callable[[str], None]


class Encoding(Protocol):
    """What a store needs of a tokenizer (see text/tokenizer.py)."""

    @property
    def vocab_size(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...
    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]: ...
    def encode_sampled(self, text: str, key: int) -> list[int]: ...


class Encodings(Protocol):
    """The tokenizers of both sides."""

    @property
    def source(self) -> Encoding: ...
    @property
    def target(self) -> Encoding: ...
    @property
    def fingerprint(self) -> str: ...


class PairStore:
    """Token ids of both sides, without BOS and EOS."""

    kind = "tokens"

    def __init__(self, path: Path, meta: dict[str, Any]) -> None:
        self.path = path
        self.key: str = meta["key"]
        self.report = DropReport.from_dict(meta["report"])
        self._columns = {side: _Column(path, side, meta["dtypes"][side], self.report.kept) for side in SIDES}

    def __len__(self) -> int:
        return self.report.kept

    def lengths(self, side: str) -> NDArray[np.int32]:
        """Tokens of each pair on `side`, EOS not counted: [pairs]."""
        return self._columns[side].lengths

    def pair(self, index: int, epoch: int = 0) -> tuple[list[int], list[int]]:
        """Ids of pair `index` on both sides; the same in every epoch."""
        return self._columns["source"][index].tolist(), self._columns["target"][index].tolist()


class TextStore:
    """Text of both sides, encoded on the fly with subword sampling that depends on (seed, epoch, pair) alone.

    `lengths` are those of the best, not sampled, encoding, and batches are cut by them. Sampling lengthens; a sampled
    side stands only if it has no more than `max_length` tokens and no more than 2 × its length + 8, otherwise the best
    encoding stands for it. So nothing is ever cut off, and a batch of R rows that was cut to hold `batch_tokens` holds
    at most 2 × `batch_tokens` + 7 R.
    """

    kind = "text"

    def __init__(self, path: Path, meta: dict[str, Any], tokenizers: Encodings, seed: int, tag: int | None) -> None:
        self.path = path
        self.key: str = meta["key"]
        self.report = DropReport.from_dict(meta["report"])
        self._max_length: int = meta["max_length"]
        self._seed = seed
        self._leads: dict[str, list[int]] = {"source": _lead(tag), "target": []}
        self._encoders: dict[str, Encoding] = {"source": tokenizers.source, "target": tokenizers.target}
        self._columns = {side: _Column(path, side, "uint8", self.report.kept) for side in SIDES}

    def __len__(self) -> int:
        return self.report.kept

    def lengths(self, side: str) -> NDArray[np.int32]:
        """Tokens of each pair on `side` when nothing is sampled, EOS not counted: [pairs]."""
        return self._columns[side].lengths

    def pair(self, index: int, epoch: int = 0) -> tuple[list[int], list[int]]:
        """Ids of pair `index` on both sides as sampled for `epoch`."""
        return self._sampled("source", index, epoch), self._sampled("target", index, epoch)

    def _sampled(self, side: str, index: int, epoch: int) -> list[int]:
        column, encoder, lead = self._columns[side], self._encoders[side], self._leads[side]
        text = column[index].tobytes().decode("utf-8")
        ids = lead + encoder.encode_sampled(text, mix(self._seed, epoch, index, SIDES.index(side)))
        most = min(self._max_length, 2 * int(column.lengths[index]) + 8)
        return ids if len(ids) <= most else lead + encoder.encode(text)


Store = PairStore | TextStore


def build_store(  # noqa: PLR0913 (what it reads, makes and tells are three things)
    pairs: Pairs,
    tokenizers: Encodings,
    config: "StoreSettings",
    directory: Path | str,
    progress: Progress | None = None,
    *,
    sampling: bool = False,
    seed: int = 0,
    tag: int | None = None,
    name: str = "corpus",
    accept: Accept | None = None,
) -> Store:
    """The store of `pairs` under `directory`: the one already there, or a new one, written whole or not at all.

    `pairs` is called for each reading (`CorpusConfig.pairs` is one). `config` needs `max_length` only. `progress` is
    called with the number of pairs encoded so far. With `sampling` the store is a `TextStore` seeded with `seed`.
    `tag` is an id that is put before the ids of every source, and counts as one of its tokens.
    `name` stands for the corpus in messages. `accept` is called with the key before anything is encoded, and may refuse
    by raising. Blank sides and sides of more than `max_length` tokens drop the pair;
    `report` of the store says how many, and where.

    Raises DataError if no pair is left.
    """
    kind = TextStore.kind if sampling else PairStore.kind
    key = store_key(pairs, tokenizers, config.max_length, kind, tag)
    if accept is not None:
        accept(key)
    path = Path(directory) / key[:32]
    if path.exists():
        try:
            return _open(path, key, tokenizers, seed, tag)
        except DataError as error:
            logger.warning("%s: the token store is damaged and is built again (%s)", name, error)
    with atomic_directory(path, replace=True) as temporary:
        writer = _Writer(temporary, tokenizers, config.max_length, kind, tag)
        digest = _digest(tokenizers, config.max_length, kind, tag)
        report = writer.encode(_hashed(pairs(), digest), progress)
        if digest.hexdigest() != key:
            raise DataError(f"{name}: the text changed while it was read; start again when it is complete")
        if report.kept == 0:
            raise DataError(f"{name}: no pair is left to use: {report.summary()}")
        writer.finish(key)
    return _open(path, key, tokenizers, seed, tag)


class StoreSettings(Protocol):
    """The part of DataConfig that a store depends on."""

    @property
    def max_length(self) -> int: ...


def store_key(pairs: Pairs, tokenizers: Encodings, max_length: int, kind: str, tag: int | None = None) -> str:
    """SHA-256 of everything that a store depends on: text, tokenizers, settings, tag, format."""
    digest = _digest(tokenizers, max_length, kind, tag)
    for _ in _hashed(pairs(), digest):
        pass
    return digest.hexdigest()


def _digest(tokenizers: Encodings, max_length: int, kind: str, tag: int | None) -> "hashlib._Hash":
    # Without a tag the key is what it was before there were any.
    return hashlib.sha256(json.dumps([FORMAT, kind, max_length, tokenizers.fingerprint, *_lead(tag)]).encode())


def _lead(tag: int | None) -> list[int]:
    return [] if tag is None else [tag]


def _hashed(pairs: Iterable[tuple[str, str]], digest: "hashlib._Hash") -> Iterator[tuple[str, str]]:
    """The pairs as they are, each added to the digest when it passes."""
    for source, target in pairs:
        # The lengths keep apart ("ab", "c") and ("a", "bc").
        digest.update(f"{len(source)} {len(target)} {source}{target}".encode("utf-8", "surrogatepass"))
        yield source, target


class _Writer:
    """Encodes pairs one after the other into the files of a store."""

    def __init__(self, path: Path, tokenizers: Encodings, max_length: int, kind: str, tag: int | None) -> None:
        self._path = path
        self._lead = _lead(tag)
        self._tokenizers = tokenizers
        self._max_length = max_length
        self._kind = kind
        self._report = DropReport()
        self._dtypes = {
            side: "uint8" if kind == TextStore.kind else _id_type(encoder.vocab_size)
            for side, encoder in (("source", tokenizers.source), ("target", tokenizers.target))
        }

    def encode(self, pairs: Iterable[tuple[str, str]], progress: Progress | None) -> DropReport:
        columns = [_ColumnWriter(self._path, side, self._dtypes[side]) for side in SIDES]
        report = self._report
        try:
            for chunk in _chunks(pairs):
                self._add(chunk, columns)
                if progress is not None:
                    progress(report.read)
        finally:
            for column in columns:
                column.close()
        return report

    def _add(self, chunk: list[tuple[str, str]], columns: "list[_ColumnWriter]") -> None:
        """Encode some pairs at once, which is faster than one by one, and write those that are kept."""
        tokenizers, report = self._tokenizers, self._report
        # Blank sides are not worth encoding, and a blank one drops the pair whatever the other is.
        used = [pair if pair[0].strip() and pair[1].strip() else ("", "") for pair in chunk]
        sources = tokenizers.source.encode_all([source for source, _ in used], THREADS)
        targets = tokenizers.target.encode_all([target for _, target in used], THREADS)
        if self._lead:
            sources = [self._lead + ids for ids in sources]
        for texts, *ids in zip(chunk, sources, targets, strict=True):
            report.read += 1
            if reason := self._reason(texts, ids):
                report.drop(reason, *texts)
                continue
            report.kept += 1
            for column, text, tokens in zip(columns, texts, ids, strict=True):
                column.add(text.encode() if self._kind == TextStore.kind else tokens, len(tokens))

    def _reason(self, texts: tuple[str, str], ids: list[list[int]]) -> str:
        """Why the pair is dropped; empty if it is not."""
        for side, text in zip(SIDES, texts, strict=True):
            if not text.strip():
                return f"empty-{side}"
        for side, tokens in zip(SIDES, ids, strict=True):
            if len(tokens) > self._max_length:
                return f"too-long-{side}"
        return ""

    def finish(self, key: str) -> None:
        """Write the description of the store, last, with the checksum of every other file."""
        files = {file.name: [file.stat().st_size, sha256_file(file)] for file in sorted(self._path.iterdir())}
        meta = {
            "format": FORMAT,
            "key": key,
            "kind": self._kind,
            "max_length": self._max_length,
            "dtypes": self._dtypes,
            "report": self._report.to_dict(),
            "files": files,
        }
        (self._path / "store.json").write_text(json.dumps(meta, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


def _chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Some pairs at a time, bounded in number and in characters."""
    chunk: list[tuple[str, str]] = []
    characters = 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair[0]) + len(pair[1])
        if len(chunk) == CHUNK_PAIRS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


class _ColumnWriter:
    """One side on its way to disk: values, offsets (int64, one more than pairs) and lengths (int32)."""

    def __init__(self, path: Path, side: str, dtype: str) -> None:
        self._dtype = dtype
        self._files: list[BinaryIO] = [(path / f"{side}.{part}").open("wb") for part in PARTS]
        self._end = 0
        self._files[1].write(np.int64(0).tobytes())

    def add(self, values: Sequence[int] | bytes, tokens: int) -> None:
        self._end += len(values)
        self._files[0].write(values if isinstance(values, bytes) else np.array(values, dtype=self._dtype).tobytes())
        self._files[1].write(np.int64(self._end).tobytes())
        self._files[2].write(np.int32(tokens).tobytes())

    def close(self) -> None:
        for file in self._files:
            file.close()


class _Column:
    """One side, mapped: column[i] are the values of pair i."""

    def __init__(self, path: Path, side: str, dtype: str, pairs: int) -> None:
        # asarray keeps the mapping and drops the memmap class, whose every slice would be slow to make.
        self._values: NDArray[Any] = np.asarray(np.memmap(path / f"{side}.values", dtype, "r"))
        self._offsets: NDArray[np.int64] = np.asarray(
            np.memmap(path / f"{side}.offsets", np.int64, "r", shape=(pairs + 1,))
        )
        self.lengths: NDArray[np.int32] = np.asarray(np.memmap(path / f"{side}.lengths", np.int32, "r", shape=(pairs,)))

    def __getitem__(self, index: int) -> NDArray[Any]:
        if not 0 <= index < len(self.lengths):
            raise IndexError(f"pair {index} of {len(self.lengths)}")
        return self._values[self._offsets[index] : self._offsets[index + 1]]


def _open(path: Path, key: str, tokenizers: Encodings, seed: int, tag: int | None) -> Store:
    """Open a store after checking every file of it against its checksum; DataError says what does not fit."""
    try:
        meta = json.loads((path / "store.json").read_text(encoding="utf-8"))
        if meta["format"] != FORMAT or meta["key"] != key:
            raise DataError("it was made for another text or by another version")
        for name, (size, digest) in meta["files"].items():
            if (path / name).stat().st_size != size:
                raise DataError(f"{name} has {(path / name).stat().st_size} bytes instead of {size}")
            if sha256_file(path / name) != digest:
                raise DataError(f"{name} has changed since it was written")
        if meta["kind"] == TextStore.kind:
            return TextStore(path, meta, tokenizers, seed, tag)
        return PairStore(path, meta)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{type(error).__name__}: {error}") from None


def _id_type(vocab_size: int) -> str:
    return "uint16" if vocab_size <= 65536 else "uint32"
