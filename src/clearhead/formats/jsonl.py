r"""JSON Lines: one object a line, one field for the source and one for its translation; all others stay as they are.

Of a line that is filled in, only the value of the target field and the field "state" change, and every other byte is
kept: numbers are not read and written again, keys keep their order, escapes stay escapes.

What other programs read in different ways is refused (RFC 8259, sections 4, 6 and 8.2): a key that stands twice in an
object, NaN and infinities, a text with half a surrogate pair, a number of thousands of digits. A line is what
`formats/lines.py` says it is. Blank lines may stand at the end of the file only.
"""

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.base.errors import DataError, InputError
from clearhead.formats.document import Piece, Slot, State, slots
from clearhead.formats.lines import BOM, display_name, not_utf8, read_raw_lines, write_lines

__all__ = ["NEEDS_REVIEW", "STATE_FIELD", "read_jsonl", "read_jsonl_document", "write_jsonl"]

STATE_FIELD = "state"
NEEDS_REVIEW = "needs-review"
"""`"state": "needs-review"` marks a translation that somebody is to look at; the word is that of XLIFF 1.2."""

MOST_DIGITS = 4300  # what Python itself takes at most for the text of a whole number

_SPACE = " \t\n\r"  # RFC 8259, section 2: nothing else is white space
_WHITE = re.compile(f"[{_SPACE}]*")


def read_jsonl(path: str | Path, fields: tuple[str, str] = ("source", "target")) -> Iterator[tuple[str, str]]:
    """The pairs of a file, in order, as a stream, those that need review included; a target of null is "".

    Raises DataError naming file and line for a line that is no record or lacks one of the fields.
    """
    document = _document(path, _checked(path, fields), target_needed=True)
    return ((slot.source[0], slot.target[0]) for slot in slots(document))


def read_jsonl_document(
    path: str | Path, fields: tuple[str, str] = ("source", "target"), *, target_needed: bool = False
) -> Iterator[Piece]:
    """Each line as a slot; unless `target_needed`, a line may lack the target field, which goes in after the source.

    The state is "review" if the field "state" says "needs-review". White space alone is no text: without one on either
    side a record is closed.
    Raises InputError for fields that are the same or "state", DataError naming file and line for what is no record.
    """
    return _document(path, _checked(path, fields), target_needed=target_needed)


def _checked(path: str | Path, fields: tuple[str, str]) -> tuple[str, str]:
    if fields[0] == fields[1] or STATE_FIELD in fields:
        raise InputError(
            f"{display_name(path)}: source and target need two fields, neither of them {STATE_FIELD!r}; "
            f"got {fields[0]!r} and {fields[1]!r}"
        )
    return fields


def _document(path: str | Path, fields: tuple[str, str], *, target_needed: bool) -> Iterator[Piece]:
    blank = 0
    for number, line in enumerate(read_raw_lines(path), 1):
        raw = line.removeprefix(BOM) if number == 1 else line
        if len(raw) < len(line):
            yield BOM
        if not raw:  # a file of nothing but a byte order mark has no line
            return
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(path, number, raw, error) from None
        if not text.strip(_SPACE):
            blank = blank or number
            yield raw
            continue
        where = f"{display_name(path)}, line {number}"
        if blank:
            raise DataError(
                f"{display_name(path)}, line {blank}: a blank line is no record; remove it (blank lines may only stand "
                f"at the end, and line {number} follows)"
            )
        try:
            source, target, state = _record(text.rstrip("\r\n"), fields, target_needed=target_needed)
        except RecursionError:
            raise DataError(f"{where}: nested too deeply; this is no record of a source and a target") from None
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: no JSON: {error.msg} at character {error.pos + 1}") from None
        except _Refused as error:
            raise DataError(f"{where}: {error}") from None
        fill = partial(_filled, where, text, fields)
        yield Slot(f"line {number}", (source,), (target,), state, raw, fill)


# ---------------------------------------------------------------------------------------------------------- reading


class _Refused(Exception):  # noqa: N818 (never seen outside)
    """What is wrong with a line, without file and number."""


def _record(text: str, fields: tuple[str, str], *, target_needed: bool) -> tuple[str, str, State]:
    """Source, target and state of the object in a line. Raises _Refused or JSONDecodeError."""
    found = _DECODER.decode(text)
    if not isinstance(found, dict):
        raise _Refused(f'{_kind(found)}, where an object such as {{"source": …, "target": …}} is needed')
    for name in fields if target_needed else fields[:1]:
        if name not in found:
            raise _Refused(f"no field {name!r} among {_listed(found)}; --fields names others")
    source, target = found[fields[0]], found.get(fields[1])
    if not isinstance(source, str):
        raise _Refused(f"the field {fields[0]!r} holds {_kind(source)}, not a text")
    if not isinstance(target, str | None):
        raise _Refused(f"the field {fields[1]!r} holds {_kind(target)}, not a text")
    _check_surrogates(source, f"the field {fields[0]!r}")
    if not target or not target.strip():
        return source, target or "", "empty" if source.strip() else "closed"
    _check_surrogates(target, f"the field {fields[1]!r}")
    return source, target, "review" if found.get(STATE_FIELD) == NEEDS_REVIEW else "translated"


def _no_constant(name: str) -> Any:
    raise _Refused(f"{name} is no JSON")


def _no_huge_number(digits: str) -> int:
    """Numbers are only copied, never used: no time is spent on their value."""
    if len(digits) > MOST_DIGITS:
        raise _Refused(f"a number of {len(digits):,} digits")
    return 0


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in members:
        if key in found:
            raise _Refused(f"the key {key!r} stands twice in one object; which of the two counts cannot be known")
        found[key] = value
    return found


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_no_huge_number, parse_float=_no_huge_number
)


def _check_surrogates(text: str, what: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        found = ord(text[error.start])
        raise _Refused(f"{what} has half a surrogate pair (\\u{found:04x}) as character {error.start + 1}") from None


def _kind(value: object) -> str:
    names: dict[type, str] = {str: "a text", list: "an array", dict: "an object", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _listed(keys: Collection[str]) -> str:
    shown = ", ".join(repr(key[:40]) for key in islice(keys, 8))
    return (shown + ", …" if len(keys) > 8 else shown) or "no fields at all"


# ---------------------------------------------------------------------------------------------------------- writing


class _Member(NamedTuple):
    """One member of the object: its value, and where the end of its key, its start and its end stand in the line."""

    key_end: int
    start: int
    end: int
    value: Any


def _members(text: str) -> dict[str, _Member]:
    """The members of the object in a line, with their places; the line has been read before and is sound."""
    members: dict[str, _Member] = {}
    place = _skip(text, text.index("{") + 1)
    while text[place] != "}":
        key, key_end = _DECODER.raw_decode(text, place)
        start = _skip(text, _skip(text, key_end) + 1)  # past the colon
        value, end = _DECODER.raw_decode(text, start)
        members[key] = _Member(key_end, start, end, value)
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)
    return members


def _skip(text: str, place: int) -> int:
    """The place of the next character that is no white space."""
    found = _WHITE.match(text, place)
    return found.end() if found else place


def _filled(where: str, text: str, fields: tuple[str, str], texts: Sequence[str]) -> bytes:
    """The line with the one text as its target and the mark that it needs review."""
    (translation,) = texts
    try:
        _check_surrogates(translation, "the translation")
    except _Refused as error:
        raise DataError(f"{where}: {error}") from None
    members = _members(text)
    source, target, state = members[fields[0]], members.get(fields[1]), members.get(STATE_FIELD)
    if state is not None and not isinstance(state.value, str | None):
        raise DataError(
            f"{where}: the field {STATE_FIELD!r} holds {_kind(state.value)}, so that it cannot say {NEEDS_REVIEW!r}; "
            f"rename the field"
        )
    escape = text.isascii() and "\\u" in text  # a file that escapes all but ASCII goes on doing so
    colon = text[source.key_end : source.start]
    comma = ", " if colon[-1:] == " " else ","
    end = target.end if target else source.end
    splices = []
    for key, member, value in ((fields[1], target, translation), (STATE_FIELD, state, NEEDS_REVIEW)):
        written = json.dumps(value, ensure_ascii=escape)
        if member is not None:
            splices.append((member.start, member.end, written))
        else:
            splices.append((end, end, f"{comma}{json.dumps(key, ensure_ascii=escape)}{colon}{written}"))
    done, place = [], 0
    for start, stop, new in sorted(splices, key=lambda splice: splice[:2]):  # stable: the target comes before the state
        done += [text[place:start], new]
        place = stop
    return "".join([*done, text[place:]]).encode("utf-8")


@contextlib.contextmanager
def write_jsonl(
    path: str | Path, fields: tuple[str, str] = ("source", "target")
) -> Iterator[Callable[[str, str], None]]:
    """A function that writes one pair as one object; the file appears, whole, when the block ends.

    Any text can be held but one with a lone surrogate: DataError names the line.
    """
    source_field, target_field = _checked(path, fields)
    with write_lines(path) as write_line:

        def write(source: str, target: str) -> None:
            write_line(json.dumps({source_field: source, target_field: target}, ensure_ascii=False))

        yield write
