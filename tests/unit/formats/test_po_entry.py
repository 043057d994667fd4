"""Filling entries: just the msgstr and the flag change, as msgcat writes them; polib and msgfmt read the result."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.base.errors import DataError
from clearhead.formats.document import Slot, slots
from clearhead.formats.po import read_po

HEADER = r"""msgid ""
msgstr ""
"Project-Id-Version: p\n"
"PO-Revision-Date: 2026-01-01 00:00+0000\n"
"Last-Translator: n <n@example.org>\n"
"Language-Team: none\n"
"Language: de\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=2; plural=n != 1;\n"

"""


def filled(path: Path, fill: Callable[[Slot], list[str] | None]) -> bytes:
    """The file with what `fill` gives for a slot put in; None leaves it as it is."""
    parts = []
    for piece in read_po(path):
        if isinstance(piece, bytes):
            parts.append(piece)
        else:
            texts = fill(piece)
            parts.append(piece.raw if texts is None else piece.fill(texts))
    return b"".join(parts)


def one(tmp_path: Path, entry: str, *texts: str, header: str = HEADER, codec: str = "utf-8") -> str:
    """An entry with its translation replaced."""
    path = tmp_path / "one.po"
    path.write_bytes((header + entry).encode(codec))
    result = filled(path, lambda slot: None if slot.state == "closed" else list(texts)).decode(codec)
    assert result.startswith(header)
    return result.removeprefix(header)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('msgid "a"\nmsgstr ""\n', '#, fuzzy\nmsgid "a"\nmsgstr "b"\n'),
        ('msgid "a"\nmsgstr ""', '#, fuzzy\nmsgid "a"\nmsgstr "b"'),
        ('#, python-format\nmsgid "a"\nmsgstr ""\n', '#, fuzzy, python-format\nmsgid "a"\nmsgstr "b"\n'),
        ('#,c-format\nmsgid "a"\nmsgstr ""\n', '#, fuzzy, c-format\nmsgid "a"\nmsgstr "b"\n'),
        ('#,\nmsgid "a"\nmsgstr ""\n', '#, fuzzy\nmsgid "a"\nmsgstr "b"\n'),
        ('#, fuzzy\nmsgid "a"\nmsgstr ""\n', '#, fuzzy\nmsgid "a"\nmsgstr "b"\n'),
        ('#, x, fuzzy\nmsgid "a"\nmsgstr ""\n', '#, x, fuzzy\nmsgid "a"\nmsgstr "b"\n'),
        ('#, x\n#, fuzzy\nmsgid "a"\nmsgstr ""\n', '#, x\n#, fuzzy\nmsgid "a"\nmsgstr "b"\n'),
        ('#, not-fuzzy\nmsgid "a"\nmsgstr ""\n', '#, fuzzy, not-fuzzy\nmsgid "a"\nmsgstr "b"\n'),
        ('# fuzzy\nmsgid "a"\nmsgstr ""\n', '# fuzzy\n#, fuzzy\nmsgid "a"\nmsgstr "b"\n'),
        (
            '# t\n#. p\n#: r:1\n#| msgid "o"\nmsgctxt "c"\nmsgid "a"\nmsgstr ""\n',
            '# t\n#. p\n#: r:1\n#, fuzzy\n#| msgid "o"\nmsgctxt "c"\nmsgid "a"\nmsgstr "b"\n',
        ),
        ('# t\n\nmsgid "a"\n\nmsgstr\n\n""\n\n# e\n', '# t\n\n#, fuzzy\nmsgid "a"\n\nmsgstr "b"\n\n# e\n'),
        ('  msgid "a"\n\tmsgstr "x"\n\t"y"\n', '\t#, fuzzy\n  msgid "a"\n\tmsgstr "b"\n'),
        ('# t\r\nmsgid "a"\r\nmsgstr ""\r\n', '# t\r\n#, fuzzy\r\nmsgid "a"\r\nmsgstr "b"\r\n'),
        ('#, x\r\nmsgid "a"\r\nmsgstr ""\r\n', '#, fuzzy, x\r\nmsgid "a"\r\nmsgstr "b"\r\n'),
        ('#,\r\nmsgid "a"\r\nmsgstr ""', '#, fuzzy\r\nmsgid "a"\r\nmsgstr "b"'),
        ('msgid "a"\nmsgstr "old"\n', '#, fuzzy\nmsgid "a"\nmsgstr "b"\n'),
    ],
)
def test_only_the_translation_and_the_flag_change(tmp_path: Path, before: str, after: str) -> None:
    assert one(tmp_path, before, "b") == after


def test_plural_forms_are_filled(tmp_path: Path) -> None:
    entry = 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n\nmsgstr[1] ""\n'
    expected = '#, fuzzy\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] "x"\n\nmsgstr[1] "y"\n'
    assert one(tmp_path, entry, "x", "y") == expected
    three = HEADER.replace("nplurals=2", "nplurals=3")
    for end in ("\n", ""):
        result = one(tmp_path, 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""' + end, "x", "y", "z", header=three)
        assert result == '#, fuzzy\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] "x"\nmsgstr[1] "y"\nmsgstr[2] "z"' + end


def test_a_form_that_is_there_keeps_its_lines(tmp_path: Path) -> None:
    entry = 'msgid "a"\nmsgid_plural "b"\nmsgstr[0]  "x"\n  " y"\nmsgstr[1] ""'
    assert one(tmp_path, entry, "x y", "z") == (
        '#, fuzzy\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0]  "x"\n  " y"\nmsgstr[1] "z"'
    )
    swapped = 'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[1] "z"'
    assert one(tmp_path, swapped, "x", "z").endswith('msgstr[0] "x"\nmsgstr[1] "z"')


@pytest.mark.parametrize(
    ("msgid", "text", "written"),
    [
        (r"a\n", "b", r"b\n"), ("a", "b\n", "b"), (r"\na", "b", r"\nb"), ("a", "\n\nb", "b"), (r"a\n", "b\n", r"b\n"),
        (r"a\n", "", ""), (r"\n", "b", None),
    ],
)  # fmt: skip
def test_line_breaks_at_the_ends_are_those_of_the_source(
    tmp_path: Path, msgid: str, text: str, written: str | None
) -> None:
    result = one(tmp_path, f'msgid "{msgid}"\nmsgstr ""\n', text)
    if written is None:
        assert result.endswith('msgstr ""\n"\\n"\n"b\\n"\n')
    else:
        assert result.endswith(f'msgstr "{written}"\n')


LONG = "word " * 30


def test_long_text_is_wrapped_unless_the_entry_is_not(tmp_path: Path) -> None:
    wrapped = one(tmp_path, 'msgid "short"\nmsgstr ""\n', LONG)
    assert wrapped.split("\n")[2:] == ['msgstr ""', f'"{"word " * 15}"', f'"{"word " * 15}"', ""]
    plain = f'msgstr "{LONG}"\n'
    assert one(tmp_path, '#, no-wrap\nmsgid "short"\nmsgstr ""\n', LONG).endswith(plain)
    assert one(tmp_path, f'msgid "{LONG}"\nmsgstr ""\n', LONG).endswith(plain)
    # A long line that cannot be wrapped says nothing about the others.
    assert not one(tmp_path, f'msgid "{"x" * 100}"\nmsgstr ""\n', LONG).endswith(plain)


def test_line_breaks_end_lines_unless_the_source_has_them_inside(tmp_path: Path) -> None:
    assert one(tmp_path, 'msgid "a"\nmsgstr ""\n', "b\nc").endswith('msgstr ""\n"b\\n"\n"c"\n')
    assert one(tmp_path, 'msgid "a\\nb"\nmsgstr ""\n', "b\nc").endswith('msgstr "b\\nc"\n')
    assert one(tmp_path, 'msgid "a\\\\nb"\nmsgstr ""\n', "b\nc").endswith('msgstr ""\n"b\\n"\n"c"\n')


def test_charset_of_the_file(tmp_path: Path) -> None:
    latin = HEADER.replace("UTF-8", "ISO-8859-1")
    entry = '# Größe\nmsgid "size"\nmsgstr ""\n'
    assert one(tmp_path, entry, "Größe", header=latin, codec="latin-1").endswith('msgstr "Größe"\n')
    with pytest.raises(DataError, match=r"one\.po, line 14: the charset iso8859-1 .* cannot hold '漢' \(U\+6F22\)"):
        one(tmp_path, entry, "Größe 漢", header=latin, codec="latin-1")
    japanese = HEADER.replace("UTF-8", "Shift_JIS")
    entry = 'msgid "表"\nmsgstr ""\n'  # ends in the byte of a backslash
    assert one(tmp_path, entry, "表ソ", header=japanese, codec="shift_jis").endswith('msgstr "表ソ"\n')
    with pytest.raises(DataError, match="cannot hold '¥'"):  # Python would write a backslash for it
        one(tmp_path, entry, "¥n", header=japanese, codec="shift_jis")


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_file_can_hold(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"one\.po, line 13: "):
        one(tmp_path, 'msgid "a"\nmsgstr ""\n', text)


def test_misuse_is_a_bug_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text(HEADER + 'msgid "a"\nmsgstr ""\n#~ msgid "b"\n#~ msgstr ""\n')
    header, entry, obsolete = slots(read_po(path))
    for slot in (header, obsolete):
        with pytest.raises(ValueError, match="not to be filled"):
            slot.fill(["x"])
    with pytest.raises(ValueError, match="2 texts for 1"):
        entry.fill(["x", "y"])


# ------------------------------------------------------------------------------------- read by polib and by msgfmt

TEXTS = st.text(st.sampled_from('aé漢 \n\t"\\\r%{}#-/'), min_size=1, max_size=120).map(
    lambda text: text.strip("\n") or "x"
)
NAMES = st.text(st.sampled_from("abc"), min_size=1, max_size=3)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_polib_reads_what_was_filled_and_all_else_unchanged(tmp_path_factory: Any, data: Any) -> None:
    path = tmp_path_factory.mktemp("po") / "a.po"
    names = data.draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    catalogue = polib.POFile()
    for name in names:
        plural = data.draw(st.booleans())
        target = data.draw(st.sampled_from(["", "", "da", "da\nund dort"]))
        catalogue.append(
            polib.POEntry(
                msgid=name,
                msgid_plural=name + "s" if plural else "",
                msgstr="" if plural else target,
                msgstr_plural={0: target, 1: target} if plural else {},
                flags=data.draw(st.sampled_from([[], ["c-format"], ["fuzzy"], ["c-format", "no-wrap"]])),
                comment=data.draw(st.sampled_from(["", "a comment\nof two lines"])),
                occurrences=data.draw(st.sampled_from([[], [("a.c", "1")]])),
                previous_msgid=data.draw(st.sampled_from([None, "older"])),
                obsolete=data.draw(st.sampled_from([False, False, True])),
            )
        )
    path.write_text(HEADER + str(catalogue).split("\n\n", 1)[-1], encoding="utf-8")
    before = list(polib.pofile(str(path), wrapwidth=0))
    given_texts: dict[str, list[str]] = {}

    def fill(slot: Slot) -> list[str] | None:
        if slot.state != "empty":
            return None
        given_texts[slot.source[0]] = [data.draw(TEXTS) for _ in slot.source]
        return given_texts[slot.source[0]]

    path.write_bytes(filled(path, fill))
    after = list(polib.pofile(str(path), wrapwidth=0))
    assert [entry.msgid for entry in after] == [entry.msgid for entry in before]
    for old, new in zip(before, after, strict=True):
        texts = given_texts.get(old.msgid)
        if texts is not None:
            assert new.fuzzy
            assert [flag for flag in new.flags if flag != "fuzzy"] == [flag for flag in old.flags if flag != "fuzzy"]
            assert (list(new.msgstr_plural.values()) if old.msgid_plural else [new.msgstr]) == texts
            new.flags, new.msgstr, new.msgstr_plural = old.flags, old.msgstr, old.msgstr_plural
        assert str(old) == str(new)


def test_msgfmt_and_msgcat_agree(tmp_path: Path) -> None:
    """msgfmt finds nothing to complain of, and msgcat would write the same bytes; without them, the stored result."""
    path = tmp_path / "a.po"
    text = HEADER + (
        '#: a.c:1\n#, c-format\nmsgid "%d file\\n"\nmsgid_plural "%d files\\n"\nmsgstr[0] ""\nmsgstr[1] ""\n\n'
        'msgid ""\n"First line\\n"\n"and a second one"\nmsgstr ""\n\nmsgctxt "menu"\nmsgid "Open"\nmsgstr ""\n'
    )
    texts = [
        ["%d Datei", "%d Dateien"],
        ["Erste Zeile\nund „eine“ zweite, " + "die länger ist " * 6],
        ["漢字かな。" * 20],
    ]
    path.write_text(text, encoding="utf-8")
    rest = iter(texts)
    result = filled(path, lambda slot: None if slot.state == "closed" else next(rest))
    cjk = "漢字かな。" * 20
    assert result.decode().removeprefix(HEADER) == (
        '#: a.c:1\n#, fuzzy, c-format\nmsgid "%d file\\n"\nmsgid_plural "%d files\\n"\n'
        'msgstr[0] "%d Datei\\n"\nmsgstr[1] "%d Dateien\\n"\n\n'
        '#, fuzzy\nmsgid ""\n"First line\\n"\n"and a second one"\nmsgstr ""\n"Erste Zeile\\n"\n'
        '"und „eine“ zweite, die länger ist die länger ist die länger ist die länger "\n'
        '"ist die länger ist die länger ist "\n\n#, fuzzy\nmsgctxt "menu"\nmsgid "Open"\nmsgstr ""\n'
        f'"{cjk[:38]}"\n"{cjk[38:76]}"\n"{cjk[76:]}"\n'
    )
    path.write_bytes(result)
    if shutil.which("msgfmt"):
        checked = subprocess.run(
            ["msgfmt", "-c", "--use-fuzzy", "-o", "/dev/null", str(path)], capture_output=True, text=True
        )
        assert (checked.returncode, checked.stderr) == (0, "")
        assert subprocess.run(["msgcat", str(path)], capture_output=True).stdout == result
