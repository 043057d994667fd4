"""TMX 1.4, and 1.1 to 1.3 where the language stands in `lang`: translation memories (TMX 1.4b, LISA 2005).

Each `tu` is a slot of two of its variants, `tuv`, whatever else it holds. The variants are found by language, whatever
`srclang` says: the one that has the very code (upper and lower case alike), or else the first that shares its primary
subtag, so that `en` finds `en-US`. Of several in one language the first stands. A tu without the source language is
closed; one without the target language, or with an empty text in it, is empty. White space counts as written.

Filling adds a `<tuv>` behind that of the source, on a line of its own if that has one, or replaces the text of the one
that is there. `<prop type="x-state">needs-review</prop>` in it marks it for review: TMX has no state of its own.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path

from clearhead.base.errors import DataError
from clearhead.base.log import logger
from clearhead.formats.document import Piece, Slot, State
from clearhead.formats.inline import Codes, Inline
from clearhead.formats.lines import check_exists
from clearhead.formats.markup import insertion, new_tag
from clearhead.formats.scanner import XML_LANGUAGE, Element, Record
from clearhead.formats.xml import open_xml, quote, write_entries

__all__ = ["read_tmx", "write_tmx"]

_REVIEW = '<prop type="x-state">needs-review</prop>'
_MOST_NAMED = 10


def read_tmx(path: str | Path, languages: tuple[str, str], *, codes: Codes = "tags") -> Iterator[Piece]:
    """A TMX file as bytes and slots; `-` is standard input.

    Args:
        languages: source and target language.
        codes: what becomes of inline elements in the texts. With "none" a slot cannot be filled.

    A file without any text in the source language gives a warning that names those it has, and so does one without any
    in the target language where nothing is to be filled in. Raises DataError, with file
    and line, for XML that is broken or dangerous, other files, and a tuv without a language.
    """
    check_exists(path)
    return _pieces(path, languages, codes)


def _pieces(path: str | Path, languages: tuple[str, str], codes: Codes) -> Iterator[Piece]:
    with open_xml(path) as document:
        reader = _Reader(document.name, languages, codes)
        for piece in document.records(reader.watch):
            yield piece if isinstance(piece, bytes) else reader.slot(piece)
        reader.warn()


class _Reader:
    def __init__(self, document: str, languages: tuple[str, str], codes: Codes) -> None:
        self._document, self._languages, self._codes = document, languages, codes
        self._namespace = ""
        self._found = [False, False]  # a text in the source language, and one in the target's
        self._others: set[str] = set()  # languages of entries in which one of the two is missing

    def watch(self, element: Element) -> bool:
        """Check the root, and tell which elements are slots."""
        if element.parent is None:
            if element.name != "tmx":
                raise DataError(
                    f"{self._document}, line {element.line}: not a TMX file: its root element is <{element.name}>"
                )
            self._namespace = element.namespace
        return element.name == "tu" and element.namespace == self._namespace

    def slot(self, record: Record) -> Slot:
        """The slot of a tu."""
        element = record.element
        variants = list(element.children("tuv"))
        source, target = self._pick([(self._language(variant), variant) for variant in variants])
        name = element.attributes.get("tuid")
        where = f"line {element.line}" if name is None else f"entry {name!r} (line {element.line})"
        segment = None if source is None else source.child("seg")
        if source is None or segment is None:
            fill: Callable[[Sequence[str]], bytes] = partial(self._refuse, where)
            return Slot(where, ("",), ("",), "closed", record.raw, fill)
        there = None if target is None else target.child("seg")
        inline = Inline(record, segment, there, preserve=True, codes=self._codes)
        state: State = "translated"
        if not inline.source.strip():
            state = "closed"
        elif target is None or not inline.target:
            state = "empty"
        elif _review_mark(target):
            state = "review"
        fill = partial(self._fill, record, source, target, inline, f"{self._document}, {where}")
        return Slot(where, (inline.source,), (inline.target,), state, record.raw, fill)

    def _language(self, variant: Element) -> str:
        language = variant.attributes.get(XML_LANGUAGE) or variant.attributes.get("lang")
        if not language:
            raise DataError(f"{self._document}, line {variant.line}: a tuv without xml:lang; say which language it is")
        return language.replace("_", "-").lower()

    def _pick(self, variants: list[tuple[str, Element]]) -> tuple[Element | None, Element | None]:
        """The variants of the two languages. Exact matches go first, so that en-US and en-GB are told apart."""
        wanted = [language.replace("_", "-").lower() for language in self._languages]
        picked = [next((variant for code, variant in variants if code == language), None) for language in wanted]
        for index, language in enumerate(wanted):
            if picked[index] is None:
                primary = language.split("-")[0]
                rest = (pair for pair in variants if pair[1] not in picked)
                picked[index] = next((variant for code, variant in rest if code.split("-")[0] == primary), None)
        self._found = [found or variant is not None for found, variant in zip(self._found, picked, strict=True)]
        if None in picked and len(self._others) < _MOST_NAMED:
            self._others.update(code for code, _ in variants)
        return picked[0], picked[1]

    def warn(self) -> None:
        """Say so where no entry has one of the languages: nothing was read, and nobody would see why."""
        wanted = self._languages if self._codes == "none" else self._languages[:1]  # a target may yet be filled in
        missing = [repr(code) for code, found in zip(wanted, self._found, strict=False) if not found]
        if missing and self._others:
            logger.warning(
                "%s: no entry has the language %s; there are %s",
                self._document, " or ".join(missing), ", ".join(sorted(self._others)),
            )  # fmt: skip

    def _refuse(self, where: str, _texts: Sequence[str]) -> bytes:
        raise DataError(f"{self._document}, {where}: no text in {self._languages[0]!r} that could be translated")

    def _fill(
        self, record: Record, source: Element, target: Element | None, inline: Inline, where: str, texts: Sequence[str]
    ) -> bytes:
        (text,) = texts
        content = inline.markup(text, where)
        prefix = record.start_tag(source)[1:].split("tuv")[0]  # of a namespace; most files have none
        review = _REVIEW if not prefix else _REVIEW.replace("</", f"</{prefix}").replace("<prop", f"<{prefix}prop")
        if target is None:
            tag = new_tag(record.start_tag(source), "tuv").removesuffix(">")
            attribute = "xml:lang" if XML_LANGUAGE in source.attributes else "lang"
            markup = (
                f"{insertion(record, source)}{tag} {attribute}={quote(self._languages[1], where)}>{review}"
                f"<{prefix}seg>{content}</{prefix}seg></{prefix}tuv>"
            )
            return record.splice([(source.end, source.end, markup)])
        review = "" if _review_mark(target) else review
        segment = target.child("seg")
        if segment is None:
            tag = record.start_tag(target).removesuffix(">").removesuffix("/").rstrip()
            rest = record.raw[target.opened : target.closing].decode(record.encoding)
            markup = f"{tag}>{rest}{review}<{prefix}seg>{content}</{prefix}seg></{prefix}tuv>"
            return record.splice([(target.start, target.end, markup)])
        opening = record.start_tag(segment).removesuffix(">").removesuffix("/").rstrip()
        return record.splice([(segment.start, segment.end, f"{review}{opening}>{content}</{prefix}seg>")])


def _review_mark(variant: Element) -> bool:
    """Whether a tuv is marked as needing review."""
    return any(
        mark.attributes.get("type") == "x-state" and "".join(map(str, mark.content)).strip() == "needs-review"
        for mark in variant.children("prop")
    )


# ------------------------------------------------------------------------------------------------------------ writing


@contextlib.contextmanager
def write_tmx(path: str | Path, languages: tuple[str, str]) -> Iterator[Callable[[str, str], None]]:
    """A function that writes one pair as a tu of TMX 1.4; an empty translation has no tuv.

    The file appears, whole and compressed by its suffix, when the block ends without an exception; `-` is standard
    output. Raises DataError, naming the entry, for a character that XML cannot hold.
    """
    source, target = (quote(language, str(path)) for language in languages)
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n'
        f'  <header creationtool="clearhead" creationtoolversion="{metadata.version("clearhead")}" segtype="sentence" '
        f'o-tmf="clearhead" adminlang="en" srclang={source} datatype="plaintext"/>\n  <body>\n'
    )
    entry = partial(_entry, source, target)
    with write_entries(path, head, entry, "  </body>\n</tmx>\n") as write:
        yield write


def _entry(source_language: str, target_language: str, number: int, source: str, target: str) -> str:
    lines = [f'    <tu tuid="{number}">', f"      <tuv xml:lang={source_language}><seg>{source}</seg></tuv>"]
    lines += [f"      <tuv xml:lang={target_language}><seg>{target}</seg></tuv>"] if target else []
    return "\n".join([*lines, "    </tu>\n"])
