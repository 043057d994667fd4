"""The other programs themselves, which are not needed for anything else."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clearhead.base.errors import InputError

__all__ = ["program", "quietly"]


def program(name: str) -> Any:
    """The module `name` ("ctranslate2" or "transformers"); InputError that says how to install it if it is missing."""
    try:
        with quietly():
            module = importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"{name} is needed for this, and cannot be imported ({error}); in the checkout: "
            ".venv/bin/python -m pip install --editable '.[exchange]'"
        ) from None
    if name == "transformers":
        module.logging.set_verbosity_error()
        module.logging.disable_progress_bar()
    return module


@contextmanager
def quietly() -> Iterator[None]:
    """Without the other programs' advice to their own users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
