import gzip

import pytest

from clearhead.base.errors import ConfigError
from clearhead.config.strict import structure, unstructure
from clearhead.data.config import CorpusConfig, DataConfig, TrainingCorpus
from clearhead.formats.corpus import write_corpus

FILES = {"source": "a.en", "target": "a.de"}


def test_defaults_are_those_of_the_paper_and_survive_a_round_trip():
    config = structure(DataConfig, {"languages": ["en", "de"], "train": FILES})
    assert (config.languages, config.batch_tokens, config.max_length) == (("en", "de"), 25_000, 256)
    assert config.batch_pairs is None
    assert structure(DataConfig, unstructure(config)) == config


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ({"source": "a.en"}, "'target' is missing"),
        ({"target": "a.de"}, "'source' is missing"),
        ({}, "either both 'source' and 'target', or 'tsv'"),
        ({**FILES, "tsv": "a.tsv"}, "either both 'source' and 'target', or 'tsv'"),
        ({**FILES, "sorce": "b"}, "source"),
    ],
)
def test_a_corpus_is_two_files_or_one_tsv(train, said):
    with pytest.raises(ConfigError, match=said):
        structure(DataConfig, {"languages": ["en", "de"], "train": train})


@pytest.mark.parametrize("key", ["max_length", "batch_tokens", "batch_pairs", "pool"])
def test_sizes_must_be_positive(key):
    with pytest.raises(ConfigError, match=key):
        structure(DataConfig, {"languages": ["en", "de"], "train": FILES, key: 0})


def test_pairs_are_read_from_either_form_as_often_as_asked(tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"eins\nzwei\n"))
    (tmp_path / "a.tsv").write_text("one\teins\ntwo\tzwei\n")
    files = CorpusConfig(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.de.gz"))
    tsv = CorpusConfig(tsv=str(tmp_path / "a.tsv"))
    expected = [("one", "eins"), ("two", "zwei")]
    for corpus in (files, tsv):
        assert list(corpus.pairs()) == list(corpus.pairs()) == expected
    assert [p.name for p in files.files()] == ["a.en", "a.de.gz"]
    assert "a.en" in str(files)
    assert "a.de.gz" in str(files)


@pytest.mark.parametrize("name", ["c.tmx", "c.xliff", "c.po", "c.jsonl", "c.tsv.gz", "c"])
def test_a_file_of_any_format_gives_the_pairs_that_were_written(tmp_path, name):
    pairs = [("one", "eins"), ("two < three", "zwei < drei")]
    path = tmp_path / name
    with write_corpus([path], ("en", "de"), format="tsv" if name == "c" else "auto") as write:
        for pair in pairs:
            write(*pair)
    corpus = TrainingCorpus(file=str(path))
    assert list(corpus.pairs(("en", "de"))) == list(corpus.pairs(("en", "de"))) == pairs
    assert corpus.files() == (path,)


def test_corpora_are_named_by_their_keys():
    table = {"languages": ["en", "de"], "dev": {"tsv": "d.tsv", "tag": "<x>"}}
    one = structure(DataConfig, {**table, "train": FILES})
    assert [key for key, _ in one.named] == ["data.train", "data.dev"]
    two = structure(DataConfig, {**table, "train": [{**FILES, "tag": "<y>"}, {"tsv": "b.tsv", "tag": "<x>"}]})
    assert [(key, str(corpus)) for key, corpus in two.named] == [
        ("data.train[0]", "a.en + a.de"),
        ("data.train[1]", "b.tsv"),
        ("data.dev", "d.tsv"),
    ]
    assert two.tags == ("<y>", "<x>")
