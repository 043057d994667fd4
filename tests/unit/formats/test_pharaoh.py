"""Alignments in Pharaoh format: what is written reads back, and what is no link is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.base.errors import DataError
from clearhead.formats.pharaoh import pharaoh_line, read_gold_links, read_links


def test_lines_and_blank_lines(tmp_path):
    (tmp_path / "a").write_text("0-0 1-2\n\n  \n2-1\t0-10\n")
    assert list(read_links(tmp_path / "a")) == [{(0, 0), (1, 2)}, set(), set(), {(2, 1), (0, 10)}]


def test_sure_and_possible_links(tmp_path):
    (tmp_path / "gold").write_text("0-0 1?2 2p3\n1?1 1-1\n\n")
    assert list(read_gold_links(tmp_path / "gold")) == [
        ({(0, 0)}, {(0, 0), (1, 2), (2, 3)}),
        ({(1, 1)}, {(1, 1)}),
        (set(), set()),
    ]


def test_links_are_written_in_order():
    assert pharaoh_line([(10, 0), (2, 1), (2, 0)]) == "2-0 2-1 10-0"
    assert pharaoh_line([]) == ""


@given(st.lists(st.frozensets(st.tuples(st.integers(0, 400), st.integers(0, 400))), min_size=1, max_size=5))
def test_what_is_written_reads_back(tmp_path_factory, alignments):
    path = tmp_path_factory.mktemp("links") / "a.pharaoh"
    path.write_text("".join(f"{pharaoh_line(links)}\n" for links in alignments))
    assert list(read_links(path)) == alignments
    assert [links.sure for links in read_gold_links(path)] == alignments


@pytest.mark.parametrize(
    "word", ["0", "0-", "-1-0", "0-0-0", "0:0", "a-b", "0–0", "٣-0", "1.0-0", "0x1", "12345678901-0"]
)
def test_what_is_no_link_is_named(tmp_path, word):
    (tmp_path / "a").write_text(f"0-0\n0-0 {word}\n")
    for read in (read_links, read_gold_links):
        with pytest.raises(DataError, match="a, line 2: .* is no link such as 3-4"):
            list(read(tmp_path / "a"))


def test_a_system_has_no_possible_links(tmp_path):
    (tmp_path / "a").write_text("0?0\n")
    with pytest.raises(DataError, match="line 1: '0\\?0' is no link such as 3-4 \\("):
        list(read_links(tmp_path / "a"))
