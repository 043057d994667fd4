"""Bytes for readers to stumble over: small sound files of each format, and what chance makes of them."""

from __future__ import annotations

import random

__all__ = ["SEEDS", "TOKENS", "draw_input", "mutated"]

_TEXT = (
    "the door is open\tdie Tür ist offen\n{name} was %d%% {0}\tÄ \u2028 \u0085 \x0c \x1c b\n"
    "no text\t\n\t\n中文 字\tα\u0301\n"
)
_LINES = "one line\nanother, with \u2028 and \x85 and \r in it\r\n\n中文\nlast without an end"
_PO = r"""# translator
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. extracted
#: file.c:12
#, fuzzy, c-format
#| msgid "old"
msgctxt "menu"
msgid "Open %s\n"
msgstr "Öffne %s\n"

msgid "one file"
msgid_plural "%d \"files\""
msgstr[0] "eine Datei"
msgstr[1] "%d Dateien"

msgid "nothing"
msgstr ""

#~ msgid "gone"
#~ msgstr "weg"
"""
_TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" adminlang="en" datatype="plaintext" segtype="sentence"/>
<body><tu tuid="1"><prop type="x">a</prop><tuv xml:lang="en"><seg>one <bpt i="1">&lt;b&gt;</bpt>two<ept i="1"/></seg>
</tuv><tuv xml:lang="de"><seg>eins <ph/>&amp; zwei</seg></tuv></tu>
<!-- a --><tu><tuv xml:lang="en-US"><seg>x</seg></tuv></tu>
</body></tmx>
"""
_XLIFF = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en"
 target-language="de" datatype="plaintext"><body><group><trans-unit id="1" xml:space="preserve"><source>one
<g id="1">two </g><x id="2"/></source>
<target state="needs-translation">eins <g id="1">zwei</g></target></trans-unit></group>
<trans-unit id="2" translate="no"><source>a &amp; b</source></trans-unit></body></file></xliff>
"""
_XLIFF2 = """<xliff version="2.0" srcLang="en" trgLang="de" xmlns="urn:oasis:names:tc:xliff:document:2.0"><file id="f">
<unit id="1"><segment state="initial"><source>one <pc id="1">two</pc><ph id="2"/></source>
<target>eins</target></segment>
<ignorable><source> </source></ignorable><segment><source>three</source></segment></unit></file></xliff>
"""
_JSONL = """{"source": "one {name}", "target": "eins {name}", "id": 12345678901234567890, "n": 1e5}
{"id": [1, {"a": null}], "target": null, "source": "two \\u00e4 \\ud83d\\ude00"}
{"source":"three","target":"","state":"needs-review"}
"""
_RECIPE = """out = "runs/a"
seed = 3
[data]
languages = ["en", "de"]
train = { source = "a.en", target = "a.de" }
batch_tokens = 80
[tokenizer]
vocab_size = 320
[model]
preset = "tiny"
attention = { heads = 2 }
[training]
updates = 20
schedule = { kind = "noam", warmup = 8 }
optimizer = { kind = "adamw", weight_decay = 0.1 }
"""
_GLOSSARY = "# terms\nserver\tServer\ti\nmachine translation\tmaschinelle Übersetzung\n\nAPI\tAPI\t\n"

SEEDS: dict[str, list[bytes]] = {
    name: [text.encode() for text in texts]
    for name, texts in {
        "lines": [_LINES, _TEXT], "pairs": [_LINES, _TEXT], "tsv": [_TEXT], "jsonl": [_JSONL], "tmx": [_TMX],
        "xliff": [_XLIFF, _XLIFF2], "po": [_PO], "glossary": [_GLOSSARY], "recipe": [_RECIPE],
    }.items()
}  # fmt: skip
"""Sound files by reader; those of archives and manifests are made where they are read."""

TOKENS = [
    token.encode("utf-8", "surrogatepass")
    for token in (
        *("\n", "\r", "\r\n", "\t", "\0", " ", "\ufeff", "\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\x1a", "\ud800"),
        *('"', "\\", "'", "{", "}", "[", "]", "<", ">", "&", "&x;", "&#0;", "&#xD800;", "%", "#", "#~", "#,", "=", ":"),
        *("<!--", "-->", "<![CDATA[", "]]>", "<?", "?>", "<!DOCTYPE a [", "]>", "<!ENTITY x 'y'>", "</seg>", "<seg>"),
        *("msgid ", "msgstr ", "msgstr[", "msgctxt ", "charset=utf-7", "nplurals=999999999", "NaN", "1e999", "null"),
        *("9" * 5000, "[" * 2000, '{"a":' * 1000, "<a>" * 300, "\\u", "\\ud800", "\\x", '"""', "[[", ". . ", "inf"),
    )
] + [b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x1f\x8b", b"(\xb5/\xfd"]


def mutated(seed: bytes, draw: random.Random) -> bytes:
    """One to eight changes: bits, bytes, spans, tokens of some format."""
    data = bytearray(seed)
    for _ in range(draw.randint(1, 8)):
        place = draw.randrange(len(data) + 1)
        end = min(len(data), place + draw.randint(1, 40))
        match draw.randrange(8):
            case 0 if data:
                data[place % len(data)] ^= 1 << draw.randrange(8)
            case 1:
                data[place:end] = b""
            case 2:
                data[place:place] = data[place:end]
            case 3:
                data[place:end] = draw.randbytes(draw.randint(0, 12))
            case 4 | 5:
                data[place:place] = draw.choice(TOKENS)
            case 6 if draw.randrange(4) == 0:
                del data[place:]
            case 7 if draw.randrange(20) == 0:
                data[place:place] = draw.choice(TOKENS) * draw.randint(100, 5000)
    return bytes(data)


def draw_input(seeds: list[bytes], draw: random.Random) -> bytes:
    """A mutant of a sound file four times of five, otherwise random bytes."""
    if draw.randrange(5) == 0:
        return draw.randbytes(draw.randint(0, 2000))
    return mutated(draw.choice(seeds), draw)
