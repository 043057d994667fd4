"""The search: numbers are words of its index, and the pages' text lies beside it, for the order and the excerpts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.search.en import SearchEnglish

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["EnglishSearch", "setup", "split_words", "text_of"]

_WORD = re.compile(r"[0-9]+(?:[.,][0-9]+)+|[^\W]+")
_COMMAND = re.compile(r"\\(?:sqrt|times|cdot|top)\b")
_SIGNS = {"\\sqrt": "√", "\\times": "×", "\\cdot": "·", "\\top": "ᵀ"}

# The same in the page. A number without its commas is looked for with them, as it is printed.
JS_WORDS = """
function splitWords(query) {
  const grouped = query.replace(/(?<![0-9.,])[0-9]{4,}(?![0-9.,])/g, (digits) => Number(digits).toLocaleString("en"));
  return grouped.match(/[0-9]+(?:[.,][0-9]+)+|[\\p{Letter}\\p{Number}_]+/gu) || [];
}
"""


def split_words(text: str) -> list[str]:
    """Words of a text, a number with a point or commas being one.

    >>> split_words("multi-head: 0.401112 of 63,045,632.")
    ['multi', 'head', '0.401112', 'of', '63,045,632']
    """
    return _WORD.findall(text)


class EnglishSearch(SearchEnglish):
    """Sphinx's English search, with numbers."""

    js_splitter_code = JS_WORDS + "var splitQuery = splitWords;\n"

    def split(self, input: str) -> list[str]:
        """Words and numbers."""
        return split_words(input)


def text_of(document: nodes.document) -> str:
    """A page as plain text in one line, without its title and its figures."""
    blocks = [
        _plain(block)
        for block in document.findall(nodes.TextElement)
        if not isinstance(block.parent, nodes.TextElement) and not isinstance(block, nodes.raw | nodes.comment)
    ]
    return re.sub(r"\s+", " ", " ".join(blocks[1:])).strip()


def _plain(node: nodes.Node) -> str:
    if isinstance(node, nodes.math | nodes.math_block):
        signs = _COMMAND.sub(lambda command: _SIGNS[command[0]], node.astext())
        return re.sub(r"\\[A-Za-z]+|[{}\\$&]", "", signs)
    if isinstance(node, nodes.Text):
        return node.astext()
    return "".join(_plain(child) for child in node.children)


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        texts = {page: text_of(app.env.get_doctree(page)) for page in sorted(app.env.found_docs)}
        script = f"const HANDBOOK_TEXT = {json.dumps(texts, ensure_ascii=False, indent=0)};\n"
        Path(app.outdir, "searchtext.js").write_text(script, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Register the English search and the text beside the index."""
    app.add_search_language(EnglishSearch)
    app.connect("build-finished", _write)
