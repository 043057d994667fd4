"""Documents are filled where they are empty, keep every other byte, and never hold a broken translation."""

import io
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polib
import pytest
from translate.storage.xliff import xlifffile

from clearhead.base.errors import DataError, InputError
from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.recipes.document_files import DocumentFormat, Fill, count_slots, document_format, open_document
from clearhead.recipes.documents import FAILED, Filled, translate_document
from clearhead.text.glossary import Glossary, Term
from tests.unit.recipes.breaking import Breaking
from tests.unit.recipes.tiny import save_tiny, tiny_translator

PO = r"""# a comment
msgid ""
msgstr ""
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: a.py:1
msgid   "Open {name}"
msgstr ""

#, python-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid "two\n"
"lines\n"
msgstr ""

#, fuzzy
msgid "to be looked at"
msgstr "ansehen"

msgid "done"
msgstr   "fertig"

#~ msgid "old"
#~ msgstr "alt"
"""

XLIFF = """<?xml version="1.0"?>
<xliff version="1.2"><file source-language="en" target-language="de" original="x" datatype="plaintext"><body>
<trans-unit id="a"><source>The <g id="1">cat</g> and the <ph id="2"/> mat</source></trans-unit>
<trans-unit id="b"><source>done</source><target>fertig</target></trans-unit>
<trans-unit id="c"><source>code <bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept></source></trans-unit>
</body></file></xliff>
"""


def upper(text: str, _: bool = False) -> list[str]:
    return [text.upper() if "<" not in text and "{" not in text and "%" not in text else f"[{text}]"]


def fill(
    tmp_path: Path,
    content: str,
    format: DocumentFormat,
    answer: Callable[[str, bool], list[str] | None] = upper,
    which: Fill = "empty",
    **options: Any,
) -> tuple[str, Filled, Breaking]:
    source, output = tmp_path / f"in.{format}", tmp_path / f"out.{format}"
    source.write_bytes(content.encode())
    breaking = Breaking(answer)
    outcome = translate_document(
        breaking.translator,
        DecodingConfig(),
        open_document(source, format, ("en", "de")),
        output,
        fill=which,
        **options,
    )
    return output.read_bytes().decode(), outcome, breaking


def test_a_po_file_keeps_all_but_what_is_filled(tmp_path: Path) -> None:
    written, outcome, _ = fill(tmp_path, PO, "po")
    assert (outcome.entries, outcome.filled, outcome.kept, outcome.closed) == (7, 3, 2, 2)
    assert outcome.left == {}
    before, after = polib.pofile(PO), polib.pofile(written)
    assert len(before) == len(after)
    new = {entry.msgid: entry for entry in after}
    assert new["Open {name}"].msgstr == "[Open {name}]"
    assert new["%d file"].msgstr_plural == {0: "[%d file]", 1: "[%d files]"}
    assert new["two\nlines\n"].msgstr == "TWO\nLINES\n"
    assert all(new[text].fuzzy for text in ("Open {name}", "%d file", "two\nlines\n"))
    # Line by line: nothing went but empty translations, and flag lines to which "fuzzy" was added.
    gone = [line for line in PO.splitlines() if line not in written.splitlines()]
    assert gone == ["#, python-format", 'msgstr[0] ""', 'msgstr[1] ""']
    assert 'msgstr   "fertig"' in written


def test_what_is_filled_is_chosen(tmp_path: Path) -> None:
    assert fill(tmp_path, PO, "po", which="review")[1].filled == 4
    written, outcome, _ = fill(tmp_path, PO, "po", which="all")
    assert (outcome.filled, outcome.kept) == (5, 0)
    assert "fertig" not in written
    assert '#~ msgstr "alt"' in written


def test_xliff_elements_come_out_as_they_went_in(tmp_path: Path) -> None:
    written, outcome, _ = fill(tmp_path, XLIFF, "xliff")
    assert (outcome.filled, outcome.kept) == (2, 1)
    units = xlifffile.parsestring(written.encode()).units
    assert [unit.getid() for unit in units] == ["\x04a", "\x04b", "\x04c"] or len(units) == 3
    assert 'The <g id="1">cat</g> and the <ph id="2"/> mat]</target>' in written
    assert "<target>fertig</target>" in written
    for line in XLIFF.splitlines():
        assert line in written or "<source>" in line


def test_an_order_of_elements_that_xliff_forbids_is_mended(tmp_path: Path) -> None:
    def answer(text: str, _: bool) -> list[str]:
        return ["<x2/>fett<x1/>"] if "<x1/>" in text and "<x2/>" in text else upper(text)  # the end first

    naive = "<x2/>fett<x1/>"
    slot = [p for p in open_document(_file(tmp_path, XLIFF), "xliff", ("en", "de")) if not isinstance(p, bytes)][2]
    with pytest.raises(DataError, match="ends it"):
        slot.fill([naive])
    written, outcome, _ = fill(tmp_path, XLIFF, "xliff", answer)
    assert 'CODE <bpt id="1">&lt;b></bpt>BOLD<ept id="1">&lt;/b></ept></target>' in written
    assert outcome.left == {}
    assert outcome.flagged["placeholders_repaired"] == ["unit 'c' (line 5)"]


def _file(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "file"
    path.write_text(content)
    return path


def test_what_cannot_be_kept_stays_empty_and_is_named(tmp_path: Path) -> None:
    lines = ["good\t", "bad {name}\t", "silent\t", "fails\t", " \t", "done {x}\tfertig"]

    def answer(text: str, _: bool) -> list[str] | None:
        return {"good": ["gut"], "silent": [""], "fails": None, "bad": [" "]}.get(text, ["schlecht"])

    written, outcome, _ = fill(tmp_path, "".join(f"{line}\n" for line in lines), "tsv", answer)
    assert written.splitlines() == ["good\tgut", *lines[1:]]
    assert outcome.left == {
        "its placeholders, tags or characters could not be kept": ["line 2"],
        "the model wrote nothing": ["line 3"],
        FAILED: ["line 4"],
    }
    assert outcome.summary() == "6 entries: 1 filled, 1 translated before, 1 not to be translated, 3 left as they were"


def test_what_the_file_cannot_hold_is_left_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        written, outcome, _ = fill(
            tmp_path, "cone\t\ntwo\t\n", "tsv", lambda text, _: [{"cone": "Ke\tgel"}.get(text, "ZWEI")]
        )
    assert written == "cone\t\ntwo\tZWEI\n"
    assert outcome.left == {"the file cannot hold the translation": ["line 1"]}
    assert "in.tsv, line 1" in caplog.text


@pytest.mark.parametrize("window", [1, 2, 7, 1000])
def test_as_many_out_as_in_whatever_the_window(tmp_path: Path, window: int) -> None:
    done = ', "target": "da"'
    lines = [f'{{"id": {n}, "source": "cat {n % 9} {{name}}"{"" if n % 3 else done}}}' for n in range(60)]
    seen: list[int] = []
    content = "".join(f"{line}\n" for line in lines)
    written, outcome, breaking = fill(tmp_path, content, "jsonl", window=window, progress=seen.append)
    assert (outcome.entries, outcome.filled, outcome.kept) == (60, 40, 20)
    for n, (before, after) in enumerate(zip(lines, written.splitlines(), strict=True)):
        assert (after == before) == (n % 3 == 0)
        assert f'"id": {n},' in after
        assert f"cat {n % 9} {{name}}" in after
    assert seen == sorted(seen)
    assert seen[-1] == 40
    if window == 1000:  # equal texts of a window are translated once
        assert len(breaking.calls[0][0]) == 9 - 3  # n % 9 in {0, 3, 6} is translated already


def test_space_and_line_breaks_stay(tmp_path: Path) -> None:
    content = r'{"source": "  one \r\n\r\n\ttwo\n\u00a0"}' + "\n"
    written, *_ = fill(tmp_path, content, "jsonl")
    assert r'"target": "  ONE \r\n\r\n\tTWO\n' in written


def test_the_output_may_be_the_input(tmp_path: Path) -> None:
    path = tmp_path / "app.po"
    path.write_text(PO)
    translator = Breaking(upper).translator
    pieces = open_document(path, "po", ("en", "de"))
    assert translate_document(translator, DecodingConfig(), pieces, path).filled == 3
    again = open_document(path, "po", ("en", "de"))
    assert translate_document(translator, DecodingConfig(), again, path).filled == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["app.po"]


def test_a_crash_leaves_no_output(tmp_path: Path) -> None:
    def answer(text: str, _: bool) -> list[str]:
        if text == "lines":
            raise RuntimeError("out of memory, say")
        return [text]

    with pytest.raises(RuntimeError):
        fill(tmp_path, PO, "po", answer, window=1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.po"]


def test_damage_at_the_end_leaves_no_output(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="in.po"):
        fill(tmp_path, PO + 'msgid "a\n', "po", window=1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.po"]
    with pytest.raises(DataError, match="in.po"):
        count_slots(open_document(tmp_path / "in.po", "po", ("en", "de")))


def test_other_languages_are_refused_unless_it_is_said(tmp_path: Path) -> None:
    for name, content in (("a.po", PO), ("a.xlf", XLIFF)):
        path = tmp_path / name
        path.write_text(content)
        kind = document_format(path)
        assert kind is not None
        with pytest.raises(DataError, match=r"de.*fr"):
            count_slots(open_document(path, kind, ("en", "fr")))
        assert count_slots(open_document(path, kind, ("en", "fr"), any_languages=True)) >= 2
        assert count_slots(open_document(path, kind, ("en", "de_AT"))) >= 2


def test_a_file_that_allows_no_translation_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en"><file id="f"><unit id="u">'
        "<segment><source>cat</source></segment></unit></file></xliff>"
    )
    with pytest.raises(DataError, match="trgLang"):
        count_slots(open_document(path, "xliff", ("en", "de")))


def test_names_tell_formats() -> None:
    names = {"a.po": "po", "a.POT.gz": "po", "a.b.xlf": "xliff", "a.tmx.xz": "tmx", "a.tsv": "tsv", "a.jsonl": "jsonl"}
    assert {name: document_format(name) for name in names} == names
    assert [document_format(name) for name in ("-", "a", "a.txt", "po", "a.gz", "a.en")] == [None] * 6


def test_samples_and_unknown_formats_are_refused(tmp_path: Path) -> None:
    config = DecodingConfig(sampling=Sampling())
    with pytest.raises(InputError, match="sampling"):
        translate_document(Breaking(upper).translator, config, [], tmp_path / "x")
    with pytest.raises(InputError, match="unknown format 'doc'"):
        open_document(tmp_path / "x", "doc", ("en", "de"))  # type: ignore[arg-type]


def test_a_glossary_is_forced_in_documents(tmp_path: Path) -> None:
    source, output = tmp_path / "in.tsv", tmp_path / "out.tsv"
    source.write_text("the cat {n}\t\nthe mat\t\n")
    glossary = Glossary([Term("cat", "Katze"), Term("mat", "Matte")])
    pieces = open_document(source, "tsv", ("en", "de"))
    outcome = translate_document(tiny_translator(), DecodingConfig(max_length=25), pieces, output, glossary=glossary)
    first, second = output.read_text().splitlines()
    assert "Katze" in first
    assert "{n}" in first.split("\t")[1]
    assert "Matte" in second
    assert "glossary" not in outcome.flagged


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_ended_process_leaves_no_output(tmp_path: Path, number: signal.Signals) -> None:
    bundle = save_tiny(tmp_path / "bundle")
    source = tmp_path / "in.tsv"
    source.write_text("".join(f"the cat {n} sat on the mat {{name}}\t\n" for n in range(20_000)))
    command = [
        sys.executable,
        "-m",
        "clearhead",
        "translate",
        str(bundle),
        str(source),
        "-o",
        str(tmp_path / "out.tsv"),
    ]
    process = subprocess.Popen(
        [*command, "--window", "5"], env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(tmp_path.glob(".out.tsv.tmp.*")):
        time.sleep(0.05)
    assert list(tmp_path.glob(".out.tsv.tmp.*")), "it never began to write"
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bundle", "in.tsv"]


def test_standard_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"cat\t\ndone\tfertig\n")))
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written))
    pieces = open_document("-", "tsv", ("en", "de"))
    translate_document(Breaking(upper).translator, DecodingConfig(), pieces, "-")
    sys.stdout.flush()
    assert written.getvalue() == b"cat\tCAT\ndone\tfertig\n"
