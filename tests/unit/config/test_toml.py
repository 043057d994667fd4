"""Reading, writing, merging and `--set`."""

import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.base.errors import ConfigError
from clearhead.config.toml import apply_settings, dump_toml, load_toml, merge


def test_a_file_is_read_whatever_its_editor_added(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b'\xef\xbb\xbf[training]\r\ndropout = 0.1\r\nname = "caf\xc3\xa9"\r\n')
    assert load_toml(path) == {"training": {"dropout": 0.1, "name": "café"}}


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"a = 1\nb = \nc = 3\n", 2, "Invalid value"),
        (b"a = 1\na = 2\n", 2, "Cannot overwrite a value"),
        (b"a = 1\nb = [1,\n", 2, "Invalid value"),
        (b'a = 1\n\nb = "open\n', 3, "Illegal character"),
        (b"a = 1\nb = '\xff'\n", 2, "not UTF-8"),
    ],
)
def test_a_mistake_is_reported_with_file_and_line(tmp_path: Path, content: bytes, line: int, reason: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_toml(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert reason in str(caught.value)


def test_files_that_are_no_configuration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read: No such file"):
        load_toml(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_toml(tmp_path)
    big = tmp_path / "corpus.toml"
    big.write_bytes(b"# x\n" * 300_000)
    with pytest.raises(ConfigError, match="does not look like a configuration file"):
        load_toml(big)
    deep = tmp_path / "deep.toml"
    deep.write_text("a = " + "[" * 100_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_toml(deep)


values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), values, max_size=4))
def test_a_table_survives_being_written(table: dict[str, object]) -> None:
    assert tomllib.loads(dump_toml(table)) == table


def test_merge_goes_table_by_table_and_changes_neither_argument() -> None:
    base = {"a": {"x": 1, "y": [1, 2]}, "b": 1}
    overrides = {"a": {"y": [3]}, "c": {"z": 1}}
    assert merge(base, overrides) == {"a": {"x": 1, "y": [3]}, "b": 1, "c": {"z": 1}}
    assert base == {"a": {"x": 1, "y": [1, 2]}, "b": 1}
    assert overrides == {"a": {"y": [3]}, "c": {"z": 1}}


def test_another_kind_replaces_the_table_and_the_same_kind_does_not() -> None:
    base = {"schedule": {"kind": "noam", "warmup": 4000, "scale": 1.0}}
    assert merge(base, {"schedule": {"kind": "constant", "value": 0.1}}) == {
        "schedule": {"kind": "constant", "value": 0.1}
    }
    assert merge(base, {"schedule": {"kind": "noam", "warmup": 7}}) == {
        "schedule": {"kind": "noam", "warmup": 7, "scale": 1.0}
    }
    assert merge(base, {"schedule": {"warmup": 7}})["schedule"] == {"kind": "noam", "warmup": 7, "scale": 1.0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("400", 400),
        ("1e-3", 1e-3),
        ("true", True),
        ("True", "True"),
        ('"400"', "400"),
        ("noam", "noam"),
        ("two words", "two words"),
        ('["en", "de"]', ["en", "de"]),
        ('{kind = "noam", warmup = 3}', {"kind": "noam", "warmup": 3}),
        ("a=b", "a=b"),
        ('""', ""),
        ("/data/a.de", "/data/a.de"),
        ("1\nother = 2", "1\nother = 2"),
        ("[1, 2", "[1, 2"),
    ],
)
def test_a_setting_is_a_toml_value_or_else_a_bare_string(text: str, value: object) -> None:
    result = apply_settings({"a": {"c": 0}}, [f"a.b={text}"])
    assert result == {"a": {"b": value, "c": 0}}
    assert type(result["a"]["b"]) is type(value)


def test_settings_reach_into_tables_that_are_not_there_yet_and_leave_the_rest_alone() -> None:
    mapping = {"training": {"updates": 5}}
    assert apply_settings(mapping, ["training.learning_rate.warmup=400"]) == {
        "training": {"updates": 5, "learning_rate": {"warmup": 400}}
    }
    assert mapping == {"training": {"updates": 5}}


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_settings_does_not_decide_what_a_new_kind_keeps(order: int) -> None:
    settings = ["rate.kind=constant", "rate.value=0.5"][::order]
    assert apply_settings({"rate": {"kind": "noam", "warmup": 9}}, settings) == {
        "rate": {"kind": "constant", "value": 0.5}
    }


def test_of_the_same_setting_twice_the_last_one_counts() -> None:
    assert apply_settings({}, ["a.b=1", "a.b=2"]) == {"a": {"b": 2}}


@pytest.mark.parametrize("setting", ["dropout", "=3", "a..b=3", ".a=1", "a=", "a= "])
def test_a_setting_without_key_sign_or_value_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"^--set "):
        apply_settings({}, [setting])


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="'a' a value that is no table"):
        apply_settings({}, ["a=1", "a.b=2"])


def test_a_key_of_very_many_parts_is_refused_at_once(tmp_path: Path) -> None:
    """tomllib takes the square of their number: 100,000 parts, within the size of a file, are several seconds."""
    path = tmp_path / "deep.toml"
    for text in ("x = 1\n[" + "a." * 100_000 + "a]\n", "x = 1\n" + "'a' . " * 50_000 + "a = 1\n"):
        path.write_text(text)
        begun = time.process_time()
        with pytest.raises(ConfigError, match=r"deep.toml, line 2: a key of more than 64 parts"):
            load_toml(path)
        assert time.process_time() - begun < 1
    path.write_text(
        ".".join("a" * 60) + " = '" + "." * 200 + " e.g. a.b.c'\n# " + "...".join("word" for _ in range(90))
    )
    assert load_toml(path)


def test_a_number_of_thousands_of_digits_is_refused_with_its_line(tmp_path: Path) -> None:
    """Python's own ValueError for it would be a traceback."""
    path = tmp_path / "huge.toml"
    path.write_text("a = 1\nb = " + "9" * 5000 + "\n")
    with pytest.raises(ConfigError, match=r"huge.toml, line 2: a number of thousands of digits"):
        load_toml(path)
    assert apply_settings({}, ["a=" + "9" * 5000]) == {"a": "9" * 5000}
