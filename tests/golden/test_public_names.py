"""The names that a program may import are pinned, and each of them is really there.

After a wanted change, write the golden file anew and say so in the changelog:

    .venv/bin/python -m tests.golden.test_public_names > tests/golden/public_names.txt
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import clearhead

GOLDEN = Path(__file__).with_name("public_names.txt")


def names() -> list[str]:
    """`clearhead.load(path, …)` with its signature for the front door, `clearhead.models: build, …` for each floor."""
    lines = []
    for name in sorted(clearhead.__all__):
        value = getattr(clearhead, name)
        lines.append(f"clearhead.{name}{signature(value) if callable(value) else ''}")
        methods = [] if not isinstance(value, type) else inspect.getmembers(value, inspect.isfunction)
        lines += [f"clearhead.{name}.{key}{signature(method)}" for key, method in methods if not key.startswith("_")]
    lines += [f"{floor.__name__}: {', '.join(sorted(floor.__all__))}" for floor in floors()]
    return lines


def signature(value: Callable[..., object]) -> inspect.Signature | str:
    """Parameter names, kinds and defaults; annotations may be put better at any time."""
    if isinstance(value, type) and issubclass(value, Exception):
        return ""
    full = inspect.signature(value)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in full.parameters.values()]
    return full.replace(parameters=bare, return_annotation=inspect.Signature.empty)


def floors() -> list[ModuleType]:
    """The packages that offer names themselves; the others only hold modules."""
    names = sorted(module.name for module in pkgutil.iter_modules(clearhead.__path__) if module.ispkg)
    modules = [importlib.import_module(f"clearhead.{name}") for name in names]
    return [module for module in modules if getattr(module, "__all__", None)]


def test_public_names_are_the_pinned_ones() -> None:
    pinned = GOLDEN.read_text(encoding="utf-8").split("\n")[:-1]
    assert names() == pinned, f"if this is wanted: {(__doc__ or '').strip().splitlines()[-1].strip()}"


def test_every_public_name_is_there() -> None:
    missing = [f"{m.__name__}.{name}" for m in [clearhead, *floors()] for name in m.__all__ if not hasattr(m, name)]
    assert missing == []


if __name__ == "__main__":
    print("\n".join(names()))
