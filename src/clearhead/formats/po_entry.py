"""One entry of a gettext PO file, whole, and how a translation is put into it with nothing else changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.base.errors import DataError
from clearhead.formats.po_syntax import WIDTH, columns, quoted, wrapped

__all__ = ["Entry"]

_SPACE = b" \t\r\f\v"
_INDENT = re.compile(rb"[ \t]*+")
# A line break inside a string with text after it; a backslash that is itself escaped does not count.
_INNER_BREAK = re.compile(r'(?<!\\)(?:\\\\)*+\\n(?!")')


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry that can be filled.

    Attributes:
        place: how messages name it: file and line.
        raw: its bytes, comments included.
        spans: where each msgstr stands in `raw`, from the start of its first line to the end of its last.
        msgid: its text, whose line breaks at the ends the translations must have too (`msgfmt -c` refuses them else).
        plural: whether it has a msgid_plural.
        target: the translations that are there, "" for those that are not.
        fuzzy: whether it is flagged so already.
        no_wrap: whether it is flagged so.
        codec: Python's name for the charset of the file.
    """

    place: str
    raw: bytes
    spans: tuple[tuple[int, int], ...]
    msgid: str
    plural: bool
    target: tuple[str, ...]
    fuzzy: bool
    no_wrap: bool
    codec: str

    def fill(self, texts: Sequence[str]) -> bytes:
        """The entry with these texts as its translations, flagged fuzzy.

        A text that is there already keeps its lines as they are. Raises DataError for a character that the charset
        of the file cannot hold.
        """
        if len(texts) != len(self.target):
            raise ValueError(f"{self.place}: {len(texts)} texts for {len(self.target)} translations")
        head = self.raw[: self.spans[0][0]]
        end = b"\r\n" if b"\r\n" in self.raw else b"\n"
        wrap, split = self._style(head)
        body = bytearray()
        at = len(head)
        for number, text in enumerate(texts):
            start, stop = self.spans[number] if number < len(self.spans) else (at, at)
            body += self.raw[at:start]
            at = stop
            if body and not body.endswith(b"\n"):
                body += end
            if text == self.target[number] and stop > start:
                body += self.raw[start:stop]
                continue
            keyword = f"msgstr[{number}]" if self.plural else "msgstr"
            indent = self._indent(number)
            for line in quoted(keyword, self._with_breaks(text), wrap=wrap, split=split):
                body += indent + self._encoded(line) + end
        if not self.raw.endswith(b"\n"):
            body = body.removesuffix(end)
        return self._flagged(head, end) + bytes(body)

    def _with_breaks(self, text: str) -> str:
        """The text, beginning and ending with a line break just where the msgid does."""
        if not text.strip("\n"):
            return text
        for begins in (True, False):
            wanted = self.msgid.startswith("\n") if begins else self.msgid.endswith("\n")
            found = text.startswith("\n") if begins else text.endswith("\n")
            if found and not wanted:
                text = text.lstrip("\n") if begins else text.rstrip("\n")
            elif wanted and not found:
                text = "\n" + text if begins else text + "\n"
        return text

    def _encoded(self, line: str) -> bytes:
        # Some codecs of Japanese write two characters as one byte (a yen sign becomes a backslash): hence the way back.
        try:
            data = line.encode(self.codec)
            if "\0" not in line and data.decode(self.codec) == line:
                return data
        except UnicodeError:
            pass
        char = next(char for char in line if char == "\0" or not _holds(self.codec, char))
        if char == "\0":
            raise DataError(f"{self.place}: the translation holds the character U+0000, which gettext cannot hold")
        raise DataError(
            f"{self.place}: the charset {self.codec} of this file cannot hold {char!r} (U+{ord(char):04X}); "
            f"convert the file to UTF-8 first (msgconv -t UTF-8)"
        )

    def _indent(self, number: int) -> bytes:
        match = _INDENT.match(self.raw, self.spans[min(number, len(self.spans) - 1)][0])
        return match[0] if match else b""

    def _style(self, head: bytes) -> tuple[bool, bool]:
        """Whether to wrap, and whether to end a line after each line break: as the msgid is written, where it shows."""
        wrap, split = not self.no_wrap, True
        for line in head.decode(self.codec).split("\n"):
            body = line.strip(" \t\r\f\v")
            if not body or body.startswith("#"):
                continue
            if wrap and columns(body) > WIDTH:
                wrap = len(wrapped(body[body.find('"') :], WIDTH)) == 1  # what cannot be wrapped says nothing
            split = split and _INNER_BREAK.search(body) is None
        return wrap, split

    def _flagged(self, head: bytes, end: bytes) -> bytes:
        """The lines before the msgstr with the flag fuzzy: first of the flags, or on a line of its own.

        That line stands where msgcat puts it: after the references, before the previous msgid and the keywords.
        """
        if self.fuzzy:
            return head
        place, at = None, 0
        for line in head.split(b"\n"):
            body = line.lstrip(_SPACE)
            if body.startswith(b"#,"):
                start = at + len(line) - len(body) + 2
                flags = body[2:].strip(_SPACE)
                gap = b"," if flags and body[2:3] in (b" ", b"\t") else b", " if flags else b""
                return head[:start] + b" fuzzy" + gap + head[start:]
            if body and place is None and (not body.startswith(b"#") or body.startswith((b"#|", b"#="))):
                place = at
            if body and not body.startswith(b"#"):
                break
            at += len(line) + 1
        assert place is not None  # a head has a msgid
        return head[:place] + self._indent(0) + b"#, fuzzy" + end + head[place:]


def _holds(codec: str, char: str) -> bool:
    try:
        return char.encode(codec).decode(codec) == char
    except UnicodeError:
        return False
