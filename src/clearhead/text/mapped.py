"""A SentencePiece model of others, whose pieces get their ids from a table: the tokenizer of an imported translator.

Marian's translators have a model a side and number the pieces of both by one vocabulary (Junczys-Dowmunt et al. 2018).
Such a model may normalise the text (NFKC, spaces), so that `decode(encode(text))` is the text as its model normalises
it, less what has no piece: the law of `Tokenizer` does not hold here.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import sentencepiece

from clearhead.base.errors import BundleError
from clearhead.base.files import atomic_write
from clearhead.text.config import TokenizerConfig
from clearhead.text.modelfile import check_model_bytes, model_kind
from clearhead.text.symbols import SPECIALS, UNK
from clearhead.text.tokenizer import Tokenizer, read_model, refuse_surrogates

__all__ = ["MappedTokenizer", "language_codes"]

_CODE = re.compile(r">>[^<>\s]{1,100}<<")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_NAMES = ("<pad>", "<unk>", "<s>", "</s>")
_MOST_PIECES = 1_000_000
_LONGEST_PIECE = 4096  # characters
_LARGEST_TABLE = 64 * 1024 * 1024  # bytes


def language_codes(pieces: Sequence[str]) -> tuple[str, ...]:
    """Those of `pieces` by which a text says what it is to be translated into, such as `>>fra<<`."""
    return tuple(piece for piece in pieces if _CODE.fullmatch(piece))


class MappedTokenizer(Tokenizer):
    """One SentencePiece model and the list of all pieces, in the order of their ids.

    The ids are: PAD, UNK, BOS, EOS · the language codes · all other pieces. What the model makes of a text and the list
    does not hold is UNK. A text may begin with one of the language codes, which are the symbols of the configuration.
    """

    def __init__(self, model: bytes, pieces: Sequence[str], where: str = "tokenizer model") -> None:
        """model: the bytes of a model file; where: the name by which an error speaks of it.

        Raises:
            BundleError: the bytes are damaged, or the list is not as it must be.
        """
        check_model_bytes(model, where, foreign=True)
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except (RuntimeError, ValueError) as error:
            raise BundleError(f"{where}: damaged ({str(error).strip()}); restore the file from its origin") from None
        self.model = model
        self._pieces = list(pieces)
        self.vocab_size = len(self._pieces)
        codes = language_codes(self._pieces[len(SPECIALS) :])
        self._learnt_from = len(SPECIALS) + len(codes)
        self._ids = {piece: place for place, piece in enumerate(self._pieces) if place >= len(SPECIALS)}
        self._check_list(codes, where)
        self._symbol_ids = {code: self._ids[code] for code in codes}
        kind = model_kind(model)
        if kind not in ("unigram", "bpe"):
            raise BundleError(f"{where}: a model of kind {kind!r}; only 'unigram' and 'bpe' can be used")
        self.config = TokenizerConfig(
            kind="bpe" if kind == "bpe" else "unigram",
            vocab_size=self.vocab_size,
            joint=False,
            byte_fallback=False,
            symbols=codes,
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the model and the list: equal fingerprints encode every text alike."""
        return hashlib.sha256(self.model + b"\0" + self._table.encode("utf-8")).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without BOS and EOS.

        Raises:
            DataError: the text holds a lone surrogate.
        """
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`[encode(text) for text in texts]`, faster. The number of threads does not change the result."""
        codes: list[list[int]] = []
        rest: list[str] = []
        for text in texts:
            refuse_surrogates(text)
            found = _CODE.match(text) if text.startswith(">>") else None
            codes.append([] if found is None else [self._ids.get(found[0], UNK)])
            rest.append(text if found is None else text[found.end() :])
        spelt = self._processor.encode(rest, out_type=str, num_threads=threads)
        # By name and not by number: a piece that this model lacks may be one of the other side's.
        return [code + [self._ids.get(piece, UNK) for piece in line] for code, line in zip(codes, spelt, strict=True)]

    def encode_sampled(self, text: str, key: int) -> list[int]:
        """`encode`: a model that was imported is not trained with drawn segmentations."""
        return self.encode(text)

    def save(self, path: str | Path) -> None:
        """Write the model to `path` and the list of pieces beside it."""
        atomic_write(path, self.model)
        atomic_write(_table_file(Path(path)), self._table)

    @classmethod
    def load(cls, path: str | Path) -> "MappedTokenizer":
        """Read what `save` wrote.

        Raises:
            BundleError: a file is missing or damaged.
        """
        table = _table_file(Path(path))
        try:
            if table.stat().st_size > _LARGEST_TABLE:
                raise BundleError(f"{table}: larger than {_LARGEST_TABLE:,} bytes")
            pieces = json.loads(table.read_bytes())
        except OSError as error:
            raise BundleError(f"{table}: cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise BundleError(f"{table}: damaged (not JSON); restore the file from its origin") from None
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise BundleError(f"{table}: not a list of pieces; restore the file from its origin")
        return cls(read_model(Path(path)), pieces, where=str(path))

    @cached_property
    def _table(self) -> str:
        return json.dumps(self._pieces, ensure_ascii=False, indent=0) + "\n"

    @cached_property
    def _spelling(self) -> list[bytes]:
        table = list(super()._spelling)
        for piece, place in self._ids.items():
            byte = _BYTE.fullmatch(piece)
            if byte is not None and self._processor.is_byte(self._processor.piece_to_id(piece)):
                table[place] = bytes([int(byte[1], 16)])
        return table

    def _check_list(self, codes: Sequence[str], where: str) -> None:
        count = self.vocab_size
        if not len(SPECIALS) < count <= _MOST_PIECES or tuple(self._pieces[: len(SPECIALS)]) != _NAMES:
            raise BundleError(f"{where}: its {count:,} pieces are not {', '.join(_NAMES)} and what a model has learnt")
        if len(self._ids) != count - len(SPECIALS):
            twice = next(piece for place, piece in enumerate(self._pieces[4:], 4) if self._ids[piece] != place)
            raise BundleError(f"{where}: the piece {twice!r} has two ids")
        if any(not piece or len(piece) > _LONGEST_PIECE for piece in self._ids):
            raise BundleError(f"{where}: a piece without characters, or with more than {_LONGEST_PIECE:,}")
        try:
            "".join(self._ids).encode("utf-8")
        except UnicodeEncodeError as error:
            raise BundleError(f"{where}: a piece with {error.object[error.start]!r}, which is no character") from None
        if self._pieces[len(SPECIALS) : self._learnt_from] != list(codes):
            raise BundleError(f"{where}: the language codes ({codes[0]}, …) do not come first among its pieces")


def _table_file(model: Path) -> Path:
    return model.with_suffix(".vocabulary.json")
