"""The command line as a tree that tests can walk: every command and every option, straight from the typer app."""

import enum
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import typer.main

__all__ = ["commands", "describe"]


def commands(app: typer.Typer) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(("data", "get"), command) for the program itself, each group and each command, in alphabetical order."""
    return walk((), typer.main.get_command(app))


def walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in sorted(getattr(command, "commands", {}).items()):
        if not child.hidden:
            yield from walk((*path, name), child)


def kind(parameter: Any) -> str:
    """What a parameter takes: flag, a type's name, or the choices themselves."""
    if getattr(parameter, "is_flag", False):
        return "flag"
    annotation = parameter.type_descriptor.annotation
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    if get_origin(annotation) is list:
        return f"{get_args(annotation)[0].__name__}, several"
    if issubclass(annotation, enum.Enum):
        return "|".join(str(member.value) for member in annotation)
    return str(annotation.__name__)


def describe(path: tuple[str, ...], command: Any) -> list[str]:
    """One line a parameter: its command, its spellings, its kind, whether it is required and its default."""
    lines = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        spelling = " ".join([*parameter.opts, *parameter.secondary_opts])
        if parameter.param_type_name == "argument":
            spelling = spelling.upper()
        default = getattr(parameter.default, "value", parameter.default)
        needed = "required" if parameter.required else f"default {default if default is not None else '-'}"
        lines.append(f"{' '.join(('clearhead', *path))}: {spelling} ({kind(parameter)}) {needed}")
    return lines
