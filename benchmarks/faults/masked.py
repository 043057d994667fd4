"""Queries that may read nothing: in every precision, training or not, by weights or by the kernels.

A batch has a row without a visible key among others. Everything must be finite, forward and backward; the blank row
exactly 0; and its neighbours, bit for bit, what they are beside an ordinary row. The control is nn.MultiheadAttention.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.faults.rows import Result
from clearhead.nn.attention import Attention, AttentionConfig
from clearhead.nn.visibility import Visibility

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
D_MODEL, HEADS, BLANK = 32, 4, 1


class Case(NamedTuple):
    """`length` decides between the explicit product (short) and the fused kernel (long)."""

    dtype: str
    training: bool
    weights: bool
    kv_heads: int
    length: int
    blank: str  # "row": nothing to read for a sentence; "queries": for some positions of it

    def __str__(self) -> str:
        mode, how = "train" if self.training else "eval", "weights" if self.weights else "context"
        return f"{self.dtype} {mode} {how} {self.kv_heads} kv heads, length {self.length}, blank {self.blank}"


CASES = [
    Case(*each)
    for each in itertools.product(DTYPES, (False, True), (False, True), (4, 2, 1), (7, 140), ("row", "queries"))
]


def run(count: int, seed: int, folder: Path) -> Result:
    torch.set_num_threads(1)
    failures = [f"{case}: {problem}" for case in CASES[:count] for problem in _problems(case, seed)]
    bad, tried = _control(seed)
    shown = CASES[:count]
    return Result(
        len(shown),
        f"{len(failures)} problems in {len(shown)} cases (4 dtypes × train, eval × weights, context × heads × kernels)",
        f"nn.MultiheadAttention: not finite in {bad} of {tried}",
        bad > 0,
        failures,
    )


def _mask(case: Case, *, blank: bool) -> Tensor:
    mask = torch.ones(3, 1, case.length, case.length, dtype=torch.bool)
    mask[2, ..., case.length // 2 :] = False  # a row with padding, as usual
    if blank and case.blank == "row":
        mask[BLANK] = False
    elif blank:
        mask[BLANK, :, : case.length // 2] = False
    return mask


def _result(case: Case, seed: int, *, blank: bool) -> tuple[Tensor, list[Tensor], Tensor]:
    """The outcome [R, …] of a case, the gradients, and which of its queries may read nothing [R, T]."""
    torch.manual_seed(seed)
    config = AttentionConfig(heads=HEADS, kv_heads=case.kv_heads, dropout=0.3)
    layer = Attention(config, D_MODEL)
    for parameter in layer.parameters():  # a layer by itself has no values yet; `build` gives them
        nn.init.normal_(parameter, std=0.3)
    layer = layer.to(DTYPES[case.dtype]).train(case.training)
    x = torch.randn(3, case.length, D_MODEL).to(DTYPES[case.dtype]).requires_grad_()
    mask = _mask(case, blank=blank)
    visibility = Visibility(mask)
    torch.manual_seed(seed)  # the same dropout with and without the blank row
    if case.weights:
        query, kept = layer._split(layer.query(x), layer.heads), layer.remember(x, x)
        found = layer.core.weights(query, kept.keys, visibility).transpose(1, 2)  # [R, T, H, S]
    else:
        found = layer(x, layer.remember(x, x), visibility)
    found.float().square().sum().backward()
    gradients = [x.grad, *(parameter.grad for parameter in layer.parameters())]
    return found.detach(), [each for each in gradients if each is not None], ~mask[:, 0].any(-1)


def _problems(case: Case, seed: int) -> Iterator[str]:
    found, gradients, hidden = _result(case, seed, blank=True)
    plain, _, _ = _result(case, seed, blank=False)
    if not bool(torch.isfinite(found).all()):
        yield "not finite"
    if not all(bool(torch.isfinite(each).all()) for each in gradients):
        yield "a gradient is not finite"
    if not bool((found[hidden] == 0).all()) or not bool(hidden[BLANK].any()):
        yield "the blank row is not exactly 0"
    if not torch.equal(found[~hidden], plain[~hidden]):
        yield "a neighbour has changed"


def _control(seed: int) -> tuple[int, int]:
    """How often torch's own module gives something that is not finite for the same row."""
    bad = tried = 0
    for dtype, training, weights in itertools.product(("fp32", "bf16", "fp16"), (False, True), (False, True)):
        torch.manual_seed(seed)
        layer = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True).to(DTYPES[dtype]).train(training)
        x = torch.randn(3, 7, D_MODEL).to(DTYPES[dtype])
        hidden = torch.zeros(3, 7, dtype=torch.bool)
        hidden[BLANK] = True
        with torch.set_grad_enabled(training):
            found, _ = layer(x, x, x, key_padding_mask=hidden, need_weights=weights)
        tried += 1
        bad += not bool(torch.isfinite(found).all())
    return bad, tried
