"""Parallel interface strings of Home Assistant, read out of its wheel.

Each integration of Home Assistant carries `translations/LANGUAGE.json`, a tree of strings; the strings under one key
path are translations of each other. They are short (5.6 words on average), modern and full of `{placeholders}`.
Some languages may be machine-assisted.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clearhead.base.errors import DataError, InputError
from clearhead.data.extraction import Extraction
from clearhead.data.packages import ZipReader, download_wheel

__all__ = ["REQUIREMENT", "SHA256", "extract", "fetch", "join_lines"]

REQUIREMENT = "homeassistant==2026.2.3"
PYTHON_VERSION = "3.14"
SHA256 = "8167820cac4b8defe895fd2c36ac23402a445d1fe6028e8cde24caabb935282c"
# Home Assistant's name for a language code, where it is not the code itself
LANGUAGE_FILES = {"zh": "zh-Hans", "zh-cn": "zh-Hans", "zh-tw": "zh-Hant"}
MEMBER = re.compile(r"homeassistant/components/([^/]+)/translations/([A-Za-z0-9-]+)\.json")
LINE_BREAK = re.compile(r"[\r\n]")


def fetch(directory: Path, source: str, target: str) -> list[Path]:  # noqa: ARG001 (one wheel has all languages)
    """Download the pinned wheel into `directory`. Raises InputError."""
    return [download_wheel(REQUIREMENT, PYTHON_VERSION, directory)]


def extract(packages: Sequence[Path], source: str, target: str) -> Extraction:
    """The pairs of two languages, in order of integration and of key in the source file.

    Line breaks inside a string are joined to one line first; the note "line breaks joined" counts the pairs kept that
    this changed. Raises InputError for a language that the wheel has not, DataError for a damaged wheel.
    """
    if len(packages) != 1:
        raise InputError(f"Home Assistant comes as one wheel; {len(packages)} files were given")
    result = Extraction(packages=list(packages))
    joined = 0
    with ZipReader.open(packages[0]) as archive:
        files = _language_files(archive)
        if not files:
            raise DataError(f"{packages[0]}: holds no Home Assistant translations; expected the wheel of {REQUIREMENT}")
        sources, targets = _members(files, source), _members(files, target)
        for integration in sources:
            if integration not in targets:
                continue
            translated = dict(_strings(archive.read_json(targets[integration])))
            for key, text in _strings(archive.read_json(sources[integration])):
                if key in translated:
                    pair = join_lines(text), join_lines(translated[key])
                    joined += result.add(*pair) and pair != (text, translated[key])
    result.notes["line breaks joined"] = joined
    return result


def join_lines(text: str) -> str:
    """One line out of several: each is stripped, blank ones go, a space stands between the rest.

    A text without a line break comes back as it is.
    """
    if not LINE_BREAK.search(text):
        return text
    return " ".join(line.strip() for line in LINE_BREAK.split(text) if line.strip())


def _language_files(archive: ZipReader) -> dict[str, dict[str, str]]:
    """{language file name: {integration: member name}}, integrations in alphabetical order."""
    found: dict[str, dict[str, str]] = {}
    for name in sorted(archive.names):
        if match := MEMBER.fullmatch(name):
            found.setdefault(match[2], {})[match[1]] = name
    return found


def _members(files: dict[str, dict[str, str]], code: str) -> dict[str, str]:
    name = LANGUAGE_FILES.get(code.lower(), code)
    if name not in files:
        raise InputError(f"Home Assistant has no language {code!r}; it has: {', '.join(sorted(files))}")
    return files[name]


def _strings(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _strings(value, (*path, key))
    elif isinstance(tree, str):
        yield path, tree
