"""`clearhead translate` on documents: what goes together, what is refused by name, and what is told."""

import gzip
from pathlib import Path

import polib
import pytest

from clearhead.recipes.placeholders import keeps_placeholders
from tests.system.program import clearhead
from tests.unit.recipes.tiny import save_tiny

SMALL = ("--max-length", 12, "--threads", 1)
PO = """msgid ""
msgstr "Language: de\\nContent-Type: text/plain; charset=UTF-8\\n"

msgid "the cat {name}"
msgstr ""

msgid "done"
msgstr "fertig"
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("bundle") / "bundle")


def test_a_document_is_known_by_its_name_and_filled(bundle: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "app.po", tmp_path / "app.de.po"
    source.write_text(PO)
    ran = clearhead("translate", bundle, source, "-o", output, *SMALL)
    assert ran.out == b""
    entry, done = polib.pofile(str(output))
    assert entry.fuzzy
    assert keeps_placeholders("the cat {name}", entry.msgstr)
    assert (done.msgstr, done.fuzzy) == ("fertig", False)
    assert "3 entries: 1 filled, 1 translated before, 1 not to be translated" in ran.log
    as_lines = clearhead("translate", bundle, source, "--format", "lines", *SMALL)
    assert len(as_lines.lines) == PO.count("\n")


def test_from_standard_input_to_standard_output(bundle: Path) -> None:
    ran = clearhead(
        "translate", bundle, "--format", "tsv", "--columns", "2,3", *SMALL, stdin=b"1\tthe cat\n2\tdone\tfertig\n"
    )
    first, second = ran.lines
    assert first.startswith("1\tthe cat\t")
    assert len(first) > len("1\tthe cat\t")
    assert second == "2\tdone\tfertig"


def test_packed_jsonl_by_its_fields(bundle: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "in.jsonl.gz", tmp_path / "out.jsonl.gz"
    source.write_bytes(gzip.compress(b'{"en": "the cat", "de": "", "n": 1.50}\n'))
    clearhead("translate", bundle, source, "-o", output, "--fields", "en,de", *SMALL)
    written = gzip.decompress(output.read_bytes()).decode()
    assert '"n": 1.50' in written
    assert '"needs-review"' in written


@pytest.mark.parametrize(
    ("file", "options", "named"),
    [
        ("a.po", ["--json"], "--json"),
        ("a.po", ["--json", "--n-best", 2], "--n-best and --json"),
        ("a.po", ["--prefix-file", "x"], "--prefix-file"),
        ("a.po", ["--sample"], "--sample"),
        ("a.po", ["--top-k", 3, "--seed", 1], "--top-k and --seed"),
        ("a.po", ["--protect"], "--protect"),
        ("a.po", ["--columns", "1,2"], "--columns"),
        ("a.po", ["--fields", "a,b"], "--fields"),
        ("a.tmx", ["--any-languages"], "--any-languages"),
        ("a.tsv", ["--any-languages"], "--any-languages"),
        ("a.txt", ["--fill", "all"], "--fill"),
        ("a.txt", ["--columns", "1,2"], "--columns"),
        ("a.po", ["--format", "lines", "--fill", "all", "--any-languages"], "--fill and --any-languages"),
    ],
)
def test_options_without_a_meaning_are_refused_by_name(
    bundle: Path, tmp_path: Path, file: str, options: list[object], named: str
) -> None:
    (tmp_path / file).write_text(PO)
    ran = clearhead("translate", bundle, tmp_path / file, *options, code=2)
    assert f"error: {named} means nothing for" in ran.log
    assert file in ran.log


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "tsv", "--columns", "1"], "--columns takes two numbers"),
        (["--format", "tsv", "--columns", "0,2"], "columns are counted from 1"),
        (["--format", "jsonl", "--fields", "a,"], "--fields takes two names"),
        (["--glossary", "no-such-file"], "no-such-file"),
        (["--sample", "--glossary", "terms.tsv"], "--glossary needs a search"),
        (["--sample", "--protect"], "--protect needs a search"),
    ],
)
def test_mistakes_are_told(bundle: Path, options: list[object], message: str) -> None:
    assert message in clearhead("translate", bundle, *options, *SMALL, stdin=b"the cat\n", code=2).log


def test_a_document_in_another_language_is_refused(bundle: Path, tmp_path: Path) -> None:
    source = tmp_path / "app.po"
    source.write_text(PO.replace("Language: de", "Language: fr"))
    ran = clearhead("translate", bundle, source, "-o", tmp_path / "out.po", *SMALL, code=2)
    assert "the header says Language: fr, but the model translates into de" in ran.log
    assert "--any-languages" in ran.log
    assert not (tmp_path / "out.po").exists()
    clearhead("translate", bundle, source, "-o", tmp_path / "out.po", "--any-languages", *SMALL)


def test_damage_is_seen_before_anything_is_translated(bundle: Path, tmp_path: Path) -> None:
    source = tmp_path / "app.po"
    source.write_text(PO + 'msgid "a\n')
    ran = clearhead("translate", bundle, source, "-o", tmp_path / "out.po", *SMALL, code=2)
    assert "app.po, line 9" in ran.log
    assert not (tmp_path / "out.po").exists()


def test_lines_are_protected_only_when_asked(bundle: Path, tmp_path: Path) -> None:
    text = b"the {name} cat\n12 %\nthe mat\n"
    usual = clearhead("translate", bundle, *SMALL, stdin=text).lines
    ran = clearhead("translate", bundle, "--protect", *SMALL, stdin=text)
    assert not keeps_placeholders("the {name} cat", usual[0])
    assert keeps_placeholders("the {name} cat", ran.lines[0])
    assert ran.lines[1] == "12 %"
    assert ran.lines[2] == usual[2]
    assert "1 placeholders_repaired" in ran.log


def test_a_glossary_for_lines(bundle: Path, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("CAT\tKatze\ti\n")
    lines = clearhead("translate", bundle, "--glossary", terms, *SMALL, stdin=b"the cat\nthe mat\n").lines
    assert "Katze" in lines[0]
    assert lines[1] == clearhead("translate", bundle, *SMALL, stdin=b"the mat\n").lines[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prefix-file", "beside", "-o", "beside"], "is to be read and would be replaced"),
        (["--glossary", "beside", "-o", "beside"], "is to be read and would be replaced"),
        (["--glossary", "beside", "--alignments", "beside"], "is to be read and would be replaced"),
        (["--replace-unknown", "--lexicon", "beside", "-o", "beside"], "is to be read and would be replaced"),
        (["--replace-unknown", "--lexicon", "beside", "--alignments", "beside"], "is to be read and would be replaced"),
        (["--replace-unknown", "--lexicon", "nowhere"], "nowhere: cannot be read"),
        (["--replace-unknown", "--lexicon", "beside", "--format", "po"], "nothing for a PO document"),
        (["--alignments", ""], "--alignments: empty"),
        (["--alignments", "/dev/stdout"], "/dev/stdout: would be written twice"),
        (["--alignments", "links", "--alignment-threshold", "nan"], "Invalid value for '--alignment-threshold'"),
    ],
)
def test_what_stands_beside_the_text_is_neither_lost_nor_missed(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("text", "beside"):
        Path(name).write_text("cat\tKatze\n")
    assert message in clearhead("translate", "no-bundle", "text", *options, code=2).log
    assert sorted(each.name for each in tmp_path.iterdir()) == ["beside", "text"]
    assert Path("beside").read_text() == "cat\tKatze\n"


def test_standard_input_is_one_thing_only() -> None:
    twice = ("translate", "no-bundle", "-", "--replace-unknown", "--lexicon", "-")
    assert "cannot be both the text and the lexicon" in clearhead(*twice, stdin=b"a\tb\n", code=2).log
    assert "cannot be both the links and the gold" in clearhead("data", "aer", "-", "-", stdin=b"0-0\n", code=2).log
