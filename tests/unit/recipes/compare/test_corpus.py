"""The text of a comparison: found, cut, joined, and never exchanged behind its back."""

import lzma
from pathlib import Path

import pytest

from clearhead.base.errors import DataError, InputError
from clearhead.recipes.compare.corpus import TextLimits, bucket, joined, prepare

ALL = TextLimits(0, 0, 0, 100)


def corpus(directory: Path) -> Path:
    directory.mkdir()
    texts = {"train": ["a b", "c", "d e f"], "val": ["g h"], "test_2016": ["i", "j k", "l m n"]}
    for part, lines in texts.items():
        (directory / f"{part}.en.xz").write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode()))
        (directory / f"{part}.de").write_text("".join(f"{line.upper()}\n" for line in lines))
    return directory


def test_parts_are_found_under_their_usual_names_plain_or_compressed(tmp_path: Path) -> None:
    text = prepare(tmp_path / "out", corpus(tmp_path / "c"), ("en", "de"), ALL)
    assert text.pairs == {"train": 3, "dev": 1, "test": 3, "long": 3 + 1 + 1}
    assert text.read("train") == (["a b", "c", "d e f"], ["A B", "C", "D E F"])
    assert text.read("long") == (
        ["i", "j k", "l m n", "i j k", "i j k l m n"],
        ["I", "J K", "L M N", "I J K", "I J K L M N"],
    )


def test_limits_bound_words_and_pairs(tmp_path: Path) -> None:
    limits = TextLimits(1, 0, 2, 1, least_words=2, most_words=2)
    text = prepare(tmp_path / "out", corpus(tmp_path / "c"), ("en", "de"), limits)
    assert text.read("train")[0] == ["a b"]
    assert text.read("test")[0] == ["j k"]


def test_the_same_again_is_found_as_it_is_and_another_text_is_refused(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c")
    first = prepare(tmp_path / "out", source, ("en", "de"), ALL)
    assert prepare(tmp_path / "out", source, ("en", "de"), ALL) == first
    with pytest.raises(InputError, match="another limits of the text"):
        prepare(tmp_path / "out", source, ("en", "de"), TextLimits(1, 0, 0, 100))
    (source / "val.de").write_text("X Y\n")
    with pytest.raises(InputError, match="another files of the text"):
        prepare(tmp_path / "out", source, ("en", "de"), ALL)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a directory"):
        prepare(tmp_path / "out", tmp_path / "nowhere", ("en", "de"), ALL)
    with pytest.raises(InputError, match=r"no train\*\.en with a \.fr beside it"):
        prepare(tmp_path / "out", corpus(tmp_path / "c"), ("en", "fr"), ALL)
    with pytest.raises(DataError, match="no pair of 9 to 60 words"):
        prepare(tmp_path / "out", tmp_path / "c", ("en", "de"), TextLimits(0, 0, 0, 1, least_words=9))


def test_joined_lines_use_a_pair_once_for_each_number() -> None:
    lines = joined([(str(n), f"t{n}") for n in range(10)], 100)
    for number in range(1, 6):
        words = [word for source, _ in lines for word in source.split() if len(source.split()) == number]
        assert words == [str(n) for n in range(10 - 10 % number)]
    assert all([f"t{word}" for word in source.split()] == target.split() for source, target in lines)


def test_every_sentence_is_in_one_bucket() -> None:
    sources = [" ".join("w" * n) for n in (1, 4, 5, 9, 30)]
    found = bucket(sources, (4, 9))
    assert [(low, high) for low, high, _ in found] == [(1, 4), (5, 9), (10, None)]
    assert [lines for _, _, lines in found] == [[0, 1], [2, 3], [4]]
