"""The texts by which two programs are compared, and whether their tokenizers agree about them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random

from clearhead.base.errors import DecodingError, InputError
from clearhead.export.extra import program, quietly
from clearhead.formats.lines import read_lines
from clearhead.text.symbols import EOS, SPECIALS
from clearhead.text.tokenizer import Tokenizer, Tokenizers

__all__ = ["check_tokenizers", "read_texts", "sample_texts"]

SENTENCES, LONGEST, MOST_LINES = 12, 24, 200
MOST_TOKENS = 512


def sample_texts(tokenizer: Tokenizer, sample: Path | None) -> list[str]:
    """The first 200 lines of `sample`, or a dozen texts of pieces drawn from the vocabulary, always the same ones."""
    if sample is not None:
        with_text = (line for line in read_lines(sample) if line.strip())
        lines = list(islice(with_text, MOST_LINES))
        if not lines:
            raise InputError(f"{sample}: no line with text in it")
        return lines
    first = len(SPECIALS) + len(tokenizer.config.symbols) + (256 if tokenizer.config.byte_fallback else 0)
    rng = Random(0)
    texts = []
    for place in range(SENTENCES):
        length = 1 + (LONGEST - 1) * place // (SENTENCES - 1)
        texts.append(tokenizer.decode(rng.randrange(first, tokenizer.vocab_size) for _ in range(length)).strip())
    return [text for text in texts if text]


def read_texts(tokenizer: Tokenizer, texts: Sequence[str], positions: int | None) -> list[list[int]]:
    """The texts as a model reads them, each with EOS; those without a token are left out.

    Each is cut to a quarter of the model's `positions` (of 512 where it sets no limit), so that no translation reaches
    their end. Raises InputError if nothing is left.
    """
    most = max(1, (positions or MOST_TOKENS) // 4)
    lines = [[*ids[:most], EOS] for ids in tokenizer.encode_all(texts) if ids]
    if not lines:
        raise InputError("there is no text to compare by: give a file with a few sentences as --sample")
    return lines


def check_tokenizers(
    tokenizers: Tokenizers,
    folder: Path,
    texts: Sequence[str],
    source_ids: Sequence[int] | None = None,
    target_ids: Sequence[int] | None = None,
) -> None:
    """Compare the ids of `texts`, and what they spell, with the `MarianTokenizer` of `folder`.

    `source_ids` and `target_ids` say which id there is each of ours. Raises DecodingError for the first text that the
    two cut otherwise.
    """
    try:
        with quietly():
            theirs = program("transformers").MarianTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # whatever it says of somebody's files: it checks them by many kinds of error
        raise InputError(f"{folder}: transformers cannot load its tokenizer: {error}") from None
    for side, tokenizer, ids in (("source", tokenizers.source, source_ids), ("target", tokenizers.target, target_ids)):
        for text in texts:
            ours = [*tokenizer.encode(text), EOS]
            mapped = ours if ids is None else [ids[token] for token in ours]
            try:
                with quietly():
                    found = theirs(text).input_ids if side == "source" else theirs(text_target=text).input_ids
            except Exception as error:
                raise InputError(f"{folder}: transformers' tokenizer cannot cut a text: {error}") from None
            if mapped != found:
                raise DecodingError(
                    f"transformers cuts a {side} text into other pieces: {text!r} is {tokenizer.pieces(ours)} here and "
                    f"{theirs.convert_ids_to_tokens(found)} there"
                )
            if side == "target":
                spelt = theirs.decode(found, skip_special_tokens=True)
                if spelt.strip() != tokenizer.decode(ours).replace("\u2047", "").strip():
                    raise DecodingError(
                        f"transformers spells a text otherwise: {tokenizer.decode(ours)!r} here and {spelt!r} there"
                    )
