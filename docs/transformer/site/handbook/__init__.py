"""The handbook's Sphinx extension: roles for numbers, figures, boxes, production lines and maths without a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handbook import boxes, chinese, diagram, links, maths, matrices, numbers, searching, symbol

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["setup"]


def setup(app: Sphinx) -> dict[str, object]:
    """Register every part with Sphinx."""
    for part in (numbers, matrices, diagram, boxes, symbol, maths, chinese, searching, links):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
