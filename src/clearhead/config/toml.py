"""TOML in and out, and the two ways of changing a table: `merge` and `--set key=value`."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from clearhead.base.errors import ConfigError

__all__ = ["apply_settings", "dump_toml", "load_toml", "merge"]

# A recipe is a page of text; the cap keeps a wrong file name (a corpus, a model) from being read whole.
_MAX_BYTES = 1 << 20
# tomllib takes the square of the number of its parts for a key such as a.a.a.a: minutes, in a file within the cap.
_DEEPEST_KEY = 64
_HUGE_NUMBER = re.compile(r"[0-9_]{4300}")
_TOO_DEEP = re.compile(rf"""(?<![\w.-])(?:(?:"[^"\n]*"|'[^'\n]*'|[\w-]++)[ \t]*+\.[ \t]*+){{{_DEEPEST_KEY}}}""")


def load_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file. Raises ConfigError naming file and line when it cannot be read or is not TOML."""
    try:
        with open(path, "rb") as handle:
            data = handle.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path}: larger than {_MAX_BYTES} bytes; this does not look like a configuration file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8; save the file as UTF-8") from None
    if deep := _TOO_DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise ConfigError(f"{path}, line {line}: a key of more than {_DEEPEST_KEY} parts; no configuration has one")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_located(path, text, str(error))) from None
    except ValueError:  # of `int`, the only one that tomllib lets through: Python reads so many digits and no more
        line = text.count("\n", 0, found.start()) + 1 if (found := _HUGE_NUMBER.search(text)) else 1
        raise ConfigError(f"{path}, line {line}: a number of thousands of digits") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply to be a configuration file") from None


def dump_toml(mapping: Mapping[str, Any]) -> str:
    """The TOML text of a table; `tomllib.loads` gives the table back. None cannot be written: leave such keys out."""
    return tomli_w.dumps(mapping)


def merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `overrides` laid over it, table by table; neither argument is changed.

    Where the override names another `kind` than the base, its table replaces the base's, so that no key of the
    old kind leaks into the new one. Lists are replaced whole.
    """
    merged = dict(base)
    for key, value in overrides.items():
        old = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = merge(old if isinstance(old, Mapping) and not _other_kind(old, value) else {}, value)
        else:
            merged[key] = value
    return merged


def apply_settings(mapping: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """`mapping` changed by settings such as `training.learning_rate.warmup=400`.

    The value is read as a TOML value (400, 1e-3, true, ["a", "b"], {kind = "constant"}) and, failing that, as a
    bare string. All settings are gathered before they are merged, so their order does not matter unless the same
    key comes twice: then the last one counts. Raises ConfigError for a setting without `=`, key or value.
    """
    gathered: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            raise ConfigError(f"--set {setting}: expected KEY=VALUE, such as training.dropout=0.1")
        if not text.strip():
            raise ConfigError(f"--set {setting}: no value after '=' (an empty string is written {key}=\"\")")
        table = gathered
        for name in names[:-1]:
            inner = table.setdefault(name, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"--set {setting}: another --set already gives {name!r} a value that is no table")
            table = inner
        table[names[-1]] = _value(text)
    return merge(mapping, gathered)


def _other_kind(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return "kind" in old and "kind" in new and old["kind"] != new["kind"]


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, or a number of thousands of digits
        return text.strip()
    # A text with a line break could smuggle in keys of its own; it is a string then.
    return parsed["value"] if len(parsed) == 1 else text.strip()


def _located(path: str | Path, text: str, message: str) -> str:
    """tomllib's message with the line in front, next to the file's name."""
    found = re.search(r"\(at line (\d+), column (\d+)\)$", message)
    reason = message[: found.start()].rstrip() if found else re.sub(r"\s*\(at end of document\)$", "", message)
    line = int(found[1]) if found else text.count("\n") + (not text.endswith("\n"))
    return f"{path}, line {line}: {reason}"
