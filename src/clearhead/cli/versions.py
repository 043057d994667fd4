"""What beside clearhead itself decides how quick it is here."""

from __future__ import annotations

from importlib import metadata

from clearhead.engine.library import absence, library

__all__ = ["surroundings"]


def surroundings() -> str:
    """The version of torch, which is not imported for it, and the native library's instruction set or its absence."""
    try:
        torch = f"torch {metadata.version('torch')}"
    except metadata.PackageNotFoundError:
        torch = "no torch"
    native = library()
    return f"{torch}; {f'no native library: {absence()}' if native is None else f'native library: {native.level}'}"
