"""`clearhead data convert`: every pair arrives, what does not is counted, and nothing is half written."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import polib
import pytest
from click.testing import Result
from typer.testing import CliRunner

from clearhead.base.errors import DataError, InputError
from clearhead.cli.data import app
from clearhead.formats.corpus import Format, open_corpus, write_corpus
from clearhead.recipes.convert import ConvertReport, convert_corpus

LANGUAGES = ("en", "de")
NAMES: dict[Format, tuple[str, ...]] = {
    "plain": ("c.en", "c.de"),
    "tsv": ("c.tsv",),
    "jsonl": ("c.jsonl",),
    "po": ("c.po",),
    "tmx": ("c.tmx",),
    "xliff": ("c.xlf",),
}
PAIRS = [
    ("Hello", "Hallo"),
    ("Hello", "Guten Tag"),
    ('A "q" \\ & <b> {x} \u2028', "%s \x85 ]]> ä\U0001f600"),
    (" a ", " b "),
]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["convert", *(str(argument) for argument in arguments)])


def written(directory: Path, kind: Format, pairs: list[tuple[str, str]]) -> list[Path]:
    directory.mkdir(exist_ok=True)
    paths = [directory / name for name in NAMES[kind]]
    with write_corpus(paths, LANGUAGES) as write:
        for pair in pairs:
            write(*pair)
    return paths


def test_every_format_is_tried() -> None:
    assert set(NAMES) == set(get_args(Format))


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(NAMES, 2)))
def test_there_and_back_again_is_the_same_file(tmp_path: Path, first: Format, second: Format) -> None:
    start = written(tmp_path / "start", first, PAIRS)
    middle = [tmp_path / name for name in NAMES[second]]
    (tmp_path / "end").mkdir()
    end = [tmp_path / "end" / name for name in NAMES[first]]
    for source, target in ((start, middle), (middle, end)):
        report = convert_corpus(open_corpus(source, LANGUAGES), target)
        assert (report.read, report.written, set(report.left_out.values())) == (len(PAIRS), len(PAIRS), {0})
    assert [path.read_bytes() for path in end] == [path.read_bytes() for path in start]
    assert list(open_corpus(middle, LANGUAGES).pairs()) == PAIRS


PO = r"""msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\n"

msgid "a"
msgstr "A"

msgid "b"
msgstr ""

#, fuzzy
msgid "c"
msgstr "C"

#~ msgid "old"
#~ msgstr "alt"
"""


def test_what_is_left_out_is_counted_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "c.po").write_text(PO)
    result = call(tmp_path / "c.po", "--out", tmp_path / "c.tsv")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "c.tsv").read_text() == "a\tA\n"
    assert result.stdout.splitlines()[0] == "1 of 4 entries written"
    for reason in ("1 without a source or a translation", "1 needing review", "1 not to be translated"):
        assert reason in result.stdout
    # polib, which knows nothing of us, counts the same.
    catalogue = polib.pofile(str(tmp_path / "c.po"))
    counts = (
        len(catalogue.untranslated_entries()),
        len(catalogue.fuzzy_entries()),
        len(catalogue.obsolete_entries()),
    )
    report = convert_corpus(open_corpus([tmp_path / "c.po"]), [tmp_path / "c.tsv"])
    assert tuple(report.left_out.values()) == counts
    kept = call(tmp_path / "c.po", "--out", tmp_path / "c.tsv", "--fuzzy", "keep")
    assert kept.stdout.startswith("2 of 4")
    assert (tmp_path / "c.tsv").read_text() == "a\tA\nc\tC\n"


def test_a_line_break_is_refused_by_name_or_becomes_a_space(tmp_path: Path) -> None:
    pairs = [("one", "eins"), ("a\nb\r\nc\td\r", "x\n")]
    path = written(tmp_path / "in", "jsonl", pairs)[0]
    for out, first in ((["o.en", "o.de"], r"o\.en"), (["o.tsv"], r"o\.tsv")):
        targets = [tmp_path / name for name in out]
        with pytest.raises(DataError, match=f"{first}, line 2: "):
            convert_corpus(open_corpus([path]), targets)
        assert not any(target.exists() for target in targets)
    tab = {"o.en": "a b c\td ", "o.tsv": "a b c d "}
    for out in (["o.en", "o.de"], ["o.tsv"]):
        targets = [tmp_path / name for name in out]
        report = convert_corpus(open_corpus([path]), targets, breaks="space")
        assert (report.written, report.changed) == (2, 1)
        assert list(open_corpus(targets).pairs()) == [("one", "eins"), (tab[out[0]], "x ")]
    # A format that holds them gets them as they are.
    report = convert_corpus(open_corpus([path], LANGUAGES), [tmp_path / "o.po"], breaks="space")
    assert report.changed == 0
    assert list(open_corpus([tmp_path / "o.po"]).pairs()) == pairs


def test_options_for_names_that_do_not_tell_and_for_columns_and_fields(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("1\tHallo\tHello\n2\tWelt\tWorld\n")
    result = call(
        tmp_path / "in.txt", "--from", "tsv", "--columns", "3,2",
        "--out", tmp_path / "out.txt", "--to", "jsonl", "--fields", "en,de",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert lines == [{"en": "Hello", "de": "Hallo"}, {"en": "World", "de": "Welt"}]
    back = call(tmp_path / "out.txt", "--from", "jsonl", "--fields", "de,en", "--out", "-")
    assert back.exit_code == 0, back.output
    assert back.stdout == "Hallo\tHello\nWelt\tWorld\n"
    assert back.stderr == "2 of 2 entries written\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--columns", "1"], "--columns takes two numbers"),
        (["--columns", "a,b"], "--columns takes two numbers"),
        (["--columns", "0,1"], "counted from 1"),
        (["--columns", "1,1"], "cannot both be column 1"),
        (["--columns", f"1,{'9' * 5000}"], "so many columns"),
        (["--fields", "a, b"], "--fields means nothing where tsv is read and tsv written"),
        (["--fuzzy", "keep"], "--fuzzy means nothing"),
        (["--from", "jsonl", "--columns", "1,2"], "--columns means nothing where jsonl"),
        (["--from", "tmx", "--languages", "en-en"], "both 'en'"),
        (["--to", "tmx", "--languages", "en-en"], "both 'en'"),
        (["--fields", "a"], "--fields takes two names"),
        (["--to", "po"], "which languages"),
        (["--to", "plain"], "the second is missing"),
        (["--from", "jsonl"], "line 1: "),
        (["--from", "plain"], "the second is missing"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: list[str], message: str) -> None:
    (tmp_path / "c.tsv").write_text("a\tb\n")
    result = call(tmp_path / "c.tsv", "--out", tmp_path / "o.tsv", *options)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (tmp_path / "o.tsv").exists()


def test_what_is_read_is_never_written_over(tmp_path: Path) -> None:
    path = written(tmp_path, "tsv", PAIRS)[0]
    before = path.read_bytes()
    (tmp_path / "link.tsv").symlink_to(path)
    for out in (path, tmp_path / "link.tsv"):
        with pytest.raises(InputError, match="would be replaced"):
            convert_corpus(open_corpus([path]), [out])
    assert path.read_bytes() == before


def test_a_failure_half_way_leaves_the_old_files(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"source": "a", "target": "b"}\nnot JSON\n')
    (tmp_path / "o.en").write_text("old\n")
    with pytest.raises(DataError, match=r"c\.jsonl, line 2"):
        convert_corpus(open_corpus([tmp_path / "c.jsonl"]), [tmp_path / "o.en", tmp_path / "o.de"])
    assert (tmp_path / "o.en").read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.jsonl", "o.en"]


def test_the_report_speaks_only_of_what_happened() -> None:
    assert str(ConvertReport(read=3, written=3)) == "3 of 3 entries written"
    some = ConvertReport(read=1200, written=1100, changed=2, left_out={"empty": 0, "review": 100, "closed": 0})
    assert str(some).splitlines() == [
        "1,100 of 1,200 entries written, 2 of them with spaces for line breaks",
        "  left out: 100 needing review (--fuzzy keep takes them)",
    ]


def test_split_takes_any_format(tmp_path: Path) -> None:
    pairs = [(f"word{chr(97 + number)}", f"wort{number}") for number in range(20)]
    for kind in ("jsonl", "po", "tmx", "xliff"):
        path = written(tmp_path / kind, kind, pairs)[0]
        options = ["--out", tmp_path / f"split-{kind}", "--dev", 1, "--test", 2, "--languages", "en-de"]
        result = CliRunner().invoke(app, ["split", str(path), *map(str, options)])
        assert result.exit_code == 0, result.output
        parts = [(tmp_path / f"split-{kind}" / f"{part}.de").read_text() for part in ("train", "dev", "test")]
        assert [part.count("\n") for part in parts] == [17, 1, 2]


def test_a_character_that_xml_cannot_hold_is_told_by_the_line_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text("a\tb\n\t\nbell\x07\tb\n")
    for name in ("o.tmx", "o.xlf"):
        result = call(tmp_path / "c.tsv", "--out", tmp_path / name, "--languages", "en-de")
        assert f"{tmp_path / 'c.tsv'}, line 3: " in str(result.exception)  # though it is the second that is written
        assert "data filter --only control-character" in str(result.exception)


def test_fields_may_have_a_space_after_the_comma(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"en": "a", "de": "b"}\n')
    result = call(tmp_path / "c.jsonl", "--out", tmp_path / "o.tsv", "--fields", "en, de")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "o.tsv").read_text() == "a\tb\n"


def test_nothing_written_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "c.tsv").write_text("a\t\n")
    assert call(tmp_path / "c.tsv", "--out", tmp_path / "o.jsonl").exit_code == 0
    assert f"{tmp_path / 'c.tsv'}: no pair was written" in caplog.text


@pytest.mark.parametrize("redirect", ["| cat", "> piped; cat piped"])
def test_standard_output_by_another_name_gets_the_pairs_and_no_report(tmp_path: Path, redirect: str) -> None:
    (tmp_path / "c.tsv").write_text("a\tb\n")
    program = f"{sys.executable} -c 'from clearhead.cli.main import main; main()' data convert c.tsv --to jsonl"
    run = subprocess.run(
        f"{program} --out /dev/stdout {redirect}", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert run.stdout == '{"source": "a", "target": "b"}\n'
    assert run.stderr == "1 of 1 entries written\n"


@pytest.mark.parametrize("names", ["- /dev/stdout", "/dev/stdout -", "/dev/stdout /dev/fd/1"])
def test_both_sides_never_go_into_one_stream(tmp_path: Path, names: str) -> None:
    (tmp_path / "c.tsv").write_text("a\tb\n")
    first, second = names.split()
    program = f"{sys.executable} -c 'from clearhead.cli.main import main; main()' data convert c.tsv"
    run = subprocess.run(
        f"{program} --out {first} --out {second} | cat", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert run.stdout == ""
    assert "cannot be the same file" in run.stderr
