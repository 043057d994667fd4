"""Chinese text: no blank where a source line ends between two characters, and a search that finds words inside text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import snowballstemmer
from docutils import nodes
from sphinx.search import SearchLanguage
from sphinx.transforms import SphinxTransform

from handbook.searching import JS_WORDS, split_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

__all__ = ["ChineseSearch", "JoinLines", "pairs", "setup"]

_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f"
_PUNCTUATION = "“”‘’—…·"
_BREAK = re.compile(rf"(?<=[{_WIDE}{_PUNCTUATION}])\n(?=[{_WIDE}])|(?<=[{_WIDE}])\n(?=[{_WIDE}{_PUNCTUATION}])")
_HAN = re.compile("[\u3400-\u9fff]+")


class JoinLines(SphinxTransform):
    """Takes away the line ends between Chinese characters, which a browser would draw as blanks."""

    default_priority = 210

    def apply(self) -> None:
        """Change the text nodes in place, and mark emphasis of Latin words, which takes italics and no dots."""
        if not self.config.language.startswith("zh"):
            return
        for emphasis in self.document.findall(nodes.emphasis):
            if not _HAN.search(emphasis.astext()):
                emphasis["classes"].append("latin")
        for text in list(self.document.findall(nodes.Text)):
            if "\n" not in text or isinstance(text.parent, nodes.literal_block | nodes.math_block | nodes.math):
                continue
            parent = text.parent
            place = parent.index(text)
            before = parent[place - 1].astext()[-1:] if place else ""
            after = parent[place + 1].astext()[:1] if place + 1 < len(parent) else ""
            joined = _BREAK.sub("", before + text + after)
            joined = joined[len(before) : len(joined) - len(after)]
            if joined != text:
                parent.replace(text, nodes.Text(joined))


def pairs(text: str) -> Iterator[str]:
    """Every two neighbouring Chinese characters; a character alone where it has no neighbour."""
    for run in _HAN.findall(text):
        yield from (run[i : i + 2] for i in range(len(run) - 1))
        if len(run) == 1:
            yield run


class ChineseSearch(SearchLanguage):
    """Indexes pairs of characters, so that no dictionary is needed; Latin words as English ones."""

    lang = "zh"
    language_name = "English"  # whose stemmer the page is to use, for the Latin words
    js_stemmer_rawcode = "english-stemmer.js"
    stopwords: frozenset[str] = frozenset()
    js_splitter_code = f"""{JS_WORDS}
function splitQuery(query) {{
  const words = splitWords(query.replace(/[\\u3400-\\u9fff]+/g, " "));
  for (const run of query.match(/[\\u3400-\\u9fff]+/g) || []) {{
    if (run.length === 1) words.push(run);
    for (let i = 0; i + 1 < run.length; i++) words.push(run.slice(i, i + 2));
  }}
  return words;
}}
"""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.stemmer = snowballstemmer.stemmer("english")

    def split(self, input: str) -> list[str]:
        """Pairs of characters, Latin words and numbers."""
        return [*pairs(input), *split_words(_HAN.sub(" ", input))]

    def word_filter(self, word: str) -> bool:
        """Whether a word goes into the index."""
        return bool(_HAN.match(word)) or len(word) > 1

    def stem(self, word: str) -> str:
        """The English stem of a Latin word."""
        return str(self.stemmer.stemWord(word.lower()))


def setup(app: Sphinx) -> None:
    """Register the transform and the search."""
    app.add_transform(JoinLines)
    app.add_search_language(ChineseSearch)
