"""XML as a stream of bytes and records: chosen elements as small trees that know where their bytes are.

What a format does not look at passes through as bytes, and what it changes is spliced into the bytes of a record, so a
document comes out as it went in. expat does the parsing, because it alone tells byte positions. Memory holds one record
and one chunk, whatever the size of the document.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat

from clearhead.base.errors import DataError

__all__ = ["DEEPEST", "XML_LANGUAGE", "XML_SPACE", "Element", "Record", "Scanner", "scan"]

_SEPARATOR = "\n"  # between namespace and name; no namespace can hold it, since expat refuses such a document
_XML = "http://www.w3.org/XML/1998/namespace"
_XINCLUDE = "http://www.w3.org/2001/XInclude"
XML_LANGUAGE = f"{_XML}{_SEPARATOR}lang"
XML_SPACE = f"{_XML}{_SEPARATOR}space"

DEEPEST = 256
"""How deep elements may be nested, as in libxml2."""

_CHUNK = 1 << 16
_LONGEST_TOKEN = 1 << 20  # expat before 2.6 starts anew on an unfinished token with every chunk
_LONGEST_RECORD = 1 << 24
_MOST_PARTS = 100_000  # elements and pieces of text in a record; each takes memory of its own
_UNKNOWN_ENTITY = re.compile(r"&(?!#|(?:amp|lt|gt|quot|apos);)")


@dataclass(slots=True, eq=False)
class Element:
    """An element of a record, or one that a record stands in (which keeps no content).

    Attributes:
        name: its name without prefix.
        namespace: "" for none.
        attributes: those with a namespace under its name, a line feed and their own, such as `XML_LANGUAGE`.
        line: of its start tag, counted from 1.
        parent: the element around a record; None for the root of the document and for elements within a record.
        start, opened, closing, end: where the start tag begins and ends and where the end tag does, in the bytes of
            the record; in `<a/>` the last three are equal.
        content: texts and elements in order; comments and processing instructions are left out.
    """

    name: str
    namespace: str
    attributes: dict[str, str]
    line: int
    parent: "Element | None"
    start: int = 0
    opened: int = 0
    closing: int = 0
    end: int = 0
    content: "list[str | Element]" = field(default_factory=list)

    def children(self, name: str) -> "Iterator[Element]":
        """The elements of this name and its own namespace directly below it."""
        for part in self.content:
            if isinstance(part, Element) and part.name == name and part.namespace == self.namespace:
                yield part

    def child(self, name: str) -> "Element | None":
        """The first of `children`."""
        return next(self.children(name), None)

    def inherited(self, attribute: str) -> str | None:
        """The value of an attribute that holds for what stands below it, from the nearest element that has it."""
        element: Element | None = self
        while element is not None:
            if attribute in element.attributes:
                return element.attributes[attribute]
            element = element.parent
        return None


@dataclass(slots=True, eq=False)
class Record:
    """An element with all that is in it, its bytes, and the encoding to write new text in (without a byte order mark).

    `document` is how messages name the file.
    """

    element: Element
    raw: bytes
    encoding: str
    document: str

    def start_tag(self, element: Element) -> str:
        """The start tag of an element as it is written."""
        return self.raw[element.start : element.opened].decode(self.encoding)

    def splice(self, edits: list[tuple[int, int, str]]) -> bytes:
        """The bytes with each span of `edits` (start, end, new markup) replaced; spans must not overlap.

        Characters that the encoding cannot hold are written as character references.
        """
        parts, at = [], 0
        for start, end, markup in sorted(edits, key=lambda edit: edit[:2]):
            parts += [self.raw[at:start], markup.encode(self.encoding, "xmlcharrefreplace")]
            at = end
        return b"".join([*parts, self.raw[at:]])


def scan(stream: BinaryIO, document: str, encoding: str, watch: Callable[[Element], bool]) -> Iterator[bytes | Record]:
    """A document as bytes and records, in order; joined, with each record's `raw` in its place, they are the document.

    `watch` is told every element that opens outside a record, before its content; it answers whether it is to be one.
    Raises DataError with file and line for what is not well formed, for entities and document types with content of
    their own, and for a record that would not fit memory.
    """
    scanner = Scanner(document, encoding, watch)
    while chunk := stream.read(_CHUNK):
        yield from scanner.feed(chunk)
    yield from scanner.close()


def _codec_name(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return encoding


class Scanner:
    """`scan` for bytes that come by and by. `doctype` tells whether the document names a document type."""

    def __init__(self, document: str, encoding: str, watch: Callable[[Element], bool]) -> None:
        self.doctype = False
        self._document, self._encoding, self._watch = document, encoding, watch
        self._buffer = bytearray()
        self._base = 0  # of the buffer, in the document
        self._fed = 0
        self._at = 0  # where the last event begins
        self._open: list[Element] = []
        self._unended: Element | None = None  # its last tag ends where the next event begins
        self._in_end_tag = False
        self._record: Element | None = None
        self._record_start = 0
        self._parts = 0
        self._done: list[tuple[Element, int]] = []
        self._parser = parser = expat.ParserCreate(None, _SEPARATOR)
        if hasattr(parser, "SetReparseDeferralEnabled"):
            # It makes events late by the length of a token, which is bounded here anyway.
            parser.SetReparseDeferralEnabled(False)
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._document_type
        parser.EntityDeclHandler = self._entity_declared
        parser.ExternalEntityRefHandler = self._external_entity
        parser.SkippedEntityHandler = self._skipped_entity
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.DefaultHandler = self._other

    def feed(self, chunk: bytes) -> Iterator[bytes | Record]:
        """The pieces that are complete with this chunk."""
        self._buffer += chunk
        self._fed += len(chunk)
        self._parse(chunk, last=False)
        if self._fed - self._at > _LONGEST_TOKEN:
            raise self._error(f"a tag or comment of more than {_LONGEST_TOKEN >> 20} MiB")
        yield from self._pieces(self._at)

    def close(self) -> Iterator[bytes | Record]:
        """The last pieces. Raises DataError for a document that is cut short."""
        self._parse(b"", last=True)
        self._next_event(self._fed)
        yield from self._pieces(self._fed)

    def _parse(self, chunk: bytes, last: bool) -> None:
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            reason = expat.errors.messages.get(error.code, str(error))
            raise DataError(f"{self._document}, line {error.lineno}: no well-formed XML ({reason})") from None

    def _pieces(self, known: int) -> Iterator[bytes | Record]:
        """The records that are done, the bytes between them, and those after them up to `known`."""
        for element, start in self._done:
            if start > self._base:
                yield self._take(start)
            yield Record(element, self._take(start + element.end), self._encoding, self._document)
        self._done.clear()
        known = self._record_start if self._record is not None else known
        if known > self._base:
            yield self._take(known)

    def _take(self, end: int) -> bytes:
        size = end - self._base
        with memoryview(self._buffer) as view:
            taken = bytes(view[:size])
        del self._buffer[:size]
        self._base = end
        return taken

    # ---------------------------------------------------------------------------------------------- events of expat

    def _next_event(self, at: int) -> None:
        """Note where an event begins, and with it where the tag before it ends."""
        self._at = at
        element = self._unended
        if element is None:
            return
        self._unended = None
        if not self._in_end_tag:
            element.opened = at - self._record_start
            if self.doctype:
                self._check_attributes(element)
            return
        element.end = at - self._record_start
        if element is self._record:
            self._done.append((element, self._record_start))
            self._record = None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        at = self._parser.CurrentByteIndex
        self._next_event(at)
        if len(self._open) == DEEPEST:
            raise self._error(f"elements nested more than {DEEPEST} deep")
        namespace, _, local = name.rpartition(_SEPARATOR)
        if namespace == _XINCLUDE:
            raise self._error("includes another file (XInclude); put its content in the place")
        line = self._parser.CurrentLineNumber
        if self._record is not None:
            element = Element(local, namespace, attributes, line, None, at - self._record_start)
            self._add(element)
        else:
            element = Element(local, namespace, attributes, line, self._open[-1] if self._open else None)
            self._record_start = at
            if self._watch(element):
                self._record, self._parts = element, 0
        self._open.append(element)
        self._unended, self._in_end_tag = element, False

    def _end(self, _name: str) -> None:
        at = self._parser.CurrentByteIndex
        self._next_event(at)
        element = self._open.pop()
        if self._record is None:
            return
        element.closing = at - self._record_start
        # For <a/> expat reports the end behind the tag, where the next event begins too.
        self._unended, self._in_end_tag = element, True

    def _text(self, text: str) -> None:
        self._next_event(self._parser.CurrentByteIndex)
        if self._record is not None:
            self._add(text)

    def _other(self, _markup: str) -> None:
        self._next_event(self._parser.CurrentByteIndex)

    def _add(self, part: str | Element) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS or self._at - self._record_start > _LONGEST_RECORD:
            raise self._error(
                f"an entry of more than {_LONGEST_RECORD >> 20} MiB or {_MOST_PARTS} parts, which began in line "
                f"{self._record.line if self._record else 0}"
            )
        self._open[-1].content.append(part)

    # --------------------------------------------------------------------------------------------- what is refused

    def _error(self, reason: str) -> DataError:
        return DataError(f"{self._document}, line {self._parser.CurrentLineNumber}: {reason}")

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        self._next_event(self._parser.CurrentByteIndex)
        if encoding is not None and not self._encoding.startswith(_codec_name(encoding)):
            raise self._error(f"declares the encoding {encoding} but was taken for {self._encoding}")

    def _document_type(self, _name: str, _system: str | None, _public: str | None, has_subset: int) -> None:
        self.doctype = True
        if has_subset:
            raise self._error("a document type with declarations of its own, which could do harm; remove the [ … ]")

    def _entity_declared(self, name: str, *_: object) -> None:
        raise self._error(f"declares the entity {name!r}; write out what it stands for")

    def _external_entity(self, *_: object) -> int:
        raise self._error("refers to another file; put its content in the place")

    def _skipped_entity(self, name: str, _is_parameter: bool) -> None:
        raise self._error(f"the entity &{name}; is not declared; write out what it stands for")

    def _check_attributes(self, element: Element) -> None:
        """Find undeclared entities in attributes, which expat leaves out in silence where there is a document type."""
        start = self._record_start + element.start - self._base
        end = self._record_start + element.opened - self._base
        if self._buffer.find(b"&", start, end) < 0:
            return
        if _UNKNOWN_ENTITY.search(self._buffer[start:end].decode(self._encoding)):
            raise self._error("an attribute refers to an entity that is not declared; write out what it stands for")
