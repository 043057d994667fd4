"""A TSV document against bytes split by hand: a line feed ends a record, a tab a column, no more."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.base.errors import DataError, InputError
from clearhead.formats.document import Slot, pairs, slots
from clearhead.formats.pairs import read_tsv
from clearhead.formats.tsv import read_tsv_document, write_tsv

columns = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t\ufeff") | st.sampled_from('"\v\f\x85\u2028\x00')
)


def file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@given(
    lines=st.lists(st.lists(columns, min_size=1, max_size=4), max_size=5),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    bom=st.booleans(),
    new=columns,
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_document_is_its_bytes_and_filling_changes_one_column(
    tmp_path: Path, lines: list[list[str]], end: str, last: bool, bom: bool, new: str
) -> None:
    text = end.join("\t".join(line) for line in lines)
    text += end if lines and (last or lines[-1] == [""]) else ""
    data = b"\xef\xbb\xbf" * bom + text.encode()
    path = file(tmp_path / "c.tsv", data)
    pieces = list(read_tsv_document(path, (1, 3)))
    assert b"".join(piece if isinstance(piece, bytes) else piece.raw for piece in pieces) == data
    found = [piece for piece in pieces if isinstance(piece, Slot)]
    wide = [(line + ["", ""])[: max(len(line), 3)] for line in lines]
    assert [(*slot.source, *slot.target) for slot in found] == [(line[0], line[2]) for line in wide]
    for number, (slot, line) in enumerate(zip(found, wide), 1):
        assert slot.where == f"line {number}"
        assert slot.state == ("translated" if line[2].strip() else "empty" if line[0].strip() else "closed")
        filled = slot.fill([new]).decode()
        assert filled.removesuffix("\n").removesuffix("\r").split("\t") == [*line[:2], new, *line[3:]]
        assert filled[len(filled.rstrip("\r\n")) :] in ("", end) or new == ""


def test_a_document_gives_the_pairs_that_the_plain_reader_gives(tmp_path: Path) -> None:
    path = file(tmp_path / "c.tsv", b'1\tHallo\t"Hello"\r\n2\tW\xe2\x80\xa8elt\tWorld\tx')
    assert list(pairs(read_tsv_document(path, (3, 2)))) == list(read_tsv(path, (3, 2)))


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "\n", "a\r", "\ud800"])
def test_a_text_that_would_be_two_columns_or_lines_is_refused(tmp_path: Path, text: str) -> None:
    (slot,) = slots(read_tsv_document(file(tmp_path / "c.tsv", b"a\t\tx\n")))
    with pytest.raises(DataError, match=r"c\.tsv, line 1: "):
        slot.fill([text])

    def write_both() -> None:
        with write_tsv(tmp_path / "o.tsv") as write:
            write("fine", "gut")
            write("a", text)

    with pytest.raises(DataError, match=r"o\.tsv, line 2: "):
        write_both()
    assert not (tmp_path / "o.tsv").exists()


def test_lines_and_columns_that_are_none_are_refused(tmp_path: Path) -> None:
    path = file(tmp_path / "c.tsv", b"a\tb\nc\n\xff\tb\n")
    document = slots(read_tsv_document(path, (2, 1)))
    assert next(document).source == ("b",)
    with pytest.raises(DataError, match=r"c\.tsv, line 2: 1 column, so no column 2"):
        next(document)
    with pytest.raises(DataError, match=r"c\.tsv, line 3: byte 0xff"):
        list(read_tsv_document(path))
    with pytest.raises(InputError, match="both be column 2"):
        read_tsv_document(path, (2, 2))
    with pytest.raises(InputError, match="counted from 1"):
        read_tsv_document(path, (0, 1))


def test_a_megabyte_in_a_column_and_many_columns_are_one_record(tmp_path: Path) -> None:
    path = file(tmp_path / "c.tsv", b"a\t" + b"x" * 1_000_000 + b"\n" + b"\t" * 1_000_000 + b"\n")
    assert [len(slot.target[0]) for slot in slots(read_tsv_document(path))] == [1_000_000, 0]


def test_changed_bytes_give_one_slot_a_line_or_a_data_error(tmp_path: Path) -> None:
    rng = random.Random(6)
    seed = '\ufeffa\t"b\r\nä\tö\u2028\tü\n\t\nx\ty'.encode()
    refused = []
    for _ in range(1000):
        data = bytearray(seed)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice([rng.randrange(256), 9, 10, 13])
        path = file(tmp_path / "c.tsv", bytes(data))
        try:
            pieces = list(read_tsv_document(path))
        except DataError as error:
            refused.append(str(error))
        else:
            assert b"".join(piece if isinstance(piece, bytes) else piece.raw for piece in pieces) == data
            body = bytes(data).removeprefix(b"\xef\xbb\xbf")
            assert len(list(slots(pieces))) == body.count(b"\n") + (not body.endswith(b"\n"))
    assert 100 < len(refused) < 1000
    assert all("c.tsv, line " in message for message in refused)


@given(rows=st.lists(st.tuples(columns, columns), max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_written_is_read_back(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    with write_tsv(tmp_path / "o.tsv") as write:
        for row in rows:
            write(*row)
    assert (tmp_path / "o.tsv").read_bytes() == "".join(f"{left}\t{right}\n" for left, right in rows).encode()
    assert list(read_tsv(tmp_path / "o.tsv")) == rows


def test_a_byte_order_mark_that_is_text_is_refused_where_it_would_be_lost(tmp_path: Path) -> None:
    with write_tsv(tmp_path / "o.tsv") as write:
        write("a", "\ufeffb")
        write("\ufeffc", "d")
    assert list(read_tsv(tmp_path / "o.tsv")) == [("a", "\ufeffb"), ("\ufeffc", "d")]
    with pytest.raises(DataError, match=r"line 1: .*byte order mark"), write_tsv(tmp_path / "p.tsv") as write:
        write("\ufeffa", "b")
