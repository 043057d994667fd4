"""Attention whose nature is known: records made by hand, and a Transformer whose weights are written, not learnt.

`planted_record` wraps maps in a record. `planted_transformer` copies or reverses its source, and each of its heads has
a job that can be read off its weights; all but two of them do nothing for the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from clearhead.inspection.records import AttentionLayer, AttentionRecord, Provenance, Token
from clearhead.inspection.replay import replay
from clearhead.inspection.sites import Stack, attention_sites
from clearhead.models import Seq2Seq, build, presets
from clearhead.nn.attention import Attention
from clearhead.nn.windows import LocalPredictiveCore
from clearhead.text.symbols import BOS, EOS, SPECIALS

__all__ = [
    "PLANTED_ROLES",
    "USED_HEADS",
    "VOCABULARY",
    "fixed_offset",
    "one_key",
    "planted_record",
    "planted_transformer",
    "record_of",
    "reversed_links",
    "token",
    "uniform",
]

VOCABULARY = 13
PLACES = 16
"""Of the planted Transformer: as many tokens as it can read, the specials among them."""

# ---------------------------------------------------------------------------------------------------------------- maps


def uniform(rows: int, keys: int | None = None, *, causal: bool = False) -> Tensor:
    """[T, S]: every visible key alike."""
    visible = torch.ones(rows, keys or rows, dtype=torch.float64)
    visible = visible.tril() if causal else visible
    return visible / visible.sum(-1, keepdim=True)


def fixed_offset(offset: int, rows: int, *, causal: bool = False, mass: float = 1.0) -> Tensor:
    """[T, T]: `mass` on the key that stands `offset` after the query, the rest on all visible keys alike.

    A row for which there is no such key reads all visible ones alike.
    """
    rest = uniform(rows, causal=causal)
    found = rest * (1 - mass)
    for row in range(rows):
        if 0 <= row + offset < rows and not (causal and offset > 0):
            found[row, row + offset] += mass
        else:
            found[row] = rest[row]
    return found


def one_key(key: int, rows: int, keys: int | None = None, *, causal: bool = False, mass: float = 1.0) -> Tensor:
    """[T, S]: `mass` on one key wherever it is visible, the rest on all visible keys alike."""
    rest = uniform(rows, keys, causal=causal)
    found = rest * (1 - mass)
    for row in range(rows):
        if rest[row, key] > 0:
            found[row, key] += mass
        else:
            found[row] = rest[row]
    return found


# ------------------------------------------------------------------------------------------------------------- records


def token(text: str, id: int | None = None, word: int | None = None) -> Token:
    """A token for a test; `<s>` and `</s>` are the specials that they look like."""
    if text in ("<s>", "</s>"):
        return Token(text, BOS if text == "<s>" else EOS, "special")
    return Token(text, 5 + sum(map(ord, text)) % 8 if id is None else id, "piece", word)


def planted_record(
    layers: Mapping[tuple[Stack, int], Tensor | Sequence[Tensor]],
    source: Sequence[Token],
    target: Sequence[Token] = (),
    *,
    normalised: bool = True,
) -> AttentionRecord:
    """A record of those maps, [H, T, S] by (stack, layer); specials are added to the tokens, the decoder is causal."""
    read, prefix, gold = (*source, token("</s>")), (token("<s>"), *target), (*target, token("</s>"))
    made = []
    for (stack, number), maps in layers.items():
        weights = (maps if isinstance(maps, Tensor) else torch.stack(list(maps))).float()
        rows, keys = {
            "encoder": (len(read), len(read)),
            "decoder": (len(prefix), len(prefix)),
            "cross": (len(prefix), len(read)),
        }[stack]
        assert weights.shape[1:] == (rows, keys), f"{stack} {number}: {tuple(weights.shape)}, not [H, {rows}, {keys}]"
        visible = torch.ones(rows, keys, dtype=torch.bool)
        visible = visible.tril() if stack == "decoder" else visible
        made.append(AttentionLayer(stack, number, f"{stack}.{number}", weights, visible, normalised))
    provenance = Provenance("planted", "0" * 64, "0" * 64, "made by hand", "float64")
    return AttentionRecord(
        provenance, "given", ("xx", "yy"), "", "", read, prefix, gold, torch.zeros(len(gold)), tuple(made)
    )


def record_of(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> AttentionRecord:
    """What a model attends to, as a record whose tokens are its ids."""
    recording = replay(model, source, target).recording
    modules = dict(model.named_modules())
    layers = []
    for site in attention_sites(model):
        core = recording.attention[site.path]
        normalised = not isinstance(modules[site.path], LocalPredictiveCore)
        weights, visible = core.weights[0].float(), core.visible[0, 0]
        layers.append(AttentionLayer(site.stack, site.layer, site.path, weights, visible, normalised))

    def tokens(ids: Sequence[int]) -> tuple[Token, ...]:
        return tuple(Token(f"w{each}", each, "special" if each in SPECIALS else "piece") for each in ids)

    read, prefix, gold = tokens([*source, EOS]), tokens([BOS, *target]), tokens([*target, EOS])
    provenance = Provenance("planted", "0" * 64, "0" * 64, "written weights", "float64")
    return AttentionRecord(
        provenance, "given", ("xx", "yy"), "", "", read, prefix, gold, torch.zeros(len(gold)), tuple(layers)
    )


# --------------------------------------------------------------------------------------------------------- Transformer

PLANTED_ROLES: dict[Stack, tuple[str, str, str, str]] = {
    "encoder": ("previous", "next", "broad", "diagonal"),
    "decoder": ("previous", "special-token", "broad", "diagonal"),
    "cross": ("aligned", "diagonal", "broad", "special-token"),
}
"""What `head_roles` is to find in the planted Transformer that reverses, its links being given, head after head. That
which copies reads along the diagonal, which no link can surpass: there the first head of "cross" is "diagonal" too."""

USED_HEADS: dict[bool, tuple[tuple[Stack, int, int], ...]] = {
    False: (("encoder", 1, 1), ("cross", 1, 1)),
    True: (("encoder", 1, 2), ("cross", 1, 1)),
}
"""(stack, layer, head) of the heads that the output rests on, by `reverse`; the values of all others are thrown away.
"""

_WORD, _PLACE, _BESIDE, _OUT = 0, VOCABULARY, VOCABULARY + PLACES, 2 * VOCABULARY + PLACES
_WIDTH = 3 * VOCABULARY + PLACES
_SHARP = 6.0  # scores of what is looked for lie some 40 above the rest
_SHARPER_OUTPUT = 4.0


def planted_transformer(*, reverse: bool = False) -> Seq2Seq:
    """Pre-norm, one layer a stack with four heads, float64, evaluation: it copies its source, or reverses it.

    For a source of different words, up to 15 of ids 4 to 12. A word, its place, the word beside it and the output have
    coordinates of their own. An encoder head tells each source position what stands before it (`reverse`: after it); a
    cross head looks for the position beside which the word stands that was read last, and copies the word there.
    """
    model = build(
        presets.tiny(
            VOCABULARY,
            d_model=_WIDTH,
            d_ff=1,
            encoder_layers=1,
            decoder_layers=1,
            attention={"heads": 4, "head_dim": PLACES},
            positions={"kind": "learned", "max_positions": PLACES},
            embeddings="separate",
            source_vocab_size=VOCABULARY,
        ),
        seed=1,
    )
    model = model.double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
        for stack in (model.encoder, model.decoder):
            _write_input(stack.input)  # type: ignore[union-attr]
        model.decoder.output.weight[:, _OUT:] = _SHARPER_OUTPUT * torch.eye(VOCABULARY)  # type: ignore[union-attr]
        if not reverse:
            model.encoder.input.positions.weight[0, _BESIDE + BOS] = 1.0  # type: ignore[union-attr]
        _write_heads(model, reverse)
    return model


def reversed_links(words: int) -> frozenset[tuple[int, int]]:
    """(source, target) of a reversed sentence of so many words, EOS to EOS among them."""
    return frozenset({(words - 1 - target, target) for target in range(words)} | {(words, words)})


def _write_input(layer: torch.nn.Module) -> None:
    layer.embedding.weight[:, _WORD:_PLACE] = torch.eye(VOCABULARY) / layer.embedding.factor  # type: ignore[union-attr]
    layer.positions.weight[:, _PLACE:_BESIDE] = torch.eye(PLACES)  # type: ignore[union-attr]


def _write_heads(model: Seq2Seq, reverse: bool) -> None:
    encoder = model.encoder.layers[0].attention  # type: ignore[union-attr]
    decoder = model.decoder.layers[0].self_attention  # type: ignore[union-attr]
    cross = model.decoder.layers[0].cross_attention  # type: ignore[union-attr]
    places = torch.eye(PLACES)
    before, after = torch.diag(torch.ones(PLACES - 1), 1), torch.diag(torch.ones(PLACES - 1), -1)
    for attention in (encoder, decoder):
        _looks(attention, 1, _PLACE, before, _PLACE)
        _looks(attention, 4, _PLACE, places, _PLACE)
    _looks(encoder, 2, _PLACE, after, _PLACE)
    _looks_at_word(decoder, 2, BOS)
    words = torch.eye(VOCABULARY)
    asked = words.clone()
    if reverse:
        asked[EOS, BOS] = 1.0  # the first word is that beside which the source ends
    _looks(cross, 1, _WORD, asked, _BESIDE)
    if reverse:  # and where nothing matches, the source's end is read
        cross.key.weight[_rows(1, VOCABULARY), _WORD + EOS] += 0.5
    _looks(cross, 2, _PLACE, places, _PLACE)
    _looks_at_word(cross, 4, EOS)
    _carries(encoder, 2 if reverse else 1, _BESIDE)
    _carries(cross, 1, _OUT)


def _rows(head: int, count: int) -> slice:
    return slice((head - 1) * PLACES, (head - 1) * PLACES + count)


def _looks(attention: Attention, head: int, own: int, matrix: Tensor, other: int) -> None:
    """The head compares `matrix` times the coordinates from `own` on with those of a key from `other` on."""
    size = len(matrix)
    attention.query.weight[_rows(head, size), own : own + size] = _SHARP * matrix.to(attention.query.weight)
    attention.key.weight[_rows(head, size), other : other + size] = torch.eye(size).to(attention.key.weight)


def _looks_at_word(attention: Attention, head: int, word: int) -> None:
    """The head asks for one word wherever it stands: the coordinates of a place sum to the same everywhere."""
    attention.query.weight[_rows(head, 1), _PLACE:_BESIDE] = 3 * _SHARP
    attention.key.weight[_rows(head, 1), _WORD + word] = 1.0


def _carries(attention: Attention, head: int, to: int) -> None:
    """The head brings the word of what it reads to the coordinates from `to` on; other heads bring nothing."""
    attention.value.weight[_rows(head, VOCABULARY), _WORD:_PLACE] = torch.eye(VOCABULARY).to(attention.value.weight)
    attention.output.weight[to : to + VOCABULARY, _rows(head, VOCABULARY)] = torch.eye(VOCABULARY).to(
        attention.output.weight
    )
