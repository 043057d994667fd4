"""Where a model attends: its attention cores in three stacks, and how a layer or a head of them is named.

Layers and heads count from 1 everywhere, as the papers do: the third head of the second layer is head 3 of layer 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clearhead.base.errors import InputError
from clearhead.models.ensemble import EnsembleEncoder
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.attention import Attention
from clearhead.nn.cores import Core

__all__ = ["STACKS", "Head", "Site", "Stack", "attention_sites", "heads_of"]

Stack = Literal["encoder", "decoder", "cross"]
"""The source reads itself, the target reads itself, the target reads the source."""

STACKS: tuple[Stack, ...] = ("encoder", "decoder", "cross")

_SELF = "self_attention"


@dataclass(frozen=True)
class Site:
    """One layer of attention: the core at `path` in the model, with `heads` heads, number `layer` of its stack.

    `attention` is the path of the `Attention` that holds the core, with the projections of its heads; None for a core
    that has no projections of its own (recurrent and convolutional decoders), which has one head.
    """

    stack: Stack
    layer: int
    path: str
    heads: int
    attention: str | None = None


@dataclass(frozen=True, order=True)
class Head:
    """A head of a model; `str` writes it as `cross 2.3`: layer 2, head 3."""

    stack: Stack
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.stack} {self.layer}.{self.head}"


def attention_sites(model: Seq2Seq) -> list[Site]:
    """Every attention of `model`, stack by stack, each from its first layer to its last; perhaps none.

    Raises InputError for an ensemble: its members attend each in its own way.
    """
    if isinstance(model.encoder, EnsembleEncoder):
        raise InputError("an ensemble cannot be inspected as one model: inspect each of its members")
    modules = dict(model.named_modules())
    found: dict[Stack, list[Site]] = {stack: [] for stack in STACKS}
    last = ""
    for path, module in modules.items():
        if not isinstance(module, Core) or (last and path.startswith(f"{last}.")):
            continue  # a core made of another is one core
        last = path
        holder, _, _ = path.rpartition(".")
        owner = modules[holder]
        stack = _stack(path)
        heads = owner.heads if isinstance(owner, Attention) else 1
        attention = holder if isinstance(owner, Attention) else None
        found[stack].append(Site(stack, len(found[stack]) + 1, path, heads, attention))
    return [site for stack in STACKS for site in found[stack]]


def heads_of(sites: list[Site]) -> list[Head]:
    """Every head of `sites`, in their order."""
    return [Head(site.stack, site.layer, head) for site in sites for head in range(1, site.heads + 1)]


def _stack(path: str) -> Stack:
    parts = path.split(".")
    if parts[0] == "encoder":
        return "encoder"
    return "decoder" if _SELF in parts else "cross"
