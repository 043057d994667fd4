"""What a decoder read of its source while it wrote a given target, and the links that follow from it.

Row t of every matrix belongs to the step that **predicts** target token t (the query at position t of BOS and the
target), not to the step that reads it. RNNsearch's α_i is of that kind (Bahdanau et al. 2015, §3.1: it makes s_i, which
predicts y_i), and so is Luong's a_t by what it is for (2015, §3: c_t helps to predict y_t). As alignments Luong et al.
took it so with the location score alone, and with the scores that look at the source for the word that was read (§5.3,
footnote); for the Transformer Chen et al. 2020 do the latter. Here one rule holds for every family.

Attention is not alignment. It says what was read, which may be a neighbour of the word that a person would link, the
end of the sentence, or a little of everything; a model whose encoder has read the whole sentence can find a word's
meaning elsewhere than at the word. It may diverge widely from what a word aligner links (Koehn and Knowles 2017, §3.5),
and it is no explanation either: often it does not go along with what gradients call important (Jain and Wallace 2019).
Luong et al. 2015, §5.4 and Table 6, report the AER of what attention gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.interventions import Change, Interventions
from clearhead.inspection.sites import attention_sites
from clearhead.models.ensemble import EnsembleEncoder
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS

__all__ = [
    "AttentionReader",
    "Reading",
    "attention_matrix",
    "cross_attention",
    "cross_attention_paths",
    "links",
    "over_words",
]


@dataclass(frozen=True)
class Reading:
    """Which of a decoder's attention to the source is taken for the alignment.

    `layer` counts from 1, 0 is the mean over all layers, and None the usual choice: the only layer of a recurrent
    decoder; the last but one of a Transformer (Garg et al. 2019: the best of their six, and their layer average
    baseline), or its only one; the mean over all layers of a convolutional decoder (Gehring et al. 2017, §4.3). `head`
    counts from 1; None is the mean over the heads.
    """

    layer: int | None = None
    head: int | None = None


def cross_attention_paths(model: Seq2Seq) -> list[str]:
    """The paths of the cores by which the decoder reads the source, from the first layer to the last; perhaps none.

    Raises InputError for an ensemble.
    """
    return [site.path for site in attention_sites(model) if site.stack == "cross"]


class AttentionReader:
    """Reads what a model attends to, for one pair or many at once.

    A twin of the model does the reading; the model is left as it is. An ensemble reads as the mean of its members.
    """

    def __init__(self, model: Seq2Seq, reading: Reading | None = None) -> None:
        """Raises InputError for a model that has no attention to the source, or not that layer or head."""
        reading = reading or Reading()
        encoder = model.encoder
        members = list(encoder.models) if isinstance(encoder, EnsembleEncoder) else [model]
        self._members = [_Member(member, reading) for member in members if isinstance(member, Seq2Seq)]
        if reading.head is not None:
            self.read([[]], [[]])  # so that a head that is not there is told at once

    @torch.no_grad()
    def read(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Float[Tensor, "T S"]]:
        """The attention of each pair, rows the target tokens and EOS, columns the source tokens and EOS, on the CPU.

        Sources and targets are ids without BOS and EOS.
        """
        each = [member.read(sources, targets) for member in self._members]
        mean = torch.stack(each).mean(0).cpu()
        return [
            mean[row, : len(target) + 1, : len(source) + 1]
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]


class _Member:
    def __init__(self, model: Seq2Seq, reading: Reading) -> None:
        paths = cross_attention_paths(model)
        if not paths:
            raise InputError(
                f"{type(model.decoder).__name__} has no attention to the source, so its translations have no "
                "alignment; take a model that has (RNNsearch, Luong, ConvS2S, Transformer), or `clearhead data align`"
            )
        self._head = reading.head
        self._chosen = [paths[index] for index in _layers(model, len(paths), reading.layer)]
        self._interventions = Interventions(model)

    def read(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Tensor:
        layers = []
        for weights in _weights(self._interventions, self._chosen, sources, targets).values():
            if self._head is not None and self._head > weights.shape[1]:
                raise InputError(f"there is no head {self._head}: the layer has {weights.shape[1]}, counted from 1")
            layers.append(weights.mean(1) if self._head is None else weights[:, self._head - 1])
        return torch.stack(layers).mean(0)


def _layers(model: Seq2Seq, count: int, layer: int | None) -> Sequence[int]:
    """The places of the layers that are averaged."""
    if layer is None:
        if isinstance(model.decoder, TransformerDecoder):
            return [max(0, count - 2)]
        return range(count)
    if layer == 0:
        return range(count)
    if not 0 < layer <= count:
        raise InputError(f"there is no layer {layer}: the decoder reads the source in {count}, counted from 1")
    return [layer - 1]


def _weights(
    interventions: Interventions,
    paths: Sequence[str],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
) -> dict[str, Float[Tensor, "R H T S"]]:
    """What the cores at `paths` weighed while the pairs were read, by path; a recurrent decoder's calls are joined."""
    calls: dict[str, list[Tensor]] = {path: [] for path in paths}

    def noting(path: str) -> Change:
        def note(own: Tensor, _: Tensor) -> Tensor:
            calls[path].append(own)
            return own

        return Change(weights=note)

    with interventions.using({path: noting(path) for path in paths}) as twin:
        _teach(twin, sources, targets)
    return {path: torch.cat(found, dim=2) for path, found in calls.items()}


def _teach(model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> None:
    """Read every pair by teacher forcing; nothing is projected onto the vocabulary."""
    device = next(model.parameters()).device
    read = Padded.from_lists([[*source, EOS] for source in sources], device)
    prefix = Padded.from_lists([[BOS, *target] for target in targets], device)
    model.decoder.advance(prefix, model.decoder.start(model.encoder(read)))


@torch.no_grad()
def cross_attention(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> dict[str, Float[Tensor, "H T S"]]:
    """What every core that reads the source gave for one pair, by its path, the first layer first; float64 on the CPU.

    `source` and `target` are ids without BOS and EOS; rows are the target's tokens and EOS, columns the source's tokens
    and EOS. Empty for a model without attention. Raises InputError for an
    ensemble: ask each member.
    """
    found = _weights(Interventions(model), cross_attention_paths(model), [source], [target])
    return {path: weights[0].double().cpu() for path, weights in found.items()}


def attention_matrix(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    *,
    reading: Reading | None = None,
    eos: bool = False,
) -> Float[Tensor, "T S"]:
    """How much of each source token the step that predicts each target token reads; ids without BOS and EOS.

    With `eos` the ends of both sentences have a row and a column, too, the last; without them rows sum to less.
    Raises InputError for a model that has no such attention.
    """
    found = AttentionReader(model, reading).read([source], [target])[0].double()
    return found if eos else found[:-1, :-1]


def over_words(
    weights: Float[Tensor, "T S"], source: Sequence[int | None], target: Sequence[int | None]
) -> Float[Tensor, "M N"]:
    """Attention between words out of attention between pieces: [words of the target, words of the source].

    `source` and `target` name the word, from 0, that each piece belongs to, or None. A word is read as much as all its
    pieces together, and reads what its pieces read on average, so that its row sums to no more than theirs.
    """
    columns = _membership(source, weights)
    rows = _membership(target, weights)
    total = rows @ weights @ columns.T
    return total / rows.sum(1, keepdim=True).clamp(min=1)


def _membership(words: Sequence[int | None], like: Tensor) -> Float[Tensor, "N S"]:
    """1 where a piece (column) belongs to a word (row)."""
    count = max((word for word in words if word is not None), default=-1) + 1
    found = like.new_zeros(count, len(words))
    for piece, word in enumerate(words):
        if word is not None:
            found[word, piece] = 1.0
    return found


def links(weights: Float[Tensor, "T S"], threshold: float | None = None) -> set[tuple[int, int]]:
    """The links (source, target) of a matrix without EOS.

    Each target is linked to the source that it reads most, the first of equals, and to none if it reads nothing. With
    `threshold` it is linked to every source of at least this weight instead.

    >>> sorted(links(torch.tensor([[0.1, 0.7], [0.5, 0.5], [0.0, 0.0]])))
    [(0, 1), (1, 0)]
    """
    if not weights.numel():
        return set()
    if threshold is not None:
        return {(source, target) for target, source in (weights >= threshold).nonzero().tolist()}
    best, places = weights.max(1)
    reads = zip(places.tolist(), range(len(weights)), best.tolist(), strict=True)
    return {(source, target) for source, target, weight in reads if weight > 0}
