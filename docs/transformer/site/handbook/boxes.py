"""Boxes of the pages: a misconception, an exercise with its folded answer, and the place in the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from handbook.words import words

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

__all__ = ["Fold", "setup"]


class Fold(nodes.General, nodes.Element):
    """Content behind a line that opens it: attribute `summary`."""


class _Box(SphinxDirective):
    kind: ClassVar[str]
    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def heading(self) -> str:
        return words(self.config.language)[self.kind]

    def run(self) -> list[nodes.Node]:
        box = nodes.admonition(classes=[self.kind])
        self.set_source_info(box)
        title = nodes.title("", "", nodes.inline("", self.heading(), classes=["kind"]))
        if self.arguments:
            inline, messages = self.state.inline_text(self.arguments[0], self.lineno)
            title += [nodes.Text(" "), *inline, *messages]
        box += title
        box += self.parse_content_to_nodes()
        return [box]


class Misconception(_Box):
    """What readers often believe, and what is true."""

    kind = "misconception"


class Paper(_Box):
    """The section and page of the source."""

    kind = "paper"


class Exercise(_Box):
    """A question, numbered by page."""

    kind = "exercise"

    def heading(self) -> str:
        count: int = (self.env.current_document.get("handbook_exercises") or 0) + 1
        self.env.current_document["handbook_exercises"] = count
        return f"{super().heading()} {count}"


class Solution(SphinxDirective):
    """The answer to the exercise above it; it stays folded until the reader asks."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """A fold with the answer."""
        fold = Fold(summary=words(self.config.language)["solution"])
        self.set_source_info(fold)
        fold += self.parse_content_to_nodes()
        return [fold]


def _visit(self: HTML5Translator, node: Fold) -> None:
    self.body.append(self.starttag(node, "details", CLASS="solution"))
    self.body.append(f"<summary>{self.encode(node['summary'])}</summary>\n")


def _depart(self: HTML5Translator, node: Fold) -> None:
    self.body.append("</details>\n")


def setup(app: Sphinx) -> None:
    """Register the boxes."""
    app.add_node(Fold, html=(_visit, _depart))
    for directive in (Misconception, Paper, Exercise, Solution):
        app.add_directive(directive.__name__.lower(), directive)
