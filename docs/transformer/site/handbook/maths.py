"""Maths as MathML, made when the site is built: no script, no network."""

from __future__ import annotations

import html
import re
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, tostring

from docutils import nodes
from latex2mathml.converter import Converter
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

__all__ = ["KeepTogether", "mathml", "setup"]

_SCRIPTS = {"msub", "msup", "msubsup", "munder", "mover", "munderover"}
_QUANTITIES = {"mi", "mn", "mfrac", "msqrt", *_SCRIPTS}
_OPENING = re.compile(r"[（“‘(\[]+\Z")
_CLOSING = re.compile(r"[，。；：、？！）”’,.;:?!)\]]+")
_log = logging.getLogger(__name__)


def mathml(latex: str, *, block: bool) -> str:
    """LaTeX as a `math` element. Raises ValueError, naming the command, for what the converter does not know."""
    if "\\operatorname*" in latex:
        raise ValueError(f"{latex!r} uses \\operatorname*, which has no MathML here: write \\operatorname")
    try:
        tree = Converter(display="block" if block else "inline").convert_to_element(latex)
    except Exception as error:  # the converter has a class of its own for each fault, without a common one
        raise ValueError(f"{latex!r} cannot be turned into MathML: {type(error).__name__} {error}") from error
    for element in tree.iter():
        element.text = html.unescape(element.text) if element.text else element.text
        if element.text and element.text.startswith("\\"):
            raise ValueError(f"{latex!r} uses {element.text}, which has no MathML here")
        # A space for the eye would be read aloud as a character.
        if element.tag == "mi" and element.text is None and len(element) == 0:
            element.tag = "mrow"
        # Names of functions and the sign of infinity come as operators, which a browser would set apart on both sides.
        text = element.text or ""
        if element.tag == "mo" and (text == "∞" or (text.isalpha() and len(text) > 1)):
            element.tag = "mi"
    for row in list(tree.iter("mrow")):
        _space_functions(row)
        _mark_signs(row)
    tree.set("alttext", latex.strip())
    return _serialise(tree)


class KeepTogether(SphinxTransform):
    """Keeps the punctuation around maths on its line, which a browser would part from it as from a picture."""

    default_priority = 205  # before the line ends of Chinese text go

    def apply(self) -> None:
        """Put maths and the marks that touch it into an inline of class `keep`."""
        for maths in list(self.document.findall(nodes.math)):
            parent, place = maths.parent, maths.parent.index(maths)
            before = parent[place - 1] if place else None
            after = parent[place + 1] if place + 1 < len(parent) else None
            opening = _OPENING.search(before) if isinstance(before, nodes.Text) else None
            closing = _CLOSING.match(after) if isinstance(after, nodes.Text) else None
            kept: list[nodes.Node] = [maths]
            if opening is not None:
                kept.insert(0, nodes.Text(opening[0]))
            if closing is not None:
                kept.append(nodes.Text(closing[0]))
            if len(kept) == 1:
                continue
            parent[place] = nodes.inline("", "", *kept, classes=["keep"])
            if closing is not None and after is not None:
                parent[place + 1] = nodes.Text(after.astext()[closing.end() :])
            if opening is not None and before is not None:
                parent[place - 1] = nodes.Text(before.astext()[: opening.start()])


def _space_functions(row: Element) -> None:
    """Put a thin blank between a function's name and its neighbours, except before a bracket: log p, but log(p)."""
    for place in range(len(row) - 1, -1, -1):
        child = row[place]
        name = child[0] if child.tag in _SCRIPTS and len(child) else child
        if name.tag != "mi" or not (name.text or "")[1:].isalpha():
            continue
        if place + 1 < len(row) and row[place + 1].tag in _QUANTITIES:
            row.insert(place + 1, Element("mspace", width="0.167em"))
        if place and (row[place - 1].tag in _QUANTITIES or (row[place - 1].text or "") in {")", "]"}):
            row.insert(place, Element("mspace", width="0.167em"))


def _mark_signs(row: Element) -> None:
    """A minus after another operator is a sign and stands close to what it turns: = −x, but a − x."""
    for before, child in pairwise(row):
        after_operator = before.tag == "mo" and (before.text or "") not in {")", "]", "|", "}", "!"}
        if child.tag == "mo" and child.text == "−" and after_operator:
            child.set("form", "prefix")


def _serialise(tree: Element) -> str:
    tree.attrib.pop("xmlns", None)  # HTML knows the element by its name
    return tostring(tree, encoding="unicode", short_empty_elements=False)


def _markup(node: nodes.math | nodes.math_block, block: bool) -> str:
    try:
        return mathml(node.astext(), block=block)
    except ValueError as error:
        _log.warning("maths: %s", error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_markup(node, block=False))
    raise nodes.SkipNode


def _display(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="maths"))
    self.body.append(_markup(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the renderer under the name `mathml`, and the transform."""
    app.add_transform(KeepTogether)
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_display, None))
