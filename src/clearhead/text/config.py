"""What a practitioner may choose about the tokenizer."""

from typing import Literal

from pydantic import Field, model_validator

from clearhead.config.strict import Config

__all__ = ["SPACE_MARK", "TokenizerConfig"]

SPACE_MARK = "\u2581"
"""The character by which SentencePiece writes a space inside a piece: ▁ (U+2581)."""

_BYTE_PIECES = 256
_SPECIAL_PIECES = 4
_LONGEST_SYMBOL = 512  # as long as the longest piece that may be learnt, which `text/modelfile.py` takes in any script
_TAKEN = frozenset({"<pad>", "<unk>", "<s>", "</s>"} | {f"<0x{byte:02X}>" for byte in range(_BYTE_PIECES)})


class TokenizerConfig(Config):
    """How text becomes subword pieces (SentencePiece: Kudo and Richardson 2018).

    The text itself is never changed: no Unicode normalisation, no collapsed or trimmed spaces.
    """

    kind: Literal["bpe", "unigram", "word"] = "bpe"
    """`bpe` merges the most frequent pairs (Sennrich et al. 2016); `unigram` prunes a language model (Kudo 2018).
    `word` keeps the most frequent words, what spaces separate, and makes UNK of every other, as the translators before
    subwords did (Bahdanau et al. 2015, §4.1: 30,000 words; Luong et al. 2015, §4.1: 50,000); with it `byte_fallback`
    is off, and runs of spaces are not restored. `clearhead translate --replace-unknown` is for such models."""

    vocab_size: int = Field(default=8000, ge=8, le=1_000_000)
    """Number of ids, the four reserved ones, user symbols and 256 byte pieces included. Met exactly: a text too
    small for it is refused with the largest size that it allows."""

    joint: bool = True
    """One vocabulary for both languages (what shared embeddings need), learnt from both sides of the text."""

    byte_fallback: bool = True
    """Spell characters outside the vocabulary as UTF-8 bytes, so that every text can be restored exactly. Without
    it they become UNK and are lost."""

    symbols: tuple[str, ...] = ()
    """Strings that always stay one piece, such as protected placeholders. Where several match, the longest wins."""

    character_coverage: float = Field(default=0.9995, ge=0.98, le=1.0)
    """Share of the characters in the training text that get a piece of their own; the rarest rest is spelt in bytes."""

    split_digits: bool = False
    """Make every digit a piece of its own, which helps a model to copy numbers it has not seen."""

    max_piece_length: int = Field(default=16, ge=1, le=512)
    """Longest piece that may be learnt, in characters."""

    max_training_pairs: int = Field(default=1_000_000, ge=1)
    """Learn the pieces from at most this many pairs, drawn evenly from the whole text (always the same ones)."""

    max_line_bytes: int = Field(default=4192, ge=1)
    """Pairs with a side longer than this many UTF-8 bytes teach the tokenizer nothing; they are counted and reported.
    They are still encoded like any other text."""

    sampling: float = Field(default=0.0, ge=0.0)
    """Subword regularisation while a model trains; 0 is off. With `bpe` the probability that a merge is dropped
    (BPE-dropout, Provilkov et al. 2020: 0.1); with `unigram` the smoothing exponent alpha (Kudo 2018: 0.1 to 0.5)."""

    @model_validator(mode="after")
    def _check(self) -> "TokenizerConfig":
        if self.kind == "word":
            self._check_words()
        least = _SPECIAL_PIECES + (_BYTE_PIECES if self.byte_fallback else 0) + len(self.symbols) + 1
        if self.vocab_size < least:
            why = "byte_fallback takes 256 ids" if self.byte_fallback else "the symbols take as many"
            raise ValueError(f"vocab_size {self.vocab_size} is too small ({why}); set it to {least} or more")
        if self.kind == "bpe" and self.sampling > 1:
            raise ValueError(f"sampling {self.sampling} is no probability; with kind 'bpe' it lies between 0 and 1")
        for symbol in self.symbols:
            _check_symbol(symbol)
        if len(set(self.symbols)) != len(self.symbols):
            twice = next(symbol for symbol in self.symbols if self.symbols.count(symbol) > 1)
            raise ValueError(f"symbols: {twice!r} stands there twice; name each symbol once")
        return self

    def _check_words(self) -> None:
        for name, means in (("byte_fallback", "a word is not spelt in bytes"), ("sampling", "a word is not divided")):
            if getattr(self, name):
                off = "false" if name == "byte_fallback" else "0"
                raise ValueError(f"{name}: {means}; with kind 'word' set {name} to {off}")
        if self.symbols:
            raise ValueError("symbols: kind 'word' knows none; take them out, or choose 'bpe' or 'unigram'")


def _check_symbol(symbol: str) -> None:
    if not symbol:
        raise ValueError("symbols: an empty symbol; take it out")
    if len(symbol) > _LONGEST_SYMBOL:
        raise ValueError(
            f"symbols: {symbol[:20]!r}… has {len(symbol):,} characters; at most {_LONGEST_SYMBOL} are taken"
        )
    if symbol in _TAKEN:
        raise ValueError(f"symbols: {symbol!r} is the name of a reserved piece; choose another")
    if any(character in f"{SPACE_MARK}\u2585\0" or character.isspace() for character in symbol):
        raise ValueError(f"symbols: {symbol!r} contains white space, NUL, U+2581 or U+2585, which a symbol cannot hold")
    if any("\ud800" <= character <= "\udfff" for character in symbol):
        raise ValueError(f"symbols: {symbol!r} contains a lone surrogate, which is no character")
