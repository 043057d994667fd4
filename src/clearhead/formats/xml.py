"""XML from anybody: checked as a whole before it is understood, and never allowed to reach for anything else.

`check_xml` (and `open_xml`, which then gives the document) refuses, with file and line: what is not well formed; a
document type with declarations of its own; entities other than the five of XML; nesting, tags and texts beyond all
measure; and encodings other than UTF-8, UTF-16 with its byte order mark, ISO 8859 and the Windows code pages. A bare
`<!DOCTYPE tmx SYSTEM "tmx14.dtd">` is accepted and never fetched. lxml does the checking (entities, network, DTDs and
huge trees closed); `formats/scanner.py` reads the content with expat and refuses the same once more.
"""

import codecs
import contextlib
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from clearhead.base.errors import DataError, InputError
from clearhead.formats.archives import DAMAGE
from clearhead.formats.lines import display_name, gives_itself_once, is_standard_stream, open_bytes, open_output
from clearhead.formats.scanner import Element, Record, Scanner, scan

__all__ = ["Document", "check_xml", "escape", "open_xml", "quote", "write_entries"]

_HEAD = 1024
_CHUNK = 1 << 16
_DECLARED = re.compile(r"<\?xml\s[^>]*?\bencoding\s*=\s*[\"']([A-Za-z][\w.-]*)[\"']", re.ASCII)
_NAMES = re.compile(
    r"utf[-_]?(8|16)|(us[-_]?)?ascii|iso[-_]?8859[-_]?[0-9]{1,2}|latin[-_]?[0-9]{1,2}|(windows|cp)[-_]?125[0-9]",
    re.IGNORECASE,
)
_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be", b"\xef\xbb\xbf": "utf-8"}
_LONGEST_PROLOG = 1 << 20
_LONGEST_TAG = 1 << 20
_WHOLE_TAG = re.compile(rb"""<[^"'>]*+(?:"[^"]*+"[^"'>]*+|'[^']*+'[^"'>]*+)*+>""")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


@dataclass(frozen=True)
class Document:
    """An XML document that has been checked: its bytes, how messages name it, and its encoding."""

    stream: BinaryIO
    name: str
    encoding: str

    def records(self, watch: Callable[[Element], bool]) -> Iterator[bytes | Record]:
        """The document as `scanner.scan` gives it."""
        with _reading(self.name):
            yield from scan(self.stream, self.name, self.encoding, watch)


def check_xml(path: str | Path) -> None:
    """Raise DataError, with file and line, for XML that is broken or dangerous; `-` is standard input.

    Raises InputError where lxml is not installed.
    """
    with open_xml(path) as document:
        for _ in document.records(lambda _element: False):
            pass


@contextlib.contextmanager
def open_xml(path: str | Path) -> Iterator[Document]:
    """A document, checked as `check_xml` says, from its beginning.

    What can be read only once (standard input, a pipe) is kept in a temporary file between the check and the reading;
    a file is opened twice.
    """
    name = display_name(path)
    with contextlib.ExitStack() as stack, _reading(name):
        if gives_itself_once(path):
            stream = cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile()))
            with _opened(path) as once:
                shutil.copyfileobj(once, stream, _CHUNK)
            stream.seek(0)
            encoding = _check(stream, name)
            stream.seek(0)
        else:
            with _opened(path) as first:
                encoding = _check(first, name)
            stream = stack.enter_context(_opened(path))
        yield Document(stream, name, encoding)


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    stream = open_bytes(path)
    with contextlib.nullcontext() if is_standard_stream(path) else stream:
        yield stream


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise DataError(f"{name}: damaged or cut short ({error}); get the file again") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from None


# ------------------------------------------------------------------------------------------------------- the checks


def _check(stream: BinaryIO, name: str) -> str:
    """Check a whole document; returns the encoding to read its markup and write new text in."""
    head = b""
    while len(head) < _HEAD and (more := stream.read(_HEAD - len(head))):
        head += more
    encoding = _find_encoding(head, name)
    chunks = itertools.chain([head], iter(lambda: stream.read(_CHUNK), b""))
    prolog, doctype = _check_prolog(chunks, name, encoding)
    chunks = itertools.chain(prolog, chunks)
    _check_body(chunks if encoding.startswith("utf-16") else _without_long_tags(chunks, name), name, doctype)
    return encoding


def _find_encoding(head: bytes, name: str) -> str:
    """The encoding by byte order mark and declaration, which must agree.

    Everything else is refused: a decoder that finds markup where others see text is how filters are got round (UTF-7).
    """
    if not head:
        raise DataError(f"{name}, line 1: the file is empty; XML has at least one element")
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        raise _encoding_error(name, "UTF-32")
    marked = next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)
    if marked is None and b"\0" in head[:4]:
        raise _encoding_error(name, "UTF-16 or UTF-32 without a byte order mark")
    match = _DECLARED.match(head.decode(marked or "latin-1", "replace").lstrip("\ufeff"))
    if match is None:
        return marked or "utf-8"
    if not _NAMES.fullmatch(match[1]):
        raise _encoding_error(name, match[1])
    try:
        declared = codecs.lookup(match[1]).name
    except LookupError:
        raise _encoding_error(name, match[1]) from None
    if marked is None and declared != "utf-16":
        return declared
    if marked is None or not marked.startswith(declared):
        raise _encoding_error(name, f"{marked or 'one byte a character'} by its first bytes and {match[1]} by name")
    return marked


def _encoding_error(name: str, found: str) -> DataError:
    return DataError(
        f"{name}, line 1: the encoding {found} is not read; convert the file to UTF-8 (iconv -f … -t UTF-8) and say "
        f'encoding="UTF-8" in its first line'
    )


def _check_prolog(chunks: Iterator[bytes], name: str, encoding: str) -> tuple[list[bytes], bool]:
    """What was read up to the root element, and whether there is a document type; one with a subset is refused.

    lxml would have taken in the declarations of a subset before it could tell that there is one.
    """
    begun = False

    def begin(_element: Element) -> bool:
        nonlocal begun
        begun = True
        return False

    scanner = Scanner(name, encoding, begin)
    read = []
    for chunk in chunks:
        read.append(chunk)
        if sum(map(len, read)) > _LONGEST_PROLOG:
            raise DataError(f"{name}, line 1: no element in the first {_LONGEST_PROLOG >> 20} MiB; is this XML?")
        for _ in scanner.feed(chunk):
            pass
        if begun:
            break
    return read, scanner.doctype


class _Chunks:
    """An iterator of bytes as the file that lxml wants."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def read(self, _size: int = -1) -> bytes:
        return next(self._chunks, b"")


def _without_long_tags(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The same chunks. lxml keeps all attributes of a tag, thirty times their size, until it has the whole of it."""
    lines, tag, line = 0, b"", 1  # what has come of a tag that is not whole yet, and where it began
    for chunk in chunks:
        start = chunk.rfind(b"<")
        if start >= 0:
            tag, line = chunk[start:], lines + chunk.count(b"\n", 0, start) + 1
        elif tag:
            tag += chunk
        if tag[1:2] in (b"!", b"?") or _WHOLE_TAG.match(tag):
            tag = b""
        elif len(tag) > _LONGEST_TAG:
            raise DataError(f"{name}, line {line}: a tag of more than {_LONGEST_TAG >> 20} MiB")
        lines += chunk.count(b"\n")
        yield chunk


def _check_body(chunks: Iterator[bytes], name: str, doctype: bool) -> None:
    try:
        from lxml import etree
    except ImportError:
        raise InputError('XLIFF and TMX need the package lxml: pip install "clearhead[formats]"') from None
    context = etree.iterparse(
        _Chunks(chunks), events=("end",), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False,
        dtd_validation=False, attribute_defaults=False, recover=False, remove_comments=True, remove_pis=True,
    )  # fmt: skip
    try:
        for _, element in context:
            parent = element.getparent()
            # Without a document type an unknown entity is an error of syntax; with one, a node. The siblings before
            # this element are dropped below, so their parent will not see them any more.
            if doctype and any(node.tag is etree.Entity for node in (*element, *element.itersiblings(preceding=True))):
                raise DataError(
                    f"{name}, line {element.sourceline or 1}: an entity that is not declared; write out what it "
                    f"stands for"
                )
            element.clear()
            while element.getprevious() is not None:
                del parent[0]
    except etree.XMLSyntaxError as error:
        entry = next(iter(context.error_log.filter_from_fatals()), None)
        reason, line = (error.msg, error.lineno) if entry is None else (entry.message, entry.line)
        raise DataError(f"{name}, line {max(1, line or 1)}: no well-formed XML ({reason.strip()})") from None


# -------------------------------------------------------------------------------------------------------- new markup


def escape(text: str, where: str) -> str:
    """A text as the content of an element. Raises DataError, naming `where`, for characters that XML forbids."""
    found = _FORBIDDEN.search(text)
    if found:
        raise DataError(
            f"{where}: the text holds the character U+{ord(found[0]):04X}, which XML 1.0 cannot hold: {text[:80]!r}"
        )
    # A carriage return that is not written as a reference would be read back as a line feed.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def quote(text: str, where: str) -> str:
    """A text as the value of an attribute, in double quotes. Raises DataError like `escape`."""
    return '"' + escape(text, where).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;") + '"'


@contextlib.contextmanager
def write_entries(
    path: str | Path, head: str, entry: Callable[[int, str, str], str], foot: str
) -> Iterator[Callable[[str, str], None]]:
    """A function that writes one pair; the file (UTF-8) appears when the block ends without an exception.

    `entry` makes the markup of a pair from its number, counted from 1, and its texts, escaped. Raises DataError, naming
    the entry, for a character that XML forbids.
    """
    name = "standard output" if is_standard_stream(path) else os.fspath(path)
    number = 0
    with open_output(path) as stream:

        def write(source: str, target: str) -> None:
            nonlocal number
            number += 1
            where = f"{name}, entry {number}"
            stream.write(entry(number, escape(source, where), escape(target, where)).encode("utf-8"))

        stream.write(head.encode("utf-8"))
        yield write
        stream.write(foot.encode("utf-8"))
        if is_standard_stream(path):
            stream.flush()
