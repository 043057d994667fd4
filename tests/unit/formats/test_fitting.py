"""What a format cannot hold becomes a space where that is wanted, and otherwise an error that helps."""

from pathlib import Path

import pytest

from clearhead.base.errors import DataError
from clearhead.formats.corpus import Format, open_corpus, write_corpus
from clearhead.formats.fitting import Fitting

NAMES: dict[Format, list[str]] = {
    "plain": ["o.en", "o.de"], "tsv": ["o.tsv"], "jsonl": ["o.jsonl"], "po": ["o.po"], "tmx": ["o.tmx"],
    "xliff": ["o.xlf"],
}  # fmt: skip


def fitted(tmp_path: Path, kind: Format, source: str, breaks: str) -> tuple[list[tuple[str, str]], int]:
    """What is read back after one pair was written, and how many pairs were changed."""
    paths = [tmp_path / name for name in NAMES[kind]]
    fitting = Fitting(open_corpus([tmp_path / "in.jsonl"]), kind, "space" if breaks == "space" else "refuse")
    with write_corpus(paths, ("en", "de"), format=kind) as write:
        fitting.write(write, "line 7", source, "b")
    return list(open_corpus(paths, ("en", "de"), format=kind).pairs()), fitting.changed


@pytest.mark.parametrize(
    ("kind", "source", "spaced"),
    [
        ("plain", "a\nb\r\r\nc\r", "a b c "),
        ("plain", "a\tb\rc", "a\tb\rc"),
        ("tsv", "a\tb\nc", "a b c"),
        ("jsonl", "a\tb\nc\r", "a\tb\nc\r"),
        ("po", "a\tb\nc", "a\tb\nc"),
        ("xliff", "a\tb\nc\r", "a\tb\nc\r"),
        ("tmx", "a\tb\nc\r", "a\tb\nc\r"),
    ],
)
def test_only_what_the_format_cannot_hold_becomes_a_space(
    tmp_path: Path, kind: Format, source: str, spaced: str
) -> None:
    assert fitted(tmp_path, kind, source, "space") == ([(spaced, "b")], spaced != source)
    if spaced != source:
        with pytest.raises(DataError, match=r"in\.jsonl, line 7: .*; --breaks space writes a space for it$"):
            fitted(tmp_path, kind, source, "refuse")
    else:
        assert fitted(tmp_path, kind, source, "refuse") == ([(source, "b")], 0)


@pytest.mark.parametrize(("kind", "source"), [("tmx", "\x07"), ("xliff", "\x07"), ("po", "a\0")])
def test_what_helps_against_a_control_character_is_named(tmp_path: Path, kind: Format, source: str) -> None:
    for breaks in ("refuse", "space"):
        with pytest.raises(DataError, match=r"in\.jsonl, line 7: .*data filter --only control-character"):
            fitted(tmp_path, kind, source, breaks)


@pytest.mark.parametrize(("kind", "source"), [("tmx", "\uffff"), ("plain", "\ufeffa"), ("tsv", "\ufeffa")])
def test_nothing_is_advised_that_would_not_help(tmp_path: Path, kind: Format, source: str) -> None:
    for breaks in ("refuse", "space"):
        with pytest.raises(DataError, match=r"in\.jsonl, line 7: .*; change the text, or take it out of the corpus$"):
            fitted(tmp_path, kind, source, breaks)
