"""A page as one HTML file that needs nothing else: its template filled, under a policy that lets nothing in."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources

__all__ = ["base64_of", "filled", "policy", "resource", "script_json"]


def resource(name: str) -> str:
    """The text of a template, style or script that stands beside this module."""
    return resources.files("clearhead.explorer").joinpath(name).read_text(encoding="utf-8")


def filled(template: str, parts: Mapping[str, str]) -> str:
    """`template` with `parts`, each in the place of its `{{name}}`; every name stands there once.

    The names are looked for in the template alone: no text that is put in can bring in another.

    >>> filled("<b>{{one}}</b>{{two}}", {"one": "{{two}}", "two": "2"})
    '<b>{{two}}</b>2'
    """
    before, *pieces = template.split("{{")
    named = [piece.split("}}", 1) for piece in pieces]
    assert sorted(name for name, _ in named) == sorted(parts), "the template asks for other parts than were made"
    return before + "".join(parts[name] + rest for name, rest in named)


def policy(script: str, style: str, *, images: bool = False) -> str:
    """A content security policy: this script, this style and, if asked for, images that the page holds itself."""
    own = "img-src data:; " if images else ""
    return (
        f"default-src 'none'; {own}script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; "
        "form-action 'none'"
    )


def script_json(value: object) -> str:
    """JSON that can stand in a script element: no text in it can end the element, or begin a comment.

    Raises ValueError for a number that JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def base64_of(data: bytes) -> str:
    """As text."""
    return base64.b64encode(data).decode()


def _hash(text: str) -> str:
    return f"'sha256-{base64_of(hashlib.sha256(text.encode()).digest())}'"
