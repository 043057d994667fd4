"""Pairs stay pairs: nothing shifts, and what cannot be paired is refused with numbers."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.base.errors import DataError, InputError
from clearhead.formats.pairs import read_pairs, read_tsv

texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff") | st.sampled_from("\x85\u2028\f\v")
)


def file(path: Path, data: str) -> Path:
    path.write_bytes(data.encode())
    return path


@given(pairs=st.lists(st.tuples(texts, texts)), crlf=st.booleans(), last=st.booleans(), bom=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_separator_shifts_a_pair(
    tmp_path: Path, pairs: list[tuple[str, str]], crlf: bool, last: bool, bom: bool
) -> None:
    end = "\r\n" if crlf else "\n"
    source = file(tmp_path / "s", "\ufeff" * bom + "".join(left + end for left, _ in pairs))
    right_text = end.join(right for _, right in pairs)
    # The last line may lack its end, unless it is empty: then only the end shows that there is a line.
    ended = last or not pairs or pairs[-1][1] == ""
    target = file(tmp_path / "t", right_text + (end if ended and pairs else ""))
    assert list(read_pairs(source, target)) == pairs


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (0, 2), (2, 0), (3, 4), (4, 3)])
def test_unequal_files_are_refused_with_both_counts(tmp_path: Path, left: int, right: int) -> None:
    source, target = file(tmp_path / "s.en", "x\n" * left), file(tmp_path / "t.de", "y\n" * right)
    pairs = read_pairs(source, target)
    for _ in range(min(left, right)):
        assert next(pairs) == ("x", "y")
    with pytest.raises(DataError, match=rf"s\.en has {left} lines but .*t\.de has {right}"):
        next(pairs)


def test_one_side_may_be_standard_input_but_not_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert list(read_pairs("-", file(tmp_path / "t", "c\nd\n"))) == [("a", "c"), ("b", "d")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    with pytest.raises(DataError, match="standard input has 2 lines"):
        list(read_pairs("-", file(tmp_path / "t", "c\n")))
    with pytest.raises(InputError, match="cannot both be standard input"):
        read_pairs("-", "-")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.de: cannot be read"):
        read_pairs(file(tmp_path / "s", "a\n"), tmp_path / "gone.de")


def test_tsv_takes_columns_as_they_are(tmp_path: Path) -> None:
    path = file(tmp_path / "p.tsv", '"a\tb"\textra\r\n\t\n c \u2028\td\\t\n')
    assert list(read_tsv(path)) == [('"a', 'b"'), ("", ""), (" c \u2028", "d\\t")]


def test_tsv_columns_can_be_chosen(tmp_path: Path) -> None:
    path = file(tmp_path / "p.tsv", "1\tHallo\tHello\n2\tWelt\tWorld\n")
    assert list(read_tsv(path, (3, 2))) == [("Hello", "Hallo"), ("World", "Welt")]
    with pytest.raises(InputError, match="counted from 1"):
        read_tsv(path, (0, 1))


@pytest.mark.parametrize("bad", ["no tab", ""])
def test_a_line_without_a_tab_is_refused_with_its_number(tmp_path: Path, bad: str) -> None:
    path = file(tmp_path / "p.tsv", f"a\tb\n{bad}\nc\td\n")
    with pytest.raises(DataError, match=r"p\.tsv, line 2: 1 column where 2 are needed"):
        list(read_tsv(path))
    with pytest.raises(DataError, match="line 1: 2 columns where 3 are needed"):
        list(read_tsv(path, (1, 3)))


def test_one_pipe_for_both_sides_is_refused(tmp_path: Path) -> None:
    """Its lines would be dealt out by turns, or by blocks, and belong to nothing."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    os.mkfifo(tmp_path / "other")
    for source, target in (("pipe", "pipe"), ("pipe", "link")):
        with pytest.raises(InputError, match="one and the same stream"):
            read_pairs(tmp_path / source, tmp_path / target)
    read_pairs(tmp_path / "pipe", tmp_path / "other")  # two pipes are two streams
    same = file(tmp_path / "s", "a\n")
    assert list(read_pairs(same, same)) == [("a", "a")]


@pytest.mark.parametrize("names", [("-", "/dev/stdin"), ("/dev/stdin", "-"), ("/dev/stdin", "/dev/stdin")])
def test_standard_input_by_another_name_is_still_one(names: tuple[str, str]) -> None:
    program = "import sys; from clearhead.formats.pairs import read_pairs; print(list(read_pairs(*sys.argv[1:])))"
    run = subprocess.run([sys.executable, "-c", program, *names], input="a\nb\n", capture_output=True, text=True)
    assert "one and the same stream" in run.stderr
    assert not run.stdout


def test_one_column_cannot_be_both_sides(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot both be column 2"):
        read_tsv(file(tmp_path / "c.tsv", "a\tb\n"), (2, 2))
