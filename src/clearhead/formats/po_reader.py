"""The reader behind `po.read_po`: lines in, pieces out, one entry held at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from clearhead.base.errors import DataError
from clearhead.formats.document import Piece, Slot, State
from clearhead.formats.lines import BOM
from clearhead.formats.po_entry import Entry
from clearhead.formats.po_syntax import Malformed, header_codec, parse_line, plural_forms

__all__ = ["LARGEST_ENTRY", "Reader"]

LARGEST_ENTRY = 8 << 20
"""The most bytes that one entry may have with its comments."""

_SPACE = " \t\r\n\f\v"
_BYTE_SPACE = b" \t\r\n\f\v"
_ORDER = (
    "an entry is msgctxt (if it has one), msgid, then msgstr; or msgctxt, msgid, msgid_plural, msgstr[0], msgstr[1], …"
)


@dataclass(slots=True)
class _Draft:
    """An entry as it is read. `keyword` is the latest, "" before the first."""

    raw: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)  # blank lines that may turn out to stand after the entry
    texts: dict[str, list[str]] = field(default_factory=dict)
    forms: list[list[str]] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)  # where the next string goes
    keyword: str = ""
    start: int = 0  # the number of its first line
    line: int = 0  # and of its msgid
    fuzzy: bool = False
    no_wrap: bool = False
    obsolete: bool = False
    whole: bool = False  # whether the next comment or msgid begins another entry
    undecoded: DataError | None = None  # bytes that are not UTF-8, before a header has named a charset

    def text(self, keyword: str) -> str | None:
        """What is between the quotes after a keyword; None if it is not there."""
        return "".join(self.texts[keyword]) if keyword in self.texts else None


class Reader:
    """Makes pieces of the lines of one file, which is called `name` in messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0  # of the line
        self._codec = "utf-8"
        self._headed = False  # whether a header has been seen
        self._marked = False  # whether the file begins with a byte order mark
        self._first_text = 0  # the first line before the header that is more than ASCII
        self._plurals: int | None = None
        self._draft = _Draft()

    def pieces(self, lines: Iterable[bytes]) -> Iterator[Piece]:
        """The pieces, as `po.read_po` has them; each line with its end."""
        for line in lines:
            self._number += 1
            raw = line
            if self._number == 1 and line.startswith(BOM):
                yield BOM
                self._marked, raw = True, line.removeprefix(BOM)
            if self._draft.whole and _begins_entry(raw, after_domain=self._draft.keyword == "domain"):
                yield from self._finish()  # before the line is decoded: this may be the header that says how
            body = self._decoded(raw).strip(_SPACE)
            draft = self._draft
            if not draft.raw:
                draft.start = self._number
            if len(draft.raw) + len(draft.tail) + len(raw) > LARGEST_ENTRY:
                raise self._error(f"an entry of more than {LARGEST_ENTRY >> 20} MiB; is this a PO file?")
            if not body:
                if draft.whole:
                    draft.tail += raw
                elif draft.raw:
                    draft.raw += raw
                elif raw:
                    yield raw
                continue
            rest = body[2:].strip(_SPACE) if body.startswith("#~") else ""
            if body[0] == "#" and (not rest or rest[0] in "|#"):
                self._comment(body, raw)
                continue
            try:
                statement = parse_line(rest or body, self._codec)
            except Malformed as error:
                raise self._error(str(error)) from None
            self._statement(*statement, raw, obsolete=bool(rest))
        yield from self._finish()

    def _error(self, message: str, line: int | None = None) -> DataError:
        return DataError(f"{self._name}, line {line or self._number}: {message}")

    def _decoded(self, raw: bytes) -> str:
        try:
            text = raw.decode(self._codec)
        except UnicodeDecodeError as problem:
            found = f"byte 0x{raw[problem.start]:02x} at position {problem.start + 1} is not {self._codec}"
            if self._number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise self._error("the file is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)") from None
            advice = "correct the charset in the header" if self._headed else "name the charset in a header at the top"
            error = self._error(f"{found}; {advice} or convert the file to UTF-8 (msgconv -t UTF-8)")
            if self._headed:
                raise error from None
            # It may be the header itself, which says what its bytes mean.
            self._draft.undecoded = self._draft.undecoded or error
            return raw.decode("utf-8", "surrogateescape")
        if not self._headed and not self._first_text and not text.isascii():
            self._first_text = self._number
        return text

    def _comment(self, body: str, raw: bytes) -> None:
        draft = self._draft
        draft.raw += raw
        if body[1:2] in (",", "="):
            flags = body[2:].replace(",", " ").split()
            draft.fuzzy = draft.fuzzy or "fuzzy" in flags
            draft.no_wrap = draft.no_wrap or "no-wrap" in flags

    def _statement(
        self, keyword: str | None, index: int | None, text: str | None, raw: bytes, *, obsolete: bool
    ) -> None:
        draft = self._draft
        if draft.keyword and obsolete != draft.obsolete:
            raise self._error('an entry with "#~" before some of its lines only; put it before all of them or none')
        if keyword is None:
            if not draft.keyword:
                raise self._error("a string that no keyword stands before; put it after its msgid or msgstr")
        else:
            self._check_order(keyword, index)
            draft.strings = []
            draft.keyword, draft.obsolete, draft.whole = keyword, obsolete, keyword in ("msgstr", "domain")
            if keyword == "msgstr":
                draft.forms.append(draft.strings)
            else:
                draft.texts[keyword] = draft.strings
            if keyword == "msgid":
                draft.line = self._number
        if text is not None:
            draft.strings.append(text)
        if draft.tail:
            draft.raw += draft.tail
            draft.tail.clear()
        start = len(draft.raw)
        draft.raw += raw
        if keyword == "msgstr":
            draft.spans.append((start, len(draft.raw)))
        elif draft.spans:
            draft.spans[-1] = (draft.spans[-1][0], len(draft.raw))

    def _check_order(self, keyword: str, index: int | None) -> None:
        draft = self._draft
        before, forms = draft.keyword, len(draft.forms)
        if before and not draft.strings:
            raise self._error(f'{before} without a string; write {before} "" if it is empty')
        plural = "msgid_plural" in draft.texts
        if keyword == "msgstr":
            right = (index == forms and before in ("msgid_plural", "msgstr")) if plural else before == "msgid"
            right = right and (index is not None) == plural
        elif keyword == "msgid":
            right = before in ("", "msgctxt")
        else:
            right = before == ("msgid" if keyword == "msgid_plural" else "")
        if right:
            return
        found = keyword if index is None else f"{keyword}[{index}]"
        after = f"msgstr[{forms - 1}]" if plural and forms else before
        where = f"after {after}" if after else "at the start of an entry"
        raise self._error(f"{found} cannot stand {where}; {_ORDER}")

    def _finish(self) -> Iterator[Piece]:
        """The entry that is whole, or the comments at the end of the file."""
        draft, self._draft = self._draft, _Draft()
        if draft.keyword and not draft.strings:
            raise self._error(f'{draft.keyword} without a string; write {draft.keyword} "" if it is empty')
        if draft.spans:
            yield self._slot(draft)
        else:
            if draft.keyword not in ("", "domain"):
                raise self._error(f"the file ends in an entry without a msgstr; {_ORDER}")
            if draft.undecoded is not None:
                raise draft.undecoded
            if draft.raw:
                yield bytes(draft.raw)
        if draft.tail:
            yield bytes(draft.tail)

    def _slot(self, draft: _Draft) -> Slot:
        msgid, several = draft.text("msgid") or "", draft.text("msgid_plural")
        raw = bytes(draft.raw)
        target = tuple("".join(form) for form in draft.forms)
        header = not (msgid or draft.obsolete or "msgctxt" in draft.texts or several is not None)
        if header:
            target = (self._header(target[0], draft),)
        elif draft.undecoded is not None:
            raise draft.undecoded
        source: tuple[str, ...] = (msgid,)
        if several is not None:
            count = len(target) if draft.obsolete else max(len(target), self._plurals or 0)
            target += ("",) * (count - len(target))
            source = (msgid, *(several,) * (count - 1)) if count > 1 else (several,)
        closed = header or draft.obsolete
        state: State = "closed" if closed else _state(target, draft.fuzzy)
        where = f"line {draft.line}"
        entry = Entry(
            f"{self._name}, {where}", raw, tuple(draft.spans), msgid, several is not None, target, draft.fuzzy,
            draft.no_wrap, self._codec,
        )  # fmt: skip
        return Slot(where, source, target, state, raw, _refuse if closed else entry.fill)

    def _header(self, text: str, draft: _Draft) -> str:
        """The text of a header in the charset that it names, which counts from here on."""
        try:
            codec, self._plurals = header_codec(text), plural_forms(text)
        except Malformed as error:
            raise self._error(str(error), draft.line) from None
        if self._marked and codec != "utf-8":
            raise self._error(
                f"the header names {codec}, but the file begins with the mark of UTF-8; name UTF-8", draft.line
            )
        if 0 < self._first_text < draft.start and codec != "utf-8":
            raise self._error(
                f"the header names {codec} after line {self._first_text} has been read as UTF-8; move it to the top",
                draft.line,
            )
        for number, line in enumerate(draft.raw.split(b"\n"), draft.start):
            if not _decodes(line, codec):
                raise self._error(f"bytes that are not {codec}, which the header names; correct the header", number)
        try:
            text = text.encode(self._codec, "surrogateescape").decode(codec)
        except UnicodeError:
            raise self._error(
                f"the header does not hold text in the charset {codec} that it names", draft.line
            ) from None
        self._codec, self._headed = codec, True
        return text


def _begins_entry(raw: bytes, *, after_domain: bool) -> bool:
    """Whether a line cannot belong to the entry before it, whose translation has begun."""
    start = raw.lstrip(_BYTE_SPACE)
    if start.startswith(b"#"):
        if not start.startswith(b"#~"):
            return True
        start = start[2:].lstrip(_BYTE_SPACE)
        if not start or start[:1] in b"|#":
            return True
    if after_domain:
        return not start.startswith(b'"') and start != b""
    return start.startswith((b"msgid", b"msgctxt", b"domain"))


def _decodes(raw: bytes | bytearray, codec: str) -> bool:
    try:
        raw.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def _state(target: Sequence[str], fuzzy: bool) -> State:
    filled = sum(1 for text in target if text)
    if not filled:
        return "empty"
    return "review" if fuzzy or filled < len(target) else "translated"


def _refuse(texts: Sequence[str]) -> bytes:
    raise ValueError("a header or an obsolete entry is not to be filled")
