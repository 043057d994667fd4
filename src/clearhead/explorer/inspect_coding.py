"""Maps and scores as arrays that a page can hold: few bytes, and always said how far off a number may be.

A weight w from 0 to 1 is kept as its square root, which gives small weights as many shades as large ones: in 16 bits
up to `WHOLE` tokens, where no printed number is off by more than 1.6e-5; above that in 8 bits for drawing, with the
`BEST` largest of every row beside them in 16. Where even that makes too large a file, there are fewer shades than 256
(`inspect_payload.SHADES`). The page says how far off each number may be: an error of half a step δ in √w is one of
2·√w·δ + δ² in w. Cells that a query cannot see are not numbers of the map but of its visibility, which is "full",
"causal" (it sees itself and what came before), or one bit a cell. Scores of tokens are kept as they are (float32) up to
`WHOLE` tokens, and above that like maps, with a sign, each row relative to its largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection.records import AttentionLayer, AttentionRecord

__all__ = ["BEST", "WHOLE", "Arrays", "Json", "coded_layer", "coded_scores"]

Json = dict[str, Any]

WHOLE = 64
"""Up to so many tokens on either side a map is kept in 16 bits."""
BEST = 3
"""Numbers of a row that are kept in 16 bits where the others are kept in 8."""


@dataclass
class Arrays:
    """Arrays one behind the other, each at a multiple of 8 bytes, little-endian; `steps` of √w where it has 8 bits."""

    steps: int
    held: bytearray = field(default_factory=bytearray)

    def add(self, kind: str, values: Tensor) -> Json:
        """Keep `values` as `kind` (u8, u16, f32); the reference by which the page finds them."""
        self.held.extend(b"\0" * (-len(self.held) % 8))
        place = len(self.held)
        numbers = values.detach().cpu().contiguous().numpy()
        self.held.extend(numbers.astype({"u8": "u1", "u16": "<u2", "f32": "<f4"}[kind]).tobytes())
        return {"at": place, "type": kind, "shape": list(values.shape)}


def coded_layer(layer: AttentionLayer, attention: AttentionRecord, arrays: Arrays) -> Json:
    """What the page is told of a layer, and where its weights are.

    Raises InputError if the map is not as large as its tokens are many, or holds what no attention weight can be.
    """
    rows = attention.source if layer.stack == "encoder" else attention.prefix
    columns = attention.prefix if layer.stack == "decoder" else attention.source
    heads, wide, long = layer.weights.shape
    name = f"layer {layer.layer} of the {layer.stack} stack"
    if (wide, long) != (len(rows), len(columns)) or layer.visible.shape != (wide, long):
        raise InputError(f"{name} has a map of {wide} × {long}, its tokens are {len(rows)} × {len(columns)}")
    if not torch.isfinite(layer.weights).all() or layer.weights.min() < 0:
        raise InputError(f"{name} holds numbers that are no attention weights (negative, or not finite)")
    weights = layer.weights.detach().float().cpu()
    scale = max(1.0, float(weights.max()))
    root = (weights.double() / scale).sqrt()
    whole = max(wide, long) <= WHOLE
    coded: Json = {
        "stack": layer.stack,
        "layer": layer.layer,
        "path": layer.path,
        "normalised": layer.normalised,
        "heads": heads,
        "rows": wide,
        "columns": long,
        "scale": scale,
        "coding": "u16" if whole else "u8",
        "steps": 65535 if whole else arrays.steps,
        "visible": _visible(layer.visible.cpu(), arrays),
    }
    if whole:
        return {**coded, "weights": arrays.add("u16", (root * 65535).round())}
    coded["weights"] = arrays.add("u8", (root * arrays.steps).round())
    return {**coded, "best": _best(root, arrays)}


def _best(root: Float[Tensor, "... S"], arrays: Arrays) -> Json:
    """The largest of every row, by place, in steps of 1/32767 (they may have a sign)."""
    _, places = root.abs().topk(min(BEST, root.shape[-1]), dim=-1)
    return {
        "places": arrays.add("u8" if root.shape[-1] <= 256 else "u16", places),
        "values": arrays.add("u16", (root.gather(-1, places) * 32767).round() + 32767),
    }


def _visible(visible: Bool[Tensor, "T S"], arrays: Arrays) -> Json | str:
    if bool(visible.all()):
        return "full"
    if visible.shape[0] == visible.shape[1] and torch.equal(visible, torch.ones_like(visible).tril()):
        return "causal"
    bits = visible.flatten().to(torch.uint8)
    bits = torch.nn.functional.pad(bits, (0, -len(bits) % 8)).view(-1, 8)
    return arrays.add("u8", (bits << torch.arange(8, dtype=torch.uint8)).sum(1))


def coded_scores(values: Float[Tensor, "T S"], layers: Sequence[AttentionLayer], arrays: Arrays) -> Json:
    """Scores as they are up to `WHOLE` tokens; above that the signed square root of what they are of the largest.

    What is the mean over the heads of a layer, as attention by itself is, needs no array of its own there.
    """
    values = values.detach().float().cpu()
    if max(values.shape) <= WHOLE:
        return {"coding": "f32", "values": arrays.add("f32", values)}
    for layer in layers:
        mean = layer.weights.float().cpu().mean(0)
        if mean.shape == values.shape and torch.allclose(mean, values, rtol=1e-5, atol=1e-7):
            return {"coding": "mean", "stack": layer.stack, "layer": layer.layer}
    values = torch.where(torch.isfinite(values), values, 0.0)
    peak = values.abs().amax(1)
    share = values.double() / peak.double().clamp(min=1e-300)[:, None]
    root = share.sign() * share.abs().sqrt()
    return {
        "coding": "root",
        "values": arrays.add("u8", (root * 127).round() + 127),
        "peak": arrays.add("f32", peak),
        "best": _best(root, arrays),
    }
