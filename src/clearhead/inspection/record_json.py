"""Records as plain JSON and arrays, and back: a value is written and read by the type that its field declares.

Floats are written so that they come back to the last bit. JSON has no NaN and no infinity: where a number must stand,
null is NaN; the infinities, and NaN where null would mean "none", are the words "inf", "-inf" and "nan". A tensor is an
array of its own beside the JSON, which holds its name, type and shape.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from clearhead.base.errors import DataError

__all__ = ["ARRAY_TYPES", "ReadArray", "decode", "encode"]

ARRAY_TYPES = {"float32": torch.float32, "float64": torch.float64, "bool": torch.bool}
"""What an array of a record can be made of."""

ReadArray = Callable[[str, str, tuple[int, ...]], Tensor]
"""(name, type, shape) → the array; DataError if it is not there or not so."""

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(kind: Any, value: Any, arrays: dict[str, Tensor], where: str = "") -> Any:
    """`value`, which is of the type `kind`, as JSON; its tensors go into `arrays`, named by where they stand."""
    chosen, optional = _unwrapped(kind)
    if value is None and optional:
        return None
    origin = get_origin(chosen)
    if dataclasses.is_dataclass(chosen):
        hints = _hints(cast(type, chosen))
        return {name: encode(hints[name], getattr(value, name), arrays, _at(where, name)) for name in hints}
    if origin is tuple:
        inner = _members(chosen, len(value))
        return [encode(inner[at], each, arrays, f"{where}.{at + 1}") for at, each in enumerate(value)]
    if origin is dict:
        return {name: encode(get_args(chosen)[1], value[name], arrays, _at(where, name)) for name in sorted(value)}
    if chosen is Tensor:
        return _set_aside(value, arrays, where)
    return _number(float(value), optional) if chosen is float else value


def decode(kind: Any, tree: Any, read: ReadArray, where: str = "") -> Any:
    """What `encode` made `tree` of. Raises DataError, which names the key, for anything else."""
    chosen, optional = _unwrapped(kind)
    if tree is None and optional:
        return None
    origin = get_origin(chosen)
    if dataclasses.is_dataclass(chosen):
        return _object(cast(type, chosen), tree, read, where)
    if origin is tuple:
        given = _list(tree, where)
        inner = _members(chosen, len(given))
        if len(inner) != len(given):
            raise DataError(f"{where}: expected {len(inner)} values, got {len(given)}")
        return tuple(decode(inner[at], each, read, f"{where}.{at + 1}") for at, each in enumerate(given))
    if origin is dict:
        value_kind = get_args(chosen)[1]
        return {name: decode(value_kind, each, read, _at(where, name)) for name, each in _table(tree, where).items()}
    if origin is Literal:
        if not isinstance(tree, str) or tree not in get_args(chosen):
            raise DataError(f"{where}: expected one of {', '.join(get_args(chosen))}, got {tree!r:.60}")
        return tree
    if chosen is Tensor:
        return _fetched(tree, read, where)
    return _float(tree, where) if chosen is float else _plain(chosen, tree, where)


def _unwrapped(kind: Any) -> tuple[Any, bool]:
    """The type without "or None", and whether it had that."""
    if get_origin(kind) in (Union, types.UnionType):
        others = [each for each in get_args(kind) if each is not types.NoneType]
        return others[0], len(others) < len(get_args(kind))
    return kind, False


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _members(kind: Any, count: int) -> list[Any]:
    inner = get_args(kind)
    return [inner[0]] * count if len(inner) == 2 and inner[1] is Ellipsis else list(inner)


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


# -------------------------------------------------------------------------------------------------------------- leaves


def _set_aside(value: Tensor, arrays: dict[str, Tensor], where: str) -> dict[str, Any]:
    arrays[where] = value
    return {"array": where, "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}


def _number(value: float, optional: bool) -> Any:
    if math.isfinite(value):
        return value
    return None if math.isnan(value) and not optional else str(value)


def _float(tree: Any, where: str) -> float:
    if tree is None:
        return math.nan
    if isinstance(tree, str) and tree in _WORDS:
        return _WORDS[tree]
    if isinstance(tree, bool) or not isinstance(tree, int | float):
        raise DataError(f"{where}: expected a number, got {tree!r:.60}")
    try:
        return float(tree)
    except OverflowError:
        raise DataError(f"{where}: the number is too large") from None


def _plain(kind: Any, tree: Any, where: str) -> Any:
    """A text, a whole number or a truth value."""
    if not isinstance(tree, kind) or (kind is int and isinstance(tree, bool)):
        expected = {str: "a text", int: "a whole number", bool: "true or false"}[kind]
        raise DataError(f"{where}: expected {expected}, got {tree!r:.60}")
    return tree


def _fetched(tree: Any, read: ReadArray, where: str) -> Tensor:
    table = _table(tree, where)
    name, dtype, shape = table.get("array"), table.get("dtype"), table.get("shape")
    fits = isinstance(name, str) and dtype in ARRAY_TYPES and isinstance(shape, list)
    if not fits or any(isinstance(size, bool) or not isinstance(size, int) or size < 0 for size in shape):  # type: ignore[union-attr]
        raise DataError(f"{where}: expected the name, type and shape of an array, got {tree!r:.80}")
    return read(cast(str, name), cast(str, dtype), tuple(cast(list[int], shape)))


# ------------------------------------------------------------------------------------------------------------ compounds


def _object(kind: type, tree: Any, read: ReadArray, where: str) -> Any:
    table = _table(tree, where)
    hints = _hints(kind)
    if surplus := sorted(table.keys() - hints.keys()):
        raise DataError(f"{_at(where, surplus[0])}: no such key in this version")
    missing = [
        field.name
        for field in dataclasses.fields(kind)
        if field.name not in table
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise DataError(f"{_at(where, missing[0])}: missing")
    return kind(**{name: decode(hints[name], each, read, _at(where, name)) for name, each in table.items()})


def _table(tree: Any, where: str) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise DataError(f"{where or 'the file'}: expected an object, got {tree!r:.60}")
    return tree


def _list(tree: Any, where: str) -> list[Any]:
    if not isinstance(tree, list):
        raise DataError(f"{where}: expected a list, got {tree!r:.60}")
    return tree
