"""Strings, line breaks and charsets of PO files, against msgcat's documented output, polib and Python's codecs."""

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.formats.po_syntax import (
    _CODECS,
    WIDTH,
    Malformed,
    columns,
    escape,
    header_codec,
    parse_line,
    plural_forms,
    quoted,
    wrapped,
)

TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=300)


@given(TEXTS)
def test_escape_comes_back_through_the_parser(text: str) -> None:
    line = f'msgid "{escape(text)}"'
    assert "\n" not in line
    assert parse_line(line, "utf-8") == ("msgid", None, text)


@given(TEXTS, st.booleans(), st.booleans())
def test_quoted_lines_join_to_the_text(text: str, wrap: bool, split: bool) -> None:
    """Whatever the lines are, what stands in their quotes is the text: read by polib's unescaping, not by ours."""
    lines = quoted("msgstr", text, wrap=wrap, split=split)
    assert lines[0].startswith('msgstr "') and all(line.startswith('"') for line in lines[1:])
    inner = "".join(line[line.index('"') + 1 : -1] for line in lines)
    assert polib.unescape(inner.replace("\\f", "\f").replace("\\a", "\a")) == polib.unescape(
        polib.escape(text).replace("\\f", "\f").replace("\\a", "\a")
    )
    if split:  # a line break of the text ends its line
        assert all("\\n" not in line.replace("\\\\", "")[:-3] for line in lines)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r'msgid "a\tb\\n\"q\"\n"', 'a\tb\\n"q"\n'),
        (r'msgid "\a\b\f\v\r"', "\a\b\f\v\r"),
        (r'msgid "\101\x42\7"', "AB\a"),
        (r'msgid "\303\251\xc3\xa9"', "éé"),  # msgfmt takes the escapes for bytes
        (r'msgid "a" "b"  "c"', "abc"),
        (r'msgid"a"', "a"),
        ('msgid\t"a"\t', "a"),
        ('msgid "\u2028\u0085\u001c"', "\u2028\u0085\u001c"),
        ('msgid ""', ""),
    ],
)
def test_strings(written: str, text: str) -> None:
    assert parse_line(written, "utf-8") == ("msgid", None, text)


@pytest.mark.parametrize(
    "written",
    [
        r'msgid "a\q"', r'msgid "a\x"', r'msgid "\777"', r'msgid "\x41B"', r'msgid "\377"', 'msgid "a', 'msgid "a\\"',
        'msgid a', '"', 'msgid "a" b', 'msgid "a" # b', 'msgid "a" msgstr "b"', 'msgidx "a"', 'msgid[0] "a"', 'hello',
        'msgstr[x] "a"', 'msgstr[-1] "a"', 'MSGID "a"', 'msgid "a"\u00a0', 'msgid-plural "a"',
    ],
)  # fmt: skip
def test_malformed_strings_are_refused(written: str) -> None:
    with pytest.raises(Malformed):
        parse_line(written, "utf-8")


def test_form_numbers() -> None:
    assert parse_line('msgstr[12] "a"', "utf-8") == ("msgstr", 12, "a")
    assert parse_line('msgstr[ 1 ]"a"', "utf-8") == ("msgstr", 1, "a")
    assert parse_line("msgstr[0]", "utf-8") == ("msgstr", 0, None)


# What GNU msgcat 0.21 writes for these.
MSGCAT = [
    ("short", ['msgstr "short"']),
    ("one\n", [r'msgstr "one\n"']),
    ("one\ntwo", ['msgstr ""', r'"one\n"', '"two"']),
    ("\n\n", ['msgstr ""', r'"\n"', r'"\n"']),
    ("x" * 100, [f'msgstr "{"x" * 100}"']),
    ("x" * 70, [f'msgstr "{"x" * 70}"']),  # 79 columns
    ("x" * 35 + " " + "y" * 35, ['msgstr ""', f'"{"x" * 35} {"y" * 35}"']),  # 80 columns
    ("1 " * 60, ['msgstr ""', f'"{"1 " * 38}"', f'"{"1 " * 22}"']),
    ("漢字" * 19 + "。" + "漢字" * 3, ['msgstr ""', f'"{"漢字" * 18}漢"', f'"字。{"漢字" * 3}"']),
    ("a" * 40 + "-" + "b" * 40, ['msgstr ""', f'"{"a" * 40}-"', f'"{"b" * 40}"']),
    ("http://" + "a" * 40 + "/" + "b" * 40, ['msgstr ""', f'"http://{"a" * 40}/"', f'"{"b" * 40}"']),
]


@pytest.mark.parametrize(("text", "lines"), MSGCAT)
def test_lines_are_those_of_msgcat(text: str, lines: list[str]) -> None:
    assert quoted("msgstr", text) == lines


def test_columns() -> None:
    assert columns("abc") == 3
    assert columns("漢字ｶ") == 5  # wide, wide, half-width katakana
    assert columns("e\u0301\u200b") == 1  # a combining accent and a zero-width space take none


@given(st.text(st.sampled_from("ab-/漢（）。 "), min_size=1, max_size=200), st.integers(1, 60))
def test_wrapped_loses_nothing_and_keeps_the_width_where_it_can(text: str, width: int) -> None:
    rows = wrapped(text, width)
    assert "".join(rows) == text
    assert all(rows)
    for row in rows:
        assert columns(row) <= width or len(wrapped(row, 1)) == 1
    for row, following in zip(rows, rows[1:], strict=False):
        assert following[0] not in "。）" or row.endswith(" ")
    # Greedy: no row could have taken the first part of the next.
    for row, following in zip(rows, rows[1:], strict=False):
        assert columns(row + wrapped(following, 1)[0]) > width


def test_unwrapped_text_keeps_its_line() -> None:
    assert quoted("msgstr", "1 " * 60, wrap=False) == [f'msgstr "{"1 " * 60}"']
    assert quoted("msgstr", "a\nb", split=False) == [r'msgstr "a\nb"']
    assert WIDTH == 79


@pytest.mark.parametrize("codec", sorted(_CODECS))
def test_every_charset_allowed_leaves_ascii_alone(codec: str) -> None:
    """Keywords, quotes and escapes are found in decoded text: a charset that changes them would change the file."""
    ascii_text = "".join(map(chr, range(0x20, 0x7F))) + "\t\r\n"
    data = ascii_text.encode("ascii")
    try:
        assert data.decode(codec) == ascii_text
    except LookupError:
        assert codec == "iso8859-12"  # never came to be
        return
    assert header_codec(f"Content-Type: text/plain; charset={codec}\n") == codec


@pytest.mark.parametrize(
    ("written", "codec"),
    [
        ("UTF-8", "utf-8"), ("utf8", "utf-8"), ("ISO-8859-1", "iso8859-1"), ("latin1", "iso8859-1"),
        ("CHARSET", "utf-8"), ("windows-1251", "cp1251"), ("CP1252", "cp1252"), ("KOI8-R", "koi8-r"),
        ("EUC-JP", "euc_jp"), ("GBK", "gbk"),
    ],
)  # fmt: skip
def test_charset_names(written: str, codec: str) -> None:
    header = f"Language: de\nCONTENT-TYPE : text/plain; charset = {written}; x=y\nX: charset=latin1\n"
    assert header_codec(header) == codec


@pytest.mark.parametrize(
    "name",
    ["UTF-7", "utf-16", "utf_8_sig", "rot13", "hex", "idna", "punycode", "unicode_escape", "raw_unicode_escape",
     "klingon", "johab", "iso2022_jp", "hz", "a\0b", "../x", "ü", "x" * 5000, "cp037", "mbcs", "undefined"],
)  # fmt: skip
def test_other_charsets_are_refused(name: str) -> None:
    with pytest.raises(Malformed, match="charset"):
        header_codec(f"Content-Type: text/plain; charset={name}\n")


def test_header_without_charset_is_utf8() -> None:
    assert header_codec("") == header_codec("Content-Type: text/plain\n") == "utf-8"


def test_plural_forms() -> None:
    assert plural_forms("Plural-Forms: nplurals=3; plural=n%10;\n") == 3
    assert plural_forms("Plural-Forms: nplurals = 01;\n") == 1
    assert plural_forms("Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n") is None
    assert plural_forms("Language: de\n") is None
    for wrong in ("0", "17", "100000000000"):
        with pytest.raises(Malformed, match="nplurals"):
            plural_forms(f"Plural-Forms: nplurals={wrong};\n")
