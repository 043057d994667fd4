"""Strict, frozen configuration models, and the passage between them and plain tables.

A configuration is a tree of `Config` models. Tagged unions are told apart by the key `kind`. Everything that
comes from a user (a TOML file, `--set`, keyword overrides of a preset) passes through `structure`, which turns
every complaint of pydantic into one `ConfigError` that lists the full key path of each wrong key.

TOML has no null. A field that may be None must therefore have the default None and is left out when written;
a class that breaks this rule is refused when it is defined. Where "off" is not the default, give it a value of
its own: a number (0) or a word ("none").
"""

import difflib
import json
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from clearhead.base.errors import ConfigError

__all__ = ["Config", "structure", "suggestion", "unstructure"]


class Config(BaseModel):
    """Base of every configuration: frozen, no unknown key, no coercion but from a whole number to a float.

    Give each field a default and its bounds with `pydantic.Field`; a tagged union carries
    `Field(discriminator="kind")` and each member a `kind: Literal["name"] = "name"`. A validator that finds a
    contradiction raises `ValueError` with a message that says what to do; `structure` adds the key path.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        for name, field in cls.model_fields.items():
            members = _members(field.annotation)
            if any(_holds_none(member) for member in members if member is not types.NoneType):
                raise TypeError(f"{cls.__name__}.{name}: None inside a list or table cannot be written as TOML")
            optional = types.NoneType in members
            if optional and (field.is_required() or field.get_default(call_default_factory=True) is not None):
                raise TypeError(f"{cls.__name__}.{name} may be None, so its default must be None: TOML has no null")


ConfigT = TypeVar("ConfigT", bound=Config)


@overload
def structure(cls: type[ConfigT], mapping: Mapping[str, Any], where: str = "config", under: str = "") -> ConfigT: ...
@overload
def structure(cls: Any, mapping: Mapping[str, Any], where: str = "config", under: str = "") -> Any: ...
def structure(cls: Any, mapping: Mapping[str, Any], where: str = "config", under: str = "") -> Any:
    """Make a `cls` (a `Config` class, or a union of them told apart by `kind`) out of a plain table.

    `where` opens the message: the name of the file, or of the option. `under` is the key path of the table itself,
    where it is part of a larger one, so that a message gives every path in full. A table that lacks its `kind` takes
    the kind of the default that stands in its place. Raises ConfigError naming every wrong key at once.
    """
    data = _with_default_kinds(cls, mapping)
    try:
        # By way of JSON, because the strict Python mode refuses a list where a tuple is declared.
        return TypeAdapter(cls).validate_json(json.dumps(data, default=_plain), strict=True)
    except ValidationError as error:
        problems = [_problem(cls, data, detail, under) for detail in error.errors(include_url=False)]
    except (TypeError, ValueError) as error:
        problems = [str(error)]
    if len(problems) == 1:
        raise ConfigError(f"{where}: {problems[0]}") from None
    listed = "".join(f"\n  {problem}" for problem in problems)
    raise ConfigError(f"{where}: {len(problems)} problems{listed}") from None


def unstructure(config: Config) -> dict[str, Any]:
    """The plain table of a configuration: TOML types only, None left out. `structure` takes it back unchanged."""
    return config.model_dump(mode="json", exclude_none=True)


def suggestion(word: str, known: Sequence[str]) -> str:
    """` (did you mean 'heads'?)` when something in `known` is close to `word`, else an empty string."""
    lowered = {name.lower().rpartition(".")[2]: name for name in known}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return f" (did you mean {lowered[close[0]]!r}?)" if close else ""


# ---------------------------------------------------------------------------------------------------- annotations


def _members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; of anything else, itself."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(member for part in get_args(annotation) for member in _members(part))
    return (annotation,)


def _holds_none(annotation: Any) -> bool:
    if annotation is types.NoneType or annotation is None:
        return True
    return get_origin(annotation) is not Literal and any(_holds_none(part) for part in get_args(annotation))


def _models(annotation: Any) -> list[type[Config]]:
    return [member for member in _members(annotation) if isinstance(member, type) and issubclass(member, Config)]


def _kinds(model: type[Config]) -> tuple[str, ...]:
    field = model.model_fields.get("kind")
    return get_args(field.annotation) if field is not None else ()


def _choose(annotation: Any, kind: Any) -> type[Config] | None:
    """The model of a (union) annotation that a table of this `kind` means; None when there is none."""
    models = _models(annotation)
    if len(models) == 1:
        return models[0]
    return next((model for model in models if kind in _kinds(model)), None)


def _with_default_kinds(annotation: Any, value: Any, default: Any = None) -> Any:
    """`value` with each missing `kind` of a tagged union taken from the default that stands in its place."""
    if not isinstance(value, Mapping):
        return value
    table = dict(value)
    if "kind" not in table and isinstance(default, Config) and len(_models(annotation)) > 1:
        table = {"kind": getattr(default, "kind", None), **table}
    model = _choose(annotation, table.get("kind"))
    if model is None:
        return table
    for name, field in model.model_fields.items():
        if name in table:
            inner = field.get_default(call_default_factory=True) if not field.is_required() else None
            table[name] = _with_default_kinds(field.annotation, table[name], inner)
    return table


def _plain(value: Any) -> Any:
    """What `json.dumps` cannot write by itself."""
    if isinstance(value, Config):
        return unstructure(value)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a {type(value).__name__} ({value}) is not a value that a configuration can hold")


# ------------------------------------------------------------------------------------------------------- messages


def _trace(annotation: Any, loc: tuple[int | str, ...]) -> Iterator[tuple[str, Any]]:
    """Follow pydantic's location through the types: (piece of the key path, type there); union labels left out."""
    for place, part in enumerate(loc):
        members = [member for member in _members(annotation) if member is not types.NoneType]
        if len(members) > 1:
            # Here pydantic inserts the tag of the member it chose (or a label of its own), which is no key.
            numbered = place + 1 < len(loc) and isinstance(loc[place + 1], int)
            lists = [member for member in members if get_origin(member) is tuple]
            annotation = lists[0] if numbered and lists else _choose(annotation, part)
            continue
        member = members[0] if members else None
        if isinstance(part, int):
            arguments = [argument for argument in get_args(member) if argument is not Ellipsis]
            annotation = arguments[min(part, len(arguments) - 1)] if arguments else None
            yield f"[{part}]", annotation
        elif isinstance(member, type) and issubclass(member, Config):
            field = member.model_fields.get(part)
            annotation = field.annotation if field is not None else None
            yield f".{part}", annotation
        else:
            annotation = get_args(member)[-1] if get_args(member) else None
            yield f".{part}", annotation


def _inner_keys(model: type[Config] | None) -> list[str]:
    """The keys one table further in, `attention.heads` say: where a key is often looked for one table too high."""
    fields = model.model_fields if model is not None else {}
    return [
        f"{name}.{key}"
        for name, field in fields.items()
        for inner in _models(field.annotation)
        for key in inner.model_fields
    ]


def _problem(annotation: Any, data: Any, detail: ErrorDetails, under: str) -> str:
    """One line for one of pydantic's errors: key path, what is wrong, what is known."""
    loc, kind = detail["loc"], detail["type"]
    trace = list(_trace(annotation, loc))
    path = (under + "".join(piece for piece, _ in trace)).removeprefix(".")
    if kind == "extra_forbidden":
        parent = trace[-2][1] if len(trace) > 1 else annotation
        table = _table_at(data, trace[:-1])
        model = _choose(parent, table.get("kind") if isinstance(table, Mapping) else None)
        known = list(model.model_fields) if model is not None else []
        meant = suggestion(str(loc[-1]), known) or suggestion(str(loc[-1]), _inner_keys(model))
        return f"{path}: unknown key{meant}; known keys: {', '.join(known)}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        kinds = [name for model in _models(trace[-1][1] if trace else annotation) for name in _kinds(model)]
        given = detail["input"].get("kind") if isinstance(detail["input"], Mapping) else None
        key = f"{path}.kind".removeprefix(".")
        wrong = "missing" if given is None else f"unknown kind {given!r}{suggestion(str(given), kinds)}"
        return f"{key}: {wrong}; known kinds: {', '.join(kinds)}"
    message = _describe(kind, detail)
    return f"{path}: {message}" if path else message


def _table_at(data: Any, trace: list[tuple[str, Any]]) -> Any:
    for piece, _ in trace:
        data = data[int(piece[1:-1])] if piece.startswith("[") else data[piece[1:]]
    return data


_EXPECTED = {
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a string",
    "path_type": "a path (a string)",
    "tuple_type": "a list",
    "list_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "none_required": "nothing (leave the key out)",
}

_BOUNDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda ctx: f"must be greater than {ctx['gt']}",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']}",
    "less_than": lambda ctx: f"must be less than {ctx['lt']}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']}",
    "multiple_of": lambda ctx: f"must be a multiple of {ctx['multiple_of']}",
    "too_short": lambda ctx: f"must have at least {ctx['min_length']} elements",
    "too_long": lambda ctx: f"must have at most {ctx['max_length']} elements",
    "string_too_short": lambda ctx: f"must have at least {ctx['min_length']} characters",
    "string_too_long": lambda ctx: f"must have at most {ctx['max_length']} characters",
    "string_pattern_mismatch": lambda ctx: f"must match the pattern {ctx['pattern']}",
}


def _describe(kind: str, detail: ErrorDetails) -> str:
    value, context = detail.get("input"), detail.get("ctx", {})
    if kind == "missing":
        return "missing"
    if kind == "literal_error":
        expected = str(context["expected"])
        known = [word.strip("' ") for word in expected.replace(" or ", ",").split(",")]
        return f"expected {expected}{suggestion(value, known) if isinstance(value, str) else ''}, got {_name(value)}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {_name(value)}"
    if kind in _BOUNDS:
        return f"{_BOUNDS[kind](context)}, got {_name(value)}"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    return f"{detail['msg']}, got {_name(value)}"


def _name(value: Any) -> str:
    """A value the way its owner wrote it, with its type where that is the point."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the truth value {str(value).lower()}"
        case str():
            return f"the string {value!r}"
        case Mapping():
            return "a table"
        case list() if len(value) > 8:
            return f"a list of {len(value)} elements"
        case list():
            return f"the list {value!r}"
        case _:
            return repr(value)
