"""One pair read once by teacher forcing, and what every attention of the model gave for it: an attention record.

A twin with recorders for its cores reads the pair; the model itself carries no hook and is left as it is. The weights
are those that the model mixes its values by, taken after the softmax and before any dropout, which is off: a token that
is read in one pass with the others has the weights that a search, reading token by token, used for it.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Literal

import torch

from clearhead.base.errors import InputError
from clearhead.inspection.recorders import CoreRecord, recording_twin
from clearhead.inspection.records import AttentionLayer, AttentionRecord, Provenance, Token
from clearhead.inspection.sites import Site, attention_sites
from clearhead.inspection.teaching import Pairs, gold_log_probs
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.windows import LocalPredictiveCore

__all__ = ["capture", "family_of", "fingerprint", "provenance_of"]


@torch.no_grad()
def capture(  # noqa: PLR0913 (everything by its name)
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    *,
    source_tokens: Sequence[Token],
    prefix_tokens: Sequence[Token],
    gold_tokens: Sequence[Token],
    provenance: Provenance,
    languages: tuple[str, str] = ("", ""),
    texts: tuple[str, str] = ("", ""),
    origin: Literal["given", "search"] = "given",
    rank: int | None = None,
    score: float | None = None,
) -> AttentionRecord:
    """The attention weights of all stacks of `model` while it reads `source` and predicts `target`.

    `source` and `target` are ids without BOS and EOS; the tokens name what is read, `source_tokens` with EOS at the
    end, `prefix_tokens` with BOS before and `gold_tokens` with EOS behind the target. `texts` are source and target as
    written. `origin` "search" says that `target` is hypothesis number `rank` of a beam search, from 1, with its
    length-penalised `score`; "given", that somebody wrote it. A model without attention has a record with no layers.

    Raises InputError for an ensemble, for a target with reserved tokens, for tokens that are not as many as the ids,
    for a text that is longer than the model's positions, and for a rank or score of a target that no search made.
    """
    sites = attention_sites(model)
    _check_search(origin, rank, score)
    for name, tokens, count in (
        ("source_tokens", source_tokens, len(source) + 1),
        ("prefix_tokens", prefix_tokens, len(target) + 1),
        ("gold_tokens", gold_tokens, len(target) + 1),
    ):
        if len(tokens) != count:
            raise InputError(f"{name}: {len(tokens)} tokens for {count} ids (BOS or EOS included): give one for each")
        if model.max_positions is not None and count > model.max_positions:
            raise InputError(
                f"{name}: {count} tokens with BOS or EOS, and the model has positions for {model.max_positions}: "
                "give a shorter text"
            )
    reader, recording = recording_twin(model, kinds=())
    pairs = Pairs.of([source], [target], next(model.parameters()).device)
    log_probs = gold_log_probs(reader.eval(), pairs)[0].cpu()
    cores = dict(model.named_modules())
    layers = tuple(
        _layer(site, recording.attention[site.path], normalised=not isinstance(cores[site.path], LocalPredictiveCore))
        for site in sites
    )
    return AttentionRecord(
        provenance,
        origin,
        languages,
        texts[0],
        texts[1],
        tuple(source_tokens),
        tuple(prefix_tokens),
        tuple(gold_tokens),
        log_probs,
        layers,
        rank,
        score,
    )


def _check_search(origin: str, rank: int | None, score: float | None) -> None:
    if origin == "given" and not (rank is None and score is None):
        raise InputError("a given target has no rank and no score of a search: leave them out, or say origin 'search'")
    if origin == "search" and (rank is None or rank < 1 or score is None):
        raise InputError(f"a hypothesis of a search has a rank, from 1, and a score; got rank {rank}, score {score}")


def _layer(site: Site, record: CoreRecord, *, normalised: bool) -> AttentionLayer:
    visible = record.visible[0].any(0)  # one mask for all heads
    weights = record.weights[0].to(torch.float32)
    return AttentionLayer(site.stack, site.layer, site.path, weights.cpu(), visible.cpu(), normalised)


def provenance_of(model: Seq2Seq, name: str, tokenizer: str) -> Provenance:
    """What the numbers are taken from: `name` is the bundle's, `tokenizer` the fingerprint of its tokenizers."""
    return Provenance(
        name,
        fingerprint(model),
        tokenizer,
        family_of(model),
        str(next(model.parameters()).dtype).removeprefix("torch."),
        versions={
            "clearhead": metadata.version("clearhead"),
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
    )


def fingerprint(model: Seq2Seq) -> str:
    """SHA-256 (hex) over the parameters in the order of their names: name, type, shape and bytes of each.

    A parameter that stands in the model under several names counts once, by the first of them. On whatever device the
    model is, equal weights give equal fingerprints.
    """
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        head = [name, str(parameter.dtype).removeprefix("torch."), list(parameter.shape)]
        digest.update(json.dumps(head).encode() + b"\n")
        digest.update(parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def family_of(model: Seq2Seq) -> str:
    """What kind of model it is, in a few words: its two halves, and how many layers and heads its attention has."""
    encoder, decoder = (type(half).__name__ for half in (model.encoder, model.decoder))
    halves = encoder.removesuffix("Encoder"), decoder.removesuffix("Decoder")
    said = halves[0] if halves[0] == halves[1] else f"{halves[0]} encoder, {halves[1]} decoder"
    stacks: dict[str, list[Site]] = {}
    for site in attention_sites(model):
        stacks.setdefault(site.stack, []).append(site)
    if not stacks:
        return f"{said}, no attention"
    counted = (f"{stack} {_extent(sites)}" for stack, sites in stacks.items())
    return f"{said}; attention: {', '.join(counted)}"


def _extent(sites: Sequence[Site]) -> str:
    """`6×8`: six layers of eight heads; where they differ, `3 (8+4+4)`."""
    heads = [site.heads for site in sites]
    return f"{len(heads)}×{heads[0]}" if len(set(heads)) == 1 else f"{len(heads)} ({'+'.join(map(str, heads))})"
