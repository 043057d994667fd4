"""Whole folders for other programs: the model, and the tokenizers beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clearhead.base.errors import InputError
from clearhead.bundle.bundle import Bundle
from clearhead.export.ctranslate import to_ctranslate2
from clearhead.export.extra import quietly
from clearhead.export.marian import to_marian
from clearhead.models.config import TransformerConfig
from clearhead.text.mapped import MappedTokenizer
from clearhead.text.modelfile import with_leading_space
from clearhead.text.tokenizer import Tokenizer

__all__ = ["pieces_of", "transformer_of", "write_ctranslate2", "write_marian"]


def transformer_of(bundle: Bundle, name: str) -> TransformerConfig:
    """The configuration of a bundle that is a whole Transformer; InputError for another kind of model."""
    config = bundle.config
    if not isinstance(config, TransformerConfig):
        raise InputError(
            f"{name}: model.kind = {config.kind!r} (encoder {config.encoder.kind!r}, decoder {config.decoder.kind!r}) "
            "has no counterpart in other programs; only whole Transformers are exported"
        )
    return config


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """All pieces of a tokenizer in the order of their ids."""
    return tokenizer.pieces(range(tokenizer.vocab_size))


def write_ctranslate2(directory: Path, bundle: Bundle, config: TransformerConfig) -> None:
    """A folder for `ctranslate2.Translator`, and source.spm and target.spm, which cut texts into its pieces.

    Raises InputError for what has no counterpart.
    """
    source, target = bundle.tokenizers.source, bundle.tokenizers.target
    to_ctranslate2(bundle.model, config, pieces_of(source), pieces_of(target), directory)
    _write_models(directory, source, target)


def write_marian(directory: Path, bundle: Bundle, config: TransformerConfig) -> None:
    """A folder for `transformers.MarianMTModel` and its tokenizer. Raises InputError for what has no counterpart."""
    source, target = bundle.tokenizers.source, bundle.tokenizers.target
    if source.config.kind == "word":
        raise InputError("tokenizer.kind = 'word' has no counterpart in a tokenizer of transformers: it knows subwords")
    theirs = to_marian(bundle.model, config)
    with quietly():
        theirs.save_pretrained(str(directory))
    mode = (
        (directory / "config.json").stat().st_mode
    )  # as the umask has it; safetensors leave theirs to its owner alone
    (directory / "model.safetensors").chmod(mode)
    _write_models(directory, source, target)
    separate = pieces_of(source) != pieces_of(target)
    _write_json(directory / "vocab.json", {piece: place for place, piece in enumerate(pieces_of(source))})
    if separate:
        _write_json(directory / "target_vocab.json", {piece: place for place, piece in enumerate(pieces_of(target))})
    settings: dict[str, Any] = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": bundle.languages[0],
        "target_lang": bundle.languages[1],
        "separate_vocabs": separate,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "model_max_length": min(512, theirs.config.max_position_embeddings),
        "clean_up_tokenization_spaces": False,
    }
    _write_json(directory / "tokenizer_config.json", settings)


def _write_models(directory: Path, *tokenizers: Tokenizer) -> None:
    for name, tokenizer in zip(("source.spm", "target.spm"), tokenizers, strict=True):
        own = isinstance(tokenizer, MappedTokenizer)  # its model puts what space it wants before a text
        (directory / name).write_bytes(tokenizer.model if own else with_leading_space(tokenizer.model))


def _write_json(path: Path, table: dict[str, Any]) -> None:
    path.write_text(json.dumps(table, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
