"""A disk that refuses, on purpose: root is denied nothing by permissions, and no test should fill a real disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from safetensors import SafetensorError

from clearhead.bundle import weights

__all__ = ["Call", "DiskFault"]

Call = Literal["write", "fsync", "rename"]


class DiskFault:
    """While `on`, the `at`-th call of one kind (and each later one) below a path with `where` in it fails.

    `write` stands for what puts content into files: `write_text` and `write_bytes`, which raise an OSError, and
    safetensors, which has an error of its own with the number of the system's in its words.
    """

    def __init__(self, patch: pytest.MonkeyPatch, call: Call, error: int, *, where: str = "", at: int = 1) -> None:
        self.error = error
        self.where = where
        self.at = at
        self.on = False
        self.calls = 0
        if call == "fsync":
            self._wrap(patch, os, "fsync", lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
        elif call == "rename":
            self._wrap(patch, os, "rename", str)
            self._wrap(patch, os, "replace", str)
        else:
            self._wrap(patch, Path, "write_text", str)
            self._wrap(patch, Path, "write_bytes", str)
            self._wrap(patch, weights, "save_file", lambda tensors, path: str(path), self._of_safetensors)

    def _wrap(
        self,
        patch: pytest.MonkeyPatch,
        owner: Any,
        name: str,
        path_of: Callable[..., str],
        make: Callable[[str], Exception] | None = None,
    ) -> None:
        real = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if self.on and self.where in (path := path_of(*arguments[: 2 if name == "save_file" else 1])):
                self.calls += 1
                if self.calls >= self.at:
                    raise make(path) if make else OSError(self.error, os.strerror(self.error), path)
            return real(*arguments, **named)

        patch.setattr(owner, name, call)

    def _of_safetensors(self, path: str) -> Exception:
        return SafetensorError(f"I/O error: {os.strerror(self.error)} (os error {self.error})")
