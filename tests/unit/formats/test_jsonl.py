"""JSON Lines against Python's json module and bytes worked out by hand."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.base.errors import DataError, InputError
from clearhead.formats.document import Slot, slots
from clearhead.formats.jsonl import read_jsonl, read_jsonl_document, write_jsonl

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\n\r\t"\\/\x00\x85\u2028\ufeff\U0001f600'))
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).filter(
    lambda key: key not in ("source", "target", "state")
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=5,
)


def file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def only_slot(path: Path, line: bytes) -> Slot:
    (slot,) = slots(read_jsonl_document(file(path, line)))
    return slot


def joined(path: Path) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else piece.raw for piece in read_jsonl_document(path))


@st.composite
def records(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """A record and one of the many ways to write it."""
    record = draw(st.dictionaries(keys, values, max_size=3))
    record["source"] = draw(texts)
    if draw(st.booleans()):
        record["target"] = draw(texts | st.none())
    if draw(st.booleans()):
        record["state"] = draw(st.sampled_from(["needs-review", "final", None]))
    order = draw(st.permutations(sorted(record)))
    ascii_only, tight = draw(st.booleans()), draw(st.booleans())
    space = draw(st.sampled_from(["", " ", "\t \r"]))
    separators = (",", ":") if tight else (f"{space},{space}", f"{space}:{space}")
    text = json.dumps({key: record[key] for key in order}, ensure_ascii=ascii_only, separators=separators)
    return record, (space + text + space).encode() + draw(st.sampled_from([b"\n", b"\r\n"]))


@given(lines=st.lists(records(), max_size=4), bom=st.booleans(), texts=st.lists(texts, min_size=4, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_read_and_filled_is_what_the_json_module_reads(
    tmp_path: Path, lines: list[tuple[dict[str, Any], bytes]], bom: bool, texts: list[str]
) -> None:
    data = b"\xef\xbb\xbf" * bom + b"".join(line for _, line in lines)
    path = file(tmp_path / "c.jsonl", data)
    assert joined(path) == data
    found = list(slots(read_jsonl_document(path)))
    assert len(found) == len(lines)
    for number, (slot, (record, line), text) in enumerate(zip(found, lines, texts), 1):
        assert (slot.where, slot.raw) == (f"line {number}", line)
        assert (slot.source, slot.target) == ((record["source"],), (record.get("target") or "",))
        filled = slot.fill([text])
        assert b"\n" not in filled[:-1]
        assert json.loads(filled) == record | {"target": text, "state": "needs-review"}
        assert [key for key in json.loads(filled) if key in record] == list(json.loads(line))
        # Filling with what is there, a second time, changes nothing.
        again = only_slot(tmp_path / "again.jsonl", filled)
        assert again.state == ("review" if text.strip() else "empty" if record["source"].strip() else "closed")
        assert json.loads(again.fill([text])) == json.loads(filled)


@pytest.mark.parametrize(
    ("line", "filled"),
    [
        ('{"source": "a", "target": ""}', '{"source": "a", "target": "Ü\\n", "state": "needs-review"}'),
        ('{"source":"a"}', '{"source":"a","target":"Ü\\n","state":"needs-review"}'),
        (
            '{"n": 1.50e+3, "target" :null ,"x":[{"target": "no"}], "source": "a" }  \r',
            '{"n": 1.50e+3, "target" :"Ü\\n", "state": "needs-review" ,"x":[{"target": "no"}], "source": "a" }  \r',
        ),
        (
            '{"state": "final", "source": "a", "id": 12345678901234567890123}',
            '{"state": "needs-review", "source": "a", "target": "Ü\\n", "id": 12345678901234567890123}',
        ),
        ('{"source": "\\u00e4"}', '{"source": "\\u00e4", "target": "\\u00dc\\n", "state": "needs-review"}'),
        ('{"sourc\\u0065": "ä"}', '{"sourc\\u0065": "ä", "target": "Ü\\n", "state": "needs-review"}'),
    ],
)
def test_only_the_target_and_the_mark_change(tmp_path: Path, line: str, filled: str) -> None:
    for end in ("", "\n"):
        slot = only_slot(tmp_path / "c.jsonl", (line + end).encode())
        assert slot.state == "empty"
        assert slot.fill(["Ü\n"]).decode() == filled + end


def test_states(tmp_path: Path) -> None:
    for line, state in [
        ('{"source": "a", "target": "b"}', "translated"),
        ('{"source": "a", "target": "b", "state": "needs-review"}', "review"),
        ('{"source": "a", "target": "b", "state": {"of": "another kind"}}', "translated"),
        ('{"source": "a", "target": "", "state": "needs-review"}', "empty"),
        ('{"source": "a", "target": " \\t\\u2028"}', "empty"),
        ('{"source": "", "target": null}', "closed"),
    ]:
        assert only_slot(tmp_path / "c.jsonl", line.encode()).state == state


HALF = "half a surrogate pair"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "a", "target": "b", "source": "c"}', "the key 'source' stands twice"),
        ('{"source": "a", "t\\u0061rget": "b", "target": "c"}', "the key 'target' stands twice"),
        ('{"source": "a", "target": "b", "x": {"y": 1, "y": 2}}', "the key 'y' stands twice"),
        ('{"source": "a", "target": NaN}', "NaN is no JSON"),
        ('{"source": "a", "target": "b", "x": [-Infinity]}', "-Infinity is no JSON"),
        ('["a", "b"]', "an array, where an object"),
        ('"a"', "a text, where an object"),
        ("null", "null, where an object"),
        ("7", "a number, where an object"),
        ('{"source": 1, "target": "b"}', "'source' holds a number, not a text"),
        ('{"source": null, "target": "b"}', "'source' holds null"),
        ('{"source": "a", "target": ["b"]}', "'target' holds an array"),
        ('{"source": "a", "target": false}', "'target' holds true or false"),
        ('{"source": "a", "target": "\\ud800"}', HALF),
        ('{"source": "x\\udc00", "target": "b"}', HALF + r".*character 2"),
        ('{"source": "a", "target": "b", "x": ' + "9" * 5000 + "}", "a number of 5,000 digits"),
        ('{"source": "a", "target": "b", "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ('{"source": "a", "target": "b"', "no JSON: Expecting ',' delimiter at character 30"),
        ('{"source": "a", "target": "b"} {}', "no JSON: Extra data at character 32"),
        ('{"source": "a", "target": "b",}', "no JSON: .* double quotes"),
        ('{"source": "a" "target": "b"}', "no JSON: Expecting ',' delimiter"),
        ('{"source": "a", "target" "b"}', "no JSON: Expecting ':' delimiter"),
        ('{"source": "a", "target": }', "no JSON: Expecting value at character 27"),
        ("{'source': 'a', 'target': 'b'}", "no JSON: .* double quotes"),
        ('{"source": "a\tb", "target": "b"}', "Invalid control character"),
        ('{"source": "a, "target": "b"}', "no JSON: Expecting ',' delimiter"),
        ('{"source": "a\\x", "target": "b"}', "no JSON"),
        ("{", "no JSON: .* double quotes"),
        ("{}", "no field 'source' among no fields at all"),
        ('{"en": "a", "de": "b"}', "no field 'source' among 'en', 'de'; --fields names others"),
        ('{"source": "a"}', "no field 'target' among 'source'"),
        ("\x0c", "no JSON"),
        ("", "blank line is no record"),
    ],
)
def test_what_is_no_record_is_refused_with_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    good = '{"source": "fine", "target": "gut"}\n'
    path = file(tmp_path / "c.jsonl", f"{good}{line}\n{good}".encode())
    pairs = read_jsonl(path)
    assert next(pairs) == ("fine", "gut")
    started = time.process_time()
    with pytest.raises(DataError, match=rf"c\.jsonl, line 2: .*{message}"):
        list(pairs)
    assert time.process_time() - started < 1


def test_blank_lines_may_end_the_file(tmp_path: Path) -> None:
    path = file(tmp_path / "c.jsonl", b'{"source": "a", "target": "b"}\n\n \t\r\n')
    assert list(read_jsonl(path)) == [("a", "b")]
    assert joined(path) == path.read_bytes()
    assert list(read_jsonl(file(path, b""))) == list(read_jsonl(file(path, b"\xef\xbb\xbf"))) == []


def test_other_fields_can_be_chosen_but_not_one_twice(tmp_path: Path) -> None:
    path = file(tmp_path / "c.jsonl", b'{"de": "Hallo", "en": "Hello"}\n')
    assert list(read_jsonl(path, ("en", "de"))) == [("Hello", "Hallo")]
    for fields in (("en", "en"), ("en", "state")):
        with pytest.raises(InputError, match="two fields"):
            read_jsonl(path, fields)


def test_a_state_of_another_kind_is_not_overwritten(tmp_path: Path) -> None:
    slot = only_slot(tmp_path / "c.jsonl", b'{"source": "a", "state": {"of": "matter"}}\n')
    with pytest.raises(DataError, match="line 1: the field 'state' holds an object"):
        slot.fill(["b"])
    with pytest.raises(DataError, match=HALF):
        only_slot(tmp_path / "c.jsonl", b'{"source": "a"}').fill(["\ud800"])


def test_no_line_takes_more_than_linear_time(tmp_path: Path) -> None:
    many = ", ".join(f'"key{number}": [{number}, "{number}"]' for number in range(30_000))
    lines = [
        '{"source": "a", ' + many + ', "target": "b"}',
        '{"source": "a",' + " " * 1_000_000 + '"target": "b"}',
        '{"source": "' + "\\\\" * 500_000 + '", "target": "b"}',
        '{"source": "a", "target": "' + "\\u00e4" * 150_000 + '"}',
    ]
    path = file(tmp_path / "c.jsonl", "\n".join(lines).encode())
    started = time.process_time()
    assert len(list(read_jsonl(path))) == 4
    assert time.process_time() - started < 2


def test_changed_bytes_give_records_or_a_data_error(tmp_path: Path) -> None:
    rng = random.Random(5)
    seed = b'\xef\xbb\xbf{"source": "a\\u00e4\\n", "target": "\xc3\xa4", "x": [1, -2.5e3, null]}\r\n'
    seed += b'{"source":"b","target":null}\n'
    refused = []
    for _ in range(1000):
        data = bytearray(seed)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[place] = rng.randrange(256)
                case 1:
                    del data[place : place + rng.randint(1, 9)]
                case _:
                    data[place:place] = rng.choice([b"{", b'"', b"\\", b"\n", b"\xff", b"[", b"\xed\xa0\x80", b","])
            data = data or bytearray(seed)
        path = file(tmp_path / "c.jsonl", bytes(data))
        try:
            assert joined(path) == data
        except DataError as error:
            refused.append(str(error))
    assert 300 < len(refused) < 1000
    assert all("c.jsonl, line " in message for message in refused)


@given(pairs=st.lists(st.tuples(texts, texts), max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_written_is_read_back(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    path = tmp_path / "out.jsonl"
    with write_jsonl(path, ("en", "de")) as write:
        for pair in pairs:
            write(*pair)
    assert [tuple(json.loads(line).values()) for line in path.read_bytes().split(b"\n")[:-1]] == pairs
    assert list(read_jsonl(path, ("en", "de"))) == pairs


def test_half_a_surrogate_pair_cannot_be_written(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match=r"out\.jsonl, line 1: .*surrogate"),
        write_jsonl(tmp_path / "out.jsonl") as write,
    ):
        write("a", "\ud800")
    assert list(tmp_path.iterdir()) == []
