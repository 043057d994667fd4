"""From text to piece ids and back, without loss.

The law: `decode(encode(text)) == text` for every text without lone surrogates (with `byte_fallback`, the default).
Of a tokenizer of words it holds for texts of its words with single spaces between them.
SentencePiece writes a space as ▁ (U+2581), so that a ▁ of the text itself would come back as a space: such a ▁ is
spelt in its three byte pieces instead. One space is put before every text (the first word is then spelt like any
other) and taken away again by `decode`.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

import sentencepiece

from clearhead.base.errors import BundleError, ConfigError, DataError, InputError
from clearhead.base.files import atomic_write, file_error
from clearhead.base.log import logger
from clearhead.base.seeds import python_rng
from clearhead.config.strict import structure, suggestion, unstructure
from clearhead.config.toml import dump_toml, load_toml
from clearhead.text.config import SPACE_MARK, TokenizerConfig
from clearhead.text.modelfile import check_model_bytes, model_kind
from clearhead.text.sampling import BpeSampler, Sampler, UnigramSampler, words
from clearhead.text.symbols import BOS, EOS, PAD, SPECIALS, UNK
from clearhead.text.training import TokenizerReport, both_sides, choose_pairs, train_model

__all__ = ["Tokenizer", "TokenizerConfig", "TokenizerReport", "Tokenizers", "read_model", "refuse_surrogates"]

_CONFIG_FILE = "tokenizer.toml"
_JOINT_FILE, _SOURCE_FILE, _TARGET_FILE = "joint.model", "source.model", "target.model"
_MAPPED_FILE = "source.vocabulary.json"  # beside the models of a translator that was imported
_UNKNOWN_TEXT = "\u2047"


class Tokenizer:
    """One SentencePiece model. Immutable; one instance may serve many threads.

    The ids are: PAD, UNK, BOS, EOS · the symbols of the configuration in their order · 256 bytes (with
    `byte_fallback`) · what was learnt.
    """

    def __init__(self, model: bytes, config: TokenizerConfig, where: str = "tokenizer model") -> None:
        """model: the bytes of a model file; where: the name by which an error speaks of it.

        Raises:
            BundleError: the bytes are damaged, or are not the model that `config` describes.
        """
        check_model_bytes(model, where)
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
            self.vocab_size: int = self._processor.get_piece_size()
            self._pieces: list[str] = self._processor.id_to_piece(list(range(self.vocab_size)))
        except (RuntimeError, ValueError) as error:  # a piece that is no UTF-8 is a ValueError, too
            raise BundleError(f"{where}: damaged ({str(error).strip()}); restore the file from its origin") from None
        self.config = config
        self.model = model
        self._bytes_from = len(SPECIALS) + len(config.symbols)
        self._learnt_from = self._bytes_from + (256 if config.byte_fallback else 0)
        self._symbol_ids = {symbol: len(SPECIALS) + i for i, symbol in enumerate(config.symbols)}
        self._check_fit(where)
        # What is taken out of the text before SentencePiece sees it; of several symbols the longest goes first.
        atoms = sorted((SPACE_MARK, *config.symbols), key=len, reverse=True)
        self._atoms = re.compile("|".join(map(re.escape, atoms)))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the model: equal fingerprints encode every text alike.

        `sampling` is not part of it: it changes how a model is trained, not what the ids mean.
        """
        return hashlib.sha256(self.model).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without BOS and EOS; none for an empty text. Time grows in proportion to the length.

        Raises:
            DataError: the text holds a lone surrogate.
        """
        if not text:
            return []
        refuse_surrogates(text)
        if self.config.kind == "word":
            return self._words(text)
        if self._atoms.search(text) is None:
            ids: list[int] = self._processor.encode(" " + text)
            return ids
        return self._around_atoms(text, self._processor.encode)

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`[encode(text) for text in texts]`, faster. The number of threads does not change the result."""
        for text in texts:
            refuse_surrogates(text)
        if self.config.kind == "word":
            return [self._words(text) for text in texts]
        plain = [i for i, text in enumerate(texts) if text and self._atoms.search(text) is None]
        encoded: list[list[int]] = [[]] * len(texts)
        for i, ids in zip(
            plain, self._processor.encode([" " + texts[i] for i in plain], num_threads=threads), strict=True
        ):
            encoded[i] = ids
        for i in set(range(len(texts))).difference(plain):
            encoded[i] = self.encode(texts[i])
        return encoded

    def encode_sampled(self, text: str, key: int) -> list[int]:
        """A drawn segmentation of a text (subword regularisation), the same for the same text and key.

        How far it strays from `encode` is the configuration's `sampling`; at 0 it is `encode`. With `bpe` each merge
        is dropped with that probability (BPE-dropout, Provilkov et al. 2020, Algorithm 1); with `unigram` the
        segmentation is drawn from all of them with probability proportional to P^sampling (Kudo 2018, section 3.2,
        with n → ∞). `decode` gives the text back whatever was drawn.

        Raises:
            DataError: the text holds a lone surrogate.
        """
        if not self.config.sampling:
            return self.encode(text)
        return self._sampled(text, self.config.sampling, python_rng(key))

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids spell. PAD, BOS and EOS spell nothing, UNK spells ⁇ (U+2047) without spaces.

        Byte pieces that do not form UTF-8 (a model may write them) give U+FFFD.

        Raises:
            InputError: an id outside the vocabulary.
        """
        text = b"".join(self.spellings(ids)).decode("utf-8", errors="replace")
        return text[1:] if text.startswith(" ") else text

    def spellings(self, ids: Iterable[int]) -> list[bytes]:
        """What each id adds to the UTF-8 of the text, the space before the first word included.

        Raises:
            InputError: an id outside the vocabulary.
        """
        table = self._spelling
        return [table[i] for i in self._checked(ids)]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The ids as pieces to show: `▁` stands for a space, `<0xE2>` for a byte, `<s>` and the like for specials.

        Raises:
            InputError: an id outside the vocabulary.
        """
        return [self._pieces[i] for i in self._checked(ids)]

    def symbol(self, symbol: str) -> int:
        """The id of one of the configuration's symbols.

        Raises:
            InputError: there is no such symbol; the message names those that there are.
        """
        if symbol not in self._symbol_ids:
            known = [*self._symbol_ids]
            hint, listed = suggestion(symbol, known), ", ".join(known) or "none"
            raise InputError(f"the tokenizer has no symbol {symbol!r}{hint}; its symbols: {listed}")
        return self._symbol_ids[symbol]

    def save(self, path: str | Path) -> None:
        """Write the model to `path` and its configuration to `tokenizer.toml` beside it."""
        atomic_write(path, self.model)
        atomic_write(Path(path).with_name(_CONFIG_FILE), dump_toml(unstructure(self.config)))

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read what `save` wrote.

        Raises:
            BundleError: the model or its `tokenizer.toml` is missing or damaged, or the two do not fit each other.
        """
        return cls(read_model(Path(path)), _read_config(Path(path).with_name(_CONFIG_FILE)), where=str(path))

    @cached_property
    def _spelling(self) -> list[bytes]:
        table = [piece.replace(SPACE_MARK, " ").encode("utf-8") for piece in self._pieces]
        for special in (PAD, BOS, EOS):
            table[special] = b""
        table[UNK] = (" " * (self.config.kind == "word") + _UNKNOWN_TEXT).encode("utf-8")
        if self.config.byte_fallback:
            table[self._bytes_from : self._learnt_from] = [bytes([byte]) for byte in range(256)]
        return table

    @cached_property
    def _learnt(self) -> dict[str, int]:
        return {self._pieces[i]: i for i in range(self._learnt_from, self.vocab_size)}

    @cached_property
    def _sampler(self) -> Sampler:
        ids = list(range(self._learnt_from, self.vocab_size))
        scores = dict(zip(self._pieces[self._learnt_from :], self._processor.get_score(ids), strict=True))
        if self.config.kind == "unigram":
            return UnigramSampler(scores)
        # A merge is as good as the score of what it makes, and SentencePiece gives these in descending order.
        ordered = sorted(scores, key=lambda piece: -scores[piece])
        return BpeSampler({piece: rank for rank, piece in enumerate(ordered)})

    def _sampled(self, text: str, strength: float, rng: Random) -> list[int]:
        if not text:
            return []
        refuse_surrogates(text)

        def draw(fragment: str) -> list[int]:
            ids: list[int] = []
            for word in words(fragment.replace(" ", SPACE_MARK)):
                for piece in self._sampler.split(word, strength, rng):
                    known = self._learnt.get(piece)
                    if known is not None:
                        ids.append(known)
                    elif self.config.byte_fallback:
                        ids += [self._bytes_from + byte for byte in piece.encode("utf-8")]
                    elif not ids or ids[-1] != UNK:  # like SentencePiece, one UNK for a run of unknown characters
                        ids.append(UNK)
            return ids

        return self._around_atoms(text, draw)

    def _words(self, text: str) -> list[int]:
        """One id a word. (SentencePiece itself makes one UNK of several unknown words in a row.)"""
        return [self._learnt.get(SPACE_MARK + word, UNK) for word in text.split(" ") if word]

    def _around_atoms(self, text: str, encode: Callable[[str], list[int]]) -> list[int]:
        """Encode what stands between the atoms, which themselves are one symbol or the bytes of ▁."""
        text = " " + text
        ids: list[int] = []
        start = 0
        for match in self._atoms.finditer(text):
            if match.start() > start:
                ids += encode(text[start : match.start()])
            symbol = self._symbol_ids.get(match[0])
            if symbol is not None:
                ids.append(symbol)
            elif self.config.byte_fallback:
                ids += [self._bytes_from + byte for byte in match[0].encode("utf-8")]
            else:
                ids.append(UNK)
            start = match.end()
        if start < len(text):
            ids += encode(text[start:])
        return ids

    def _checked(self, ids: Iterable[int]) -> list[int]:
        ids = list(ids)
        if ids and (min(ids) < 0 or max(ids) >= self.vocab_size):
            wrong = next(i for i in ids if not 0 <= i < self.vocab_size)
            raise InputError(f"id {int(wrong)} is outside the vocabulary; ids go from 0 to {self.vocab_size - 1}")
        return ids

    def _check_fit(self, where: str) -> None:
        """The ids mean what `config` and the rest of clearhead take them to mean."""
        processor, config = self._processor, self.config
        specials = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        expected = [*config.symbols, *([f"<0x{byte:02X}>" for byte in range(256)] if config.byte_fallback else [])]
        fits = specials == SPECIALS and self.vocab_size == config.vocab_size and self._learnt_from < self.vocab_size
        if (
            not (fits and model_kind(self.model) == config.kind)
            or self._pieces[len(SPECIALS) : self._learnt_from] != expected
            or processor.is_byte(self._learnt_from)
        ):
            raise BundleError(
                f"{where}: the model ({self.vocab_size} pieces) is not the one that its {_CONFIG_FILE} describes; "
                "restore both files from their origin"
            )


@dataclass(frozen=True)
class Tokenizers:
    """The two tokenizers of a translator; the same object twice when the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer
    report: TokenizerReport | None = field(default=None, compare=False)
    """What the tokenizers were learnt from; None when they were loaded."""

    @property
    def joint(self) -> bool:
        """Both sides share one vocabulary."""
        return self.source is self.target

    @property
    def config(self) -> TokenizerConfig:
        """The configuration that both sides were made by."""
        return self.source.config

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over both models: equal fingerprints encode every pair alike."""
        return hashlib.sha256(f"{self.source.fingerprint} {self.target.fingerprint}".encode()).hexdigest()

    @classmethod
    def train(cls, config: TokenizerConfig, pairs: Callable[[], Iterable[tuple[str, str]]]) -> "Tokenizers":
        """Learn one joint tokenizer, or one a side, from parallel text that is read once.

        The same text and configuration give the same bytes. What is left out is logged and stands in `report`.

        Raises:
            ConfigError: the vocabulary does not fit the text; the message gives the size that does.
            DataError: there is nothing to learn from, or a text holds a lone surrogate.
        """
        chosen, report = choose_pairs(config, pairs())
        (logger.warning if report.too_long else logger.info)("%s", report.summary())
        if config.joint:
            joint = Tokenizer(train_model(config, both_sides(chosen)), config)
            return cls(joint, joint, report)
        sides = []
        for name, index in (("source", 0), ("target", 1)):
            try:
                sides.append(Tokenizer(train_model(config, (pair[index] for pair in chosen)), config))
            except (ConfigError, DataError) as error:
                raise type(error)(f"{name} side: {error}") from None
        return cls(sides[0], sides[1], report)

    def save(self, directory: str | Path) -> None:
        """Write `tokenizer.toml` and `joint.model`, or `source.model` and `target.model`, into `directory`."""
        directory = Path(directory)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise file_error(directory, "created", error) from None
        if self.joint:
            self.source.save(directory / _JOINT_FILE)
        else:
            self.source.save(directory / _SOURCE_FILE)
            self.target.save(directory / _TARGET_FILE)

    @classmethod
    def load(cls, directory: str | Path) -> "Tokenizers":
        """Read what `save` wrote.

        Raises:
            BundleError: a file is missing or damaged.
        """
        directory = Path(directory)
        if (directory / _MAPPED_FILE).exists():
            from clearhead.text.mapped import MappedTokenizer  # which builds on this module

            return cls(MappedTokenizer.load(directory / _SOURCE_FILE), MappedTokenizer.load(directory / _TARGET_FILE))
        if _read_config(directory / _CONFIG_FILE).joint:
            joint = Tokenizer.load(directory / _JOINT_FILE)
            return cls(joint, joint)
        return cls(Tokenizer.load(directory / _SOURCE_FILE), Tokenizer.load(directory / _TARGET_FILE))


def refuse_surrogates(text: str) -> None:
    """Raise DataError for a text that cannot be written as UTF-8, naming the character."""
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"a lone surrogate ({text[error.start]!a}) at character {error.start + 1} is no text and cannot be encoded"
        ) from None


def read_model(path: Path) -> bytes:
    """The bytes of a model file; BundleError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from None


def _read_config(path: Path) -> TokenizerConfig:
    try:
        return structure(TokenizerConfig, load_toml(path), where=str(path))
    except ConfigError as error:
        raise BundleError(str(error)) from None
