"""What a map looks like, in numbers: how wide, how sharp, how far, and on what a head's attention weight lies.

They describe the weights of one head over one pair and say nothing of what the model does with what it reads. Means are
over rows that may see something; a number that has no meaning for a head is left out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.inspection.records import AttentionLayer, AttentionRecord, Finding, Token, Unit
from clearhead.inspection.sites import Stack
from clearhead.text.symbols import BOS, EOS

__all__ = [
    "OFFSETS",
    "SPARSE",
    "entropy_shares",
    "head_statistics",
    "is_punctuation",
    "keys_of",
    "row_centres",
    "statistics_over",
]

SPARSE = 0.1
"""A weight above this is counted by `sparsity`."""

OFFSETS = (-2, -1, 0, 1, 2)
"""Those whose mass is given for self-attention: −1 is the token before the query's own, +1 the one after it."""

_NAMES = ("bos", "eos", "punctuation")


def head_statistics(record: AttentionRecord) -> list[Finding]:
    """One finding a head, method "statistics".

    - `entropy`: −Σ a·ln a of a row, in nats, the mean over rows (Clark et al. 2019, §3.3). Of a row that does not sum
      to 1, that of the row divided by its sum.
    - `entropy_share`: the same over the ln of how many keys the row may see: 1 for a uniform head of any length, with
      or without a causal mask. Rows that may see one key are left out.
    - `sparsity`: share of the visible weights that are above 0.1; `sparsity_count`: how many a row.
    - `distance`: in tokens, how far from the query's own position the weight lies on average; for "cross" how far, in
      source tokens, from the straight line that joins the first tokens and the last (`row_centres`).
    - `confidence`: a row's largest weight, the mean; `confidence_without_eos`: the largest but that of EOS (Voita et
      al. 2019, §4).
    - `offset_-2` … `offset_2` for self-attention: weight on the token so far after the query's own, over the rows that
      may see it (Clark et al. 2019, §3.1).
    - `mass_bos`, `mass_eos`, `mass_punctuation`: weight on such tokens, where there are any (Clark et al. 2019, §3.2).
    - `row_error`: the largest |sum of a row − 1|. Where rows are not meant to sum to 1 (local-p): `row_sum_least` and
      `row_sum_most`.
    """
    return [finding for layer in record.layers for finding in _of_layer(record, layer)]


def statistics_over(samples: Sequence[Sequence[Finding]]) -> list[Finding]:
    """The statistics of many records as one: the mean over the records that have a number, every record counting once.

    `row_error` and `row_sum_most` are the largest, `row_sum_least` the least. `settings` says how many `records`.
    """
    collected: dict[Unit, dict[str, list[float]]] = {}
    for findings in samples:
        for finding in findings:
            if finding.method == "statistics":
                numbers = collected.setdefault(finding.unit, {})
                for name, value in finding.values.items():
                    numbers.setdefault(name, []).append(value)
    settings = {"above": SPARSE, "records": float(len(samples))}
    return [
        Finding("statistics", unit, {name: _over(name, values) for name, values in numbers.items()}, settings=settings)
        for unit, numbers in collected.items()
    ]


def keys_of(record: AttentionRecord, stack: Stack) -> tuple[Token, ...]:
    """The tokens that a stack's columns belong to."""
    return record.prefix if stack == "decoder" else record.source


def is_punctuation(token: Token) -> bool:
    """Whether a piece has nothing but punctuation in it (Unicode category P), its mark of a space apart.

    >>> is_punctuation(Token("▁,", 7)), is_punctuation(Token("n't", 8)), is_punctuation(Token("</s>", 3, "special"))
    (True, False, False)
    """
    letters = token.text.strip("▁")
    return token.kind == "piece" and bool(letters) and all(unicodedata.category(each)[0] == "P" for each in letters)


def row_centres(stack: Stack, rows: int, keys: int) -> Float[Tensor, " T"]:
    """Where each row's own place lies among the keys: t in self-attention, t·(S − 1)/(T − 1) for "cross".

    So EOS, which the last row predicts, faces the source's EOS; the only row of an empty target is its last.
    """
    places = torch.arange(rows, dtype=torch.float64)
    if stack != "cross":
        return places
    return places * (keys - 1) / (rows - 1) if rows > 1 else torch.full((1,), float(keys - 1), dtype=torch.float64)


def entropy_shares(
    weights: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"]
) -> tuple[Float[Tensor, "H T"], Float[Tensor, "H T"]]:
    """The entropy of every row, in nats, and its share of ln n, n the number of keys that the row may see.

    The share is 0 where n < 2, and means nothing there.
    """
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    entropy = torch.special.entr(shares).sum(-1)
    most = visible.sum(-1).to(weights.dtype).clamp(min=1).log()
    return entropy, torch.where(most > 0, entropy / most.clamp(min=1e-9), torch.zeros_like(entropy))


def _of_layer(record: AttentionRecord, layer: AttentionLayer) -> list[Finding]:
    weights, visible = layer.weights.double(), layer.visible
    if not bool(visible.any()):
        return []
    values = _shape(weights, visible) | _places(layer.stack, weights, visible)
    values |= _masses(weights, visible, keys_of(record, layer.stack)) | _sums(layer, weights, visible)
    return [
        Finding(
            "statistics",
            Unit(layer.stack, layer.layer, head + 1),
            {name: float(numbers[head]) for name, numbers in values.items()},
            settings={"above": SPARSE},
        )
        for head in range(weights.shape[0])
    ]


def _shape(weights: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"]) -> dict[str, Float[Tensor, " H"]]:
    """How wide and how sharp."""
    sees = visible.any(-1)
    choosing = visible.sum(-1) > 1
    entropy, share = entropy_shares(weights, visible)
    above = (weights > SPARSE).sum((-1, -2)).double()
    found = {
        "entropy": entropy[:, sees].mean(-1),
        "sparsity": above / visible.sum(),
        "sparsity_count": above / sees.sum(),
        "confidence": weights[:, sees].amax(-1).mean(-1),
    }
    return found | ({"entropy_share": share[:, choosing].mean(-1)} if bool(choosing.any()) else {})


def _places(
    stack: Stack, weights: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"]
) -> dict[str, Float[Tensor, " H"]]:
    """How far, and at which offsets."""
    _, rows, keys = weights.shape
    sees = visible.any(-1)
    away = torch.arange(keys) - row_centres(stack, rows, keys)[:, None]
    sums = weights.sum(-1).clamp(min=torch.finfo(weights.dtype).tiny)
    found = {"distance": ((weights * away.abs()).sum(-1) / sums)[:, sees].mean(-1)}
    for offset in OFFSETS if stack != "cross" else ():
        there = (away == offset) & visible
        if bool(there.any()):
            found[f"offset_{offset}"] = weights[:, there].mean(-1)
    return found


def _masses(
    weights: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"], keys: Sequence[Token]
) -> dict[str, Float[Tensor, " H"]]:
    """What kinds of token are read, and the confidence in the others."""
    sees = visible.any(-1)
    kinds = [[token.id == BOS for token in keys], [token.id == EOS for token in keys], [*map(is_punctuation, keys)]]
    of_kind = torch.tensor(kinds)
    found = {
        f"mass_{name}": weights[:, sees][..., columns].sum(-1).mean(-1)
        for name, columns in zip(_NAMES, of_kind, strict=True)
        if bool(columns.any())
    }
    others = visible & ~of_kind[1]
    if bool(others.any()):
        largest = weights.masked_fill(~others, 0.0).amax(-1)
        found["confidence_without_eos"] = largest[:, others.any(-1)].mean(-1)
    return found


def _sums(
    layer: AttentionLayer, weights: Float[Tensor, "H T S"], visible: Bool[Tensor, "T S"]
) -> dict[str, Float[Tensor, " H"]]:
    """Whether rows sum to what they should."""
    sums = weights.sum(-1)
    sees = visible.any(-1)
    if layer.normalised:
        return {"row_error": (sums - sees.double()).abs().amax(-1)}
    return {"row_sum_least": sums[:, sees].amin(-1), "row_sum_most": sums[:, sees].amax(-1)}


def _over(name: str, values: Sequence[float]) -> float:
    if name in ("row_error", "row_sum_most"):
        return max(values)
    return min(values) if name == "row_sum_least" else sum(values) / len(values)
