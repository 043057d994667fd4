"""What the bytes of a text file say, before anything is made of its lines.

Unlike `formats.lines.read_lines`, which refuses what breaks the line contract, the scan goes on and counts it, so
that one run shows all there is to repair.
"""

import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from clearhead.formats.lines import LONGEST_LINE, open_bytes

__all__ = ["FileFacts", "Sightings", "scan_lines"]

BOM = "\ufeff"
ODD = {
    "\r": "carriage return (inside a line)",
    "\x0b": "vertical tab",
    "\x0c": "form feed",
    "\x1c": "file separator",
    "\x1d": "group separator",
    "\x1e": "record separator",
    "\x85": "next line (U+0085)",
    "\u2028": "line separator (U+2028)",
    "\u2029": "paragraph separator (U+2029)",
    "\x00": "NUL",
    BOM: "byte order mark (inside the text)",
}
KEPT = 5


@dataclass
class Sightings:
    """How many lines show something, and the numbers of the first of them (the first line is 1)."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        """One more line shows it."""
        self.count += 1
        if len(self.lines) < KEPT:
            self.lines.append(line)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"count": self.count, "lines": list(self.lines)}


@dataclass
class FileFacts:
    """Facts of one file. Words are what white space parts; characters are counted without line ends."""

    path: str
    lines: int = 0
    blank: Sightings = field(default_factory=Sightings)
    words: int = 0
    characters: int = 0
    longest_line: int = 0
    longest_characters: int = 0
    byte_order_mark: bool = False
    utf16: bool = False
    carriage_return_ends: int = 0
    final_newline: bool = True
    not_utf8: Sightings = field(default_factory=Sightings)
    odd: dict[str, Sightings] = field(default_factory=dict)
    endless_line: int = 0
    damage: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "path": self.path,
            "lines": self.lines,
            "blank_lines": self.blank.to_dict(),
            "words": self.words,
            "characters": self.characters,
            "longest_line": {"line": self.longest_line, "characters": self.longest_characters},
            "byte_order_mark": self.byte_order_mark,
            "utf16": self.utf16,
            "lines_ending_in_crlf": self.carriage_return_ends,
            "final_newline": self.final_newline,
            "not_utf8": self.not_utf8.to_dict(),
            "odd_characters": {name: seen.to_dict() for name, seen in self.odd.items()},
            "endless_line": self.endless_line,
            "damage": self.damage,
        }


def scan_lines(path: str | Path, facts: FileFacts) -> Iterator[str]:
    """The lines of a file as `read_lines` gives them, with `facts` filled on the way.

    Bytes that are not UTF-8 become U+FFFD. A damaged archive ends the lines and is told in `facts.damage`; so does a
    line of more than `LONGEST_LINE` bytes, told in `facts.endless_line`. Raises DataError for a file that cannot be
    opened.
    """
    with open_bytes(path) as stream:
        try:
            while raw := stream.readline(LONGEST_LINE):
                if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                    facts.endless_line = facts.lines + 1
                    return
                if facts.lines == 0 and raw == BOM.encode():  # a file of nothing but a byte order mark has no line
                    facts.byte_order_mark = True
                    continue
                yield _line(raw, facts)
        except (EOFError, OSError, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
            facts.damage = f"damaged or cut short after line {facts.lines} ({error})"


def _line(raw: bytes, facts: FileFacts) -> str:
    facts.lines += 1
    number = facts.lines
    facts.final_newline = raw.endswith(b"\n")
    body = raw.removesuffix(b"\n")
    if number == 1:
        facts.utf16 = body[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        facts.not_utf8.add(number)
        text = body.decode("utf-8", errors="replace")
    if number == 1 and text.startswith(BOM):
        facts.byte_order_mark = True
        text = text.removeprefix(BOM)
    if text.endswith("\r"):
        facts.carriage_return_ends += 1
        text = text.removesuffix("\r")
    if not text.strip():
        facts.blank.add(number)
    elif not text.isprintable():  # a quick test that lets nearly all lines pass
        for character, name in ODD.items():
            if character in text:
                facts.odd.setdefault(name, Sightings()).add(number)
    facts.words += len(text.split())
    facts.characters += len(text)
    if len(text) > facts.longest_characters:
        facts.longest_line, facts.longest_characters = number, len(text)
    return text
