"""Inline elements of XLIFF and TMX as short tags in a text, and back.

A text that is translated shows each inline element as a tag: `<g1>…</g1>` for one around translatable text (g, pc, hi,
mrk), `<x2/>` for every other, with all that it holds (the native code of a ph or bpt, the texts of its sub elements, a
mrk that is not to be translated). They are numbered as they appear in the source, and an element of the target has the
number of the source's it stands for: the one of the same name and identity, or else the next of the same name. Where a
text holds such a tag as mere text, its number is left out.
"""

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Literal

from clearhead.base.errors import DataError
from clearhead.formats.scanner import XML_SPACE, Element, Record
from clearhead.formats.xml import escape

__all__ = ["Codes", "Inline"]

Codes = Literal["tags", "none"]
"""What becomes of inline elements: tags, or nothing (only the text that they surround is kept, for training)."""

_PAIRED = {"g", "pc", "hi", "mrk"}
# What tells elements of one name apart, in this order: XLIFF, TMX, segments of XLIFF 1.2, end codes of XLIFF 2.
_IDENTITY = ("id", "x", "mid", "startRef", "i", "rid")
_TAG = re.compile(r"<g([0-9]{1,9})>|</g([0-9]{1,9})>|<x([0-9]{1,9})/>")
_SPACE = re.compile(r"[ \t\r\n]+")
# Elements that are one end of a pair: which end, which kind of pair, and the attributes that name it.
_ENDS = {
    "bx": ("start", "x", ("rid", "id")), "ex": ("end", "x", ("rid", "id")),
    "bpt": ("start", "pt", ("i", "rid", "id")), "ept": ("end", "pt", ("i", "rid", "id")),
    "sc": ("start", "c", ("id",)), "ec": ("end", "c", ("startRef",)),
    "sm": ("start", "m", ("id",)), "em": ("end", "m", ("startRef",)),
}  # fmt: skip
_OPENING, _CLOSING, _SINGLE = range(3)


@dataclass(eq=False, slots=True)
class _Code:
    """One inline element. `pair` names what joins a start code and an end code (bpt and ept, sc and ec, …)."""

    name: str
    identity: str
    paired: bool
    opening: str
    closing: str = ""
    pair: tuple[str, str] | None = None
    number: str = ""


_Part = str | tuple[_Code, int]


@dataclass(slots=True)
class _Text:
    parts: list[_Part] = field(default_factory=list)
    codes: list[_Code] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)  # pieces of one text; joined once, or long texts would take ages

    def add(self, text: str) -> None:
        self.pending.append(text)

    def put(self, code: _Code, role: int) -> None:
        self.join()
        self.parts.append((code, role))

    def join(self) -> None:
        if self.pending:
            self.parts.append("".join(self.pending))
            self.pending.clear()

    def shown(self) -> str:
        return "".join(part if isinstance(part, str) else _tag(*part) for part in self.parts)


def _tag(code: _Code, role: int) -> str:
    return (f"<g{code.number}>", f"</g{code.number}>", f"<x{code.number}/>")[role]


class Inline:
    """The source of an entry and its translation, with their inline elements.

    Attributes:
        source, target: the texts, as the module says; a target that is not there or has only white space is "".
    """

    def __init__(
        self, record: Record, source: Element, target: Element | None, *, preserve: bool, codes: Codes = "tags"
    ) -> None:
        """`preserve` says what holds for white space where neither element has xml:space.

        Where white space is not preserved (XML 1.0, 2.10), a run of it with a line break is the layout of the file: it
        counts as one space, or as nothing at the ends of a text.
        """
        sources = _read(record, source, preserve, codes)
        targets = _Text() if target is None else _read(record, target, preserve, codes)
        literals = [part for text in (sources, targets) for part in text.parts if isinstance(part, str) and "<" in part]
        literal = {match[1] or match[2] or match[3] for part in literals for match in _TAG.finditer(part)}
        _number(sources.codes, targets.codes, literal)
        self.source, self.target = sources.shown(), targets.shown()
        if not self.target.strip():
            self.target = ""  # nothing but white space is no translation
        self._complete = codes == "tags"
        self._codes = {code.number: code for code in sources.codes}
        self._literal = literal

    def markup(self, text: str, where: str) -> str:
        """The content of an element that holds `text`, with the source's inline elements for its tags.

        Raises DataError, naming `where`, when the tags are not those of the source, each once and well nested, or for
        characters that XML forbids, and ValueError where inline elements were left out in reading.
        """
        if not self._complete:
            raise ValueError('a document read with codes="none" is not to be filled: its inline elements would be lost')
        parts, at = [], 0
        left = {_tag(code, role) for code in self._codes.values() for role in _roles(code)}
        open_numbers: list[str] = []
        seen: set[tuple[str, str]] = set()
        for match in _TAG.finditer(text):
            number = match[1] or match[2] or match[3]
            if number not in self._codes and number in self._literal:
                continue
            if match[0] not in left:
                raise DataError(
                    f"{where}: the tag {match[0]} is not in the source, or there is one too many: {text[:80]!r}"
                )
            left.discard(match[0])
            code = self._codes[number]
            self._check_nesting(match, open_numbers, seen, where)
            parts += [escape(text[at : match.start()], where), code.closing if match[2] else code.opening]
            at = match.end()
        if left:
            raise DataError(f"{where}: the translation lacks {' and '.join(sorted(left))}: {text[:80]!r}")
        return "".join([*parts, escape(text[at:], where)])

    def _check_nesting(
        self, match: re.Match[str], open_numbers: list[str], seen: set[tuple[str, str]], where: str
    ) -> None:
        code = self._codes[match[1] or match[2] or match[3]]
        if match[1]:
            open_numbers.append(match[1])
        elif match[2] and (not open_numbers or open_numbers.pop() != match[2]):
            raise DataError(f"{where}: the tag {match[0]} does not close what was opened last: {match.string[:80]!r}")
        elif code.pair is not None:
            kind, name = code.pair
            other = ("start" if kind == "end" else "end", name)
            if kind == "start" and other in seen:
                raise DataError(
                    f"{where}: the tag {match[0]} stands behind the one that ends it: {match.string[:80]!r}"
                )
            seen.add(code.pair)


def _roles(code: _Code) -> tuple[int, ...]:
    return (_OPENING, _CLOSING) if code.paired else (_SINGLE,)


def _number(source: list[_Code], target: list[_Code], literal: set[str]) -> None:
    """Give each code its number: those of the source in order, those of the target by whom they stand for."""
    free = (number for number in map(str, range(1, 1 << 30)) if number not in literal)
    for code in source:
        code.number = next(free)
    same: defaultdict[tuple[str, bool, str], deque[_Code]] = defaultdict(deque)
    alike: defaultdict[tuple[str, bool], deque[_Code]] = defaultdict(deque)
    for code in source:
        same[code.name, code.paired, code.identity].append(code)
    strangers = []
    taken = set()
    for code in target:
        known = same[code.name, code.paired, code.identity]
        if known:
            code.number = known.popleft().number
            taken.add(code.number)
        else:
            strangers.append(code)
    for code in source:
        if code.number not in taken:
            alike[code.name, code.paired].append(code)
    for code in strangers:
        rest = alike[code.name, code.paired]
        code.number = rest.popleft().number if rest else next(free)


# ------------------------------------------------------------------------------------------------------ from elements


def _read(record: Record, element: Element, preserve: bool, codes: Codes) -> _Text:
    text = _Text()
    if all(isinstance(part, str) for part in element.content):
        text.parts.append("".join(map(str, element.content)))
    else:
        _flatten(record, element, text, codes)
        text.join()
    space = element.attributes.get(XML_SPACE)
    if not (preserve if space is None else space == "preserve"):
        _fold(text.parts)
    return text


def _fold(parts: list[_Part]) -> None:
    for index, part in enumerate(parts):
        if isinstance(part, str):
            folded = _SPACE.sub(_folded, part)  # a line feed now stands for a run with a line break, and nothing else
            folded = folded.removeprefix("\n") if index == 0 else folded
            folded = folded.removesuffix("\n") if index == len(parts) - 1 else folded
            parts[index] = folded.replace("\n", " ")


def _folded(match: re.Match[str]) -> str:
    return "\n" if "\n" in match[0] or "\r" in match[0] else match[0]


def _flatten(record: Record, element: Element, text: _Text, codes: Codes) -> None:
    """Add the content of an element. Recursion is as deep as the document is nested, which the scanner bounds."""
    spans = _protected_spans(element)
    index = 0
    while index < len(element.content):
        part = element.content[index]
        last = spans.get(index, index)
        if isinstance(part, str):
            text.add(part)
        elif last > index or part.name not in _PAIRED or part.opened == part.end or _is_protected(part):
            final = element.content[last]
            end = final.end if isinstance(final, Element) else part.end
            _add_single(record, part, element.content[index : last + 1], end, text, codes)
        elif codes == "none":
            _flatten(record, part, text, codes)
        else:
            code = _Code(
                part.name, _identity(part), True, record.start_tag(part), _decoded(record, part.closing, part.end)
            )
            text.codes.append(code)
            text.put(code, _OPENING)
            _flatten(record, part, text, codes)
            text.put(code, _CLOSING)
        index = last + 1


def _add_single(
    record: Record, first: Element, covered: "list[str | Element]", end: int, text: _Text, codes: Codes
) -> None:
    if codes == "none":
        # What must not be translated is text for all that; a native code is not.
        if first.name in ("mrk", "sm", "g", "pc", "hi"):
            for part in covered:
                if isinstance(part, str):
                    text.add(part)
                else:
                    _flatten(record, part, text, codes)
        return
    code = _Code(first.name, _identity(first), False, _decoded(record, first.start, end), pair=_pair(first))
    text.codes.append(code)
    text.put(code, _SINGLE)


def _decoded(record: Record, start: int, end: int) -> str:
    return record.raw[start:end].decode(record.encoding)


def _identity(element: Element) -> str:
    return next((element.attributes[name] for name in _IDENTITY if name in element.attributes), "")


def _is_protected(element: Element) -> bool:
    """Whether a mark says that its text is not to be translated (XLIFF 1.2: mtype, XLIFF 2: translate)."""
    return element.name == "mrk" and (
        element.attributes.get("mtype") == "protected" or element.attributes.get("translate") == "no"
    )


def _protected_spans(element: Element) -> dict[int, int]:
    """For each sm with translate="no" (XLIFF 2) the place of the em that ends it, among the same content."""
    ends = {
        part.attributes.get("startRef"): index
        for index, part in enumerate(element.content)
        if isinstance(part, Element) and part.name == "em"
    }
    return {
        index: ends[part.attributes.get("id")]
        for index, part in enumerate(element.content)
        if isinstance(part, Element) and part.name == "sm" and part.attributes.get("translate") == "no"
        and ends.get(part.attributes.get("id"), -1) > index
    }  # fmt: skip


def _pair(element: Element) -> tuple[str, str] | None:
    """("start" or "end", the name of the pair) for an element that stands for one end of a pair."""
    role = _ENDS.get(element.name)
    if role is None:
        return None
    kind, family, names = role
    reference = next((element.attributes[name] for name in names if name in element.attributes), None)
    return None if reference is None else (kind, f"{family} {reference}")
