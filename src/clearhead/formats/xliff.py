"""XLIFF 1.2 and 2.0 to 2.2: units to be translated, and translations filled in.

What counts, by version (XLIFF 1.2 specification, 2008; XLIFF 2.1, 2018):

- **1.2** (namespace of 1.2 or 1.1, or none): each `trans-unit`, however deep in groups, is a slot. `alt-trans`,
  `seg-source` and binary content are left alone. A target is under review if its `state` is `new` or begins with
  `needs-`, unless the unit has `approved="yes"`.
- **2.x**: each `segment` of a unit is a slot, an `ignorable` never. A target is under review where the segment says
  `state="initial"`, or has the `subState` that filling gives it. A target without any state stands, although the
  default is `initial`: many files come without.

`translate="no"` holds for what stands below it, until `translate="yes"`; such slots are closed, and so are those whose
source is empty. White space counts as written under `xml:space="preserve"`; elsewhere a line break and the space
around it are one space.

Filling adds a `<target>` behind `<source>` (and `<seg-source>`), on a line of its own if that has one, or replaces the
content of the target that is there. It is marked `state="needs-review-translation"` (1.2) or, on the segment,
`state="translated" subState="clearhead:needs-review"` (2.x, where a subState needs a state: 2.1, 4.3.1.35). A target of
2.x needs a `trgLang` on the root (4.3.1.37): filling a file without it is refused.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from clearhead.base.errors import DataError
from clearhead.formats.document import Piece, Slot, State
from clearhead.formats.inline import Codes, Inline
from clearhead.formats.lines import check_exists
from clearhead.formats.markup import insertion, new_tag, with_attributes
from clearhead.formats.scanner import XML_SPACE, Element, Record
from clearhead.formats.xml import open_xml, quote, write_entries

__all__ = ["read_xliff", "write_xliff"]

_NAMESPACE = "urn:oasis:names:tc:xliff:document:"
_REVIEW = "clearhead:needs-review"


def read_xliff(path: str | Path, languages: tuple[str, str] | None = None, *, codes: Codes = "tags") -> Iterator[Piece]:
    """An XLIFF file as bytes and slots; `-` is standard input.

    Args:
        languages: source and target language, of which the file must not say otherwise (the part before the first
            hyphen counts); None takes what is there.
        codes: what becomes of inline elements in the texts. With "none" a slot cannot be filled.

    Raises DataError, with file and line, for XML that is broken or dangerous, other versions and other languages.
    """
    check_exists(path)
    return _pieces(path, languages, codes)


def _pieces(path: str | Path, languages: tuple[str, str] | None, codes: Codes) -> Iterator[Piece]:
    with open_xml(path) as document:
        reader = _Reader(document.name, languages, codes)
        for piece in document.records(reader.watch):
            yield piece if isinstance(piece, bytes) else reader.slot(piece)


class _Reader:
    def __init__(self, document: str, languages: tuple[str, str] | None, codes: Codes) -> None:
        self._document, self._languages, self._codes = document, languages, codes
        self._namespace = ""
        self._second = False  # XLIFF 2
        self._has_target_language = True
        self._unit: Element | None = None  # of XLIFF 2, and how many of its segments have been seen
        self._segments = 0

    def watch(self, element: Element) -> bool:
        """Learn version and languages from what stands around the units, and tell which elements are slots."""
        if element.parent is None:
            self._open_root(element)
        elif element.namespace != self._namespace:
            return False
        elif element.name == "file" and not self._second:
            self._check_languages(element, "source-language", "target-language")
        return element.name == ("segment" if self._second else "trans-unit")

    def _open_root(self, root: Element) -> None:
        version = root.namespace.removeprefix(_NAMESPACE) if root.namespace else root.attributes.get("version", "1.2")
        if root.name != "xliff" or not re.fullmatch(r"1\.[0-2]|2\.[0-2]", version):
            raise DataError(
                f"{self._document}, line {root.line}: XLIFF 1.2 or 2.0 to 2.2 is read, but here the root element is "
                f"<{root.name}> of {root.namespace or 'no namespace'}, version {root.attributes.get('version', 'none')}"
            )
        self._namespace, self._second = root.namespace, version.startswith("2")
        if self._second:
            self._has_target_language = "trgLang" in root.attributes
            self._check_languages(root, "srcLang", "trgLang")

    def _check_languages(self, element: Element, *names: str) -> None:
        for name, wanted in zip(names, self._languages or (), strict=False):
            found = element.attributes.get(name)
            if found and _primary(found) != _primary(wanted):
                raise DataError(
                    f"{self._document}, line {element.line}: {name} is {found!r}, but {wanted!r} was asked for; name "
                    f"the languages of the file or choose another (`translate --any-languages` fills it all the same)"
                )

    def slot(self, record: Record) -> Slot | bytes:
        """The slot of a unit or segment; its bytes if it has no source."""
        element = record.element
        source, target = element.child("source"), element.child("target")
        if source is None:
            return record.raw
        preserve = element.inherited(XML_SPACE) == "preserve"
        inline = Inline(record, source, target, preserve=preserve, codes=self._codes)
        where = self._where(element)
        closed = not inline.source.strip() or element.inherited("translate") == "no"
        state: State = "closed" if closed else self._state(element, target, inline)
        fill = partial(self._fill, record, source, target, inline, f"{self._document}, {where}")
        return Slot(where, (inline.source,), (inline.target,), state, record.raw, fill)

    def _where(self, element: Element) -> str:
        """What messages call a unit, or in XLIFF 2 a segment behind the first of one, for all may be on one line."""
        unit = element.parent if self._second and element.parent else element
        name = unit.attributes.get("id")
        where = f"line {element.line}" if name is None else f"unit {name!r} (line {element.line})"
        if not self._second:
            return where
        self._segments = self._segments + 1 if unit is self._unit else 1
        self._unit = unit
        segment = element.attributes.get("id")
        called = str(self._segments) if segment is None else repr(segment)
        return where if self._segments == 1 else f"segment {called} of {where}"

    def _state(self, element: Element, target: Element | None, inline: Inline) -> State:
        if target is None or not inline.target:
            return "empty"
        if self._second:
            marked = element.attributes.get("state") == "initial" or element.attributes.get("subState") == _REVIEW
        else:
            state = target.attributes.get("state", "")
            marked = (state == "new" or state.startswith("needs-")) and element.attributes.get("approved") != "yes"
        return "review" if marked else "translated"

    def _fill(
        self, record: Record, source: Element, target: Element | None, inline: Inline, where: str, texts: Sequence[str]
    ) -> bytes:
        (text,) = texts
        if not self._has_target_language:
            raise DataError(
                f"{where}: the file names no target language, without which XLIFF 2 allows no target; add trgLang to "
                f"its <xliff> tag"
            )
        content = inline.markup(text, where)
        element = record.element
        edits = []
        if self._second:
            marks: dict[str, str] = {}
            tag = with_attributes(record.start_tag(element), {"state": "translated", "subState": _REVIEW})
            edits.append((element.start, element.opened, tag))
        else:
            marks = {"state": "needs-review-translation"}
            if target is not None and "state-qualifier" in target.attributes:
                marks["state-qualifier"] = "mt-suggestion"
            if element.attributes.get("approved") == "yes":
                tag = with_attributes(record.start_tag(element), {"approved": "no"})
                edits.append((element.start, element.opened, tag))
        return record.splice([*edits, _target_edit(record, source, target, marks, content)])


def _primary(language: str) -> str:
    return language.replace("_", "-").split("-")[0].lower()


def _target_edit(
    record: Record, source: Element, target: Element | None, marks: dict[str, str], content: str
) -> tuple[int, int, str]:
    """The one edit that makes `content` the content of the target."""
    if target is not None:
        tag = with_attributes(record.start_tag(target), marks)
        start, end = target.start, target.end
        before = ""
    else:
        last = record.element.child("seg-source") or source
        tag = with_attributes(new_tag(record.start_tag(source), "target"), marks)
        start = end = last.end
        before = insertion(record, last)
    name = tag.removeprefix("<").removesuffix("/>").removesuffix(">").split(maxsplit=1)[0]
    opening = tag.removesuffix("/>").rstrip() + ">" if tag.endswith("/>") else tag
    return start, end, f"{before}{opening}{content}</{name}>"


# ------------------------------------------------------------------------------------------------------------ writing


@contextlib.contextmanager
def write_xliff(path: str | Path, languages: tuple[str, str]) -> Iterator[Callable[[str, str], None]]:
    """A function that writes one pair as a unit of XLIFF 1.2; an empty translation has no target.

    The file appears, whole and compressed by its suffix, when the block ends without an exception; `-` is standard
    output. Raises DataError, naming the entry, for a character that XML cannot hold.
    """
    source, target = (quote(language, str(path)) for language in languages)
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<xliff version="1.2" xmlns="{_NAMESPACE}1.2">\n'
        f"  <file original={quote(Path(path).name, str(path))} source-language={source} target-language={target} "
        'datatype="plaintext">\n    <body>\n'
    )
    with write_entries(path, head, _unit, "    </body>\n  </file>\n</xliff>\n") as write:
        yield write


def _unit(number: int, source: str, target: str) -> str:
    lines = [f'      <trans-unit id="{number}" xml:space="preserve">', f"        <source>{source}</source>"]
    lines += [f"        <target>{target}</target>"] if target else []
    return "\n".join([*lines, "      </trans-unit>\n"])
