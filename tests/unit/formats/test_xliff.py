"""XLIFF 1.2 and 2.x: nothing is lost, translate-toolkit sees the same units, and filling touches only what it fills."""

import contextlib
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from translate.storage import xliff, xliff2

from clearhead.base.errors import DataError
from clearhead.formats.document import Piece, Slot, pairs, slots
from clearhead.formats.xliff import read_xliff, write_xliff
from clearhead.formats.xml import escape

OLD = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file original="a.c" source-language="en-US" target-language="de" datatype="plaintext">
    <header><note>source and target</note></header>
    <body>
      %s
    </body>
  </file>
</xliff>
"""
NEW = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="2.1" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de">
  <file id="f">
    <skeleton href="a.skl"/>
    %s
  </file>
</xliff>
"""


def read(tmp_path: Path, text: str | bytes, languages: tuple[str, str] | None = ("en", "de"), **options) -> list[Piece]:
    path = tmp_path / "a.xlf"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_xliff(path, languages, **options))


def joined(pieces: Sequence[Piece], fill: dict[int, str] | None = None) -> bytes:
    """The file with the slots of these numbers filled."""
    parts, number = [], 0
    for piece in pieces:
        if isinstance(piece, bytes):
            parts.append(piece)
        else:
            parts.append(piece.raw if fill is None or number not in fill else piece.fill((fill[number],)))
            number += 1
    return b"".join(parts)


# -------------------------------------------------------------------------------------------------- what is a slot

OLD_UNITS = """<trans-unit id="1"><source>plain</source></trans-unit>
      <trans-unit id="2"><source>new</source><target state="new"> \n</target></trans-unit>
      <trans-unit id="3"><source>done</source><target state="final">fertig</target></trans-unit>
      <trans-unit id="4"><source>look</source><target state="needs-review-translation">schau</target></trans-unit>
      <trans-unit id="5"><source>copy</source><target state="new">copy</target></trans-unit>
      <trans-unit id="6" approved="yes"><source>good</source><target state="needs-l10n">gut</target></trans-unit>
      <group><group translate="no"><trans-unit id="7"><source>closed</source></trans-unit>
        <trans-unit id="8" translate="yes"><source>open</source><target>offen</target></trans-unit></group></group>
      <trans-unit id="9" translate="no"><source>no</source><target>nein</target></trans-unit>
      <trans-unit id="10"><source></source></trans-unit>
      <trans-unit id="11"><source>with</source><alt-trans><source>x</source><target>y</target></alt-trans></trans-unit>
      <trans-unit id="12"><source>One. Two.</source><seg-source><mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg"
        mid="2">Two.</mrk></seg-source><target><mrk mtype="seg" mid="1">Eins.</mrk></target></trans-unit>
      <bin-unit id="b"><bin-source><internal-file>xx</internal-file></bin-source></bin-unit>"""
OLD_EXPECTED = [
    ("plain", "", "empty"),
    ("new", "", "empty"),
    ("done", "fertig", "translated"),
    ("look", "schau", "review"),
    ("copy", "copy", "review"),
    ("good", "gut", "translated"),
    ("closed", "", "closed"),
    ("open", "offen", "translated"),
    ("no", "nein", "closed"),
    ("", "", "closed"),
    ("with", "", "empty"),
    ("One. Two.", "Eins.", "translated"),
]

NEW_UNITS = """<group id="g"><unit id="1"><notes><note>source</note></notes>
      <segment id="a"><source>one</source></segment><ignorable><source> </source></ignorable>
      <segment state="translated"><source>two</source><target>zwei</target></segment></unit></group>
    <unit id="2"><segment state="initial"><source>three</source><target>drei?</target></segment></unit>
    <unit id="3" translate="no"><segment><source>four</source></segment></unit>
    <unit id="4"><segment state="final"><source>five</source><target>fünf</target></segment></unit>
    <unit id="5"><segment><source>six</source><target>sechs</target></segment></unit>
    <unit id="6"><segment state="translated" subState="clearhead:needs-review"><source>seven</source>
      <target>sieben</target></segment></unit>"""
NEW_EXPECTED = [
    ("one", "", "empty"), ("two", "zwei", "translated"), ("three", "drei?", "review"), ("four", "", "closed"),
    ("five", "fünf", "translated"), ("six", "sechs", "translated"), ("seven", "sieben", "review"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"), [(OLD % OLD_UNITS, OLD_EXPECTED), (NEW % NEW_UNITS, NEW_EXPECTED)], ids=["1.2", "2.1"]
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_units_their_texts_and_states(
    tmp_path: Path, text: str, expected: list[tuple[str, str, str]], line_end: str
) -> None:
    data = text.replace("\n", line_end).encode()
    pieces = read(tmp_path, data, codes="none")
    assert joined(pieces) == data
    assert [(slot.source[0], slot.target[0], slot.state) for slot in slots(pieces)] == expected
    wanted = [(source, target) for source, target, state in expected if state == "translated"]
    assert list(pairs(pieces)) == wanted
    for slot in slots(pieces):
        line = int(slot.where.rsplit("line ", 1)[1].rstrip(")"))
        assert (b"<trans-unit" if "1.2" in text else b"<segment") in data.split(b"\n")[line - 1]


def toolkit(data: bytes, kind: type) -> list[tuple[str, str]]:
    store = kind.parsestring(data)
    return [(unit.source, unit.target or "") for unit in store.units]


@pytest.mark.parametrize(
    ("text", "kind"), [(OLD % OLD_UNITS, xliff.Xliff1File), (NEW % NEW_UNITS, xliff2.Xliff2File)], ids=["1.2", "2.1"]
)
def test_translate_toolkit_sees_the_same_units_before_and_after_filling(tmp_path: Path, text: str, kind: type) -> None:
    pieces = read(tmp_path, text, codes="none")
    before = toolkit(text.encode(), kind)
    assert [(slot.source[0], slot.target[0]) for slot in slots(pieces)] == before
    pieces = read(tmp_path, text)
    empty = {number: f"Neu {number} & <b>" for number, slot in enumerate(slots(pieces)) if slot.state == "empty"}
    assert empty
    filled = joined(pieces, empty)
    after = toolkit(filled, kind)
    assert after == [(source, empty.get(number, target)) for number, (source, target) in enumerate(before)]
    states = [slot.state for slot in slots(read(tmp_path, filled))]
    assert all(state == ("review" if number in empty else slot.state)
               for number, (state, slot) in enumerate(zip(states, slots(pieces))))  # fmt: skip
    if kind is xliff.Xliff1File:
        assert [unit.isreview() for unit in kind.parsestring(filled).units if unit.target in empty.values()] == [
            True
        ] * len(empty)


def first(tmp_path: Path, text: str, **options) -> Slot:
    return next(slots(read(tmp_path, text, **options)))


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (
            "<trans-unit id='1'>\n\t<source xml:lang='en'>a</source>\n\t<note>n</note></trans-unit>",
            "<trans-unit id='1'>\n\t<source xml:lang='en'>a</source>"
            '\n\t<target state="needs-review-translation">b</target>\n\t<note>n</note></trans-unit>',
        ),
        (
            "<trans-unit id='1'><source>a</source><target xml:lang='de' state = 'needs-translation' note=' "
            'state="x"\'/></trans-unit>',
            "<trans-unit id='1'><source>a</source><target xml:lang='de' state = \"needs-review-translation\" "
            "note=' state=\"x\"'>b</target></trans-unit>",
        ),
        (
            '<trans-unit id="1" approved="yes"><source>a</source>\n<target state-qualifier="exact-match">\n</target>'
            "<alt-trans><target>c</target></alt-trans></trans-unit>",
            '<trans-unit id="1" approved="no"><source>a</source>\n<target state-qualifier="mt-suggestion" '
            'state="needs-review-translation">b</target><alt-trans><target>c</target></alt-trans></trans-unit>',
        ),
        (
            "<trans-unit id='1'>\n  <source>a</source>\n    <seg-source>a</seg-source>\n</trans-unit>",
            "<trans-unit id='1'>\n  <source>a</source>\n    <seg-source>a</seg-source>"
            '\n    <target state="needs-review-translation">b</target>\n</trans-unit>',
        ),
        (
            '<x:trans-unit xmlns:x="urn:oasis:names:tc:xliff:document:1.2" id="1"><x:source xml:space="preserve" '
            'xmlns:y="urn:y">a</x:source></x:trans-unit>',
            '<x:trans-unit xmlns:x="urn:oasis:names:tc:xliff:document:1.2" id="1"><x:source xml:space="preserve" '
            'xmlns:y="urn:y">a</x:source><x:target xml:space="preserve" xmlns:y="urn:y" '
            'state="needs-review-translation">b</x:target></x:trans-unit>',
        ),
    ],
)
def test_filling_1_2_byte_by_byte(tmp_path: Path, unit: str, expected: str) -> None:
    slot = first(tmp_path, OLD % unit)
    assert slot.fill(("b",)).decode() == expected


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (
            '<unit id="1"><segment id="s">\n  <source>a</source>\n</segment></unit>',
            '<segment id="s" state="translated" subState="clearhead:needs-review">\n  <source>a</source>'
            "\n  <target>b</target>\n</segment>",
        ),
        (
            '<unit id="1"><segment state="initial" subState="x:y"><source>a</source><target order="2"/></segment>'
            "</unit>",
            '<segment state="translated" subState="clearhead:needs-review"><source>a</source>'
            '<target order="2">b</target></segment>',
        ),
    ],
)
def test_filling_2_byte_by_byte(tmp_path: Path, unit: str, expected: str) -> None:
    assert first(tmp_path, NEW % unit).fill(("b",)).decode() == expected


def test_filling_a_unit_without_target_only_inserts(tmp_path: Path) -> None:
    pieces = read(tmp_path, OLD % OLD_UNITS)
    old, new = joined(pieces), joined(pieces, {10: "mit"})
    target = b'<target state="needs-review-translation">mit</target>'
    assert new.count(target) == 1
    assert new.replace(target, b"") == old
    assert b"<source>with</source>" + target + b"<alt-trans>" in new


def test_2_without_target_language_is_read_but_not_filled(tmp_path: Path) -> None:
    text = (NEW % NEW_UNITS).replace(' trgLang="de"', "")
    slot = first(tmp_path, text)
    assert slot.source == ("one",)
    with pytest.raises(DataError, match=r"a\.xlf, unit '1' \(line 6\): .*add trgLang"):
        slot.fill(("eins",))


# ------------------------------------------------------------------------------------------------- inline elements


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ('Click <g id="1" ctype="bold">here</g>.', "Click <g1>here</g1>."),
        ('<bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept>', "<x1/>bold<x2/>"),
        ('a<x id="7"/>b<ph id="2">code <sub>alt text</sub></ph>', "a<x1/>b<x2/>"),
        ('<bx id="1" rid="1"/>a<ex id="2" rid="1"/>', "<x1/>a<x2/>"),
        ('<g id="1">a<g id="2">b</g><x id="3"/></g>', "<g1>a<g2>b</g2><x3/></g1>"),
        ('<mrk mtype="term">word</mrk> <mrk mtype="protected">IBM</mrk>', "<g1>word</g1> <x2/>"),
        ('<g id="1"/>a<it id="2" pos="open">&lt;i></it>', "<x1/>a<x2/>"),
        ("&lt;g1&gt;a<x id='1'/>&lt;x2/>&lt;/g3&gt;", "<g1>a<x4/><x2/></g3>"),
        ("&lt;<!-- x -->g1&gt;<x id='1'/>", "<g1><x2/>"),
        ("a&amp;&lt;b&gt; <![CDATA[<c>&]]>", "a&<b> <c>&"),
        ('<unknown xmlns="urn:x">native</unknown> a', "<x1/> a"),
        ("\n  two\n    lines <x id='1'/>\n  end  \n ", "two lines <x1/> end"),
        (" spaces \t stay ", " spaces \t stay "),
    ],
)
def test_inline_elements_of_1_2_are_short_tags_and_come_back_as_they_were(
    tmp_path: Path, source: str, shown: str
) -> None:
    slot = first(tmp_path, OLD % f"<trans-unit id='1'><source>{source}</source></trans-unit>")
    assert slot.source == (shown,)
    filled = etree.fromstring(slot.fill((shown,)))
    source_again, target = (canonical(filled.find(name)) for name in ("source", "target"))
    if "\n" in source:
        assert target == 'two lines <x id="1"></x> end'
    else:
        assert target == source_again


def canonical(element: etree._Element) -> str:
    """The content of an element in the one way to write it that XML knows."""
    text = etree.tostring(element, method="c14n", with_comments=False, with_tail=False).decode()
    return text.partition(">")[2].rpartition("</")[0]


@pytest.mark.parametrize(
    ("source", "shown", "plain"),
    [
        ('<pc id="1">a</pc> <ph id="2" dataRef="d"/>', "<g1>a</g1> <x2/>", "a "),
        ('<sc id="1"/>a<ec startRef="1"/><cp hex="0007"/>', "<x1/>a<x2/><x3/>", "a"),
        ('<mrk id="1" translate="no">IBM</mrk> <mrk id="2">x</mrk>', "<x1/> <g2>x</g2>", "IBM x"),
        ('a <sm id="1" translate="no"/>b <ph id="3"/>c<em startRef="1"/> d', "a <x1/> d", "a b c d"),
        ('a <sm id="1" translate="no"/>b', "a <x1/>b", "a b"),
    ],
)
def test_inline_elements_of_2(tmp_path: Path, source: str, shown: str, plain: str) -> None:
    text = NEW % f"<unit id='1'><segment><source>{source}</source></segment></unit>"
    slot = first(tmp_path, text)
    assert slot.source == (shown,)
    assert f"<target>{source}</target>".encode() in slot.fill((shown,))
    bare = first(tmp_path, text, codes="none")
    assert bare.source == (plain,)
    with pytest.raises(ValueError, match="is not to be filled"):
        bare.fill((plain,))


def test_tags_of_the_target_have_the_numbers_of_the_source(tmp_path: Path) -> None:
    unit = (
        '<trans-unit id="1"><source><g id="a">one</g> <x id="b"/><x id="c"/><bpt id="d">1</bpt>x<ept id="d">2</ept>'
        '</source><target><x id="c"/><x id="new"/><ept id="9">2</ept><g id="a">eins</g><g id="z">!</g></target>'
        "</trans-unit>"
    )
    slot = first(tmp_path, OLD % unit)
    assert slot.source == ("<g1>one</g1> <x2/><x3/><x4/>x<x5/>",)
    # c is the source's third; "new" takes what is left of the x; the g that the source has not is a sixth.
    assert slot.target == ("<x3/><x2/><x5/><g1>eins</g1><g6>!</g6>",)


UNIT = (
    '<trans-unit id="1"><source><g id="a" x="&amp;">one <bx id="1"/></g>&lt;g9&gt;<ex id="1"/><x id="b"/></source>'
    "</trans-unit>"
)


def test_tags_may_move_but_not_be_lost_doubled_invented_or_crossed(tmp_path: Path) -> None:
    slot = first(tmp_path, OLD % UNIT)
    assert slot.source == ("<g1>one <x2/></g1><g9><x3/><x4/>",)
    moved = slot.fill(("<x4/><x2/><g1>ein<g9>s</g1><x3/>",))
    assert b">\xf0" not in moved
    assert b'<x id="b"/><bx id="1"/><g id="a" x="&amp;">ein&lt;g9&gt;s</g><ex id="1"/></target>' in moved
    wrong = {
        "<g1>one</g1><x2/><x3/>": "lacks <x4/>",
        "<g1>one</g1><x2/><x3/><x4/><x4/>": "<x4/> is not in the source, or there is one too many",
        "<g1>one</g1><x2/><x3/><x4/><x5/>": "<x5/> is not in the source",
        "</g1>one<g1><x2/><x3/><x4/>": "</g1> does not close",
        "<x1/>one<x2/><x3/><x4/>": "<x1/> is not in the source",
        "<g1>one<x3/></g1><x2/><x4/>": "<x2/> stands behind the one that ends it",
        "<g1>one<x2/><x3/><x4/>": "lacks </g1>",
        "<g1>\x07</g1><x2/><x3/><x4/>": r"U\+0007, which XML 1.0 cannot hold",
        "<g1>\ud800</g1><x2/><x3/><x4/>": r"U\+D800",
        "<g1>\uffff</g1><x2/><x3/><x4/>": r"U\+FFFF",
    }
    for text, message in wrong.items():
        with pytest.raises(DataError, match=message) as caught:
            slot.fill((text,))
        assert "a.xlf, unit '1' (line 6): " in str(caught.value)
    crossed = first(tmp_path, OLD % '<trans-unit id="1"><source><g id="1">a</g><g id="2">b</g></source></trans-unit>')
    with pytest.raises(DataError, match="does not close what was opened last"):
        crossed.fill(("<g1>a<g2></g1>b</g2>",))


# --------------------------------------------------------------------------------------------- versions, languages


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("urn:oasis:names:tc:xliff:document:1.2", "urn:x"), "line 2: XLIFF 1.2 or 2.0 to 2.2 is read"),
        (("xliff", "xlf"), "line 2: XLIFF 1.2 or 2.0"),
        (('version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"', 'version="3.0"'), "line 2: XLIFF 1.2 or 2.0"),
        (("en-US", "fr"), "line 3: source-language is 'fr', but 'en' was asked for"),
        (('"de"', '"de-AT"'), None),
        (('"de"', '"dent"'), "line 3: target-language is 'dent', but 'de' was asked for"),
        ((' target-language="de"', ""), None),
        ((' xmlns="urn:oasis:names:tc:xliff:document:1.2"', ""), None),
        (("document:1.2", "document:1.1"), None),
    ],
)
def test_versions_and_languages_of_1_2(tmp_path: Path, change: tuple[str, str], message: str | None) -> None:
    text = (OLD % OLD_UNITS).replace(*change)
    if message is None:
        assert len(list(slots(read(tmp_path, text)))) == len(OLD_EXPECTED)
    else:
        with pytest.raises(DataError, match=message):
            read(tmp_path, text)


def test_languages_of_2(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 2: trgLang is 'de', but 'fr' was asked for"):
        read(tmp_path, NEW % NEW_UNITS, ("en", "fr"))
    assert len(read(tmp_path, NEW % NEW_UNITS, None)) > 5
    two = (NEW % NEW_UNITS).replace("2.1", "2.2").replace("document:2.0", "document:2.2")
    assert len(list(slots(read(tmp_path, two)))) == len(NEW_EXPECTED)


def test_a_missing_file_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none.xlf: cannot be read"):
        read_xliff(tmp_path / "none.xlf")


# ---------------------------------------------------------------------------------------------- made at random

WORDS = st.text(st.sampled_from("ab <>&'\"é中😀\u2028\u0085{}%1gx/"), min_size=1, max_size=8)
CODES = st.sampled_from(
    ['<x id="1"/>', '<x id="2"/>', "<ph id='3'>&lt;br/&gt;</ph>", "<!-- c -->", "<?p i?>", "<bx id='4'/>"]
)


def content(paired: str) -> st.SearchStrategy[str]:
    leaf = WORDS.map(lambda text: escape(text, "")) | CODES
    inner = st.recursive(
        leaf,
        lambda one: st.lists(one, max_size=3).map(lambda some: f'<{paired} id="9">{"".join(some)}</{paired}>'),
        max_leaves=6,
    )
    return st.lists(inner, max_size=4).map("".join)


OLD_UNIT = st.tuples(
    content("g"),
    st.sampled_from(["", "<target/>", "<target state='new'> </target>", "<target>ü</target>"]),
    st.sampled_from(["", "\n   ", "\r\n\t"]),
    st.sampled_from(["", "<note>n</note>", "<alt-trans><target>q</target></alt-trans>"]),
).map(lambda p: f"<trans-unit id='u' xml:space='preserve'>{p[2]}<source>{p[0]}</source>{p[1]}{p[3]}</trans-unit>")
NEW_UNIT = st.tuples(
    content("pc"), st.sampled_from(["", "<target/>", "<target>ü</target>"]), st.sampled_from(["", "\n  "])
).map(lambda p: f"<unit id='u' xml:space='preserve'><segment>{p[2]}<source>{p[0]}</source>{p[1]}</segment></unit>")


@given(data=st.data(), second=st.booleans())
def test_any_file_comes_back_and_is_filled_with_its_own_source(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, second: bool
) -> None:
    units = data.draw(st.lists(NEW_UNIT if second else OLD_UNIT, max_size=4))
    text = (NEW if second else OLD) % "\n<!-- - -->".join(units)
    folder = tmp_path_factory.getbasetemp()
    pieces = read(folder, text)
    assert joined(pieces) == text.encode()
    before = list(slots(pieces))
    assert len(before) == len(units)
    chosen = {number: slot.source[0] for number, slot in enumerate(before) if slot.state == "empty"}
    after = list(slots(read(folder, joined(pieces, chosen))))
    for number, (old, new) in enumerate(zip(before, after)):
        assert new.source == old.source
        if number in chosen:
            assert (new.target, new.state) == (old.source, "review")
        else:
            assert new == old or new.raw == old.raw


def test_mutated_files_give_only_the_typed_error(tmp_path: Path) -> None:
    rng = random.Random(5)
    seeds = [(OLD % (OLD_UNITS + UNIT)).encode(), (NEW % NEW_UNITS).encode()]
    marks = [b"<", b">", b"&", b'"', b"<source>", b"</target>", b"<target>", b"/>", b"\xff", b"]]>", b"<!--", b"\xc3"]
    parsed = 0
    for number in range(1000):
        data = bytearray(seeds[number % 2])
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


LONG_LINE = "x" * 100 + "\n"


@pytest.mark.parametrize(
    "source",
    [
        "<x id='1'/>" + LONG_LINE * 40_000,
        "<x id='1'/>" + "&lt;" * 90_000,
        "<x id='1'/>" * 90_000,
        "<sm id='1' translate='no'/>" * 50_000,
        "<em startRef='1'/>" * 50_000,
        " " * 4_000_000 + "\n" + "<x id='1'/>",
        "&lt;g1" * 45_000,
        "<g id='1'>" * 200 + "a" + "</g>" * 200,
        "<mrk id='1' translate='no'>" * 200 + "a" + "</mrk>" * 200,
    ],
    ids=["lines", "entities", "codes", "starts", "ends", "space", "near tags", "nested", "protected"],
)
def test_no_source_takes_more_time_than_its_length(tmp_path: Path, source: str) -> None:
    begun = time.process_time()
    slot = first(tmp_path, NEW % f"<unit id='1'><segment><source>{source}</source></segment></unit>")
    slot.fill(slot.source)
    assert time.process_time() - begun < 5  # about 0.5 s; whatever is quadratic takes minutes


def test_a_unit_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 5: an entry of more than 16 MiB or 100000 parts, which began in line 5"):
        read(tmp_path, NEW % f"<unit id='1'><segment><source>{'<x/>' * 100_001}</source></segment></unit>")


def test_each_segment_of_a_unit_has_a_name_of_its_own(tmp_path: Path) -> None:
    bare, named = "<segment><source>a</source></segment>", '<segment id="s"><source>a</source></segment>'
    unit = f'<unit id="u">{bare * 2}{named}</unit><unit id="v">{bare}</unit><unit>{bare}</unit>'
    assert [slot.where for slot in slots(read(tmp_path, NEW % unit))] == [
        "unit 'u' (line 5)", "segment 2 of unit 'u' (line 5)", "segment 's' of unit 'u' (line 5)",
        "unit 'v' (line 5)", "line 5",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------- writing

PAIRS = [
    ('a <b> & "c"', "ä"),
    (" lead\ttab\nline\r\n\u2028\u0085 ", "]]>"),
    ("same", "selbe"),
    ("same", ""),
    ("<g1>x</g1><x2/>", "é"),
]


@pytest.mark.parametrize("name", ["a.xlf", "a.xlf.gz", "a.xliff.zst"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with write_xliff(path, ("en", "de-AT")) as write:
        for source, target in PAIRS:
            write(source, target)
    found = list(slots(read_xliff(path, ("en", "de"))))
    assert [(slot.source[0], slot.target[0]) for slot in found] == PAIRS
    assert [slot.state for slot in found] == ["translated", "translated", "translated", "empty", "translated"]
    if name == "a.xlf":
        assert toolkit(path.read_bytes(), xliff.Xliff1File) == PAIRS


def test_a_character_that_xml_cannot_hold_is_refused_and_nothing_left(tmp_path: Path) -> None:
    def write_two() -> None:
        with write_xliff(tmp_path / "a.xlf", ("en", "de")) as write:
            write("a", "b")
            write("c", "d\x0b")

    with pytest.raises(DataError, match=r"a\.xlf, entry 2: .*U\+000B"):
        write_two()
    assert list(tmp_path.iterdir()) == []
