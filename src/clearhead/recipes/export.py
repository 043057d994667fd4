"""A saved model for another program: written, loaded there, and compared before it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from clearhead.base.files import atomic_directory
from clearhead.bundle.bundle import Weights, load_bundle
from clearhead.export.agreement import Agreement, check_agreement
from clearhead.export.extra import program
from clearhead.export.folders import pieces_of, transformer_of, write_ctranslate2, write_marian
from clearhead.export.peers import CTranslate2Peer, MarianPeer
from clearhead.export.texts import check_tokenizers, read_texts, sample_texts

__all__ = ["Program", "export_bundle"]

Program = Literal["ctranslate2", "huggingface"]


def export_bundle(
    path: str | Path, to: Program, out: Path, *, sample: Path | None = None, weights: Weights = "auto"
) -> Agreement:
    """Write the model at `path` as the folder `out`, which appears whole, once the other program agrees, or not at all.

    A few sentences drawn from the vocabulary, or the lines of `sample`, are scored and translated on both sides. Raises
    InputError for what has no counterpart, naming the key, and if the other program is not installed; DecodingError
    where it computes something else.
    """
    program("ctranslate2" if to == "ctranslate2" else "transformers")
    bundle = load_bundle(path, weights=weights, device="cpu")
    config = transformer_of(bundle, str(path))
    texts = sample_texts(bundle.tokenizers.source, sample)
    sources = read_texts(bundle.tokenizers.source, texts, bundle.model.max_positions)
    with atomic_directory(out) as unfinished:
        if to == "ctranslate2":
            write_ctranslate2(unfinished, bundle, config)
            source, target = pieces_of(bundle.tokenizers.source), pieces_of(bundle.tokenizers.target)
            peer: CTranslate2Peer | MarianPeer = CTranslate2Peer(unfinished, source, target)
        else:
            write_marian(unfinished, bundle, config)
            check_tokenizers(bundle.tokenizers, unfinished, texts)
            peer = MarianPeer(unfinished)
        return check_agreement(bundle.model, peer, sources, bundle.tokenizers.target.vocab_size)
