import gzip

import pytest

from clearhead.base.errors import DataError, InputError
from clearhead.data.entries import CHUNK_CHARACTERS, CHUNK_PAIRS, chunks, held_out_texts, languages_of, open_rereadable
from clearhead.formats.corpus import Entry


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (("all.en", "all.de"), ("en", "de")),
        (("a.b.en.gz", "a.b.zh-Hant.xz"), ("en", "zh-Hant")),
        (("all.en", "all.txt"), None),
        (("all.en", "other.en"), None),
        (("source", "target"), None),
        (("all.tsv",), None),
    ],
)
def test_languages_are_told_by_the_names_of_two_files(names, languages):
    assert languages_of(names) == languages


def test_chunks_are_all_there_is_and_bounded():
    entries = [Entry(f"line {n}", "x" * (n % 7), "y", "translated") for n in range(2 * CHUNK_PAIRS + 3)]
    cut = list(chunks(entries))
    assert [entry for chunk in cut for entry in chunk] == entries
    assert max(map(len, cut)) == CHUNK_PAIRS
    long = [Entry("line", "x" * CHUNK_CHARACTERS, "", "translated")] * 3
    assert [len(chunk) for chunk in chunks(long)] == [1, 1, 1]


def test_held_out_texts_are_lines_first_columns_or_sources(tmp_path):
    (tmp_path / "t.en").write_text("one\ttab\ntwo\n")
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(b"one\teins\ntwo\n"))
    (tmp_path / "t.jsonl").write_text('{"source": "one", "target": "eins"}\n{"source": "two", "target": ""}\n')
    (tmp_path / "t.po").write_text('msgid ""\nmsgstr ""\n\nmsgid "one"\nmsgstr "eins"\n')
    assert list(held_out_texts(tmp_path / "t.en", None)) == ["one\ttab", "two"]
    assert list(held_out_texts(tmp_path / "t.tsv.gz", None)) == ["one", "two"]
    assert list(held_out_texts(tmp_path / "t.jsonl", None)) == ["one", "two"]
    assert list(held_out_texts(tmp_path / "t.po", None)) == ["one"]


def test_what_cannot_be_read_twice_is_refused(tmp_path):
    with pytest.raises(InputError, match="read twice"):
        open_rereadable(["-", tmp_path / "c.de"], None)
    with pytest.raises(DataError, match=r"missing\.po"):
        open_rereadable([tmp_path / "missing.po"], None)
