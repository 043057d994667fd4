"""`clearhead data convert`: every pair arrives, what does not is counted, and nothing is half written."""

import itertools
import json
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
