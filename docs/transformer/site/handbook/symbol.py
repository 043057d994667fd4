"""`symbol`: the production lines of a dotted name, read from the source when the page is built."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from handbook.values import REPOSITORY
from handbook.words import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

__all__ = ["Lines", "locate", "setup", "source_lines"]

_log = logging.getLogger(__name__)


def locate(dotted: str) -> tuple[Path, ast.stmt]:
    """The file and the statement that define a dotted name. Raises LookupError where there is none."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place = REPOSITORY / "src" / Path(*parts[:length])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                scope: ast.stmt | None = None
                body = ast.parse(path.read_text(encoding="utf-8")).body
                for name in parts[length:]:
                    scope = next((statement for statement in body if name in _names(statement)), None)
                    if scope is None:
                        raise LookupError(f"{path.relative_to(REPOSITORY)} defines no {'.'.join(parts[length:])}")
                    body = getattr(scope, "body", [])
                if scope is None:
                    raise LookupError(f"{dotted} is a module: name something in it")
                return path, scope
    raise LookupError(f"no module of src/ is named by {dotted}")


def _names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {target.id for target in statement.targets if isinstance(target, ast.Name)}
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return {statement.target.id}
    return set()


def source_lines(path: Path, statement: ast.stmt, without_docstring: bool) -> tuple[list[str], int, int]:
    """The lines of a statement, dedented, and its first and last line number counted from one."""
    first = min([statement.lineno, *(mark.lineno for mark in getattr(statement, "decorator_list", []))])
    last = statement.end_lineno or statement.lineno
    lines = path.read_text(encoding="utf-8").splitlines()[first - 1 : last]
    if without_docstring and isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        head = statement.body[0]
        if ast.get_docstring(statement) is not None and len(statement.body) > 1:
            after = (head.end_lineno or head.lineno) - first + 1
            while after < len(lines) and not lines[after].strip():
                after += 1
            del lines[head.lineno - first : after]
    return textwrap.dedent("\n".join(lines)).splitlines(), first, last


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


class Lines(nodes.literal_block):
    """Code of which a line that is too long goes on below, further in than it began."""


def _visit(self: HTML5Translator, node: Lines) -> None:
    markup: str = self.highlighter.highlight_block(node.astext(), "python", location=node)
    before, _, rest = markup.partition("<pre>")
    inside, _, after = rest.partition("</pre>")
    inside = inside.removeprefix("<span></span>").removesuffix("\n")
    rows = []
    # No tag of the highlighter goes over the end of a line.
    for text, row in zip(node.astext().split("\n"), inside.split("\n"), strict=True):
        deep = len(text) - len(text.lstrip())
        rows.append(f'<span class="row" style="--deep:{deep + 4}ch">{row}\n</span>')
    self.body.append(f'<div class="highlight-python notranslate">{before}<pre>{"".join(rows)}</pre>{after}</div>\n')
    raise nodes.SkipNode


class Symbol(SphinxDirective):
    """The source of a dotted name under a line that says where it stands."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Callable[[str], object]]] = {
        "without-docstring": directives.flag,
        "lines": _span,
        "caption": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """A heading line and the highlighted source."""
        say = words(self.config.language)
        dotted = self.arguments[0]
        try:
            path, statement = locate(dotted)
        except LookupError as error:
            _log.warning("symbol: %s", error, location=self.get_location())
            return []
        self.env.note_dependency(str(path))
        lines, first, last = source_lines(path, statement, "without-docstring" in self.options)
        if "lines" in self.options:
            start, stop = self.options["lines"]
            if not 1 <= start <= stop <= len(lines):
                _log.warning("symbol: %s has %d lines", dotted, len(lines), location=self.get_location())
            lines = textwrap.dedent("\n".join(lines[start - 1 : stop])).splitlines()
            if "without-docstring" not in self.options:
                first, last = first + start - 1, first + stop - 1
        where = say["line" if first == last else "lines"].format(first=first, last=last)
        head = nodes.paragraph(classes=["symbol-place"])
        head += nodes.literal("", str(path.relative_to(REPOSITORY)))
        head += nodes.inline("", where, classes=["symbol-lines"])
        if "caption" in self.options:
            inline, messages = self.state.inline_text(self.options["caption"], self.lineno)
            head += nodes.inline("", "", *inline, *messages, classes=["symbol-caption"])
        code = Lines("\n".join(lines), "\n".join(lines), language="python")
        self.set_source_info(code)
        return [nodes.container("", head, code, classes=["symbol"])]


def setup(app: Sphinx) -> None:
    """Register the directive and its code."""
    app.add_node(Lines, html=(_visit, None))
    app.add_directive("symbol", Symbol)
