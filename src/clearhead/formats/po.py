r"""gettext PO files, read as a stream that loses nothing, and written.

The format is GNU gettext's (its manual, "The Format of PO Files"). What msgfmt refuses is refused here, with these
exceptions, which are harmless: a byte order mark, comments between the lines of an entry, and entries that stand twice.
The charset is the one that the header names. Before a header, and without one, it is UTF-8.

An entry is everything from its first comment to the last line of its translation; blank lines between entries are
bytes of their own. One entry is held at a time, of at most `LARGEST_ENTRY` bytes.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

from clearhead.base.errors import DataError
from clearhead.formats.document import Piece
from clearhead.formats.lines import display_name, is_standard_stream, open_output, read_raw_lines
from clearhead.formats.po_reader import LARGEST_ENTRY, Reader
from clearhead.formats.po_syntax import quoted

__all__ = ["LARGEST_ENTRY", "read_po", "write_po"]


def read_po(path: str | Path) -> Iterator[Piece]:
    """The bytes and entries of a PO file (or POT template), in order; see `formats.document` for the laws.

    A slot has one source, the msgid; an entry with a msgid_plural has as many as it needs translations, which is the
    nplurals of the header, or, without one, the number of its msgstr[]. The first form is translated from the msgid
    and every other from the msgid_plural, because in nearly all languages form 0 is the one that is used for one
    thing, and all others count several. Where there is a single form (Chinese, Japanese) it stands for every number,
    so it is translated from the msgid_plural, whose text has the number in it ("%d files", not "one file").

    States: "closed" for headers and obsolete entries; "empty" without any translation, fuzzy or not; "review" for one
    that is flagged fuzzy, or has some of its plural forms only; "translated" otherwise.

    Raises DataError with file and line for whatever is no PO file, for an unknown charset, for bytes that are not of
    the charset, and for an entry over `LARGEST_ENTRY`.
    """
    return Reader(display_name(path)).pieces(read_raw_lines(path))


@contextlib.contextmanager
def write_po(path: str | Path, languages: tuple[str, str]) -> Iterator[Callable[[str, str], None]]:
    """A function that writes one source with its translation; the file appears, whole, when the block ends without
    an exception. It is UTF-8, compressed by its suffix; "-" is standard output.

    Args:
        path: the file.
        languages: the codes of source and target; the header names the target's.

    A PO file may hold a source once, and the empty one is its header. A source that comes again (or is empty) gets a
    msgctxt, "2", "3" and so on; whoever asks for it without a context gets the first. Eight bytes of each source are
    kept for that. Texts are written as they are: `msgfmt -c` refuses a pair of which only one ends in a line break.

    Raises DataError for a text with U+0000 or a lone surrogate.
    """
    name = "standard output" if is_standard_stream(path) else str(path)
    counts = _Counts()
    counts.add("")
    number = 0

    def write(source: str, target: str) -> None:
        nonlocal number
        number += 1
        count = counts.add(source)
        lines = quoted("msgctxt", str(count)) if count > 1 else []
        lines += quoted("msgid", source)
        lines += quoted("msgstr", target)
        text = "\n" + "\n".join(lines) + "\n"
        if "\0" in text:
            raise DataError(f"{name}, entry {number}: the text holds the character U+0000, which gettext cannot hold")
        try:
            stream.write(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise DataError(
                f"{name}, entry {number}: the text holds a lone surrogate (U+{code:04X}), which UTF-8 cannot hold"
            ) from None

    header = (
        f"Language: {languages[1]}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n"
        f"Content-Transfer-Encoding: 8bit\n"
    )
    with open_output(path) as stream:
        stream.write("\n".join(['msgid ""', *quoted("msgstr", header)]).encode() + b"\n")
        yield write


class _Counts:
    """How often each text has been given, known by its hash: 16 bytes a text at most, but for those given twice."""

    def __init__(self) -> None:
        self._table = array("Q", bytes(8 << 10))  # open addressing; 0 is an empty place
        self._used = 0
        self._again: dict[int, int] = {}

    def add(self, text: str) -> int:
        """Count a text; 1 for the first time."""
        data = text.encode("utf-8", "surrogatepass")
        key = int.from_bytes(blake2b(data, digest_size=8).digest(), "little") or 1
        if key in self._again:
            self._again[key] += 1
            return self._again[key]
        if self._insert(key):
            return 1
        self._again[key] = 2
        return 2

    def _insert(self, key: int) -> bool:
        """Put a key into the table; False if it is there."""
        table, last = self._table, len(self._table) - 1
        place = key & last
        while table[place]:
            if table[place] == key:
                return False
            place = (place + 1) & last
        table[place] = key
        self._used += 1
        if 4 * self._used > 3 * len(table):
            self._table, self._used = array("Q", bytes(16 * len(table))), 0
            for old in table:
                if old:
                    self._insert(old)
        return True
