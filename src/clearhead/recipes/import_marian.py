"""A translator of Marian's kind from a folder in Hugging Face format, compared before it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clearhead.base.errors import BundleError, InputError
from clearhead.base.log import logger
from clearhead.bundle.bundle import Bundle, save_bundle
from clearhead.export.agreement import Agreement, check_agreement
from clearhead.export.extra import program
from clearhead.export.from_marian import from_marian
from clearhead.export.marian_folder import MarianFolder, read_folder
from clearhead.export.peers import MarianPeer
from clearhead.export.texts import check_tokenizers, read_texts, sample_texts
from clearhead.text.languages import parse_pair, translation_pair
from clearhead.text.mapped import MappedTokenizer
from clearhead.text.symbols import EOS
from clearhead.text.tokenizer import Tokenizers

__all__ = ["import_folder"]


def import_folder(
    folder: Path, out: Path, *, languages: str | None = None, sample: Path | None = None
) -> tuple[Bundle, Agreement]:
    """Write the Marian model of `folder` as the bundle `out`, once transformers makes the same of it.

    `languages` ("en-de") is needed where tokenizer_config.json does not say. A few sentences drawn from the vocabulary,
    or the lines of `sample`, are cut, scored and translated on both sides. Raises BundleError for what is missing,
    damaged or without a counterpart, InputError if transformers is not installed, DecodingError where it computes
    something else; then nothing is left behind.
    """
    if out.exists():
        raise BundleError(f"{out}: exists already; choose another directory or remove it first")
    program("transformers")
    read = read_folder(folder)
    pair = _languages(read, languages)
    source = MappedTokenizer(read.source.model, read.source.pieces, str(folder / "source.spm"))
    target = MappedTokenizer(read.target.model, read.target.pieces, str(folder / "target.spm"))
    tokenizers = Tokenizers(source, target)
    model, config = from_marian(read)
    if forbidden := [place for place in read.forbidden if place not in read.target.ids[:EOS]]:
        logger.warning(
            "%s forbids %d tokens beside PAD and UNK (bad_words_ids); here they may be written",
            folder / "generation_config.json",
            len(forbidden),
        )
    texts = sample_texts(source, sample)
    check_tokenizers(tokenizers, folder, texts, read.source.ids, read.target.ids)
    sources = read_texts(source, texts, config.max_positions)
    peer = MarianPeer(folder, read.source.ids, read.target.ids)
    agreement = check_agreement(model, peer, sources, target.vocab_size)
    origin = {"kind": "marian", "folder": folder.resolve().name, "agreement": str(agreement)}
    summary: dict[str, Any] = {"imported": origin}
    if source.config.symbols:
        summary |= {"tags": list(source.config.symbols)}
    bundle = Bundle(model, tokenizers, pair, config, summary, out)
    save_bundle(out, bundle)
    return bundle, agreement


def _languages(folder: MarianFolder, given: str | None) -> tuple[str, str]:
    if given is not None:
        return translation_pair(parse_pair(given))
    if not all(folder.languages):
        raise InputError(
            f"{folder.path / 'tokenizer_config.json'}: does not say source_lang and target_lang; name both with "
            "--languages, such as --languages en-de"
        )
    pair = translation_pair(folder.languages)
    logger.info("languages %s, as tokenizer_config.json says; --languages gives others", "→".join(pair))
    return pair
