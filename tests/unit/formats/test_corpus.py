"""One door to every format: nothing shifts, nothing is lost on the way, and what does not fit is said."""

import io
import random
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from clearhead.base.errors import DataError, InputError
from clearhead.formats.corpus import Corpus, Format, open_corpus, output_format, write_corpus

LANGUAGES = ("en", "de")
# Whatever some reader or other takes for the end of a line or of a text, by the formats that can hold it in a text.
EVERYWHERE = [
    "\x85",
    "\u2028",
    "\u2029",
    "\ufeff",
    '"',
    "\\",
    "\\n",
    "<b>",
    "&amp;",
    "]]>",
    "'",
    "%s",
    "{",
    " ",
    "\U0001f600",
]
NOT_XML = ["\x00", "\v", "\f", "\x1c", "\x1d", "\x1e"]
NAMES: dict[Format, list[str]] = {
    "plain": ["c.en", "c.de"],
    "tsv": ["c.tsv"],
    "jsonl": ["c.jsonl"],
    "po": ["c.po"],
    "tmx": ["c.tmx"],
    "xliff": ["c.xlf"],
}
HOLDS: dict[Format, list[str]] = {
    "plain": [*EVERYWHERE, *NOT_XML, "\t", "\ra"],
    "tsv": [*EVERYWHERE, *NOT_XML, "\ra"],
    "jsonl": [*EVERYWHERE, *NOT_XML, "\t", "\ra", "\r", "\n", "\r\n"],
    "po": [*EVERYWHERE, *NOT_XML[1:], "\t", "\ra", "\r", "\n", "\r\n"],
    "tmx": [*EVERYWHERE, "\t", "\ra", "\r", "\n", "\r\n"],
    "xliff": [*EVERYWHERE, "\t", "\ra", "\r", "\n", "\r\n"],
}


def file(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def text(rng: random.Random, odd: list[str], number: int) -> str:
    """A text that starts with a letter and shows its number, with odd characters in all other places."""
    return f"t{number}" + "".join(rng.choice(odd) if rng.random() < 0.5 else rng.choice("aä中") for _ in range(6))


def test_every_format_is_in_the_tables() -> None:
    assert set(NAMES) == set(HOLDS) == set(get_args(Format))


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_no_separator_shifts_a_pair_in_any_format(tmp_path: Path, kind: Format, suffix: str) -> None:
    paths = [tmp_path / (name + suffix) for name in NAMES[kind]]
    rng = random.Random(f"{kind}{suffix}")
    for _ in range(170 if suffix == "" else 5):  # a thousand corpora over the six formats
        pairs = [(text(rng, HOLDS[kind], n), text(rng, HOLDS[kind], n)) for n in range(rng.randint(1, 8))]
        with write_corpus(paths, LANGUAGES) as write:
            for pair in pairs:
                write(*pair)
        corpus = open_corpus(paths, LANGUAGES)
        assert corpus.format == kind
        assert list(corpus.pairs()) == pairs
        assert list(corpus.pairs()) == pairs  # from the start again
        assert [(source, target) for _, source, target in corpus.entries()] == pairs


def test_the_naive_reader_shifts_them(tmp_path: Path) -> None:
    """The control: text mode and splitlines, which most programs use, lose the order on the same corpora."""
    rng = random.Random(1)
    shifted = 0
    for _ in range(50):
        pairs = [(text(rng, HOLDS["plain"], n), text(rng, HOLDS["plain"], n)) for n in range(8)]
        paths = [tmp_path / name for name in NAMES["plain"]]
        with write_corpus(paths) as write:
            for pair in pairs:
                write(*pair)
        naive = list(zip(*(path.read_text(encoding="utf-8").splitlines() for path in paths)))
        shifted += naive != pairs
    assert shifted > 45


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["a.en", "a.de"], "plain"),
        (["a.tsv", "b.tsv"], "plain"),
        (["a.txt"], "tsv"),
        (["a"], "tsv"),
        (["-"], "tsv"),
        (["-", "a.de"], "plain"),
        (["a.TAB.gz"], "tsv"),
        (["a.ndjson.zst"], "jsonl"),
        (["a.v2.jsonl"], "jsonl"),
        (["a.po.xz"], "po"),
        (["a.tmx"], "tmx"),
        (["a.XLIFF"], "xliff"),
        (["tmx"], "tsv"),
        (["a.tmx.txt"], "tsv"),
    ],
)
def test_the_name_tells_the_format(names: list[str], kind: str) -> None:
    assert open_corpus(names, LANGUAGES).format == kind


def test_a_format_that_is_asked_for_wins_over_the_name(tmp_path: Path) -> None:
    path = file(tmp_path / "c.txt", '{"en": "a", "de": "b"}\n')
    assert list(open_corpus([path], format="jsonl", fields=("en", "de")).pairs()) == [("a", "b")]
    assert open_corpus(["a.tmx", "b.tmx"], format="plain").format == "plain"
    assert output_format(["o.txt"], "po") == "po"


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ([], {}, "0 files were given"),
        (["a", "b", "c"], {}, "3 files were given"),
        (["a.en"], {"format": "plain"}, r"a\.en: plain text is two aligned files"),
        (["a.en", "a.de"], {"format": "po"}, "two files are aligned lines; po is one file"),
        (["a.en", "a.tmx"], {}, r"a\.tmx: two files are aligned lines, but this name is that of a tmx file"),
        (["a.tmx"], {}, r"a\.tmx: which languages\?.* --languages en-de"),
        (["a.tsv"], {"format": "csv"}, "unknown format 'csv': use one of auto, plain"),
    ],
)
def test_files_that_fit_no_format_are_refused_at_once(files: list[str], options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_corpus(files, **options)


def test_output_needs_a_name_that_tells_and_languages_where_the_format_has_them(tmp_path: Path) -> None:
    for names, options, message in [
        (["o.txt"], {}, r"o\.txt: its name does not tell the format.* --to"),
        (["o.tmx"], {}, "which languages"),
        (["o.po"], {}, "which languages"),
        (["o.xlf"], {}, "which languages"),
        (["o.en"], {"format": "plain"}, "the second is missing"),
        (["o", "o"], {}, "cannot be the same file"),
    ]:
        with pytest.raises(InputError, match=message), write_corpus([tmp_path / name for name in names], **options):
            pytest.fail("it was opened")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"\.xliff, or name two files") as caught:  # a command without such an option
        output_format(["o.txt"], option=None)
    assert "--to" not in str(caught.value)


def test_what_counts_as_a_pair_in_each_format(tmp_path: Path) -> None:
    file(tmp_path / "c.tsv", "a\tA\nb\t\n\tC\n")
    assert list(open_corpus([tmp_path / "c.tsv"]).pairs()) == [("a", "A"), ("b", ""), ("", "C")]
    file(
        tmp_path / "c.jsonl",
        '{"source": "a", "target": "A"}\n{"source": "b", "target": ""}\n'
        '{"source": "c", "target": "C", "state": "needs-review"}\n{"source": "", "target": "D"}\n',
    )
    jsonl = open_corpus([tmp_path / "c.jsonl"])
    assert list(jsonl.pairs()) == [("a", "A"), ("b", ""), ("", "D")]
    assert list(jsonl.entries()) == [
        ("line 1", "a", "A"),
        ("line 2", "b", ""),
        ("line 3", "c", "C"),
        ("line 4", "", "D"),
    ]
    file(
        tmp_path / "c.po",
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
        'msgid "a"\nmsgstr "A"\n\nmsgid "b"\nmsgstr ""\n\n#, fuzzy\nmsgid "c"\nmsgstr "C"\n\n'
        'msgid "one"\nmsgid_plural "many"\nmsgstr[0] "eins"\nmsgstr[1] "viele"\n\n#~ msgid "old"\n#~ msgstr "alt"\n',
    )
    po = open_corpus([tmp_path / "c.po"])
    assert list(po.pairs()) == [("a", "A"), ("one", "eins"), ("many", "viele")]
    sides = [(source, target) for _, source, target in po.entries()]
    assert sides == [("a", "A"), ("b", ""), ("c", "C"), ("one", "eins"), ("many", "viele")]
    assert [entry.state for entry in po.states()].count("closed") == 1


def test_the_languages_choose_the_texts_of_a_tmx_file(tmp_path: Path) -> None:
    path = file(
        tmp_path / "c.tmx",
        '<?xml version="1.0"?><tmx version="1.4"><header creationtool="x" creationtoolversion="1" segtype="sentence" '
        'o-tmf="x" adminlang="en" srclang="en" datatype="plaintext"/><body><tu><tuv xml:lang="en"><seg>a <b/></seg>'
        '</tuv><tuv xml:lang="de-DE"><seg>A</seg></tuv><tuv xml:lang="fr"><seg>Á</seg></tuv></tu></body></tmx>'.replace(
            "<b/>", '<ph x="1">code</ph>b'
        ),
    )
    assert list(open_corpus([path], ("en", "de")).pairs()) == [("a b", "A")]
    assert list(open_corpus([path], ("fr", "de")).pairs()) == [("Á", "A")]


def test_standard_streams(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"source": "a", "target": "b"}\n')))
    corpus = open_corpus(["-"], format="jsonl")
    assert corpus.name == "standard input"
    with write_corpus(["-"]) as write:
        for pair in corpus.pairs():
            write(*pair)
    assert capfdbinary.readouterr().out == b"a\tb\n"


@pytest.mark.parametrize("bad", ["a\nb", "a\r", "\ufeffa", "\ud800"])
def test_what_would_not_read_back_is_refused_naming_file_and_line(tmp_path: Path, bad: str) -> None:
    for pair, name in (((bad, "x"), "c.en"), (("x", bad), "c.de")):
        with (
            pytest.raises(DataError, match=rf"{name}, line 1: "),
            write_corpus([tmp_path / "c.en", tmp_path / "c.de"]) as write,
        ):
            write(*pair)
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_is_named_by_its_files() -> None:
    corpus = open_corpus(["a.en", "b.de"])
    assert isinstance(corpus, Corpus)
    assert (corpus.name, corpus.files) == ("a.en + b.de", (Path("a.en"), Path("b.de")))
