"""A copy of a model that shares every tensor with it, with chosen modules replaced.

The model itself is never touched: it carries no hook and no flag, and runs as it always did while a twin records or is
experimented on.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import torch
from torch import nn

__all__ = ["Swap", "twin"]

M = TypeVar("M", bound=nn.Module)

Swap = Callable[[str, nn.Module], nn.Module | None]
"""Given the path of a module in the model (`encoder.layers.0.attention.core`) and its copy: what is to stand in its
place, or None to leave it."""


def twin(model: M, swap: Swap) -> M:
    """A copy of the module tree of `model` in which `swap` has replaced what it wanted to.

    Parameters, buffers and tensors kept as attributes, also in lists, tuples and dictionaries, are the very same
    objects: nothing is allocated, and what the model learns later the twin knows. A module that stands in the tree
    under several paths is offered once, by the first of them, and replaced under all. Modules inside a replaced one are
    not offered.
    """
    known: dict[int, object] = {id(tensor): tensor for module in model.modules() for tensor in _tensors(module)}
    known |= {id(hooks): OrderedDict() for module in model.modules() for hooks in _empty_hooks(module)}
    copied = copy.deepcopy(model, known)
    replaced: dict[int, nn.Module] = {}
    inside: set[int] = set()
    for path, module in list(copied.named_modules()):
        if not path or id(module) in inside:
            continue
        other = swap(path, module)
        if other is not None:
            replaced[id(module)] = other
            inside |= {id(each) for each in module.modules()}
    for parent in list(copied.modules()):
        for name, child in parent._modules.items():
            if child is not None and id(child) in replaced:
                parent._modules[name] = replaced[id(child)]
    return copied


def _tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    """The tensors that `module` itself holds, its children's not among them."""
    for name, value in vars(module).items():
        if name != "_modules":
            yield from _inside(value)


def _empty_hooks(module: nn.Module) -> Iterator[object]:
    """The dictionaries in which a module would keep hooks; copying them takes half of the time otherwise."""
    return (value for value in vars(module).values() if type(value) is OrderedDict and not value)


def _inside(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _inside(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _inside(each)
