r"""What gettext PO files are written in: keywords, quoted strings with their escapes, line breaks and charsets.

The rules are those of msgcat and msgfmt (GNU gettext manual, "The Format of PO Files"). Nothing here knows of entries.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from functools import lru_cache

__all__ = ["WIDTH", "Malformed", "columns", "escape", "header_codec", "parse_line", "plural_forms", "quoted", "wrapped"]

WIDTH = 79
"""Columns that msgcat gives a line, the keyword and both quotes included."""

_MOST_PLURALS = 16  # no language has more than six; a file that claims millions must not cost their memory

# White space between tokens. Not str.strip's own set, which has U+0085 and others that are text.
_SPACE = " \t\r\n\f\v"
_KEYWORD = re.compile(
    r"(msgid_plural|msgid|msgstr|msgctxt|domain)(?![\w-])[ \t\r\f\v]*+(?:\[[ \t]*+([0-9]{1,9})[ \t]*+\][ \t\r\f\v]*+)?"
)
_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t\r\f\v]*+')
_ESCAPE = re.compile(r'\\([abfnrtv"\\])|((?:\\(?:[0-7]{1,3}|x[0-9A-Fa-f]++))++)|\\(.?)')
_NUMBER = re.compile(r"\\(?:x([0-9A-Fa-f]+)|([0-7]+))")
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", '"': '"', "\\": "\\"}
_ESCAPED = str.maketrans({char: "\\" + name for name, char in _NAMED.items()})


class Malformed(ValueError):
    """What is wrong with a line and what to do, without the place, which only the reader knows."""


# --------------------------------------------------------------------------------------------------------- reading


def parse_line(body: str, codec: str) -> tuple[str | None, int | None, str | None]:
    r"""A line's keyword, the number of its form, and its text; each None where there is none.

    `codec` gives a meaning to escaped bytes (`\303\251`). Raises Malformed.

    >>> parse_line(r'msgstr[1] "two\tlines" "\n"', "utf-8")
    ('msgstr', 1, 'two\tlines\n')
    """
    keyword = index = None
    at = 0
    if not body.startswith('"'):
        match = _KEYWORD.match(body)
        if match is None:
            word = body.replace("\t", " ").partition(" ")[0][:40]  # what else is white to Python is no space here
            raise Malformed(
                f"{word!r} is no keyword of PO files; write msgctxt, msgid, msgid_plural, msgstr or a string in "
                f'double quotes, and "#" before a comment'
            )
        keyword, at = match[1], match.end()
        if match[2] is not None:
            if keyword != "msgstr":
                raise Malformed(f"only msgstr takes a number in brackets; write {keyword} without it")
            index = int(match[2])
        if at == len(body):
            return keyword, index, None
    # The usual line by two searches; the other by a pattern.
    if body.find('"', at + 1) == len(body) - 1 > at and body[at] == '"' and "\\" not in body:
        return keyword, index, body[at + 1 : -1]
    return keyword, index, _strings(body, at, codec)


def _strings(body: str, at: int, codec: str) -> str:
    parts = []
    while at < len(body):
        match = _STRING.match(body, at)
        if match is None:
            if body[at] == '"':
                raise Malformed('the string has no closing quote; add the " at its end (and write \\" for one inside)')
            raise Malformed(
                f"{body[at : at + 30]!r} stands outside the quotes; put each string in double quotes, each keyword and "
                f'comment on a line of its own, and write \\" for a quote inside a string'
            )
        parts.append(_unescaped(match[1], codec) if "\\" in match[1] else match[1])
        at = match.end()
    return "".join(parts)


def _unescaped(text: str, codec: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is not None:
            return _NAMED[match[1]]
        if match[2] is None:
            raise Malformed(f"\\{match[3]} is no escape of PO files; write \\\\ for a backslash")
        values = [int(number[1], 16) if number[1] else int(number[2], 8) for number in _NUMBER.finditer(match[2])]
        if max(values) > 255:
            raise Malformed(f"{match[2][:20]} is more than one byte; write the character itself")
        try:
            return bytes(values).decode(codec)
        except UnicodeDecodeError:
            raise Malformed(f"{match[2][:40]} is no character of {codec}; write the character itself") from None

    return _ESCAPE.sub(one, text)


# --------------------------------------------------------------------------------------------------------- writing


def escape(text: str) -> str:
    r"""A text as it stands between quotes. Other control characters stay, as msgcat has it.

    >>> print(escape('say "a\\b"\n'))
    say \"a\\b\"\n
    """
    return text.translate(_ESCAPED)


def quoted(keyword: str, text: str, *, wrap: bool = True, split: bool = True) -> list[str]:
    r"""The lines, without their ends, that give `keyword` this text, as msgcat writes them.

    Args:
        keyword: "msgstr", "msgstr[1]", …
        text: the text, unescaped.
        wrap: whether lines end at `WIDTH`.
        split: whether a line ends after each line break of the text.

    >>> quoted("msgstr", "one\ntwo")
    ['msgstr ""', '"one\\n"', '"two"']
    """
    segments = [escape(part) for part in _after_breaks(text)] if split else [escape(text)]
    if len(segments) == 1:
        rows = wrapped(segments[0], WIDTH - len(keyword) - 3) if wrap else segments
        if len(rows) == 1:
            return [f'{keyword} "{segments[0]}"']
    rows = [row for part in segments for row in (wrapped(part, WIDTH - 2) if wrap else [part])]
    return [f'{keyword} ""', *(f'"{row}"' for row in rows)]


def _after_breaks(text: str) -> list[str]:
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] or len(parts) == 1 else [])


# Where a line may end (Unicode Annex 14, what of it matters here): after spaces, after a hyphen within a word, after a
# slash, before and after the characters of Chinese, Japanese and Korean, but not before closing or after opening marks.
_WIDE = (
    "\u2e80-\u303e\u3041-\u4dbf\u4e00-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003fffd"
)
_CLOSING = (
    "\u3001\u3002\uff0c\uff0e\uff1a\uff1b\uff01\uff1f\uff09\uff3d\uff5d\u3009\u300b\u300d\u300f\u3011\u3015\u2019\u201d"
    "\u2026\u30fb\u30fc\u3005\u3041\u3043\u3045\u3047\u3049\u3063\u3083\u3085\u3087)\\]}.,:;!?%\"'\\\\ "
)
_OPENING = "(\\[{\uff08\uff3b\uff5b\u3008\u300a\u300c\u300e\u3010\u3014\u2018\u201c\"'\\\\"
_BREAK = re.compile(
    rf"(?<= )(?! )|(?<=[^\W\d_]-)(?=[^\W\d_])|(?<=/)(?![\d/{_CLOSING}])"
    rf"|(?<=[{_WIDE}])(?<![{_OPENING}])(?![{_CLOSING}])|(?<![{_OPENING} ])(?=[{_WIDE}])(?![{_CLOSING}])"
)


def wrapped(text: str, width: int) -> list[str]:
    """A text cut into rows of at most `width` columns, where that can be; joined they are the text."""
    if columns(text) <= width:
        return [text]
    rows: list[str] = []
    row: list[str] = []
    used = 0
    for piece in filter(None, _BREAK.split(text)):
        taken = columns(piece)
        if row and used + taken > width:
            rows.append("".join(row))
            row, used = [], 0
        row.append(piece)
        used += taken
    return [*rows, "".join(row)]


def columns(text: str) -> int:
    """The columns that a text takes on a terminal: two for a wide character, none for a combining one."""
    return len(text) if text.isascii() else sum(map(_columns, text))


@lru_cache(maxsize=4096)
def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


# --------------------------------------------------------------------------------------------------------- headers

# What gettext allows, of what Python knows: charsets in which the bytes of ASCII mean ASCII where a character begins.
# Not JOHAB, where a backslash is a won sign; never UTF-7, UTF-16 or the codecs of Python that are no charsets.
_CODECS = frozenset(
    ["ascii", "utf-8", "koi8-r", "koi8-u", "koi8-t", "cp850", "cp866", "cp874", "tis-620", "gb2312", "gbk", "gb18030"]
    + ["big5", "big5hkscs", "cp950", "cp932", "shift_jis", "euc_jp", "euc_kr", "cp949"]
    + [f"iso8859-{part}" for part in range(1, 17)]
    + [f"cp{page}" for page in range(1250, 1259)]
)


def header_codec(header: str) -> str:
    """Python's name for the charset that a header's text names; UTF-8 where it names none or the template's CHARSET.

    Raises Malformed for one that is unknown, or that PO files cannot be written in.
    """
    match = re.search(r"charset\s*+=\s*+([^\s;]++)", _field(header, "content-type"), re.IGNORECASE)
    if match is None or match[1] == "CHARSET":
        return "utf-8"
    name = match[1]
    try:
        codec = codecs.lookup(name).name if re.fullmatch(r"[A-Za-z0-9_.:-]{1,40}", name) else ""
    except LookupError:
        codec = ""
    if codec not in _CODECS:
        raise Malformed(
            f"the header names the charset {name[:40]!r}, which is unknown or cannot hold a PO file; convert the file "
            f"to UTF-8 and name that"
        )
    return codec


def plural_forms(header: str) -> int | None:
    """The number of plural forms that a header's text names, or None. Raises Malformed for none or more than 16."""
    match = re.search(r"nplurals\s*+=\s*+([0-9]++)", _field(header, "plural-forms"))
    if match is None:
        return None
    digits = match[1].lstrip("0")
    if not digits or len(digits) > 2 or int(digits) > _MOST_PLURALS:
        raise Malformed(f"the header says nplurals={match[1][:20]}; it must be from 1 to {_MOST_PLURALS}")
    return int(digits)


def _field(header: str, name: str) -> str:
    """The value of a field of a header, "" where it is not there."""
    for line in header.split("\n"):
        found, _, value = line.partition(":")
        if found.strip(_SPACE).lower() == name:
            return value
    return ""
