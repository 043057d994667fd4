"""TMX: the right two variants of each entry, nothing lost, and filling touches only what it fills."""

import contextlib
import io
import logging
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from translate.storage import tmx

from clearhead.base.errors import DataError
from clearhead.formats.document import Piece, Slot, pairs, slots
from clearhead.formats.tmx import read_tmx, write_tmx
from clearhead.formats.xml import escape

FILE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header creationtool="x" creationtoolversion="1" segtype="sentence" o-tmf="x" adminlang="en" srclang="*all*"
    datatype="plaintext"><note>tu</note></header>
  <body>
    %s
  </body>
</tmx>
"""


def tu(*variants: tuple[str, str], name: str = "") -> str:
    texts = "".join(f'\n      <tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants)
    tuid = f' tuid="{name}"' if name else ""
    return f"<tu{tuid}><prop type='p'>q</prop>{texts}\n    </tu>".replace("'", '"')


def read(tmp_path: Path, text: str | bytes, languages: tuple[str, str] = ("en", "de"), **options) -> list[Piece]:
    path = tmp_path / "a.tmx"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_tmx(path, languages, **options))


def joined(pieces: Sequence[Piece], fill: dict[int, str] | None = None) -> bytes:
    parts, number = [], 0
    for piece in pieces:
        if isinstance(piece, bytes):
            parts.append(piece)
        else:
            parts.append(piece.raw if fill is None or number not in fill else piece.fill((fill[number],)))
            number += 1
    return b"".join(parts)


def seen(found: list[Piece]) -> list[tuple[str, str, str]]:
    return [(slot.source[0], slot.target[0], slot.state) for slot in slots(found)]


@pytest.mark.parametrize(
    ("languages", "variants", "expected"),
    [
        (("en", "de"), [("en", "a"), ("de", "b")], ("a", "b", "translated")),
        (("en", "de"), [("de", "b"), ("fr", "c"), ("en", "a")], ("a", "b", "translated")),
        (("EN", "de"), [("en-US", "a"), ("DE-at", "b")], ("a", "b", "translated")),
        (("en", "de"), [("en-US", "a"), ("en", "x"), ("de-AT", "b"), ("de", "y")], ("x", "y", "translated")),
        (("en-GB", "de"), [("en-US", "a"), ("en_gb", "x"), ("de", "y")], ("x", "y", "translated")),
        (("en-US", "en-GB"), [("en-GB", "g"), ("en-US", "u")], ("u", "g", "translated")),
        (("en", "en-GB"), [("en-GB", "g"), ("en-US", "u")], ("u", "g", "translated")),
        (("en", "de"), [("en", "a"), ("en", "b"), ("de", "c"), ("de", "d")], ("a", "c", "translated")),
        (("en", "de"), [("eng", "a"), ("de", "b")], ("", "", "closed")),
        (("en", "de"), [("en", "a"), ("fr", "b")], ("a", "", "empty")),
        (("en", "de"), [("en", "a"), ("de", "")], ("a", "", "empty")),
        (("en", "de"), [("en", " "), ("de", "b")], (" ", "b", "closed")),
        (("en", "de"), [], ("", "", "closed")),
        (("zh", "de"), [("zh-Hans", "中"), ("de", " b\n ")], ("中", " b\n ", "translated")),
    ],
)
def test_variants_are_picked_by_language(
    tmp_path: Path, languages: tuple[str, str], variants: list[tuple[str, str]], expected: tuple[str, str, str]
) -> None:
    text = FILE % tu(*variants)
    pieces = read(tmp_path, text, languages)
    assert seen(pieces) == [expected]
    assert joined(pieces) == text.encode()
    assert list(pairs(pieces)) == ([expected[:2]] if expected[2] == "translated" else [])


MEMORY = FILE % "\n    ".join(
    [
        tu(("en", "one"), ("de", "eins")),
        tu(("en", "two &amp; &lt;b&gt;"), ("fr", "deux"), name="x"),
        tu(("en", "three <bpt i='1'>&lt;b></bpt>x<ept i='1'>&lt;/b></ept>"), ("de", "")),
        tu(("fr", "quatre"), ("de", "vier")),
        tu(("en", "five"), ("de", "fünf"), ("en", "5")),
    ]
)


def toolkit(data: bytes) -> list[tuple[str | None, str | None]]:
    """Source and target of each unit, as the English and German of translate-toolkit."""
    store = tmx.tmxfile(io.BytesIO(data))
    assert not store.isempty()
    return [
        tuple(None if (node := unit.getlanguageNode(lang)) is None else unit.getNodeText(node) for lang in ("en", "de"))
        for unit in store.units
    ]


def test_translate_toolkit_sees_the_same_entries_before_and_after_filling(tmp_path: Path) -> None:
    before = toolkit(MEMORY.encode())
    pieces = read(tmp_path, MEMORY)
    assert [texts for texts in before if texts[0] is not None] == [
        (source.replace("<x1/>", "<b>").replace("<x2/>", "</b>"), target or (None if "two" in source else ""))
        for source, target, state in seen(pieces)
        if state != "closed"
    ]
    assert [state for *_, state in seen(pieces)] == ["translated", "empty", "empty", "closed", "translated"]
    filled = joined(pieces, {1: "zwei & <b>", 2: "drei <x1/>y<x2/>"})
    after = toolkit(filled)
    assert [target for _, target in after] == ["eins", "zwei & <b>", "drei <b>y</b>", "vier", "fünf"]
    assert [source for source, _ in after] == [source for source, _ in before]
    again = seen(read(tmp_path, filled))
    assert [state for *_, state in again] == ["translated", "review", "review", "closed", "translated"]
    dtd_order = etree.fromstring(filled).xpath("//tuv[prop]")
    assert [[child.tag for child in variant] for variant in dtd_order] == [["prop", "seg"], ["prop", "seg"]]


def first(tmp_path: Path, text: str, languages: tuple[str, str] = ("en", "de")) -> Slot:
    return next(slots(read(tmp_path, text, languages)))


REVIEW = '<prop type="x-state">needs-review</prop>'


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            '<tu>\r\n\t<tuv xml:lang="en-US" creationid="x">\r\n<seg>a</seg></tuv>\r\n\t'
            '<tuv xml:lang="fr"><seg>c</seg></tuv></tu>',
            '<tu>\r\n\t<tuv xml:lang="en-US" creationid="x">\r\n<seg>a</seg></tuv>'
            f'\r\n\t<tuv xml:lang="de">{REVIEW}<seg>b</seg></tuv>\r\n\t<tuv xml:lang="fr"><seg>c</seg></tuv></tu>',
        ),
        (
            '<tu><tuv lang="en"><seg>a</seg></tuv></tu>',
            f'<tu><tuv lang="en"><seg>a</seg></tuv><tuv lang="de">{REVIEW}<seg>b</seg></tuv></tu>',
        ),
        (
            '<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"><note>n</note><seg/></tuv></tu>',
            f'<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"><note>n</note>'
            f"{REVIEW}<seg>b</seg></tuv></tu>",
        ),
        (
            '<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de"/></tu>',
            f'<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de">{REVIEW}<seg>b</seg></tuv></tu>',
        ),
        (
            f'<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de">{REVIEW}<seg>old</seg></tuv></tu>',
            f'<tu><tuv xml:lang="en"><seg>a</seg></tuv><tuv xml:lang="de">{REVIEW}<seg>b</seg></tuv></tu>',
        ),
    ],
)
def test_filling_byte_by_byte(tmp_path: Path, entry: str, expected: str) -> None:
    assert first(tmp_path, FILE % entry).fill(("b",)).decode() == expected


def test_inline_elements_of_a_variant(tmp_path: Path) -> None:
    source = "<bpt i='1' x='1'>{\\b </bpt>bold<ept i='1'>}</ept> <hi type='t'>term</hi> <ph x='2'>&lt;br>"
    source += "<sub>t</sub></ph><it pos='begin'>i</it><ut>u</ut>"
    target = "<ph x='2'>&lt;br></ph><hi>Wort</hi> <bpt i='2' x='1'>{\\b </bpt>fett<ept i='2'>}</ept>"
    text = FILE % tu(("en", source), ("de", target))
    slot = first(tmp_path, text)
    assert slot.source == ("<x1/>bold<x2/> <g3>term</g3> <x4/><x5/><x6/>",)
    assert slot.target == ("<x4/><g3>Wort</g3> <x1/>fett<x2/>",)
    assert source.replace("'", '"').encode() in slot.fill(slot.source).split(b'lang="de"')[1]
    assert next(slots(read(tmp_path, text, codes="none"))).source == ("bold term ",)
    with pytest.raises(DataError, match=r"a\.tmx, line 7: the tag <x1/> stands behind the one that ends it"):
        slot.fill(("<x2/>bold<x1/> <g3>term</g3> <x4/><x5/><x6/>",))
    with pytest.raises(DataError, match=r"a\.tmx, line 7: the translation lacks <x6/>"):
        slot.fill(("<x1/>bold<x2/> <g3>term</g3> <x4/><x5/>",))


def test_old_files_say_lang(tmp_path: Path) -> None:
    text = (FILE % MEMORY[MEMORY.index("<tu>") : MEMORY.rindex("</tu>") + 5]).replace("xml:lang", "lang")
    assert seen(read(tmp_path, text.replace('"1.4"', '"1.1"'))) == seen(read(tmp_path, MEMORY))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILE % "<tu>\n<tuv><seg>a</seg></tuv></tu>", r"a\.tmx, line 8: a tuv without xml:lang"),
        (FILE.replace("tmx", "xliff") % "", r"a\.tmx, line 3: not a TMX file: its root element is <xliff>"),
        (FILE % "<tu>", r"a\.tmx, line 8: no well-formed XML"),
    ],
)
def test_what_is_no_memory_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text)


def test_a_closed_entry_cannot_be_filled(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.tmx, line 7: no text in 'en'"):
        first(tmp_path, FILE % tu(("fr", "a"))).fill(("b",))


def test_languages_that_are_not_there_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "clearhead"):
        assert {state for *_, state in seen(read(tmp_path, MEMORY, ("es", "de")))} == {"closed"}
    assert "no entry has the language 'es'; there are de, en, fr" in caplog.text
    caplog.clear()
    read(tmp_path, MEMORY, ("fr", "es"))
    assert caplog.text == ""


# ---------------------------------------------------------------------------------------------- made at random

WORDS = st.text(st.sampled_from("ab <>&'\"é中😀\n\u2028{}%1gx/"), max_size=8).map(lambda text: escape(text, ""))
CODES = st.sampled_from(["", "<ph x='1'>&lt;br/&gt;</ph>", "<it pos='end'/>", "<hi>h</hi>", "<!-- c -->"])
SEGMENT = st.lists(st.tuples(WORDS, CODES).map("".join), max_size=3).map("".join)
LANGUAGE = st.sampled_from(["en", "de", "EN-us", "de-AT", "fr"])
ENTRIES = st.lists(st.lists(st.tuples(LANGUAGE, SEGMENT), max_size=4).map(lambda variants: tu(*variants)), max_size=4)


@given(entries=ENTRIES)
def test_any_file_comes_back_and_is_filled_with_its_own_source(
    tmp_path_factory: pytest.TempPathFactory, entries: list[str]
) -> None:
    text = FILE % "<!-- <tu> -->\n".join(entries)
    folder = tmp_path_factory.getbasetemp()
    pieces = read(folder, text)
    assert joined(pieces) == text.encode()
    before = list(slots(pieces))
    assert len(before) == len(entries)
    chosen = {number: slot.source[0] for number, slot in enumerate(before) if slot.state == "empty"}
    after = list(slots(read(folder, joined(pieces, chosen))))
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        assert new.source == old.source
        if number in chosen:
            assert (new.target, new.state) == (old.source, "review")
        else:
            assert new.raw == old.raw


def test_mutated_files_give_only_the_typed_error(tmp_path: Path) -> None:
    rng = random.Random(7)
    marks = [b"<", b">", b"&", b'"', b"<seg>", b"</tuv>", b"<tuv>", b"/>", b"\xff", b"]]>", b"<!--", b"\xc3"]
    parsed = 0
    for _ in range(1000):
        data = bytearray(MEMORY.encode())
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((0, 0, 1, 1, 9))] = rng.choice([rng.choice(marks), b"x", b" ", b"1"])
        with contextlib.suppress(DataError):
            pieces = read(tmp_path, bytes(data))
            assert joined(pieces) == bytes(data)
            for slot in slots(pieces):
                with contextlib.suppress(DataError):
                    slot.fill(slot.source)
            parsed += 1
    assert parsed > 100


# ------------------------------------------------------------------------------------------------------- writing

PAIRS = [
    ('a <b> & "c"', "ä"),
    (" lead\ttab\nline\r\n\u2028\u0085 ", "]]>"),
    ("same", "selbe"),
    ("same", ""),
    ("<g1>", "é"),
]


@pytest.mark.parametrize("name", ["a.tmx", "a.tmx.xz"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    with write_tmx(tmp_path / name, ("en", "de-AT")) as write:
        for source, target in PAIRS:
            write(source, target)
    found = seen(list(read_tmx(tmp_path / name, ("en", "de"))))
    assert [pair[:2] for pair in found] == PAIRS
    assert [state for *_, state in found] == ["translated", "translated", "translated", "empty", "translated"]
    if name == "a.tmx":
        data = (tmp_path / name).read_bytes()
        store = tmx.tmxfile(io.BytesIO(data))
        assert [unit.getNodeText(unit.getlanguageNode("en")) for unit in store.units] == [source for source, _ in PAIRS]


def test_a_character_that_xml_cannot_hold_is_refused_and_nothing_left(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match=r"a\.tmx, entry 1: .*U\+0000"),
        write_tmx(tmp_path / "a.tmx", ("en", "de")) as write,
    ):
        write("a\0", "b")
    assert list(tmp_path.iterdir()) == []


def test_a_target_language_that_is_not_there_is_warned_of_where_pairs_are_wanted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "clearhead"):
        read(tmp_path, MEMORY, ("en", "es"))  # to be filled in: nothing is wrong with that
        assert not caplog.text
        read(tmp_path, MEMORY, ("en", "es"), codes="none")
        assert "no entry has the language 'es'; there are de, en, fr" in caplog.text
