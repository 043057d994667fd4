"""The vectors by which a pair enters a model, taken out, changed, and put back in: what gradients and occlusion act on.

Two embeddings are put in by themselves, that of the source and that of the target's prefix, also where they share one
matrix, as in most Transformers. One gradient with respect to the shared matrix would add up what a word does as a
source word and what it does as a target word.

The vectors are those that the embedding hands over, its factor (√D) included, and **positions come after**: they are
added to whatever is put in, so a token that is taken away leaves its place behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.inspection.sites import attention_sites
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.twin import twin
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.embedding import Embedding
from clearhead.nn.padding import Padded
from clearhead.text.symbols import PAD

__all__ = ["Baseline", "Embedded", "EmbeddingInjection", "GoldScores", "Output"]

Baseline = Literal["pad", "zero"]
"""The vector that stands for "no token": that of PAD, or zeros.

PAD's vector is one that the model never reads, since padding is masked; but it has the size of the others, and where
the output shares the matrix training has put it to a side. A vector of zeros is far from all that a model has seen.
"""

Output = Literal["log_prob", "logit"]
"""What is explained: the natural log of the gold token's probability, or its logit."""

_SIDES = ("encoder", "decoder")
_POSITIONS_AT_ONCE = 512  # that logits are made for: they are as wide as the vocabulary


@dataclass(frozen=True)
class Embedded:
    """The vectors of pairs of one length: `source` [R, S, D], EOS the last, and `prefix` [R, T, D], BOS the first.

    The widths of the two may differ.
    """

    source: Tensor
    prefix: Tensor

    def __len__(self) -> int:
        return self.source.shape[0]

    @property
    def tokens(self) -> int:
        """S + T."""
        return self.source.shape[1] + self.prefix.shape[1]

    def minus(self, other: Embedded) -> Embedded:
        """The difference, vector by vector; a side of one row stands for all rows."""
        return Embedded(self.source - other.source, self.prefix - other.prefix)

    def between(self, other: Embedded, shares: Float[Tensor, " R"]) -> Embedded:
        """Points on the straight line from this to `other`, both of one row: one for each of `shares`, from 0 to 1."""
        share = shares[:, None, None]
        return Embedded(
            self.source + share * (other.source - self.source), self.prefix + share * (other.prefix - self.prefix)
        )

    def dot(self, other: Embedded) -> tuple[Float[Tensor, "R S"], Float[Tensor, "R T"]]:
        """The dot products of vectors that stand at the same place."""
        return (self.source * other.source).sum(-1), (self.prefix * other.prefix).sum(-1)


class EmbeddingInjection:
    """A twin of a model into which vectors are put in the place of words.

    It is in evaluation mode and asks for no gradient of the parameters, whose memory it shares with the model; the
    model is left as it is.
    """

    def __init__(self, model: Seq2Seq) -> None:
        """Raises InputError for an ensemble, and for a model without one `Embedding` on either side."""
        attention_sites(model)  # refuses an ensemble
        found: dict[str, list[_Injected]] = {side: [] for side in _SIDES}

        def swap(path: str, module: nn.Module) -> nn.Module | None:
            side = path.partition(".")[0]
            if not isinstance(module, Embedding) or side not in found:
                return None
            found[side].append(_Injected(module))
            return found[side][-1]

        self.model: Seq2Seq = _without_gradients(twin(model, swap).eval())
        for side, each in found.items():
            if len(each) != 1:
                raise InputError(
                    f"the {side} has {len(each)} embeddings of its own where 1 is needed: gradients with respect to "
                    "words, and occlusion, are for models whose encoder and decoder each embed their words once"
                )
        self._source, self._prefix = (found[side][0] for side in _SIDES)

    def embed(self, source: Padded, prefix: Padded) -> Embedded:
        """The model's own vectors for rows of one length each."""
        return Embedded(self._source.embedding(source.ids), self._prefix.embedding(prefix.ids))

    def nothing(self, like: Embedded, baseline: Baseline) -> Embedded:
        """The baseline's vector at every place of `like`, BOS and EOS included; InputError for an unknown baseline."""
        _check_word("baseline", baseline, Baseline)
        if baseline == "zero":
            return Embedded(torch.zeros_like(like.source), torch.zeros_like(like.prefix))
        pad = torch.tensor([[PAD]], device=like.source.device)
        return Embedded(
            self._source.embedding(pad).expand_as(like.source), self._prefix.embedding(pad).expand_as(like.prefix)
        )

    def read(self, embedded: Embedded) -> Float[Tensor, "R T D"]:
        """The decoder's hidden states, with `embedded` read in the place of words; positions are as always."""
        self._source.vectors, self._prefix.vectors = embedded.source, embedded.prefix
        try:
            state = self.model.decoder.start(self.model.encoder(_places(embedded.source)))
            hidden, _ = self.model.decoder.advance(_places(embedded.prefix), state)
        finally:
            self._source.vectors = self._prefix.vectors = None
        return hidden


class GoldScores:
    """The score of every gold token of one pair, as a function of the vectors that are read, and its gradients.

    `words` are the pair's own vectors, in one row; `count` is T, the number of predictions.
    """

    def __init__(self, model: Seq2Seq, source: Sequence[int], target: Sequence[int], output: Output) -> None:
        """`source` and `target` without BOS and EOS. InputError for a bad `output` or target, or an ensemble."""
        _check_word("output", output, Output)
        self.injection = EmbeddingInjection(model)
        pairs = Pairs.of([source], [target], next(model.parameters()).device)
        self._gold = pairs.gold.ids[0]
        self._output = output
        self.count = len(self._gold)
        with torch.no_grad():
            self.words = self.injection.embed(pairs.source, pairs.prefix)

    @torch.no_grad()
    def scores(self, points: Embedded) -> Float[Tensor, "R T"]:
        """The scores at each of `points`; float32, or float64 for such a model."""
        hidden = self.injection.read(points)
        rows, steps, width = hidden.shape
        flat, gold = hidden.reshape(-1, width), self._gold.repeat(rows)
        parts = (slice(first, first + _POSITIONS_AT_ONCE) for first in range(0, len(flat), _POSITIONS_AT_ONCE))
        return torch.cat([self._chosen(flat[part], gold[part]) for part in parts]).view(rows, steps)

    def gradients(self, points: Embedded, predictions: Sequence[int]) -> Iterator[Embedded]:
        """For each of `predictions`, from 0, the gradients of its score with respect to the vectors of each point.

        The points are read once; each prediction costs one pass backwards, over all points together.
        """
        leaves = Embedded(
            points.source.detach().clone().requires_grad_(), points.prefix.detach().clone().requires_grad_()
        )
        with torch.enable_grad():
            hidden = self.injection.read(leaves)
        for prediction in predictions:
            with torch.enable_grad():
                score = self._chosen(hidden[:, prediction], self._gold[prediction].expand(len(points))).sum()
            yield Embedded(*torch.autograd.grad(score, (leaves.source, leaves.prefix), retain_graph=True))

    def _chosen(self, hidden: Float[Tensor, "N D"], gold: Tensor) -> Float[Tensor, " N"]:
        logits = self.injection.model.decoder.project(hidden)
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        chosen = exact.gather(-1, gold[:, None]).squeeze(-1)
        return chosen if self._output == "logit" else chosen - exact.logsumexp(-1)


class _Injected(nn.Module):
    """Stands for an embedding: a token is the vector at the place that its id names, whatever order it is read in."""

    def __init__(self, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.vectors: Tensor | None = None

    def forward(self, ids: Tensor) -> Float[Tensor, "R T D"]:
        assert self.vectors is not None, "the twin reads vectors: call EmbeddingInjection.read"
        return self.vectors.gather(1, ids[:, :, None].expand(*ids.shape, self.vectors.shape[-1]))


def _places(vectors: Float[Tensor, "R T D"]) -> Padded:
    """Rows of 0, 1, …: an encoder that reads backwards turns them, and finds each vector all the same."""
    rows, length, _ = vectors.shape
    return Padded.full(torch.arange(length, device=vectors.device).expand(rows, length))


def _without_gradients(model: Seq2Seq) -> Seq2Seq:
    """`model`, a twin, with parameters that share the memory of the model's and want no gradient: half the work."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = nn.Parameter(parameter.detach(), requires_grad=False)
    return model


def _check_word(name: str, value: str, allowed: object) -> None:
    """InputError unless `value` is one of the words of the Literal `allowed`."""
    if value not in (words := get_args(allowed)):
        raise InputError(f"{name} = {value!r} is unknown: take {' or '.join(map(repr, words))}")
