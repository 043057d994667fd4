"""Learn a SentencePiece model from lines of text: what goes in, what is left out, and what can go wrong."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sentencepiece

from clearhead.base.errors import ConfigError, DataError
from clearhead.base.seeds import python_rng
from clearhead.text.config import SPACE_MARK, TokenizerConfig
from clearhead.text.symbols import BOS, EOS, PAD, UNK

__all__ = ["TokenizerReport", "both_sides", "choose_pairs", "train_model"]

# The trainer divides its sums by threads, so that their number is part of the result: one number for every machine.
_THREADS = 8
_LISTED = 100
# SentencePiece silently skips a whole sentence that holds one of these, or takes it for something else: U+2581 is its
# space, U+2585 its unknown character, TAB its boundary. The text is cut there instead, and the rest is learnt from.
_UNLEARNABLE = re.compile(f"[{SPACE_MARK}\u2585\0\t\n\r]+")
_LONGEST_WORD = 512  # characters, as the longest piece
_TOO_HIGH = re.compile(r"Vocabulary size too high \(\d+\)\. Please set it to a value <= (\d+)")
_TOO_LOW = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


@dataclass(frozen=True)
class TokenizerReport:
    """What the tokenizer was learnt from. Line numbers start at 1 and count pairs."""

    pairs: int
    """Pairs read."""
    used: int
    """Pairs that the pieces were learnt from."""
    too_long: int
    """Pairs left out because a side has more than `max_line_bytes` bytes."""
    too_long_lines: tuple[int, ...]
    """The line numbers of the first hundred of these."""
    max_line_bytes: int

    def summary(self) -> str:
        """One line for a log: how much was used and what was left out, by line number."""
        text = f"tokenizer learnt from {self.used:,} of {self.pairs:,} pairs"
        if self.too_long:
            shown = ", ".join(map(str, self.too_long_lines[:10])) + (", …" if self.too_long > 10 else "")
            text += f"; {self.too_long:,} with a side over {self.max_line_bytes:,} bytes left out (line {shown})"
        return text


def choose_pairs(
    config: TokenizerConfig, pairs: Iterable[tuple[str, str]]
) -> tuple[list[tuple[str, str]], TokenizerReport]:
    """The pairs to learn from, in their order, at most `max_training_pairs` of them, and what became of the rest.

    Over that number each pair is as likely to be chosen as any other (reservoir sampling, Vitter 1985, algorithm R),
    always the same ones, in memory for the chosen alone.

    Raises:
        DataError: there are no pairs to learn from, or a text holds a lone surrogate (with its line number).
    """
    chosen: list[tuple[int, tuple[str, str]]] = []
    rng = python_rng(0)
    read = long = 0
    long_lines: list[int] = []
    for pair in pairs:
        read += 1
        if max(_byte_length(pair[0], read), _byte_length(pair[1], read)) > config.max_line_bytes:
            long += 1
            if len(long_lines) < _LISTED:
                long_lines.append(read)
            continue
        if len(chosen) < config.max_training_pairs:
            chosen.append((read, pair))
        elif (place := rng.randrange(read - long)) < config.max_training_pairs:
            chosen[place] = (read, pair)
    chosen.sort(key=lambda numbered: numbered[0])
    report = TokenizerReport(read, len(chosen), long, tuple(long_lines), config.max_line_bytes)
    if not chosen:
        raise DataError(f"no text to learn a tokenizer from: {report.summary()}; give it some, or raise max_line_bytes")
    return [pair for _, pair in chosen], report


def train_model(config: TokenizerConfig, texts: Iterable[str]) -> bytes:
    """The bytes of a SentencePiece model learnt from `texts`; the same texts and configuration give the same bytes.

    Raises:
        ConfigError: the vocabulary does not fit the texts; the message gives the size that does.
        DataError: there is nothing in the texts to learn from.
    """
    fragments = _fragments(texts if config.kind != "word" else map(_learnable_words, texts))
    first = next(fragments, None)
    if first is None:
        raise DataError("no text to learn a tokenizer from: all lines are blank")
    writer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_chain(first, fragments), model_writer=writer, **_settings(config)
        )
    except RuntimeError as error:
        raise _explained(config, str(error)) from None
    return writer.getvalue()


def _settings(config: TokenizerConfig) -> dict[str, Any]:
    return {
        "model_type": config.kind,
        "vocab_size": config.vocab_size,
        "hard_vocab_limit": True,
        "byte_fallback": config.byte_fallback,
        "user_defined_symbols": list(config.symbols),
        "character_coverage": config.character_coverage,
        "split_digits": config.split_digits,
        "max_sentencepiece_length": config.max_piece_length,
        "pad_id": PAD,
        "unk_id": UNK,
        "bos_id": BOS,
        "eos_id": EOS,
        # Text is what the user wrote: nothing folded, trimmed or put in front. The tokenizer itself sets the space
        # that marks the first word as the start of one.
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        # Over-long lines were counted and left out before; here the limit only must not bite again.
        "max_sentence_length": 1 << 30,
        "num_threads": _THREADS,
        "minloglevel": 3,
    }


def _fragments(texts: Iterable[str]) -> Iterator[str]:
    """What SentencePiece can learn from: texts with the leading space that `encode` gives them, cut where it cannot."""
    for text in texts:
        if text:
            for fragment in _UNLEARNABLE.split(" " + text):
                if fragment.strip(" "):
                    yield fragment


def _learnable_words(text: str) -> str:
    """The words that a tokenizer of words may learn, with single spaces between them: a run would be learnt as a word.

    Left out, and so unknown, are words that would be cut, since no word is the same as its part, and those longer than
    any piece may be (`text/modelfile.py`): in languages without spaces a whole line is one.
    """
    return " ".join(
        word for word in text.split(" ") if 0 < len(word) < _LONGEST_WORD and _UNLEARNABLE.search(word) is None
    )


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _byte_length(text: str, line: int) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise DataError(
            f"pair {line}: a lone surrogate ({text[error.start]!a}) at character {error.start + 1} is no text; "
            "write the file as valid UTF-8"
        ) from None


def _explained(config: TokenizerConfig, message: str) -> ConfigError | DataError:
    if found := _TOO_HIGH.search(message):
        return ConfigError(
            f"vocab_size {config.vocab_size} is too large for this text: it allows at most {found[1]}; "
            f"set tokenizer.vocab_size to {found[1]} or less (--set tokenizer.vocab_size={found[1]}), or give more text"
        )
    if found := _TOO_LOW.search(message):
        return ConfigError(
            f"vocab_size {config.vocab_size} is too small for the characters of this text: set the tokenizer's "
            f"vocab_size to {found[1]} or more, or lower character_coverage (now {config.character_coverage:g})"
        )
    return DataError(f"SentencePiece could not learn a tokenizer from this text: {message.strip()}")


def both_sides(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The texts that a joint vocabulary is learnt from: source and target of each pair in turn."""
    for source, target in pairs:
        yield source
        yield target
