"""Glossary files: what a line may be, and what is said of one that is not."""

import gzip
from pathlib import Path

import pytest

from clearhead.base.errors import DataError
from clearhead.formats.glossary import read_glossary


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "terms.tsv"
    path.write_bytes(text.encode("utf-8"))
    return path


def test_a_glossary_is_read(tmp_path: Path) -> None:
    text = (
        "\ufeff# terms of the house\n\nserver\tServer\ti\r\n"
        "  machine translation \t maschinelle Übersetzung\nC#\tC#\t\n# server\tDienst\nserver\tServer\ti"
    )
    glossary = read_glossary(written(tmp_path, text))
    assert len(glossary) == 3
    assert glossary.matches("SERVER, machine translation, Machine translation, C#, # server") == [
        ("SERVER", "Server"),
        ("machine translation", "maschinelle Übersetzung"),
        ("C#", "C#"),
        ("server", "Server"),
    ]


def test_an_empty_glossary_and_a_compressed_one(tmp_path: Path) -> None:
    assert len(read_glossary(written(tmp_path, ""))) == 0
    path = tmp_path / "terms.tsv.gz"
    path.write_bytes(gzip.compress("猫\tcat\n".encode()))
    assert read_glossary(path).matches("猫") == [("猫", "cat")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("server", "1 column where there must be two"),
        ("a\tb\ti\tc", "4 columns where there must be two"),
        ("\tServer", "the source side is empty"),
        ("server\t ", "the target side is empty"),
        ("server\tServer\tI", "the third column is 'I'; it may be 'i'"),
        ("the {n} files\tx", "holds the placeholder '{n}'"),
        ("x" * 201 + "\tx", "has 201 characters"),
        ("cat\tKatze", "'cat' is 'Katze' here, but 'Kater' in line 2: leave out one of them"),
        ("DOG\tRüde\ti", "'DOG' is 'Rüde' here, but 'Hund' in line 3"),
    ],
)
def test_a_line_that_is_no_term_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = written(tmp_path, f"# terms\ncat\tKater\ndog\tHund\ti\n\n{line}\nbird\tVogel\n")
    with pytest.raises(DataError) as caught:
        read_glossary(path)
    assert str(caught.value).startswith(f"{path}, line 5: ")
    assert message in str(caught.value)


def test_a_file_that_is_not_utf8_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    with pytest.raises(DataError, match="cannot be read"):
        read_glossary(path)
    path.write_bytes(b"cat\tKatze\ndog\t\xff\n")
    with pytest.raises(DataError, match="line 2: byte 0xff"):
        read_glossary(path)


def test_exact_and_any_case_may_differ(tmp_path: Path) -> None:
    glossary = read_glossary(written(tmp_path, "polish\tpolieren\ti\nPolish\tpolnisch\n"))
    assert glossary.matches("Polish POLISH") == [("Polish", "polnisch"), ("POLISH", "polieren")]
