"""Roles `fact`, `cited` and `wrong`: a number as the page shows it, with where it comes from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from handbook import values
from handbook.words import words

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

__all__ = ["NUMBER_ROLE", "Shown", "setup", "tooltip", "typeset"]

NUMBER_ROLE = re.compile(r"\{(fact|cited|wrong)\}`([^`<]*?)\s*<([^`<>]+)>`")
_CONTENT = re.compile(r"(.*?)\s*<([^<>]+)>\s*", re.DOTALL)
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_log = logging.getLogger(__name__)


class Shown(nodes.Inline, nodes.TextElement):
    """A number in the text: attributes `kind`, `fact` (its id), `tip`."""


def tooltip(kind: str, identifier: str, language: str | None) -> str | None:
    """What a reader sees on pointing at a number; None where the id is unknown."""
    say = words(language)
    if kind == "wrong":
        return say["wrong"].format(id=identifier)
    if kind == "cited":
        entry = values.cited(identifier)
        if entry is None:
            return None
        shown = values.describe(entry["value"])
        return say["cited"].format(id=identifier, value=shown, source=entry["source"], where=entry["where"])
    value = values.fact(identifier)
    if value is None:
        return None if values.has_facts() else say["fact_unknown"].format(id=identifier)
    return say["fact"].format(id=identifier, value=values.describe(value))


def typeset(number: str) -> str:
    """A number as it is printed: a real minus, and powers of ten raised.

    >>> typeset("-1.5e-8"), typeset("3×10^19")
    ('−1.5×10⁻⁸', '3×10¹⁹')
    """
    number = re.sub(r"(?<=\d)[eE]\+?(?=-?\d)", "×10^", number)
    number = re.sub(r"\^(-?\d+)", lambda power: power[1].translate(_RAISED), number)
    return number.replace("-", "−")


class NumberRole(SphinxRole):
    """`shown <id>`, as a span for a fact and as a link for a number of a paper or of an erratum."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The number as one inline node; an id that nobody knows is a warning, so that the build fails."""
        match = _CONTENT.fullmatch(self.text)
        if match is None:
            _log.warning("{%s}`%s` must read `number <id>`", self.kind, self.text, location=self.get_location())
            return [nodes.Text(self.text)], []
        shown, identifier = match[1], match[2].strip()
        tip = tooltip(self.kind, identifier, self.config.language)
        if tip is None:
            _log.warning("{%s} knows no id %r", self.kind, identifier, location=self.get_location())
            tip = identifier
        node = Shown(self.rawtext, typeset(shown), kind=self.kind, fact=identifier, tip=tip)
        target = {"fact": "", "wrong": f"errata.html#{identifier.lower()}"}.get(self.kind)
        if target is None:
            entry = values.cited(identifier) or {"source": "unknown"}
            target = f"references.html#ref-{entry['source']}"
        if not target:
            return [node], []
        link = nodes.reference(self.rawtext, "", node, refuri=target, internal=True, classes=["number"])
        return [link], []


def _visit(self: HTML5Translator, node: Shown) -> None:
    tag = "s" if node["kind"] == "wrong" else "span"
    marks: dict[str, Any] = {"CLASS": node["kind"], "title": node["tip"], "data-fact": node["fact"]}
    self.body.append(self.starttag(node, tag, "", **marks))


def _depart(self: HTML5Translator, node: Shown) -> None:
    self.body.append("</s>" if node["kind"] == "wrong" else "</span>")


def setup(app: Sphinx) -> None:
    """Register the three roles."""
    app.add_node(Shown, html=(_visit, _depart))
    for kind in ("fact", "cited", "wrong"):
        app.add_role(kind, NumberRole(kind))
