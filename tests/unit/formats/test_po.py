"""PO files as a whole: nothing is lost, polib and translate-toolkit count the same, damage is told, memory is flat."""

import gzip
import lzma
import random
import shutil
import subprocess
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import polib
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from translate.storage import pypo

from clearhead.base.errors import DataError
from clearhead.formats.document import Piece, Slot, pairs, slots
from clearhead.formats.po import read_po, write_po

HEADER = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'

# Every construct of the format that msgfmt accepts.
EVERYTHING = r"""# Translations of a program.
# Copyright (C) nobody.

#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: program 1.0\n"
"Language: de\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=2; plural=n != 1;\n"

# by the translator
#. by the programmer
#: main.c:10 main.c:20
#, c-format, no-wrap
msgid "Hello %s"
msgstr "Hallo %s"
#: nothing.c:1
msgid "no blank line before"
msgstr ""

#~| msgid "older"
#~ msgctxt "menu"
#~ msgid "gone"
#~ msgstr "weg"
#~ msgid ""
#~ "gone too, %d\n"
#~ msgid_plural ""
#~ "gone too, many\n"
#~ msgstr[0] "a"
#~ msgstr[1] ""
#~ "b"

msgctxt "menu"
msgid "Open"
msgstr "Öffnen"

msgctxt "door"
msgid "Open"
msgstr "Offen"

#, fuzzy, python-format
#| msgctxt "old"
#| msgid ""
#| "%d file"
#| msgid_plural "%d filez"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#, range: 0..10

msgid "%d row"
msgid_plural "%d rows"
msgstr[0] ""
msgstr[1] ""

msgid "half"
msgid_plural "halves"
msgstr[0] "Hälfte"
msgstr[1] ""

#, fuzzy
msgid "flagged and empty"
msgstr ""

msgid ""
"Several lines\n"
"with a \ttab, \"quotes\", a \\backslash, \a\b\f\v\r and octal \101\x42"

"and a blank line between\n"
msgstr "X\n"

msgctxt ""
msgid "with an empty context"
msgstr "mit leerem Kontext"

msgctxt "a context"
msgid ""
msgstr "no header"

  #   indented
  msgid "indented"
	msgstr "eingerückt"

#
#  trailing comments
#, fuzzy
"""


def read(path: Path) -> list[Piece]:
    return list(read_po(path))


def joined(pieces: list[Piece]) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else piece.raw for piece in pieces)


def states(pieces: list[Piece]) -> Counter[str]:
    return Counter(slot.state for slot in slots(pieces))


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    path = tmp_path / "everything.po"
    path.write_text(EVERYTHING, encoding="utf-8")
    return path


# --------------------------------------------------------------------------------------------------- what is read


def test_the_fixture_is_what_msgfmt_accepts(everything: Path) -> None:
    assert polib.pofile(str(everything)).metadata["Language"] == "de"
    if shutil.which("msgfmt"):
        result = subprocess.run(["msgfmt", "-o", "/dev/null", str(everything)], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


def test_every_construct(everything: Path) -> None:
    found = [(slot.state, slot.source, slot.target) for slot in slots(read(everything))]
    header = found.pop(0)
    assert header[:2] == ("closed", ("",))
    assert header[2][0].startswith("Project-Id-Version: program 1.0\nLanguage: de\n")
    assert found == [
        ("translated", ("Hello %s",), ("Hallo %s",)),
        ("empty", ("no blank line before",), ("",)),
        ("closed", ("gone",), ("weg",)),
        ("closed", ("gone too, %d\n", "gone too, many\n"), ("a", "b")),
        ("translated", ("Open",), ("Öffnen",)),
        ("translated", ("Open",), ("Offen",)),
        ("review", ("%d file", "%d files"), ("%d Datei", "%d Dateien")),
        ("empty", ("%d row", "%d rows"), ("", "")),
        ("review", ("half", "halves"), ("Hälfte", "")),
        ("empty", ("flagged and empty",), ("",)),
        (
            "translated",
            (
                'Several lines\nwith a \ttab, "quotes", a \\backslash, \a\b\f\v\r and octal AB'
                "and a blank line between\n",
            ),
            ("X\n",),
        ),
        ("translated", ("with an empty context",), ("mit leerem Kontext",)),
        ("translated", ("",), ("no header",)),
        ("translated", ("indented",), ("eingerückt",)),
    ]


def test_where_is_the_line_of_the_msgid(everything: Path) -> None:
    lines = EVERYTHING.split("\n")
    for slot in slots(read(everything)):
        assert "msgid" in lines[int(slot.where.removeprefix("line ")) - 1]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_nothing_is_lost(everything: Path, ends: str, mark: str, last: bool) -> None:
    text = EVERYTHING if last else EVERYTHING.rstrip("\n")
    data = (mark + text.replace("\n", ends)).encode()
    expected = [(slot.source, slot.target, slot.state) for slot in slots(read(everything))]
    everything.write_bytes(data)
    pieces = read(everything)
    assert joined(pieces) == data
    assert [(slot.source, slot.target, slot.state) for slot in slots(pieces)] == expected
    # The control: parsing into objects and writing them again is what loses something.
    if not mark:
        assert str(polib.pofile(str(everything))).encode() != data


def test_the_end_of_the_file_may_cut_only_the_last_line_feed(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_bytes(HEADER + b'msgid "a"\nmsgstr "b"')
    pieces = read(path)
    assert list(pairs(pieces)) == [("a", "b")]
    assert joined(pieces) == path.read_bytes()


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", lambda data: zstandard.ZstdCompressor().compress(data))],
)
def test_compressed(everything: Path, suffix: str, pack: Any) -> None:
    path = everything.with_name(everything.name + suffix)
    path.write_bytes(pack(EVERYTHING.encode()))
    assert joined(read(path)) == EVERYTHING.encode()
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="damaged or cut short"):
        read(path)


def test_counts_are_those_of_polib_and_translate_toolkit(everything: Path) -> None:
    found = states(read(everything))
    by_polib = polib.pofile(str(everything))
    assert found["translated"] == len(by_polib.translated_entries())
    assert found["closed"] - 1 == len(by_polib.obsolete_entries())
    assert found["empty"] + found["review"] == len(by_polib.untranslated_entries() + by_polib.fuzzy_entries())

    # Its other reader, cpo, needs gettext's library; this one is all Python, and reads no indented lines.
    indented = [line for line in EVERYTHING.split("\n") if line[:1] in (" ", "\t")]
    plain = EVERYTHING.replace("\n".join(indented), "\n".join(map(str.strip, indented)))
    by_toolkit = pypo.pofile.parsestring(plain.encode())  # type: ignore[no-untyped-call]
    units = [unit for unit in by_toolkit.units if unit.source or unit.target]
    assert sum(unit.isobsolete() for unit in units) == found["closed"] - 1
    active = [unit for unit in units if not unit.isheader() and not unit.isobsolete()]
    assert len(active) == sum(found.values()) - found["closed"]
    reviewed = [unit for unit in active if unit.isfuzzy() and unit.target]
    assert len(reviewed) == 1  # it takes the half-translated plural for translated
    assert found["review"] == 2


PLURALS = 'msgid "one"\nmsgid_plural "many"\n'


@pytest.mark.parametrize(
    ("nplurals", "forms", "source"),
    [
        ("2", 2, ("one", "many")),
        ("1", 1, ("many",)),
        ("3", 3, ("one", "many", "many")),
        ("3", 1, ("one", "many", "many")),  # a template filled in too little
        ("INTEGER", 2, ("one", "many")),
        ("INTEGER", 1, ("many",)),
        ("1", 2, ("one", "many")),  # what stands in the file is not to be dropped
    ],
)
def test_plural_forms(tmp_path: Path, nplurals: str, forms: int, source: tuple[str, ...]) -> None:
    path = tmp_path / "a.po"
    written = PLURALS + "".join(f'msgstr[{n}] ""\n' for n in range(forms))
    path.write_text(f'msgid ""\nmsgstr "Plural-Forms: nplurals={nplurals}; plural=x;\\n"\n\n{written}')
    slot = list(slots(read(path)))[1]
    assert slot.source == source
    assert slot.target == ("",) * len(source)
    assert slot.state == "empty"


# ---------------------------------------------------------------------------------------------------- charsets


def test_charset_of_the_header(tmp_path: Path) -> None:
    """The header's own text, a comment right behind it, and an entry whose characters end in a backslash's byte."""
    path = tmp_path / "a.po"
    for charset, text in [
        ("ISO-8859-1", "Größe"),
        ("windows-1251", "Размер"),
        ("Shift_JIS", "表示ソ"),
        ("GBK", "誠乗"),
    ]:
        content = (
            f'msgid ""\nmsgstr ""\n"Last-Translator: {text if charset[0] != "S" else ""}\\n"\n'
            f'"Content-Type: text/plain; charset={charset}\\n"\n# {text}\nmsgid "size"\nmsgstr "{text}"\n'
        )
        if charset == "GBK":
            content = content.replace("Last-Translator: 誠乗", "")
        path.write_bytes(content.encode(charset))
        pieces = read(path)
        assert joined(pieces) == content.encode(charset)
        assert list(pairs(pieces)) == [("size", text)]
        if charset[0] in "Iw":
            assert text in next(slots(pieces)).target[0]


def test_charset_unknown_is_an_error_and_never_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_bytes(
        b'# c\n\nmsgid ""\nmsgstr "Content-Type: text/plain; charset=klingon\\n"\n\nmsgid "a"\nmsgstr "b"\n'
    )
    with pytest.raises(DataError, match=r"a\.po, line 3: the header names the charset 'klingon'"):
        read(path)
    assert polib.pofile(str(path))[0].msgstr == "b"  # the control: another library does take it for something else


def test_bytes_that_are_not_of_the_charset(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    for content, line in [
        (HEADER + b'msgid "a"\nmsgstr "Gr\xf6\xdfe"\n', 5),
        (HEADER + b'# \xff\nmsgid "a"\nmsgstr "b"\n', 4),
        (b'msgid "a"\nmsgstr "\xff"\n', 2),  # no header: UTF-8
        (b'# \xff\nmsgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n', 1),
        (b'# \xe9\nmsgid ""\nmsgstr "Content-Type: text/plain; charset=ascii\\n"\n', 1),
        (b'msgid "a"\nmsgstr ""\n# \xff\n', 3),
        (b'\xff\xfem\0s\0', 1),
    ]:  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"a\.po, line {line}: "):
            read(path)


def test_a_late_header(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    header = HEADER.replace(b"UTF-8", b"ISO-8859-1")
    path.write_bytes(b'msgid "a"\nmsgstr "b"\n\n' + header + b'msgid "c"\nmsgstr "\xe9"\n')
    assert list(pairs(read(path))) == [("a", "b"), ("c", "é")]
    path.write_bytes('msgid "a"\nmsgstr "é"\n\n'.encode() + header)
    with pytest.raises(DataError, match="line 4: the header names iso8859-1 after line 2 has been read as UTF-8"):
        read(path)
    path.write_bytes("\ufeff".encode() + header)
    with pytest.raises(DataError, match="line 1: .*the mark of UTF-8"):
        read(path)


def test_no_header_and_a_domain(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    content = 'msgid "a"\nmsgstr "ä"\n# c\ndomain "other"\n\nmsgid "b"\nmsgstr "ö"\n'
    path.write_text(content, encoding="utf-8")
    pieces = read(path)
    assert joined(pieces) == content.encode()
    assert list(pairs(pieces)) == [("a", "ä"), ("b", "ö")]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only comments\n\n#, fuzzy", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_files_without_entries(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.po"
    path.write_bytes(content)
    pieces = read(path)
    assert joined(pieces) == content
    assert not list(slots(pieces))


# ------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ('msgid "a\nmsgstr "b"\n', 1, "no closing quote"),
        ('msgstr "b"\n', 1, "msgstr cannot stand at the start of an entry"),
        ('msgid "a"\n', 1, "ends in an entry without a msgstr"),
        ('msgid "a"\n\nmsgid "b"\nmsgstr ""\n', 3, "msgid cannot stand after msgid"),
        ('msgctxt "a"\nmsgstr "b"\n', 2, "msgstr cannot stand after msgctxt"),
        ('msgid "a"\nmsgctxt "b"\nmsgstr ""\n', 2, "msgctxt cannot stand after msgid"),
        ('msgid "a"\nmsgstr "b"\nmsgstr "c"\n', 3, "msgstr cannot stand after msgstr"),
        ('msgid "a"\nmsgstr[0] "b"\n', 2, r"msgstr\[0\] cannot stand after msgid"),
        (PLURALS + 'msgstr "b"\n', 3, "msgstr cannot stand after msgid_plural"),
        (PLURALS + 'msgstr[1] "b"\n', 3, r"msgstr\[1\] cannot stand after msgid_plural"),
        (PLURALS + 'msgstr[0] "b"\nmsgstr[0] "c"\n', 4, r"msgstr\[0\] cannot stand after msgstr\[0\]"),
        (PLURALS + 'msgstr[0] "b"\nmsgstr[2] "c"\n', 4, r"msgstr\[2\] cannot stand after msgstr\[0\]"),
        (PLURALS + 'msgstr[0] "b"\nmsgid_plural "c"\n', 4, "msgid_plural cannot stand"),
        ('"a"\n', 1, "a string that no keyword stands before"),
        ('msgid "a"\nmsgstr "b"\n# c\n"d"\n', 4, "a string that no keyword stands before"),
        ("msgid\nmsgstr\n", 2, "msgid without a string"),
        ('msgid "a"\nmsgstr\n\n', 3, "msgstr without a string"),
        ('msgid "a"\nmsgstr "b"\nhello\n', 3, "'hello' is no keyword"),
        ("PK\x03\x04 something else\n", 1, "is no keyword"),
        ('msgid "a"\nmsgstr "b"\n\x1c\n', 3, "is no keyword"),  # white space to Python, but not to gettext
        ('msgid "a"\nmsgstr "\\q"\n', 2, r"\\q is no escape"),
        ('#~ msgid "a"\nmsgstr "b"\n', 2, "some of its lines only"),
        ('msgid "a"\nmsgstr "b"\n#~ "c"\n', 3, "some of its lines only"),
        ("#~ hello\n", 1, "is no keyword"),
        ('msgid "a"\nmsgstr "b"\n#~ "c\n', 3, "no closing quote"),
        ("de.po: text\n", 1, "is no keyword"),
        ('msgid ""\nmsgstr "Plural-Forms: nplurals=1000000000;\\n"\n', 1, "nplurals"),
    ],
)
def test_damage_is_told_with_its_line(tmp_path: Path, content: str, line: int, says: str) -> None:
    path = tmp_path / "bad.po"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"bad\.po, line {line}: .*{says}"):
        read(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "none.po")


def test_every_cut_is_told_or_harmless(tmp_path: Path) -> None:
    """A file cut short at any byte gives the entries before the cut, or an error: never a shorter text."""
    path = tmp_path / "cut.po"
    data = EVERYTHING.encode()
    path.write_bytes(data)
    whole = [(slot.source, slot.target) for slot in slots(read(path))]
    refused = 0
    for size in range(0, len(data), 3):
        path.write_bytes(data[:size])
        try:
            found = [(slot.source, slot.target) for slot in slots(read(path))]
        except DataError:
            refused += 1
            continue
        # A translation of several lines may end at a line's end; that cut no parser can see.
        if found:
            last = whole[len(found) - 1]
            assert found[:-1] == whole[: len(found) - 1]
            assert all(full.startswith(part) for full, part in zip(last[1], found[-1][1], strict=False))
    assert refused > 100


def test_random_and_mutated_bytes_give_only_data_errors(tmp_path: Path) -> None:
    rng = random.Random(7)
    path = tmp_path / "fuzz.po"
    base = EVERYTHING.encode()
    parts = [
        b"msgid ",
        b'"',
        b"\\",
        b"msgstr[1]",
        b"\n",
        b"#~ ",
        b"#, ",
        b"\xff",
        b"\0",
        b"charset=latin1",
        b"nplurals=9",
    ]
    refused = read_well = 0
    for number in range(400):
        if number % 4 == 0:
            data = rng.randbytes(rng.randrange(400))
        else:
            mutated = bytearray(base)
            for _ in range(rng.randrange(1, 6)):
                at = rng.randrange(len(mutated))
                mutated[at : at + rng.randrange(3)] = rng.choice([rng.randbytes(1), rng.choice(parts), b""])
            data = bytes(mutated)
        path.write_bytes(data)
        begun = time.process_time()
        try:
            pieces = read(path)
        except DataError as error:
            refused += str(error).startswith(f"{path}, line ")
        else:
            read_well += joined(pieces) == data
            for slot in slots(pieces):
                if slot.state != "closed":
                    slot.fill(["x"] * len(slot.source))
        assert time.process_time() - begun < 2
    assert refused + read_well == 400
    assert min(refused, read_well) > 50


LONG = 1_000_000


@pytest.mark.parametrize(
    "content",
    [
        'msgid "' + "x" * LONG + '"\nmsgstr ""\n',
        'msgid "' + "x y " * (LONG // 4) + '"\nmsgstr ""\n',
        'msgid "' + '\\"' * (LONG // 2) + '"\nmsgstr ""\n',
        'msgid "' + "\\101" * (LONG // 4) + '"\nmsgstr ""\n',
        'msgid "' + "\\" * (LONG + 1) + '"\nmsgstr ""\n',
        'msgid "' + "\\n" * (LONG // 2) + '\nmsgstr ""\n',
        "msgid " + '"" ' * (LONG // 3) + '\nmsgstr ""\n',
        "msgid " + " " * LONG + '\nmsgstr ""\n',
        'msgid ""\n' + '"line\\n"\n' * 100_000 + 'msgstr ""\n',
        "#" + ", a-format" * 100_000 + '\nmsgid "x"\nmsgstr ""\n',
        "#, a-format\n" * 100_000 + 'msgid "x"\nmsgstr ""\n',
        'msgid "x"\nmsgstr "y"\n' + "\n" * 200_000 + '"z"\n',
        PLURALS + "".join(f'msgstr[{n}] ""\n' for n in range(20_000)),
        'msgid ""\nmsgstr "Content-Type: ' + "charset " * 100_000 + '"\n',
    ],
    ids=lambda content: content[:20].replace("\n", " "),
)
def test_no_crafted_line_is_quadratic(tmp_path: Path, content: str) -> None:
    path = tmp_path / "long.po"
    path.write_text(content)
    begun = time.process_time()
    try:
        for slot in slots(read_po(path)):
            if slot.state != "closed":
                slot.fill(["x y\n" * 1000] + ["z"] * (len(slot.source) - 1))
    except DataError:
        pass
    assert time.process_time() - begun < 5  # what is quadratic takes minutes


def test_an_entry_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.po"  # as an archive it would be refused for its size already
    path.write_bytes((b"#" * 999 + b"\n") * 20_000)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="an entry of more than 8 MiB"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


# -------------------------------------------------------------------------------------------------- generated files

ESCAPES = {
    "\n": r"\n",
    "\t": r"\t",
    '"': r"\"",
    "\\": r"\\",
    "\r": r"\r",
    "\a": r"\a",
    "\x01": r"\001",
    "\x02": r"\002",
}
WORDS = st.text(st.sampled_from('aé漢 \n\t"\\\r\a\x01\x02%{}#\u2028\x85'), max_size=12)


@st.composite
def strings(draw: Any, keyword: str, text: str) -> str:
    """A keyword with its text cut into strings at random."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    gap = draw(st.sampled_from(["\n", "\n", "\n\t", " "]))
    return (
        keyword
        + draw(st.sampled_from([" ", "\t", ""]))
        + gap.join('"' + "".join(ESCAPES.get(char, char) for char in part) + '"' for part in parts)
    )


@st.composite
def entries(draw: Any) -> tuple[str, tuple[tuple[str, ...], tuple[str, ...], str]]:
    """An entry as it is written, and what is to be read from it: its source, target and state."""
    obsolete, fuzzy = draw(st.sampled_from([(False, False), (False, False), (False, True), (True, False)]))
    comments = draw(
        st.lists(st.sampled_from(["# c", "#", "#. x", "#: a.c:1", "#, c-format", '#| msgid "o"', ""]), max_size=4)
    )
    if fuzzy:
        comments.append(draw(st.sampled_from(["#, fuzzy", "#,fuzzy", "#, c-format, fuzzy", "#, fuzzy,x"])))
    context, msgid = draw(st.none() | WORDS), draw(WORDS.filter(bool))
    plural = draw(st.none() | WORDS)
    target = tuple(draw(st.lists(WORDS, min_size=2, max_size=2))) if plural is not None else (draw(WORDS),)
    body = [] if context is None else [draw(strings("msgctxt", context))]
    body.append(draw(strings("msgid", msgid)))
    if plural is None:
        body.append(draw(strings("msgstr", target[0])))
    else:
        body.append(draw(strings("msgid_plural", plural)))
        body += [draw(strings(f"msgstr[{n}]", text)) for n, text in enumerate(target)]
    text = "\n".join(body)
    if obsolete:
        text = "\n".join("#~ " + line for line in text.split("\n"))
    if obsolete:
        state = "closed"
    elif not any(target):
        state = "empty"
    else:
        state = "translated" if all(target) and not fuzzy else "review"
    source = (msgid,) if plural is None else (msgid, plural)
    return "\n".join([*comments, text]) + "\n" + "\n" * draw(st.integers(0, 2)), (source, target, state)


@given(st.lists(entries(), max_size=6), st.booleans(), st.integers(0, 2))
@settings(deadline=None, max_examples=60)
def test_generated_files(tmp_path_factory: Any, made: Any, crlf: bool, blanks: int) -> None:
    path = tmp_path_factory.mktemp("po") / "a.po"
    data = HEADER + ("\n" * blanks + "".join(text for text, _ in made)).encode()
    data = data.replace(b"\n", b"\r\n") if crlf else data
    path.write_bytes(data)
    pieces = read(path)
    assert joined(pieces) == data
    assert [(slot.source, slot.target, slot.state) for slot in slots(pieces)][1:] == [what for _, what in made]


# ------------------------------------------------------------------------------------------------------ write_po


@given(st.lists(st.tuples(WORDS, WORDS), max_size=12))
@settings(deadline=None, max_examples=30)
def test_what_is_written_is_read_again(tmp_path_factory: Any, texts: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("po") / "a.po"
    with write_po(path, ("en", "de")) as write:
        for source, target in texts:
            write(source, target)
    found = [(slot.source[0], slot.target[0]) for slot in slots(read(path))]
    assert found[1:] == texts
    raw = polib.pofile(str(path))
    keys = [(entry.msgctxt, entry.msgid) for entry in raw]
    assert len(keys) == len(texts) == len(set(keys))
    assert raw.metadata["Language"] == "de"


def test_a_source_that_comes_again_gets_a_context(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    with write_po(path, ("en", "zh")) as write:
        for source in ["Open", "Close", "Open", "", "Open", "2"]:
            write(source, "x")
    found = [(entry.msgctxt, entry.msgid) for entry in polib.pofile(str(path))]
    assert found == [(None, "Open"), (None, "Close"), ("2", "Open"), ("2", ""), ("3", "Open"), (None, "2")]
    if shutil.which("msgfmt"):
        result = subprocess.run(["msgfmt", "-c", "-o", "/dev/null", str(path)], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


def test_many_sources_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.po.zst"
    with write_po(path, ("en", "de")) as write:
        for number in [*range(10_000), *range(0, 10_000, 7)]:
            write(f"s{number}", "t")
    contexts = sum(b"msgctxt" in slot.raw for slot in slots(read_po(path)))
    assert contexts == len(range(0, 10_000, 7))


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_cannot_be_written_leaves_no_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.po"
    with pytest.raises(DataError, match=r"a\.po, entry 1: "), write_po(path, ("en", "de")) as write:
        write("x", text)
    assert not list(tmp_path.iterdir())


def test_memory_is_flat(tmp_path: Path) -> None:
    """Ten times the entries take no more memory."""
    peaks = []
    for count in (300, 3_000):
        path = tmp_path / f"{count}.po"
        with write_po(path, ("en", "de")) as write:
            for number in range(count):
                write(f"source {number} and some more words", f"Ziel {number} und einige Wörter")
        tracemalloc.start()
        assert sum(1 for piece in read_po(path) if isinstance(piece, Slot)) == count + 1
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 50_000
