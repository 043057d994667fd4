"""XML from anybody is checked: attacks are refused quickly and reach for nothing; sound documents come through."""

import contextlib
import gzip
import io
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from clearhead.base.errors import DataError, InputError
from clearhead.formats.scanner import Element, Record, scan
from clearhead.formats.xml import check_xml, escape, open_xml

TMX = b'<tmx version="1.4"><header srclang="en"/><body>%s</body></tmx>'
TU = b'<tu><tuv xml:lang="en"><seg>%s</seg></tuv></tu>'
LONG = 20 << 20


def laughs(prefix: str = "&") -> str:
    lines = ["<!ENTITY lol0 'ha'>"]
    lines += [f"<!ENTITY lol{n} '{f'{prefix}lol{n - 1};' * 10}'>" for n in range(1, 10)]
    return "".join(lines)


def document(doctype: str = "", text: str = "&x;", attribute: str = "", declaration: str = "") -> bytes:
    return f'{declaration}{doctype}<tmx version="1.4"{attribute}>'.encode() + TMX[19:] % (TU % text.encode())


def subset(declarations: str, text: str = "&x;", attribute: str = "") -> bytes:
    return document(f"<!DOCTYPE tmx [{declarations}]>", text, attribute)


def payloads(secret: str, port: int) -> dict[str, bytes]:
    """Attacks by name. `secret` is a file that nobody may open, `port` one on this machine that nobody may call."""
    http, file = f"http://127.0.0.1:{port}/x", f"file://{secret}"
    long = b"a" * LONG
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{}" parse="text"/>'
    sound = document(text="a").decode()
    return {
        "billion laughs": subset(laughs(), "&lol9;"),
        "billion laughs in an attribute": subset(laughs(), "a", ' x="&lol9;"'),
        "billion laughs by parameters": subset(laughs("&#37;").replace("ENTITY ", "ENTITY % ") + "%lol9;", "a"),
        "billion laughs in a default": subset(laughs() + "<!ATTLIST tmx a CDATA '&lol9;'>", "a"),
        "quadratic blowup": subset(f"<!ENTITY x '{'a' * 50_000}'>", "&x;" * 50_000),
        "entity in itself": subset("<!ENTITY x '&y;'><!ENTITY y '&x;'>"),
        "file as an entity": subset(f"<!ENTITY x SYSTEM '{file}'>"),
        "file as a bare path": subset(f"<!ENTITY x SYSTEM '{secret}'>"),
        "file in an attribute": subset(f"<!ENTITY x SYSTEM '{file}'>", "a", ' x="&x;"'),
        "http as an entity": subset(f"<!ENTITY x SYSTEM '{http}'>"),
        "http as a public entity": subset(f"<!ENTITY x PUBLIC 'a' '{http}'>"),
        "ftp as an entity": subset(f"<!ENTITY x SYSTEM 'ftp://127.0.0.1:{port}/x'>"),
        "device as an entity": subset("<!ENTITY x SYSTEM 'file:///dev/zero'>"),
        "file as a parameter entity": subset(f"<!ENTITY % x SYSTEM '{file}'> %x;", "a"),
        "http as a parameter entity": subset(f"<!ENTITY % x SYSTEM '{http}'> %x;", "a"),
        "sending a file away": subset(
            f"<!ENTITY % f SYSTEM '{file}'><!ENTITY % d \"<!ENTITY &#37; s SYSTEM '{http}?%f;'>\">%d;%s;", "a"
        ),
        "external DTD and a subset": document(f"<!DOCTYPE tmx SYSTEM '{http}' [<!ENTITY x 'a'>]>"),
        "entity of an external DTD": document(f"<!DOCTYPE tmx SYSTEM '{file}'>"),
        "entity of an external DTD in an attribute": document(f"<!DOCTYPE tmx SYSTEM '{file}'>", "a", ' x="&x;"'),
        "entity of a public DTD": document(f"<!DOCTYPE tmx PUBLIC '-//LISA//DTD' '{http}'>"),
        "entity of nothing": document(),
        "empty subset": subset("", "a"),
        "subset of a comment": subset("<!-- a -->", "a"),
        "subset of an element": subset("<!ELEMENT tmx ANY>", "a"),
        "subset of a notation": subset(f"<!NOTATION x SYSTEM '{file}'>", "a"),
        "unparsed entity": subset(f"<!NOTATION n SYSTEM 'n'><!ENTITY x SYSTEM '{file}' NDATA n>", "a"),
        "XInclude of a file": document(text=include.format(file)),
        "XInclude by http": document(text=include.format(http)),
        "20 MB of attribute": document(text="a").replace(b"<seg>", b'<seg a="' + long + b'">'),
        "20 MB of attribute in the root": document(text="a", attribute=f' x="{long.decode()}"'),
        "20 MB of text": TMX % (TU % long),
        "20 MB of comment": TMX % (b"<!--" + long + b"-->"),
        "20 MB of comment before the root": b"<!--" + long + b"-->" + TMX % b"",
        "20 MB of small comments before the root": b"<!-- a -->" * (LONG // 10) + TMX % b"",
        "20 MB of white space before the root": b" " * LONG + TMX % b"",
        "20 MB of instruction": TMX % (b"<?a " + long + b"?>"),
        "20 MB of CDATA": TMX % (TU % (b"<![CDATA[" + long + b"]]>")),
        "20 MB of element name": TMX % (b"<" + long + b"/>"),
        "20 MB of attribute name": TMX % (b"<a " + long + b"='b'/>"),
        "20 MB of space in a tag": TMX % (b"<a " + b" " * LONG + b"/>"),
        "20 MB of public identifier": b"<!DOCTYPE tmx PUBLIC '" + long + b"' 'a'>" + TMX % b"",
        "a million attributes": TMX % (b"<a" + b"".join(b" a%d='b'" % n for n in range(1_000_000)) + b"/>"),
        "a million namespaces": TMX % (b"<a" + b"".join(b" xmlns:a%d='b'" % n for n in range(1_000_000)) + b"/>"),
        "257 deep": b"<tmx>" + b"<a>" * 256 + b"</a>" * 256 + b"</tmx>",
        "200,000 deep": b"<tmx>" + b"<a>" * 200_000 + b"</a>" * 200_000 + b"</tmx>",
        "200,000 deep and open": b"<tmx>" + b"<a>" * 200_000,
        "UTF-7 by name": b'<?xml version="1.0" encoding="UTF-7"?>' + document(text="+ADw-a/+AD4-"),
        "UTF-7 with a subset": b'<?xml version="1.0" encoding="utf-7"?>+ADwAIQ-DOCTYPE tmx+AFsAXQA+-' + TMX % b"",
        "UTF-16 without a mark": sound.encode("utf-16-le"),
        "UTF-16 without a mark, big": sound.encode("utf-16-be"),
        "UTF-16 by name only": b'<?xml version="1.0" encoding="UTF-16"?>' + document(text="a"),
        "UTF-32": sound.encode("utf-32"),
        "UTF-8 by its mark, UTF-16 by name": b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-16"?>' + TMX % b"",
        "UTF-16 by its mark, UTF-8 by name": f'<?xml version="1.0" encoding="utf-8"?>{sound}'.encode("utf-16"),
        "a name behind 2 kB of space": b'<?xml version="1.0"' + b" " * 2000 + b'encoding="cp1252"?>' + TMX % b"",
        "EBCDIC": f'<?xml version="1.0" encoding="cp037"?>{sound}'.encode("cp037"),
        "an unknown encoding": b'<?xml version="1.0" encoding="x-nobody"?>' + TMX % b"",
        "a codec that is no encoding": b'<?xml version="1.0" encoding="zlib_codec"?>' + TMX % b"",
        "overlong UTF-8": TMX % (TU % b"\xc0\xbctu\xc0\xbe"),
        "surrogate in UTF-8": TMX % (TU % b"\xed\xa0\x80"),
        "NUL": TMX % (TU % b"\0"),
        "NUL by reference": document(text="&#0;"),
        "two roots": (TMX % b"") * 2,
        "cut short": (TMX % b"")[:-3],
        "the same attribute twice": document(text="a", attribute=' version="2"'),
        "empty": b"",
    }


AUDITED = """
import contextlib, json, os, sys, time
from clearhead.base.errors import DataError
from clearhead.formats.document import slots
from clearhead.formats.tmx import read_tmx
from clearhead.formats.xml import check_xml
from lxml import etree
events, answers = [], {}
def hook(event, arguments):
    if event == "open" and str(arguments[0]).startswith(os.path.dirname(os.__file__)):
        return  # a codec of Python itself
    if event == "open" or event.startswith(("socket.", "urllib", "subprocess", "os.system", "os.exec")):
        events.append(str(arguments[0]) if event == "open" else event)
with contextlib.suppress(DataError):
    list(read_tmx(sys.argv[1], ("en", "de")))  # whatever is imported late is imported now
sys.addaudithook(hook)
for path in sys.argv[1:]:
    events.clear()
    begun = time.process_time()
    try:
        count = len(list(slots(read_tmx(path, ("en", "de")))))
        answer = f"{count} slots"
    except DataError as error:
        answer = str(error)
    answers[path] = [answer, time.process_time() - begun, [event for event in events if event != path]]
print(json.dumps(answers))
"""


@contextlib.contextmanager
def listener():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        yield server


def called(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def test_attacks_are_refused_quickly_and_reach_for_nothing(tmp_path: Path) -> None:
    # The secret is a pipe: libxml2, whose files no audit hook sees, would hang in opening it.
    secret = tmp_path / "secret"
    os.mkfifo(secret)
    with listener() as server:
        attacks = payloads(str(secret), server.getsockname()[1])
        assert len(attacks) >= 40
        paths = {}
        for number, (name, data) in enumerate(attacks.items()):
            path = tmp_path / f"{number}.tmx"
            path.write_bytes(data)
            paths[str(path)] = name
        command = [sys.executable, "-c", AUDITED, *paths]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert not called(server)
    for path, (answer, seconds, events) in json.loads(done.stdout).items():
        name = paths[path]
        print(f"{seconds:6.3f} s  {name}: {answer.removeprefix(path)[:150]}")
        assert answer.startswith(f"{path}, line "), (name, answer)
        assert seconds < 3, name  # of processor time; 1 s on a machine that has nothing else to do
        assert events == [], name


def test_the_attacks_would_work_on_a_careless_parser(tmp_path: Path) -> None:
    # The measure itself: what is tested above does reach files and sockets where it is let.
    (tmp_path / "secret").write_text("s3cret")
    with listener() as server:
        attacks = payloads(str(tmp_path / "secret"), server.getsockname()[1])
        careless = etree.XMLParser(resolve_entities=True, load_dtd=True, no_network=False)
        for name in ("file as an entity", "file as a bare path"):
            assert "s3cret" in "".join(etree.fromstring(attacks[name], careless).itertext()), name
        assert not called(server)
        with socket.create_connection(server.getsockname()), contextlib.suppress(etree.XMLSyntaxError):
            assert called(server)
    tree = etree.fromstring(attacks["XInclude of a file"])
    tree.getroottree().xinclude()
    assert "s3cret" in "".join(tree.itertext())


@pytest.mark.parametrize(
    "doctype", ['SYSTEM "tmx14.dtd"', 'PUBLIC "-//LISA OSCAR:1998//DTD for TMX//EN" "tmx14.dtd"', ""]
)
def test_a_bare_document_type_is_accepted_and_never_fetched(tmp_path: Path, doctype: str) -> None:
    os.mkfifo(tmp_path / "tmx14.dtd")  # opening it would hang
    (tmp_path / "a.tmx").write_bytes(document(f"<!DOCTYPE tmx {doctype}>", "a &amp; b", ' note="&lt;&#38;"'))
    check_xml(tmp_path / "a.tmx")


ENCODED = [
    ("utf-8", "utf-8", b""), ("UTF-8", "utf-8", b"\xef\xbb\xbf"), ("utf-16", "utf-16-le", b"\xff\xfe"),
    ("UTF-16", "utf-16-be", b"\xfe\xff"), ("iso-8859-1", "latin-1", b""), ("ISO-8859-15", "iso8859-15", b""),
    ("windows-1252", "cp1252", b""), ("us-ascii", "ascii", b""),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "codec", "mark"), ENCODED)
def test_encodings_are_read_and_written_back(tmp_path: Path, declared: str, codec: str, mark: bytes) -> None:
    text = f'<?xml version="1.0" encoding="{declared}"?>\r\n<a>\r\n<r k="ä"><b/><c></c>ä&amp;&#8364; </r ><r/></a>\n'
    data = mark + text.replace("ä", "&#228;" if codec == "ascii" else "ä").encode(codec)
    (tmp_path / "a.xml").write_bytes(data)
    with open_xml(tmp_path / "a.xml") as opened:
        pieces = list(opened.records(lambda element: element.name == "r"))
    assert b"".join(piece if isinstance(piece, bytes) else piece.raw for piece in pieces) == data
    first, second = [piece for piece in pieces if isinstance(piece, Record)]
    assert first.element.attributes == {"k": "ä"}
    assert "".join(part for part in first.element.content if isinstance(part, str)) == "ä&€ "
    assert first.start_tag(first.element).startswith("<r k=")
    assert [first.start_tag(part) for part in first.element.content if isinstance(part, Element)] == ["<b/>", "<c>"]
    filled = first.splice([(first.element.opened, first.element.closing, "€ü\u4e2d")])
    tree = etree.fromstring(data.replace(first.raw, filled))
    assert tree[0].text == "€ü\u4e2d"
    assert second.start_tag(second.element) == "<r/>"


def test_a_stream_that_gives_itself_once_is_checked_and_then_read(tmp_path: Path) -> None:
    data = document(text="a") + b"\n"
    code = (
        "import sys; from clearhead.formats.tmx import read_tmx; from clearhead.formats.document import slots\n"
        "print([(s.where, s.source) for s in slots(read_tmx('-', ('en', 'de')))])"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True)
    assert done.stdout.decode().strip() == "[('line 1', ('a',))]", done.stderr
    done = subprocess.run([sys.executable, "-c", code], input=data[:-9], capture_output=True)
    assert b"DataError: standard input, line 1: no well-formed XML" in done.stderr


@pytest.mark.parametrize("values", ["b", "b>", "<!-- b"])
def test_a_tag_of_very_many_attributes_is_refused_before_they_are_kept(tmp_path: Path, values: str) -> None:
    """lxml would hold some thirty times its size until it has the whole of it."""
    code = (
        "import sys; from clearhead.base.errors import DataError; from clearhead.formats.xml import check_xml\n"
        "def peak(): return int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) >> 10\n"
        "check_xml(sys.argv[1]); before = peak()\n"
        "try: check_xml(sys.argv[2])\n"
        "except DataError as error: print(error, peak() - before)"
    )
    sound, attack = tmp_path / "sound.tmx", tmp_path / "a.tmx"
    most = "".join(f" a{n}='{values.replace('<', '')}'" for n in range(40_000))  # 600 kB
    sound.write_text(f"<tmx>\n<a{most}>{'text ' * 700_000}</a><b/>{'text ' * 700_000}</tmx>")
    attack.write_text("<tmx>\n\n<a" + "".join(f" a{n}='{values}'" for n in range(1_000_000)) + "/></tmx>")
    done = subprocess.run([sys.executable, "-c", code, str(sound), str(attack)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    message, grown = done.stdout.rsplit(maxsplit=1)
    assert message.startswith(f"{attack}, line ")
    assert int(grown) < 100


def test_archives_are_read_and_bombs_in_them_refused(tmp_path: Path) -> None:
    good = tmp_path / "a.tmx.gz"
    good.write_bytes(gzip.compress(document(text="a")))
    check_xml(good)
    good.write_bytes(good.read_bytes()[:-9])
    with pytest.raises(DataError, match="a.tmx.gz: damaged or cut short"):
        check_xml(good)
    bomb = tmp_path / "bomb.tmx.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as stream:
        stream.write(TMX[:-20])
        for _ in range(100):
            stream.write(b"<!-- -->" * (1 << 17))
    with pytest.raises(DataError, match="bomb.tmx.gz"):
        check_xml(bomb)


def test_without_lxml_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tmx").write_bytes(document(text="a"))
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(InputError, match=r'pip install "clearhead\[formats\]"'):
        check_xml(tmp_path / "a.tmx")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<a>\n<b></a>", "line 2: no well-formed XML"),
        (b"<a>\n\n&x;</a>", r"line 3: no well-formed XML \(Entity 'x' not defined\)|line 3: .*undefined entity"),
        (b'<!DOCTYPE a [\n<!ENTITY x "y">]><a>&x;</a>', "line 1: a document type with declarations of its own"),
        (b"<a>" + b"\n<b>" * 300, "line 25[67]: .*(deep|depth)"),
        (b'<?xml version="1.0" encoding="Shift_JIS"?>\n<a/>', "line 1: the encoding Shift_JIS is not read"),
        (b"<!DOCTYPE a SYSTEM 'x'>\n<a>\n<b>&x;</b></a>", "line 3: .*entity"),
        (b"<!DOCTYPE a SYSTEM 'x'>\n<a>\n&x;<b/></a>", "line 3: .*entity"),
        # Far down, where lxml comes first.
        (b"<a>\n" + b"<b/>" * 50_000 + b"\n&x;</a>", r"line 3: no well-formed XML \(Entity 'x' not defined\)"),
        (b"<!DOCTYPE a SYSTEM 'x'><a>\n" + b"<b/>" * 50_000 + b"\n<b>&x;</b></a>", "line 3: an entity that is not"),
        (b"<!DOCTYPE a SYSTEM 'x'><a>\n" + b"<b/>" * 50_000 + b"\n&x;<b/></a>", "line 3: an entity that is not"),
        (b"<!DOCTYPE a SYSTEM 'x'><a>\n" + b"<b/>" * 50_000 + b"\n<b c='&x;'/></a>", "line 3: an attribute refers to"),
    ],
)
def test_messages_name_file_and_line(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.xml").write_bytes(data)
    with pytest.raises(DataError, match=rf"a\.xml, ({message})"):
        check_xml(tmp_path / "a.xml")


def test_the_scanner_alone_refuses_entities_too() -> None:
    # Whoever reads without the check, or finds a way round it, meets the same walls.
    attacks = payloads("/x", 1)
    names = [name for name in attacks if "entity" in name or "laughs" in name or "XInclude" in name]
    assert len(names) > 15
    for name in names:
        with pytest.raises(DataError, match="a.xml, line "):
            list(scan(io.BytesIO(attacks[name]), "a.xml", "utf-8", lambda element: False))


# ----------------------------------------------------------------------------------------- documents made at random

TEXT = st.text(st.sampled_from("ab \n\t\r<>&'\"]é中😀;#"), max_size=8).map(lambda text: escape(text, "x"))
SPACE = st.sampled_from(["", " ", "\n\t", "\r\n"])
ATTRIBUTES = st.dictionaries(st.sampled_from("abc"), TEXT, max_size=2).map(
    lambda values: "".join(f""" {name} = '{value.replace("'", "&apos;")}'""" for name, value in values.items())
)
MISC = st.one_of(
    TEXT,
    st.just("<!-- <r> -->"),
    st.just("<?r <r>?>"),
    st.just("<![CDATA[<r>&]]>"),
    st.just("<!---->"),
    st.just("]]&gt;"),
)


def element(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    name = st.sampled_from(["r", "s", "p:r", "long-name"])
    tag = st.tuples(name, ATTRIBUTES, SPACE, st.lists(inner, max_size=4).map("".join))
    return tag.map(lambda t: f"<{t[0]}{t[1]}{t[2]}>{t[3]}</{t[0]}{t[2]}>") | tag.map(lambda t: f"<{t[0]}{t[1]}{t[2]}/>")


DOCUMENTS = st.tuples(
    st.sampled_from(["", '<?xml version="1.0"?>', '<!DOCTYPE d SYSTEM "d">', "<!-- a -->\n"]),
    st.lists(st.recursive(MISC | element(MISC), element, max_leaves=8), max_size=5).map("".join),
    SPACE,
).map(lambda parts: f'{parts[0]}<d xmlns:p="urn:p">{parts[1]}</d>{parts[2]}')


@given(document=DOCUMENTS, size=st.integers(1, 40), codec=st.sampled_from(["utf-8", "utf-16-le"]))
def test_pieces_are_the_document_and_agree_with_lxml(document: str, size: int, codec: str) -> None:
    data = document.encode(codec) if codec == "utf-8" else b"\xff\xfe" + document.encode(codec)

    class Trickle(io.BytesIO):
        def read(self, _size: int | None = -1, /) -> bytes:
            return super().read(size)

    pieces = list(scan(Trickle(data), "a.xml", codec, lambda element: element.name == "r"))
    assert b"".join(piece if isinstance(piece, bytes) else piece.raw for piece in pieces) == data
    outermost = etree.fromstring(data).xpath("//*[local-name()='r'][not(ancestor::*[local-name()='r'])]")
    records = [piece for piece in pieces if isinstance(piece, Record)]
    assert len(records) == len(outermost)
    for record, node in zip(records, outermost):
        compare(record, record.element, node)


def compare(record: Record, ours: Element, node: etree._Element) -> None:
    """The same tree as lxml's, and each element's bytes parse to it again."""
    assert (ours.name, ours.namespace) == (etree.QName(node).localname, etree.QName(node).namespace or "")
    assert ours.attributes == dict(node.attrib)
    texts = [node.text or ""]
    nodes = []
    for child in node:
        if isinstance(child.tag, str):
            nodes.append(child)
            texts.append(child.tail or "")
        else:
            texts[-1] += child.tail or ""
    found = [""]
    for part in ours.content:
        if isinstance(part, str):
            found[-1] += part
        else:
            found.append("")
    assert found == texts
    raw = record.raw[ours.start : ours.end].decode(record.encoding)
    again = etree.fromstring(f'<d xmlns:p="urn:p">{raw}</d>')
    assert len(again) == 1
    assert "".join(again.itertext(etree.Element)) == "".join(node.itertext(etree.Element))
    inner = record.raw[ours.opened : ours.closing].decode(record.encoding)
    assert etree.fromstring(f'<d xmlns:p="urn:p">{inner}</d>') is not None
    for part, child in zip([part for part in ours.content if isinstance(part, Element)], nodes):
        compare(record, part, child)


def test_random_bytes_give_only_the_typed_error(tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tmp_path / "a.xml"
    seeds = [payload for name, payload in payloads("/nowhere", 9).items() if len(payload) < 3000]
    for _ in range(300):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        path.write_bytes(data)
        with contextlib.suppress(DataError):
            check_xml(path)
