"""Heads that were made by hand to have a role, noise and all, and whether they are called what they are."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.base.seeds import mix
from clearhead.inspection.calibrated import Score
from clearhead.inspection.head_roles import head_roles, roles_over
from clearhead.inspection.records import AttentionLayer, AttentionRecord, Provenance, Token
from clearhead.inspection.sites import Stack
from clearhead.text.symbols import BOS, EOS

__all__ = ["PLANTED", "planted_record", "planted_scores"]

PLANTED: dict[Stack, tuple[str, ...]] = {
    "encoder": ("previous", "next", "diagonal", "special-token", "position", "broad"),
    "decoder": ("previous", "diagonal", "special-token", "position", "broad"),
    "cross": ("aligned", "special-token", "broad"),
}
"""The roles of the heads of each stack, in their order. A head "position" looks two tokens back; without the lengths of
value vectors a sink is called by what it reads."""

NOISE = (0.0, 0.2, 0.4)
"""The share of each row that is spread at random over what the row may see."""


def planted_record(words: int, noise: float, seed: int) -> tuple[AttentionRecord, frozenset[tuple[int, int]]]:
    """A record of `words` words, translated by as many in an order drawn at random, and its links."""
    generator = torch.Generator().manual_seed(mix(seed, words) % 2**63)
    order = torch.randperm(words, generator=generator).tolist()
    read = (*(Token(f"s{place}", 4 + place, word=place) for place in range(words)), Token("</s>", EOS, "special"))
    written = tuple(Token(f"t{place}", 4 + words + place, word=place) for place in range(words))
    layers = []
    for stack, roles in PLANTED.items():
        size = words + 1
        visible = torch.ones(size, size, dtype=torch.bool)
        visible = visible.tril() if stack == "decoder" else visible
        special = 0 if stack == "decoder" else words  # BOS of the prefix, EOS of the source
        wanted = torch.stack([_wanted(role, visible, special, [*order, words]) for role in roles])
        spread = torch.rand(wanted.shape, generator=generator) * visible
        weights = (1 - noise) * wanted + noise * spread / spread.sum(-1, keepdim=True)
        layers.append(AttentionLayer(stack, 1, stack, weights.float(), visible))
    record = AttentionRecord(
        Provenance("planted", "", "", "made by hand"),
        "given",
        ("", ""),
        "",
        "",
        read,
        (Token("<s>", BOS, "special"), *written),
        (*written, Token("</s>", EOS, "special")),
        torch.zeros(words + 1),
        tuple(layers),
    )
    return record, frozenset((place, at) for at, place in enumerate(order))


def _wanted(role: str, visible: Tensor, special: int, order: list[int]) -> Tensor:
    """The rows of a head without noise: [T, S], each a distribution; where its place is not there, the special one."""
    size = len(visible)
    if role == "broad":
        return visible / visible.sum(-1, keepdim=True)
    offsets = {"previous": -1, "next": 1, "diagonal": 0, "position": -2}
    rows = torch.zeros(visible.shape)
    for row in range(size):
        place = order[row] if role == "aligned" else row + offsets[role] if role in offsets else special
        rows[row, place if 0 <= place < size else special] = 1.0
    return rows


def planted_scores(records: int = 20, seed: int = 1) -> list[Score]:
    """The share of planted heads that get their name, at each amount of noise, over texts of 6 to 25 words."""
    found = []
    for noise in NOISE:
        samples = []
        for number in range(records):
            record, links = planted_record(6 + number % 20, noise, seed + number)
            samples.append(head_roles(record, links=links))
        wanted = {(stack, head): role for stack, roles in PLANTED.items() for head, role in enumerate(roles, 1)}
        said = {(each.unit.stack, each.unit.head): each.words["role"] for each in roles_over(samples)}
        right = sum(said[unit] == role for unit, role in wanted.items())
        found.append(Score("role", "planted", "by hand", f"noise {noise:g}", "named", right / len(wanted), len(wanted)))
    return found
