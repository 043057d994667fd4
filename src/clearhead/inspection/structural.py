"""A really smaller model: heads taken out of the projections instead of being closed.

Head h owns its rows of W_Q, W_K and W_V and its columns of W_O, so a smaller `Attention` of the same kind does what the
whole one does with these heads closed, to rounding, in training, scoring and search alike. What a closed head would
still compute is saved.

Heads that share a key and value head (GQA, MQA) go one by one, but their key and value head only with the last of
them. As many query heads must share each key and value head as share any other, so where they would not, closed heads
stay behind to make up the number, with zeros for their columns of W_O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.inspection.pruning import sites_with
from clearhead.inspection.sites import Head
from clearhead.inspection.twin import twin
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.cache import Kept
from clearhead.nn.linear import Linear
from clearhead.nn.visibility import Visibility

__all__ = ["WithoutHeads", "without_heads"]


def without_heads(model: Seq2Seq, heads: Iterable[Head]) -> Seq2Seq:
    """A model without these heads, whose outputs are those of `pruning.closed(model, heads)` to rounding.

    What is kept of the projections is copied, everything else shared with `model`, which stays as it is. Its heads and
    layers are counted anew: a layer that has lost all its heads is no site of attention any more. No configuration
    describes such a model, so it cannot be saved as a bundle.

    Raises InputError for a head that the model has not, and for one that has no projections of its own (the attention
    of recurrent and convolutional decoders).
    """
    gone: dict[str, set[int]] = {}
    for site, numbers in sites_with(model, heads).items():
        if site.attention is None:
            raise InputError(
                f"{site.stack} {site.layer} has no head that could be taken out: its one attention belongs to the "
                "decoder itself; close it instead (clearhead.inspection.pruning.closed)"
            )
        gone[site.attention] = {number - 1 for number in numbers}

    def swap(path: str, module: nn.Module) -> nn.Module | None:
        if path not in gone or not isinstance(module, Attention):
            return None
        return _smaller(module, gone[path])

    return twin(model, swap).eval()


class WithoutHeads(nn.Module):
    """What is left of an attention without heads: nothing is read, and the bias of W_O, if there is one, remains."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.heads = self.kv_heads = 0
        self.head_dim = attention.head_dim
        self.bias = attention.output.bias

    def remember(self, keys: Float[Tensor, "R S D"], values: Float[Tensor, "R S D"]) -> Kept:
        """Nothing of each position: [R, 0, S, E]."""
        shape = (keys.shape[0], 0, keys.shape[1], self.head_dim)
        return Kept(keys.new_empty(shape), values.new_empty(shape))

    def forward(self, x: Float[Tensor, "R T D"], _kept: Kept, _visibility: Visibility) -> Float[Tensor, "R T D"]:
        """Zeros, or the bias."""
        nothing = torch.zeros_like(x)
        return nothing if self.bias is None else nothing + self.bias


def _smaller(attention: Attention, gone: set[int]) -> nn.Module:
    if len(gone) == attention.heads:
        return WithoutHeads(attention)
    groups = _kept_by_group(attention, gone)
    kept = [head for group in groups.values() for head in group]
    with torch.device("meta"):
        config = AttentionConfig(
            heads=len(kept),
            kv_heads=len(groups),
            head_dim=attention.head_dim,
            bias=attention.output.bias is not None,
        )
        smaller = Attention(config, attention.query.weight.shape[1])
    smaller.core = attention.core
    _take_rows(smaller.query, attention.query, kept, attention.head_dim)
    for name in ("key", "value"):
        _take_rows(getattr(smaller, name), getattr(attention, name), list(groups), attention.head_dim)
    columns = _places(kept, attention.head_dim, attention.output.weight.device)
    weight = attention.output.weight.detach().index_select(1, columns)
    silent = _places([place for place, head in enumerate(kept) if head in gone], attention.head_dim, weight.device)
    weight[:, silent] = 0
    smaller.output.weight = nn.Parameter(weight)
    smaller.output.bias = attention.output.bias
    return smaller


def _kept_by_group(attention: Attention, gone: set[int]) -> Mapping[int, list[int]]:
    """For each key and value head that stays the query heads that stay with it, equally many, in their order."""
    size = attention.heads // attention.kv_heads
    alive = {
        group: [head for head in range(group * size, (group + 1) * size) if head not in gone]
        for group in range(attention.kv_heads)
    }
    alive = {group: heads for group, heads in alive.items() if heads}
    most = max(map(len, alive.values()))
    for group, heads in alive.items():
        behind = [head for head in range(group * size, (group + 1) * size) if head in gone]
        alive[group] = sorted(heads + behind[: most - len(heads)])
    return alive


def _take_rows(smaller: Linear, whole: Linear, heads: list[int], width: int) -> None:
    rows = _places(heads, width, whole.weight.device)
    smaller.weight = nn.Parameter(whole.weight.detach().index_select(0, rows))
    smaller.bias = None if whole.bias is None else nn.Parameter(whole.bias.detach().index_select(0, rows))


def _places(heads: list[int], width: int, device: torch.device) -> Tensor:
    """The rows or columns of `heads`, from 0: head h owns h·E … (h+1)·E."""
    first = torch.tensor(heads, dtype=torch.int64, device=device)[:, None] * width
    return (first + torch.arange(width, device=device)).flatten()
